//! Connection ids that contain their shard. So a client whose address has changed is found although
//! the kernel delivers its datagrams to another socket.
//!
//! Shape: eight bytes, the shard's number and seven random ones.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use rand::Rng;

/// Bytes of a connection id.
const CID_BYTES: usize = 8;

/// Generates the ids of one shard.
pub(crate) struct ShardConnectionIds {
    pub(crate) shard: u8,
}

impl ConnectionIdGenerator for ShardConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CID_BYTES];
        rand::rng().fill(&mut bytes[1..]);
        bytes[0] = self.shard;
        ConnectionId::new(&bytes)
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        if cid.first() == Some(&self.shard) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        CID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The shard of a datagram's connection, if the connection is established. Earlier packets carry an
/// id that the client has chosen.
pub(crate) fn shard_of(datagram: &[u8]) -> Option<u8> {
    match datagram {
        [first, shard, ..] if first & 0x80 == 0 => Some(*shard),
        _ => None,
    }
}

//! Connection ids that contain their shard. So a client with a new address is found although
//! the kernel delivers its datagrams to another socket.
//!
//! Shape: eight bytes, the shard's number and seven random ones.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use rand::Rng;

/// Length of a connection id in bytes.
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

/// Returns the shard of a datagram's connection, if the connection is established. Earlier packets carry an
/// id that the client has chosen.
pub(crate) fn parse_shard(datagram: &[u8]) -> Option<u8> {
    match datagram {
        [first, shard, ..] if first & 0x80 == 0 => Some(*shard),
        _ => None,
    }
}

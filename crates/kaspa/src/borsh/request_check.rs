//! Checks the counts and lengths of a request before it is passed on.
//!
//! kaspad allocates a list by its count before it reads the first element, so a request of some bytes could make an
//! upstream allocate gigabytes. A request passes if every count and every length is backed by bytes. Fields after the known
//! ones belong to a newer version and pass.
//! Not here: whether the values mean something to kaspad.

use super::frame::BorshRequest;
use super::reader::{BorshError, Reader};
use super::utxo::ADDRESS_BYTES_MIN;
use crate::operation::{Method, Operation};

/// The shape of one field.
enum Shape {
    /// A field of this length in bytes.
    Fixed(usize),
    /// The version of the structure: 8 bits.
    Version8,
    /// The version of the structure: 16 bits.
    Version16,
    /// A field that exists from a version on.
    Since(u16, &'static Self),
    /// Bytes after their length.
    Bytes,
    /// A tag, and a field.
    Option(&'static Self),
    /// A count, and elements.
    List(&'static Self),
    /// A length, and fields.
    Structure(&'static [Self]),
    /// A length, and a list of structures.
    Structures(&'static [Self]),
    /// A length, and an optional structure.
    OptionalStructure(&'static [Self]),
    /// An address of Kaspa: version and payload.
    Address,
    /// An address of IPv4 or IPv6.
    IpAddress,
    /// The scope of a subscription.
    Scope,
}

use Shape::{
    Address, Bytes, Fixed, IpAddress, List, Option as Optional, OptionalStructure, Scope, Since,
    Structure, Structures, Version8, Version16,
};

const FLAG: Shape = Fixed(1);
const U32: Shape = Fixed(4);
const U64: Shape = Fixed(8);
const HASH: Shape = Fixed(32);

const NO_PARAMS: &[Shape] = &[Version16];
const ADDRESSES: &[Shape] = &[Version16, List(&Address)];
const BLOCK_HASH: &[Shape] = &[Version16, HASH];

const OUTPOINT: &[Shape] = &[Version8, HASH, U32];
const INPUT: &[Shape] = &[
    Version8,
    Structure(OUTPOINT),
    Bytes,
    U64,
    Fixed(1),
    OptionalStructure(&[Version8]),
    Since(2, &Fixed(2)),
];
const OUTPUT: &[Shape] = &[
    Version8,
    U64,
    Fixed(2),
    Bytes,
    OptionalStructure(&[Version8, Fixed(1), Address]),
    Since(2, &OptionalStructure(&[Version8, Fixed(2), HASH])),
];
const TRANSACTION: &[Shape] = &[
    Version16,
    Fixed(2),
    Structures(INPUT),
    Structures(OUTPUT),
    U64,
    Fixed(20),
    U64,
    Bytes,
    U64,
    OptionalStructure(&[Version8, HASH, HASH, U64, HASH, U64]),
];
const HEADER: &[Shape] = &[
    Version16,
    Fixed(2),
    List(&List(&HASH)),
    HASH,
    HASH,
    HASH,
    U64,
    U32,
    U64,
    U64,
    Fixed(24),
    U64,
    HASH,
];
const BLOCK: &[Shape] = &[Version16, Structure(HEADER), Structures(TRANSACTION)];

/// Returns the fields of a method's request.
fn request_shape(method: Method) -> &'static [Shape] {
    match method {
        Method::Ping => &[],
        Method::GetSystemInfo
        | Method::GetServerInfo
        | Method::GetSyncStatus
        | Method::GetCurrentNetwork
        | Method::GetPeerAddresses
        | Method::GetSink
        | Method::GetConnectedPeerInfo
        | Method::GetBlockCount
        | Method::GetBlockDagInfo
        | Method::Shutdown
        | Method::GetSinkBlueScore
        | Method::GetInfo
        | Method::GetCoinSupply
        | Method::GetFeeEstimate => NO_PARAMS,
        Method::GetMetrics => &[Version16, Fixed(6)],
        Method::GetConnections => &[Version8, FLAG],
        Method::SubmitBlock => &[Version16, Structure(BLOCK), FLAG],
        Method::GetBlockTemplate => &[Version16, Address, Bytes],
        Method::GetMempoolEntry => &[Version16, HASH, FLAG, FLAG],
        Method::GetMempoolEntries => &[Version16, FLAG, FLAG],
        Method::AddPeer => &[Version16, IpAddress, Optional(&Fixed(2)), FLAG],
        Method::SubmitTransaction => &[Version16, Structure(TRANSACTION), FLAG],
        Method::SubmitTransactionReplacement => &[Version16, Structure(TRANSACTION)],
        Method::GetBlock => &[Version16, HASH, FLAG],
        Method::GetSubnetwork => &[Version16, Fixed(20)],
        Method::GetVirtualChainFromBlock => &[Version16, HASH, FLAG, Since(2, &Optional(&U64))],
        Method::GetBlocks => &[Version16, Optional(&HASH), FLAG, FLAG],
        Method::GetHeaders => &[Version16, HASH, U64, FLAG],
        Method::GetUtxosByAddresses | Method::GetBalancesByAddresses => ADDRESSES,
        Method::GetBalanceByAddress => &[Version16, Address],
        Method::Ban | Method::Unban => &[Version16, IpAddress],
        Method::EstimateNetworkHashesPerSecond => &[Version16, U32, Optional(&HASH)],
        Method::GetMempoolEntriesByAddresses => &[Version16, List(&Address), FLAG, FLAG],
        Method::GetDaaScoreTimestampEstimate => &[Version16, List(&U64)],
        Method::GetFeeEstimateExperimental => &[Version16, FLAG],
        Method::ResolveFinalityConflict
        | Method::GetCurrentBlockColor
        | Method::GetBlockRewardInfo => BLOCK_HASH,
        Method::GetUtxoReturnAddress => &[Version16, HASH, U64],
        Method::GetVirtualChainFromBlockV2 => {
            &[Version16, HASH, OptionalStructure(&[Version8, U32]), Optional(&U64)]
        }
        Method::GetSeqCommitLaneProof => &[Version16, HASH, HASH],
    }
}

/// Checks a request, without an allocation. After an error reply with [`crate::ServerError::InvalidPayload`], as kaspad
/// does.
pub fn check_borsh_request(request: &BorshRequest<'_>) -> Result<(), BorshError> {
    let fields = match request.operation {
        Operation::Method(method) => request_shape(method),
        Operation::Subscribe | Operation::Unsubscribe => &[Version16, Scope],
        Operation::Notification(_) | Operation::Unserved(_) | Operation::Own(_) => return Ok(()),
    };
    walk_fields(&mut Reader::new(request.structure()?), fields)
}

fn walk_fields(reader: &mut Reader<'_>, fields: &[Shape]) -> Result<(), BorshError> {
    let mut version = 0;
    for field in fields {
        match field {
            Version8 => version = u16::from(reader.u8()?),
            Version16 => version = reader.u16()?,
            Since(first, field) if version >= *first => walk_field(reader, field)?,
            Since(..) => {}
            field => walk_field(reader, field)?,
        }
    }
    Ok(())
}

fn walk_field(reader: &mut Reader<'_>, field: &Shape) -> Result<(), BorshError> {
    match field {
        Fixed(bytes) => reader.take_bytes(*bytes).map(drop),
        Version8 | Version16 | Since(..) => walk_fields(reader, std::slice::from_ref(field)),
        Bytes => reader.bytes().map(drop),
        Optional(field) => reader.option(|reader| walk_field(reader, field)).map(drop),
        List(element) => {
            walk_list(reader, min_bytes(element), |reader| walk_field(reader, element))
        }
        Structure(fields) => walk_fields(&mut reader.payload()?, fields),
        Structures(fields) => {
            let element_bytes = size_of::<u32>() + fields.iter().map(min_bytes).sum::<usize>();
            walk_list(&mut reader.payload()?, element_bytes, |reader| {
                walk_fields(&mut reader.payload()?, fields)
            })
        }
        OptionalStructure(fields) => match reader.optional_payload()? {
            Some(mut structure) => walk_fields(&mut structure, fields),
            None => Ok(()),
        },
        Address => {
            reader.take_bytes(2)?;
            reader.bytes().map(drop)
        }
        IpAddress => match reader.u8()? {
            0 => reader.take_bytes(4).map(drop),
            1 => reader.take_bytes(16).map(drop),
            version => {
                let field = "the version of an IP address";
                Err(BorshError::UnknownValue { field, value: u64::from(version) })
            }
        },
        Scope => match reader.u8()? {
            1 => walk_field(reader, &FLAG),
            4 => walk_field(reader, &List(&Address)),
            _ => Ok(()),
        },
    }
}

fn walk_list(
    reader: &mut Reader<'_>,
    element_bytes: usize,
    mut walk: impl FnMut(&mut Reader<'_>) -> Result<(), BorshError>,
) -> Result<(), BorshError> {
    let count = reader.count(element_bytes)?;
    (0..count).try_for_each(|_| walk(reader))
}

/// Returns the fewest bytes of a field.
fn min_bytes(field: &Shape) -> usize {
    match field {
        Fixed(bytes) => *bytes,
        Version8 | Optional(_) | Scope => 1,
        Version16 => 2,
        Since(..) => 0,
        Bytes | List(_) | Structures(_) => 4,
        Structure(fields) => 4 + fields.iter().map(min_bytes).sum::<usize>(),
        OptionalStructure(_) | IpAddress => 5,
        Address => ADDRESS_BYTES_MIN,
    }
}

//! A ledger as bytes: the records of a replicated log, and the codec of blocks and accounts.
//!
//! A record is one block, some marks of blocks, a change of the writer, or a snapshot. It consists of a head and up to
//! 999 bodies, each a message of the log. Only blocks have bodies.
//!
//! Shape: a writer encodes the content of a block once ([`EncodedBlock`]), on another thread, and later puts it into
//! the log ([`EncodedBlock::to_record`]). A reader pushes messages into a [`RecordReader`], and gets each [`Record`]
//! when its last message has arrived.
//!
//! | part of a head, little-endian                              | bytes | records           |
//! |------------------------------------------------------------|-------|-------------------|
//! | magic `HYDL`, version, kind                                | 4+2+1 | all               |
//! | number, digest of the record before                        | 8+32  | all               |
//! | term, id and level of proof of the writer                  | 8+16+1| all               |
//! | time in milliseconds                                       | 8     | all               |
//! | facts of the bank (`facts`), number of the parent's record | 273+8 | block             |
//! | digests of the two sections                                | 32+32 | block             |
//! | bodies: count, then section, lengths and CRC-32 of each    | 2+13n | block             |
//! | marks, a reason, or the name of a snapshot                 |       | the other three   |
//! | CRC-32 of all bytes before it                              | 4     | all               |
//!
//! The level of proof is 0 if the writer verifies nothing, 1 `computed`, 2 `consistent`, 3 `agreed`, 4 `voted`. Every
//! record has it, because a reader may start after the record of the term.
//!
//! A body is one zstd frame with a part of a section. The section `state` has the accounts in the order of their
//! addresses, each once and whole. The section `rest` has everything that no bank hash covers.
//! Magic, version and the final CRC-32 are the same in every version, so a newer head is distinguished from a damaged
//! one.
//!
//! Invariant: a record is read as it was written, or refused with the number of the record and of its body. Digests are
//! over unpacked bytes, because those of zstd depend on its release.
//! Invariant: a field that a new release adds to a block fails the build here, where its encoding must be decided.
//! Bounds: a message has at most [`MESSAGE_BYTES_MAX`] and a record [`RECORD_MESSAGES_MAX`] messages. A head
//! announces the unpacked length of each body: at most [`BODY_UNPACKED_BYTES_MAX`], and for all bodies of a record
//! [`RECORD_UNPACKED_BYTES_MAX`]. A head that announces more is refused. A reader allocates one body and the unpacked
//! sections as far as their bodies have arrived, never more than the head announced, and then the decoded record.
//! Not here: the log (`replicated_log`), its writers (`ingest`) and its readers (`replica`).

mod block_content;
mod body;
pub mod codec;
mod encoded_block;
mod error;
mod facts;
pub mod fuzzing;
mod head;
mod marks;
mod reader;
mod record;
mod record_chain;
#[cfg(test)]
mod tests;

pub use encoded_block::{BlockSource, EncodedBlock};
pub use error::{BodyFault, DamagedValue, EncodeError, WireError};
pub use head::{RecordHead, RecordKind, encode_marks, encode_snapshot, encode_term, read_head};
pub use marks::{MARKS_MAX, REVERT_ERROR_BYTES_MAX};
pub use reader::{ReadRecord, RecordReader};
pub use record::{
    BlockDigests, BlockKey, BlockName, BlockRecord, EncodedRecord, Mark, MarksRecord, Record,
    RecordDigest, RecordLink, SnapshotRecord, TermRecord, WireAccount, WriterId,
};
pub use record_chain::{ChainFault, RecordChain};

/// The version of the records that this code writes, and the newest that it reads.
pub const RECORD_VERSION: u16 = 1;
/// Maximum bytes of a message. Raft in JetStream appends up to 256 KiB at once; longer messages arrive later.
pub const MESSAGE_BYTES_MAX: usize = 245_760;
/// Maximum number of messages of a record, its head included. JetStream takes as many in an atomic batch.
pub const RECORD_MESSAGES_MAX: usize = 1_000;
/// Maximum bytes of a body before compression. More save messages of compressible data, and cost memory of each reader.
pub const BODY_UNPACKED_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of all bodies of a record before compression. The largest known blocks have about 100 MB.
pub const RECORD_UNPACKED_BYTES_MAX: usize = 512 << 20;

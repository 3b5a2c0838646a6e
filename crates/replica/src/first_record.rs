//! The first record of a generation of the log: the name of the snapshot that the generation continues from.

use std::time::Duration;

use chain_solana::wire::{ReadRecord, Record, RecordDigest, RecordReader, SnapshotRecord};
use replicated_log::{Log, LogError, MessageKind, ReadError, Tail};

/// The first record of a generation.
pub(crate) struct FirstRecord {
    pub(crate) record: SnapshotRecord,
    pub(crate) digest: RecordDigest,
    /// Sequence of its last message.
    pub(crate) sequence: u64,
}

impl FirstRecord {
    /// Reads the first record of a log. Returns `None` if the log no longer has it, if it does not come in time, or if it
    /// is not a snapshot record that opens a generation.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub(crate) async fn read(
        log: &dyn Log,
        tail: &Tail,
        timeout: Duration,
    ) -> Result<Option<Self>, LogError> {
        if tail.first != 1 {
            return Ok(None);
        }
        let mut reader = log.read(0).await?;
        let mut records = RecordReader::new();
        let mut sequence = 0;
        loop {
            let Ok(message) = tokio::time::timeout(timeout, reader.next()).await else {
                return Ok(None);
            };
            let message = match message {
                Ok(message) => message,
                Err(ReadError::Log(err)) => return Err(err),
                // It is named when the generation is read.
                Err(
                    ReadError::Truncated { .. }
                    | ReadError::Gone
                    | ReadError::Damaged { .. }
                    | ReadError::Missing { .. },
                ) => return Ok(None),
            };
            if message.sequence <= sequence {
                continue;
            }
            sequence = message.sequence;
            let is_head = matches!(message.kind, MessageKind::Head);
            match records.push(is_head, message.payload) {
                Ok(None) => {}
                Ok(Some(ReadRecord { record: Record::Snapshot(record), digest })) => {
                    let is_first = record.link.number == record.block.number.saturating_add(1);
                    return Ok(is_first.then_some(Self { record, digest, sequence }));
                }
                // It is named when the generation is read.
                Ok(Some(_)) | Err(_) => return Ok(None),
            }
        }
    }
}

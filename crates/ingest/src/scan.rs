//! Reads the log again at the position of a report: is a record damaged there, and do whole records follow?
//!
//! Input: the sequence of the last message that a replica got past. Output: a [`ScanResult`].
//! Shape: the scan starts at an earlier record, so that the chain of records across the position is checked, too. It
//! ends at the first whole record behind the position. Damaged messages on the way are passed over.
//! Bounds: [`ANCHOR_WINDOWS`] messages before the position and [`MESSAGES_MAX`] after it, one block, unpacked;
//! [`READ_TIMEOUT`] for a message. Damage is confirmed by [`CONFIRMING_SCANS_MAX`] scans: another server may have the
//! message.
//! Invariant: silence of the log is not a damage.
//! Not here: which reports are scanned (`report_search`), the reaction (`plan`).

use std::time::Duration;

use chain_solana::wire::RECORD_MESSAGES_MAX;
use replicated_log::{Log, LogError, LogReader, ReadError, StoredMessage};
use tokio::time::timeout;

use crate::log_chain::LogChain;
use crate::record_stream::{RecordStream, StreamError};

/// Messages before the position from which a scan starts. The second window has the longest record.
const ANCHOR_WINDOWS: [u64; 2] = [64, RECORD_MESSAGES_MAX as u64];
/// Messages behind the position that are read at most: a damaged object of a log, and a record that it cuts.
const MESSAGES_MAX: u64 = 4 * RECORD_MESSAGES_MAX as u64;
/// Time limit of the read of one message. A smaller value finds more slow logs silent.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Scans that have to find a damage before it is reported.
const CONFIRMING_SCANS_MAX: u32 = 3;

/// The log at the position of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanResult {
    /// The record after the position is whole and continues the one before it, or the log ends at the position.
    Intact,
    /// A record is damaged. A reader can continue after this message, with whole records.
    Damaged {
        /// Sequence of the last damaged message.
        last: u64,
    },
    /// A record is damaged, and no whole record was found behind it.
    Unreadable {
        /// Sequence of the last message that was examined.
        last: u64,
    },
    /// The limits of the log have removed the position.
    Removed,
    /// The log did not respond in time, or does not have the position yet.
    Unknown,
}

/// Reads a log at the position of a report.
///
/// # Errors
///
/// The log cannot be reached.
pub(crate) async fn scan_log(log: &dyn Log, after: u64) -> Result<ScanResult, LogError> {
    let mut result = ScanResult::Unknown;
    for _ in 0..CONFIRMING_SCANS_MAX {
        result = scan_once(log, after).await?;
        if !matches!(result, ScanResult::Damaged { .. } | ScanResult::Unreadable { .. }) {
            break;
        }
    }
    Ok(result)
}

async fn scan_once(log: &dyn Log, after: u64) -> Result<ScanResult, LogError> {
    let tail = log.tail().await?;
    if tail.last < after || tail.last == 0 {
        return Ok(ScanResult::Unknown);
    }
    if after.saturating_add(1) < tail.first {
        return Ok(ScanResult::Removed);
    }
    let oldest = tail.first.saturating_sub(1);
    for window in ANCHOR_WINDOWS {
        let start = after.saturating_sub(window).max(oldest);
        let scan = Scan::new(log, after, tail.last, start);
        match scan.scan_window().await? {
            // A larger window may have a whole record before the position.
            WindowResult { result: ScanResult::Intact, is_anchored: false } if start > oldest => {}
            window_result => return Ok(window_result.result),
        }
    }
    // Even the largest window has no head of a record before the position.
    Ok(ScanResult::Intact)
}

/// The result of one window.
struct WindowResult {
    result: ScanResult,
    /// Whether a whole record before the position was read.
    is_anchored: bool,
}

/// A window that is being read.
struct Scan<'a> {
    log: &'a dyn Log,
    /// The position of the report.
    after: u64,
    /// The last message to read.
    last: u64,
    reader: Option<Box<dyn LogReader>>,
    stream: RecordStream,
    /// The whole records since the last damage.
    chain: LogChain,
    is_anchored: bool,
    /// The last damaged message behind the position.
    damaged: Option<u64>,
    /// Messages that are passed over at the next failure. A damaged object of a log has many.
    skip: u64,
    is_silent: bool,
}

/// The outcome of the read of one message.
enum ReadOutcome {
    Message(StoredMessage),
    /// The log does not have this message intact.
    Damaged(u64),
    /// The log does not have the messages before this one.
    Missing(u64),
    Removed,
    Silent,
}

impl<'a> Scan<'a> {
    fn new(log: &'a dyn Log, after: u64, tail: u64, start: u64) -> Self {
        Self {
            log,
            after,
            last: tail.min(after.saturating_add(MESSAGES_MAX)),
            reader: None,
            stream: RecordStream::after_message(start),
            chain: LogChain::default(),
            is_anchored: after == 0,
            damaged: None,
            skip: 1,
            is_silent: false,
        }
    }

    async fn scan_window(mut self) -> Result<WindowResult, LogError> {
        loop {
            if self.stream.position() >= self.last {
                let result = match self.damaged {
                    // The last message may be lost, or slow. More messages will show which.
                    _ if self.is_silent => ScanResult::Unknown,
                    Some(_) => ScanResult::Unreadable { last: self.last },
                    None if self.last == self.after => ScanResult::Intact,
                    // The messages are bodies without a head, which cannot be the position of a replica.
                    None => ScanResult::Unknown,
                };
                return Ok(self.end_window(result));
            }
            match self.read_message().await? {
                ReadOutcome::Message(message) => {
                    self.skip = 1;
                    self.is_silent = false;
                    if let Some(result) = self.handle_message(&message) {
                        return Ok(self.end_window(result));
                    }
                }
                ReadOutcome::Damaged(sequence) => {
                    let last = sequence.saturating_add(self.skip - 1);
                    self.skip = self.skip.saturating_mul(2);
                    self.skip_to(last.min(self.last));
                    self.reader = None;
                }
                ReadOutcome::Missing(found) => {
                    self.skip_to(found.saturating_sub(1).min(self.last));
                    self.reader = None;
                }
                ReadOutcome::Removed => return Ok(self.end_window(ScanResult::Removed)),
                // Messages behind it arrive if one is lost, and none if the log is slow or away.
                ReadOutcome::Silent if !self.is_silent => {
                    self.is_silent = true;
                    self.skip_to(self.stream.position() + 1);
                    self.reader = None;
                }
                ReadOutcome::Silent => return Ok(self.end_window(ScanResult::Unknown)),
            }
        }
    }

    fn end_window(&self, result: ScanResult) -> WindowResult {
        WindowResult { result, is_anchored: self.is_anchored }
    }

    async fn read_message(&mut self) -> Result<ReadOutcome, LogError> {
        let position = self.stream.position();
        let log = self.log;
        let reading = async {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => log.read(position).await?,
            };
            let read = reader.next().await;
            self.reader = Some(reader);
            Ok::<_, LogError>(read)
        };
        let Ok(read) = timeout(READ_TIMEOUT, reading).await else { return Ok(ReadOutcome::Silent) };
        Ok(match read? {
            Ok(message) => ReadOutcome::Message(message),
            Err(ReadError::Damaged { sequence, .. }) => ReadOutcome::Damaged(sequence),
            Err(ReadError::Missing { found, .. }) => ReadOutcome::Missing(found),
            Err(ReadError::Truncated { .. }) => ReadOutcome::Removed,
            // The plan finds out that the log was replaced.
            Err(ReadError::Gone) => ReadOutcome::Silent,
            Err(ReadError::Log(err)) => return Err(err),
        })
    }

    /// Takes a message. Returns the result if it ends a whole record behind the position.
    fn handle_message(&mut self, message: &StoredMessage) -> Option<ScanResult> {
        let pushed = self.stream.push(message);
        let record = match pushed {
            Ok(record) => record?,
            // The ingester itself cannot read the log any further, and stops with this reason.
            Err(StreamError::Version(_)) => return Some(ScanResult::Unknown),
            Err(StreamError::Damage(damage)) => {
                self.skip_to(damage.sequence);
                return None;
            }
        };
        if let Err(damage) = self.chain.advance(&record.head, record.sequence) {
            self.skip_to(damage.sequence);
            return None;
        }
        if record.sequence <= self.after {
            self.is_anchored = true;
            return None;
        }
        Some(match self.damaged {
            Some(last) => ScanResult::Damaged { last },
            None => ScanResult::Intact,
        })
    }

    /// Continues after a damaged message. Replicas got past one before the position.
    fn skip_to(&mut self, sequence: u64) {
        let sequence = sequence.max(self.stream.position());
        if sequence > self.after {
            self.damaged = Some(sequence);
        }
        self.stream = RecordStream::after_message(sequence);
        self.chain = LogChain::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chain_solana::wire::{RecordDigest, RecordLink, WriterId};
    use futures_util::future::BoxFuture;
    use replicated_log::memory::MemoryLogSpace;
    use replicated_log::{AppendError, LogMessage, LogSpace, Tail};

    use super::*;
    use crate::model::source::content;

    /// A log of blocks.
    struct BlockLog {
        space: MemoryLogSpace,
        log: Arc<dyn Log>,
        /// Sequence of the last message of each record, after a zero.
        ends: Vec<u64>,
    }

    impl BlockLog {
        async fn new(blocks: u64) -> Self {
            let space = MemoryLogSpace::new();
            space.create_generation(0).await.expect("a new generation");
            let log = space.open_generation(0).await.expect("it exists");
            let writer = WriterId { term: 1, ingester: [1; 16], level: None };
            let mut link = RecordLink { number: 6, previous: RecordDigest([3; 32]) };
            let mut ends = vec![0];
            let mut end = 0;
            for slot in 1..=blocks {
                let record = content(slot, false).to_record(link, writer, 5);
                link = RecordLink { number: link.number + 1, previous: record.digest() };
                let mut messages = vec![LogMessage::head(record.head)];
                messages.extend(record.bodies.into_iter().map(LogMessage::body));
                end = log.append(end, messages).await.expect("no fault");
                ends.push(end);
            }
            Self { space, log, ends }
        }

        async fn scan(&self, after: u64) -> ScanResult {
            scan_log(&*self.log, after).await.expect("the log responds")
        }
    }

    #[tokio::test]
    async fn an_intact_log_is_intact_at_each_position() {
        let log = BlockLog::new(8).await;
        for after in 0..=log.ends[8] {
            assert_eq!(log.scan(after).await, ScanResult::Intact, "message {after}");
        }
        for after in [log.ends[8] + 1, u64::MAX] {
            assert_eq!(log.scan(after).await, ScanResult::Unknown, "message {after}");
        }
        log.space.truncate_generation(0, log.ends[3] + 1);
        assert_eq!(log.scan(log.ends[1]).await, ScanResult::Removed);
        assert_eq!(log.scan(log.ends[3]).await, ScanResult::Intact);
    }

    #[tokio::test]
    async fn a_damaged_record_is_found_with_whole_records_behind_it() {
        for is_head in [true, false] {
            let log = BlockLog::new(8).await;
            let damaged = if is_head { log.ends[4] + 1 } else { log.ends[5] };
            log.space.damage_message(0, damaged);
            assert_eq!(log.scan(log.ends[4]).await, ScanResult::Damaged { last: damaged });
            // Replicas that are behind it got past it.
            assert_eq!(log.scan(log.ends[6]).await, ScanResult::Intact);
            assert_eq!(log.scan(log.ends[2]).await, ScanResult::Intact);
        }
    }

    #[tokio::test]
    async fn a_lost_message_is_a_damage() {
        let log = BlockLog::new(8).await;
        let lost = log.ends[4] + 1;
        log.space.lose_message(0, lost);
        assert_eq!(log.scan(log.ends[4]).await, ScanResult::Damaged { last: lost });
    }

    #[tokio::test]
    async fn a_damaged_end_has_no_whole_record_behind_it() {
        let log = BlockLog::new(8).await;
        let last = log.ends[8];
        log.space.damage_message(0, last);
        assert_eq!(log.scan(log.ends[7]).await, ScanResult::Unreadable { last });
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_end_is_not_distinguished_from_a_slow_log() {
        let log = BlockLog::new(8).await;
        log.space.lose_message(0, log.ends[8]);
        assert_eq!(log.scan(log.ends[7]).await, ScanResult::Unknown);
    }

    /// A log that knows its extent, and delivers nothing.
    struct SilentLog(Arc<dyn Log>);

    struct SilentReader;

    impl LogReader for SilentReader {
        fn next(&mut self) -> BoxFuture<'_, Result<StoredMessage, ReadError>> {
            Box::pin(std::future::pending())
        }
    }

    impl Log for SilentLog {
        fn append(
            &self,
            after: u64,
            batch: Vec<LogMessage>,
        ) -> BoxFuture<'_, Result<u64, AppendError>> {
            self.0.append(after, batch)
        }

        fn tail(&self) -> BoxFuture<'_, Result<Tail, LogError>> {
            self.0.tail()
        }

        fn read(&self, _after: u64) -> BoxFuture<'_, Result<Box<dyn LogReader>, LogError>> {
            Box::pin(async { Ok(Box::new(SilentReader) as Box<dyn LogReader>) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_log_is_not_damaged() {
        let BlockLog { log, ends, .. } = BlockLog::new(8).await;
        let silent = SilentLog(log);
        let result = scan_log(&silent, ends[4]).await.expect("the log responds");
        assert_eq!(result, ScanResult::Unknown);
    }
}

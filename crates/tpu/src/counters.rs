//! Counters of received transactions: each transaction ends up in exactly one count.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{BucketBounds, Histogram, Histograms};

/// Why something was refused, or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The transaction has more bytes than its version allows.
    TooLong,
    /// The stream ended without a byte.
    Empty,
    /// The client reset the stream before its end.
    Reset,
    /// The stream did not end within its time.
    Stalled,
    /// Unfinished transactions use all the memory that they may.
    UnfinishedFull,
    /// The connection ended in the middle of the transaction.
    CutOff,
    /// The fair queue was full, and the sender had more waiting than its share.
    QueueFull,
    /// An equal transaction arrived recently.
    Repeated,
    /// The transaction has been executed already.
    Executed,
    /// The bytes are not a transaction.
    Malformed,
    /// A signature is not valid for its key and message.
    Signature,
    /// The ledger's queue was full for as long as the transaction may wait.
    LedgerFull,
    /// The node is shutting down, or the queue is closed.
    Closed,
    /// The handshake exceeded the rates or the number in progress.
    HandshakeRate,
    /// The handshake was not complete in time, or failed.
    HandshakeFailed,
    /// Too many connections in total.
    ConnectionsFull,
    /// Too many connections from the address.
    AddressFull,
    /// Too many connections of the identity.
    IdentityFull,
    /// No API key lists the identity, and clients need one.
    Unauthorized,
    /// The connection was closed for broken or stalled streams.
    Misbehaved,
    /// The datagram is longer than any that we agreed to.
    DatagramTooLong,
}

/// Every cause, with its name in metrics.
const DROP_REASONS: [(DropReason, &str); 21] = [
    (DropReason::TooLong, "too_long"),
    (DropReason::Empty, "empty"),
    (DropReason::Reset, "reset"),
    (DropReason::Stalled, "stalled"),
    (DropReason::UnfinishedFull, "unfinished_full"),
    (DropReason::CutOff, "cut_off"),
    (DropReason::QueueFull, "queue_full"),
    (DropReason::Repeated, "repeated"),
    (DropReason::Executed, "executed"),
    (DropReason::Malformed, "malformed"),
    (DropReason::Signature, "signature"),
    (DropReason::LedgerFull, "ledger_full"),
    (DropReason::Closed, "closed"),
    (DropReason::HandshakeRate, "handshake_rate"),
    (DropReason::HandshakeFailed, "handshake_failed"),
    (DropReason::ConnectionsFull, "connections_full"),
    (DropReason::AddressFull, "address_full"),
    (DropReason::IdentityFull, "identity_full"),
    (DropReason::Unauthorized, "unauthorized"),
    (DropReason::Misbehaved, "misbehaved"),
    (DropReason::DatagramTooLong, "datagram_too_long"),
];

/// Steps of a verification thread, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyStep {
    /// Checks whether an equal transaction arrived recently.
    Repeated,
    /// Checks whether its bytes are a transaction.
    Shape,
    /// Checks whether it has been executed already.
    Executed,
    /// Checks whether its signatures are valid.
    Signatures,
    /// Sends it to the ledger, including the wait for a full queue, and forwards it.
    HandOver,
}

/// Every step, with its name in metrics.
const VERIFY_STEPS: [(VerifyStep, &str); 5] = [
    (VerifyStep::Repeated, "repeated"),
    (VerifyStep::Shape, "shape"),
    (VerifyStep::Executed, "executed"),
    (VerifyStep::Signatures, "signatures"),
    (VerifyStep::HandOver, "hand_over"),
];

/// Duration of each step, summed over some transactions.
#[derive(Default)]
pub(crate) struct VerifyStepTimes([Duration; VERIFY_STEPS.len()]);

impl VerifyStepTimes {
    pub(crate) fn add(&mut self, step: VerifyStep, took: Duration) {
        self.0[step as usize] += took;
    }
}

/// The bounds of latencies: from 2 microseconds to 36 minutes.
const LATENCY_BOUNDS: BucketBounds = BucketBounds::powers_of_two(2, 31);

/// The one histogram of latencies.
struct LatencyHistogram(Histograms);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Histograms::new(1, LATENCY_BOUNDS))
    }
}

/// Counters of the whole port. Threads add to them in batches, not for every event.
#[derive(Default)]
pub struct Counters {
    /// Complete transactions received.
    pub received: AtomicU64,
    /// Bytes of the complete transactions.
    pub received_bytes: AtomicU64,
    /// Transactions that the ledger accepted.
    pub accepted: AtomicU64,
    /// Datagrams that the sockets returned.
    pub datagrams: AtomicU64,
    /// Rounds in which datagrams were read.
    pub rounds: AtomicU64,
    /// Receive buffers that were allocated.
    pub buffers_made: AtomicU64,
    /// Connections that were admitted.
    pub connections: AtomicU64,
    /// Connections that are open now.
    pub open: AtomicU64,
    /// Retry tokens that were sent.
    pub retries: AtomicU64,
    /// Bytes of unfinished transactions.
    pub unfinished_bytes: AtomicU64,
    /// States of streams that the open connections have, of [`STREAM_BYTES`](crate::STREAM_BYTES) each.
    pub stream_states: AtomicU64,
    refused: [AtomicU64; DROP_REASONS.len()],
    latency: LatencyHistogram,
    /// Nanoseconds of each verification step.
    steps: [AtomicU64; VERIFY_STEPS.len()],
}

impl Counters {
    /// Counts one refusal of a cause.
    pub fn refuse(&self, cause: DropReason) {
        self.refuse_many(cause, 1);
    }

    /// Counts refusals of one cause.
    pub fn refuse_many(&self, cause: DropReason, count: u64) {
        if count > 0 {
            self.refused[cause as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts a transaction that the ledger accepted, `latency` after its first byte.
    pub fn accept(&self, latency: Duration) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.latency.0.record(0, latency);
    }

    /// Adds the durations of a batch's steps.
    pub(crate) fn record_steps(&self, steps: &VerifyStepTimes) {
        for (count, took) in self.steps.iter().zip(steps.0) {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            count.fetch_add(ns, Ordering::Relaxed);
        }
    }

    /// Returns the present values of all counters.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MetricsSnapshot {
            received: load(&self.received),
            received_bytes: load(&self.received_bytes),
            accepted: load(&self.accepted),
            datagrams: load(&self.datagrams),
            rounds: load(&self.rounds),
            buffers_made: load(&self.buffers_made),
            connections: load(&self.connections),
            open: load(&self.open),
            retries: load(&self.retries),
            unfinished_bytes: load(&self.unfinished_bytes),
            stream_states: load(&self.stream_states),
            refused: self.refused.each_ref().map(load),
            latency: self.latency.0.histogram(0),
            steps: self.steps.each_ref().map(load),
        }
    }
}

/// A snapshot of all counters of the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Complete transactions received.
    pub received: u64,
    /// Bytes of the complete transactions.
    pub received_bytes: u64,
    /// Transactions that the ledger accepted.
    pub accepted: u64,
    /// Datagrams that the sockets returned.
    pub datagrams: u64,
    /// Rounds in which datagrams were read.
    pub rounds: u64,
    /// Receive buffers that were allocated.
    pub buffers_made: u64,
    /// Connections that were admitted.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Retry tokens that were sent.
    pub retries: u64,
    /// Bytes of unfinished transactions.
    pub unfinished_bytes: u64,
    /// States of streams that the open connections have, of [`STREAM_BYTES`](crate::STREAM_BYTES) each.
    pub stream_states: u64,
    /// Time from the first byte of accepted transactions to the ledger.
    pub latency: Histogram,
    refused: [u64; DROP_REASONS.len()],
    steps: [u64; VERIFY_STEPS.len()],
}

impl MetricsSnapshot {
    /// Returns the total time that the verification threads spent in each step, by its name.
    pub fn steps(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        VERIFY_STEPS.iter().zip(self.steps).map(|((_, name), ns)| (*name, Duration::from_nanos(ns)))
    }

    /// Returns the number of refusals with this cause.
    pub fn count_refused(&self, cause: DropReason) -> u64 {
        self.refused[cause as usize]
    }

    /// Returns all causes with a count above 0, by name.
    pub fn drop_reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DROP_REASONS
            .iter()
            .map(|(cause, name)| (*name, self.count_refused(*cause)))
            .filter(|(_, n)| *n > 0)
    }
}

impl fmt::Display for MetricsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} received, {} accepted, {} connections",
            self.received, self.accepted, self.open
        )?;
        self.drop_reasons().try_for_each(|(name, count)| write!(f, ", {name} {count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_reason_is_counted_under_its_own_name() {
        let counters = Counters::default();
        for (at, (cause, _)) in DROP_REASONS.iter().enumerate() {
            assert_eq!(*cause as usize, at);
            counters.refuse_many(*cause, at as u64 + 1);
        }
        let metrics = counters.snapshot();
        let causes: Vec<_> = metrics.drop_reasons().collect();
        assert_eq!(causes.len(), DROP_REASONS.len());
        assert!(causes.iter().enumerate().all(|(at, (_, count))| *count == at as u64 + 1));
    }

    #[test]
    fn latencies_are_reported_as_powers_of_two() {
        let counters = Counters::default();
        (0..99).for_each(|_| counters.accept(Duration::from_micros(100)));
        counters.accept(Duration::from_millis(10));
        let latency = counters.snapshot().latency;
        let buckets: Vec<_> = latency.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(buckets, [(128e-6, 99), (0.016_384, 1)]);
        assert_eq!((latency.count(), latency.sum()), (100, Duration::from_micros(19_900)));
    }
}

//! What came in and what became of it: every transaction ends up in exactly one count.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why something was refused, or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// A transaction of more bytes than its version has.
    TooLong,
    /// A stream that ended without a byte.
    Empty,
    /// The client reset the stream before its end.
    Reset,
    /// The stream did not end within its time.
    Stalled,
    /// Unfinished transactions take all the memory that they may.
    UnfinishedFull,
    /// The connection ended in the middle of the transaction.
    CutOff,
    /// The queue for checks was full, and its sender had most waiting.
    QueueFull,
    /// An equal transaction came a moment ago.
    Repeated,
    /// It has been executed already.
    Executed,
    /// Its bytes are no transaction.
    Malformed,
    /// A signature is not of its key over its message.
    Signature,
    /// The ledger's queue had no room for as long as it was allowed to wait.
    LedgerFull,
    /// The node is shutting down.
    Closed,
    /// A handshake beyond the rates or the number under way.
    HandshakeRate,
    /// A handshake that was not complete in time, or failed.
    HandshakeFailed,
    /// One connection too many, in all.
    ConnectionsFull,
    /// One connection too many from the address.
    AddressFull,
    /// One connection too many of the identity.
    IdentityFull,
    /// A connection closed for broken or stalled streams.
    Misbehaved,
    /// A datagram longer than any that we agreed to.
    DatagramTooLong,
}

/// Every cause, with its name.
const DROP_REASONS: [(DropReason, &str); 20] = [
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
    (DropReason::Misbehaved, "misbehaved"),
    (DropReason::DatagramTooLong, "datagram_too_long"),
];

/// What a thread between the queue and the ledger does with a transaction, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyStep {
    /// Whether an equal one came a moment ago.
    Repeated,
    /// Whether its bytes are a transaction.
    Shape,
    /// Whether it has been executed already.
    Executed,
    /// Whether its signatures are good.
    Signatures,
    /// Room in the ledger's queue, waited for if there is none, and the relay.
    HandOver,
}

/// Every step, with its name.
const VERIFY_STEPS: [(VerifyStep, &str); 5] = [
    (VerifyStep::Repeated, "repeated"),
    (VerifyStep::Shape, "shape"),
    (VerifyStep::Executed, "executed"),
    (VerifyStep::Signatures, "signatures"),
    (VerifyStep::HandOver, "hand_over"),
];

/// How long each step of some transactions took.
#[derive(Default)]
pub(crate) struct VerifyStepTimes([Duration; VERIFY_STEPS.len()]);

impl VerifyStepTimes {
    pub(crate) fn add(&mut self, step: VerifyStep, took: Duration) {
        self.0[step as usize] += took;
    }
}

/// Latencies are counted by the power of two of their microseconds.
const LATENCIES: usize = 32;

/// Counts of the whole door. Threads add to them now and then, not for every event.
#[derive(Default)]
pub struct Counters {
    /// Transactions read whole.
    pub received: AtomicU64,
    /// Their bytes.
    pub received_bytes: AtomicU64,
    /// Transactions that the ledger took.
    pub accepted: AtomicU64,
    /// Datagrams read.
    pub datagrams: AtomicU64,
    /// Rounds in which they were read.
    pub rounds: AtomicU64,
    /// Receive buffers made.
    pub buffers_made: AtomicU64,
    /// Connections admitted.
    pub connections: AtomicU64,
    /// Connections that are open.
    pub open: AtomicU64,
    /// Retry tokens sent.
    pub retries: AtomicU64,
    refused: [AtomicU64; DROP_REASONS.len()],
    latencies: [AtomicU64; LATENCIES],
    latency_us: AtomicU64,
    /// Nanoseconds.
    steps: [AtomicU64; VERIFY_STEPS.len()],
}

impl Counters {
    /// Counts one refusal.
    pub fn refuse(&self, cause: DropReason) {
        self.refuse_many(cause, 1);
    }

    /// Counts refusals of one cause.
    pub fn refuse_many(&self, cause: DropReason, count: u64) {
        if count > 0 {
            self.refused[cause as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts a transaction that the ledger took, so long after its first byte.
    pub fn accept(&self, latency: Duration) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
        let power = (us.ilog2() as usize).min(LATENCIES - 1);
        self.latencies[power].fetch_add(1, Ordering::Relaxed);
        self.latency_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Adds what a batch's steps took.
    pub(crate) fn record_steps(&self, steps: &VerifyStepTimes) {
        for (count, took) in self.steps.iter().zip(steps.0) {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            count.fetch_add(ns, Ordering::Relaxed);
        }
    }

    /// All counts as they are now.
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
            refused: self.refused.each_ref().map(load),
            latencies: self.latencies.each_ref().map(load),
            steps: self.steps.each_ref().map(load),
            latency_us: load(&self.latency_us),
        }
    }
}

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Transactions read whole.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Transactions that the ledger took.
    pub accepted: u64,
    /// Datagrams read.
    pub datagrams: u64,
    /// Rounds in which they were read.
    pub rounds: u64,
    /// Receive buffers made.
    pub buffers_made: u64,
    /// Connections admitted.
    pub connections: u64,
    /// Connections that are open.
    pub open: u64,
    /// Retry tokens sent.
    pub retries: u64,
    /// Microseconds from first byte to the ledger, summed over the accepted.
    pub latency_us: u64,
    refused: [u64; DROP_REASONS.len()],
    latencies: [u64; LATENCIES],
    steps: [u64; VERIFY_STEPS.len()],
}

impl MetricsSnapshot {
    /// How long the threads between the queue and the ledger were at each step, all in all, by its name.
    pub fn steps(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        VERIFY_STEPS.iter().zip(self.steps).map(|((_, name), ns)| (*name, Duration::from_nanos(ns)))
    }

    /// How often something was refused for `cause`.
    pub fn refused(&self, cause: DropReason) -> u64 {
        self.refused[cause as usize]
    }

    /// Every cause that there was, by name.
    pub fn drop_reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DROP_REASONS
            .iter()
            .map(|(cause, name)| (*name, self.refused(*cause)))
            .filter(|(_, n)| *n > 0)
    }

    /// How many of the accepted took less than so many microseconds from first byte to the ledger, and not
    /// less than half of that.
    pub fn latencies(&self) -> impl Iterator<Item = (u64, u64)> {
        self.latencies.iter().enumerate().map(|(power, count)| (2 << power, *count))
    }

    /// Microseconds from a transaction's first byte to the ledger that a share of them stayed below,
    /// rounded up to a power of two.
    pub fn latency_us(&self, share: f64) -> u64 {
        let all: u64 = self.latencies.iter().sum();
        let mut below = 0;
        for (power, count) in self.latencies.iter().enumerate() {
            below += count;
            if below > 0 && below as f64 >= share * all as f64 {
                return 2 << power;
            }
        }
        0
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
        let figures = counters.snapshot();
        let causes: Vec<_> = figures.drop_reasons().collect();
        assert_eq!(causes.len(), DROP_REASONS.len());
        assert!(causes.iter().enumerate().all(|(at, (_, count))| *count == at as u64 + 1));
    }

    #[test]
    fn latencies_are_reported_as_powers_of_two() {
        let counters = Counters::default();
        (0..99).for_each(|_| counters.accept(Duration::from_micros(100)));
        counters.accept(Duration::from_millis(10));
        let figures = counters.snapshot();
        assert_eq!((figures.latency_us(0.5), figures.latency_us(0.999)), (128, 16_384));
        let told: Vec<_> = figures.latencies().filter(|(_, count)| *count > 0).collect();
        assert_eq!((told, figures.latency_us), (vec![(128, 99), (16_384, 1)], 19_900));
    }
}

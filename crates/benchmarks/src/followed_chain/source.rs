//! The source: the encoded slots over a socket, as fast as they are taken or at their own rate.
//!
//! Shape: a server on a runtime of its own, with one thread. At their own rate a slot's chunks are due in equal steps, and
//! its metadata at its end. A chunk that is late was not taken in time, and counts from when it was due. Timers count whole
//! milliseconds, so the source looks at the clock for the last one before the metadata, which is sent to the microsecond.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use testkit::clock::now;
use testkit::raw_geyser_source::RawSource;
use tokio::sync::oneshot;

use super::chain::Slot;

/// A timer of tokio fires up to this much late.
const TIMER_STEP: Duration = Duration::from_millis(2);

/// The slots that are sent.
#[derive(Clone)]
pub(super) struct Script {
    pub(super) slots: Arc<[Slot]>,
    pub(super) pace: Pace,
    /// Whether the entries of a slot come before its end.
    pub(super) has_entries: bool,
}

/// The rate at which slots are sent.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    Unlimited,
    PerSlot(Duration),
}

impl Pace {
    /// Returns when the slot of a number starts.
    pub(super) fn slot_start(self, began: Instant, number: usize) -> Instant {
        match self {
            Self::Unlimited => began,
            Self::PerSlot(slot_time) => began + slot_time * number as u32,
        }
    }
}

pub(super) struct Source {
    pub(super) address: SocketAddr,
    /// When the first chunk was taken.
    pub(super) began: Arc<OnceLock<Instant>>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Source {
    pub(super) fn stop(self) {
        // Its thread has ended if it does not listen.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

pub(super) fn start(script: Script) -> Result<Source> {
    let began = Arc::new(OnceLock::new());
    let moment = Arc::clone(&began);
    let body = move || chunks(script.clone(), Arc::clone(&moment)).boxed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let address = runtime.block_on(RawSource::new(None, body).serve());
    let thread = std::thread::Builder::new()
        .name("source".to_owned())
        .spawn(move || {
            // The sender is dropped if the run has failed.
            let _ = runtime.block_on(stopped);
        })
        .context("start the source's thread")?;
    Ok(Source { address, began, stop, thread })
}

/// All chunks; then the stream stays open.
fn chunks(script: Script, began: Arc<OnceLock<Instant>>) -> impl Stream<Item = Bytes> + Send {
    let Script { slots, pace, has_entries } = script;
    let sent = futures_util::stream::unfold((slots, 0, 0), move |(slots, number, at)| {
        let began = Arc::clone(&began);
        async move {
            let began = *began.get_or_init(now);
            let slot = slots.get(number)?;
            let before_end = slot.content.len() + usize::from(has_entries);
            let is_end = at == before_end;
            let next = if is_end { (number + 1, 0) } else { (number, at + 1) };
            let chunk = match slot.content.get(at) {
                Some(chunk) => chunk.clone(),
                None if is_end => slot.end.clone(),
                None => slot.entries.clone(),
            };
            if let Pace::PerSlot(slot_time) = pace {
                let share = slot_time.mul_f64(at as f64 / before_end as f64);
                let due = pace.slot_start(began, number) + share;
                let wake = if is_end { due - TIMER_STEP } else { due };
                tokio::time::sleep_until(wake.into()).await;
                if is_end {
                    wait_until(due).await;
                }
            }
            Some((chunk, (slots, next.0, next.1)))
        }
    });
    sent.chain(futures_util::stream::pending())
}

/// Waits more exactly than a timer of tokio, and leaves the core to the follower.
#[expect(clippy::disallowed_methods, reason = "a rate is a matter of time")]
async fn wait_until(due: Instant) {
    let waited = tokio::task::spawn_blocking(move || {
        std::thread::sleep(due.saturating_duration_since(now()));
    });
    // It does not panic.
    let _ = waited.await;
}

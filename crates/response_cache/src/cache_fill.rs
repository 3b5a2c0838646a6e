//! State machine of one cache lookup: look up the call, wait for the task that computes the same response, and retry if
//! that task ends without a response.
//!
//! In: a call, and polls. Out: a [`LookupOutcome`]: a cached response, or how to compute one.
//! A call has two stages. [`Unscheduled`] has no task yet, and gets a ticket for one. [`Scheduled`] is a task that
//! runs, and gets the response to fill.
//! Bounds: a stage waits at most [`ATTEMPTS_MAX`] times.
//! Invariant: a call that waits is woken: when the other task completes the response, abandons it, or ends.
//! Not here: deadlines, and computing a response (the server), which calls are cacheable (`dependencies`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use cache::{Entry, FillTicket, OnFilled, WaitGuard};
use tokio::sync::oneshot;

use crate::builder::ResponseBuilder;
use crate::dependencies::CacheableCall;
use crate::entry::CachedResponse;
use crate::lookup::{LookupContext, LookupOutcome, LookupStep};
use crate::store::ResponseCache;

/// Maximum waits of a call for other tasks that end without a response. After these, its own task computes it.
const ATTEMPTS_MAX: usize = 3;

/// A call on its way through the cache. Dropping it ends its wait.
pub struct CacheFill<S> {
    call: CacheableCall,
    stage: S,
    /// Number of further waits that are allowed.
    attempts: usize,
    wait: Option<FillWait>,
}

/// The stage of a call that has no task yet.
pub struct Unscheduled;

/// The stage of a call that has a running task.
pub struct Scheduled {
    /// The right to fill, if the task waited in the run queue for it.
    ticket: Option<FillTicket<CachedResponse>>,
}

/// The wait for another task. The receiver is dropped first, so that leaving wakes nothing.
struct FillWait {
    filled: oneshot::Receiver<Option<Arc<Entry<CachedResponse>>>>,
    /// Registers the waiter while it exists.
    _guard: WaitGuard<CachedResponse>,
}

/// The lookup of a call in one of its stages.
pub trait LookupStage {
    /// The right of a call that must compute the response for the cache.
    type Fill;

    /// Whether the call is looked up again after another task found that the response cannot be cached.
    const RETRIES_UNCACHED: bool;

    /// Looks the call up; it may wait if `may_wait`.
    fn lookup(
        &mut self,
        cache: &ResponseCache,
        call: (&CacheableCall, &LookupContext<'_>),
        may_wait: bool,
        on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
    ) -> LookupStep<Self::Fill>;
}

impl LookupStage for Unscheduled {
    type Fill = FillTicket<CachedResponse>;

    /// The call's own task computes the response.
    const RETRIES_UNCACHED: bool = false;

    fn lookup(
        &mut self,
        cache: &ResponseCache,
        call: (&CacheableCall, &LookupContext<'_>),
        may_wait: bool,
        on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
    ) -> LookupStep<Self::Fill> {
        match may_wait {
            true => cache.lookup(call, on_filled),
            false => LookupStep::Ready(LookupOutcome::Uncached("bypass")),
        }
    }
}

impl LookupStage for Scheduled {
    type Fill = ResponseBuilder;

    /// The memory budget may have space again.
    const RETRIES_UNCACHED: bool = true;

    fn lookup(
        &mut self,
        cache: &ResponseCache,
        call: (&CacheableCall, &LookupContext<'_>),
        may_wait: bool,
        on_filled: impl FnOnce() -> OnFilled<CachedResponse>,
    ) -> LookupStep<Self::Fill> {
        cache.lookup_or_fill(call, self.ticket.take(), || may_wait.then(on_filled))
    }
}

impl CacheFill<Unscheduled> {
    /// Creates the fill of a call without a task.
    pub fn for_call(call: CacheableCall) -> Self {
        Self::new(call, Unscheduled)
    }
}

impl CacheFill<Scheduled> {
    /// Creates the fill of a call that has a running task, with its ticket if it needed one.
    pub fn for_task(call: CacheableCall, ticket: Option<FillTicket<CachedResponse>>) -> Self {
        Self::new(call, Scheduled { ticket })
    }
}

impl<S: LookupStage> CacheFill<S> {
    fn new(call: CacheableCall, stage: S) -> Self {
        Self { call, stage, attempts: ATTEMPTS_MAX, wait: None }
    }

    /// Looks the call up, unless it waits for another task. While it is pending, the waker of `cx` is woken when
    /// the other task has ended. A hit always has a value.
    pub fn poll(
        &mut self,
        cache: &ResponseCache,
        context: &LookupContext<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<LookupOutcome<S::Fill>> {
        loop {
            if let Some(wait) = &mut self.wait {
                let filled = ready!(Pin::new(&mut wait.filled).poll(cx));
                self.wait = None;
                let entry = filled.ok().flatten();
                match entry.and_then(|entry| cache.revalidate(context.ledger, &self.call, entry)) {
                    Some(hit) if hit.entry.value.is_some() => {
                        return Poll::Ready(LookupOutcome::Hit(hit));
                    }
                    Some(_) if !S::RETRIES_UNCACHED => {
                        return Poll::Ready(LookupOutcome::Uncached("bypass"));
                    }
                    _ => {}
                }
            }
            let (sender, filled) = oneshot::channel();
            let on_filled = || -> OnFilled<CachedResponse> {
                Box::new(move |entry| {
                    // The receiver may have been dropped.
                    let _ = sender.send(entry);
                })
            };
            let may_wait = self.attempts > 0;
            match self.stage.lookup(cache, (&self.call, context), may_wait, on_filled) {
                LookupStep::Ready(outcome) => return Poll::Ready(outcome),
                LookupStep::Wait(guard) => {
                    self.attempts = self.attempts.saturating_sub(1);
                    self.wait = Some(FillWait { filled, _guard: guard });
                }
            }
        }
    }

    /// Returns whether it has waited for another task.
    pub fn has_waited(&self) -> bool {
        self.attempts < ATTEMPTS_MAX
    }

    /// Returns the call, and ends its wait.
    pub fn into_call(self) -> CacheableCall {
        self.call
    }
}

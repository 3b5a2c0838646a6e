//! A call of a task that uses the cache: it is copied from there, computed for the cache, or waits for another
//! task.
//!
//! Bounds: it waits for other tasks at most [`ATTEMPTS_MAX`] times, then it is computed.
//! Invariant: a waiting task is not one of the tasks that the pool is running.
//! Not here: what may be cached ([`crate::cache_lookup`]), what happens to a response that is computed for the
//! cache ([`super::output`]).

use std::sync::Arc;

use cache::{Entry, FillTicket, OnFilled};
use pool::TaskPoll;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{ActiveCall, CallTask};
use crate::cache_lookup::{self, ATTEMPTS_MAX, CacheHit, FillOutcome};
use crate::cached_response::{CachedResponse, ResponseCopy};
use crate::catch_panic::catch_panic;
use crate::content_encoding::ContentEncoding;
use crate::dependencies::CacheableCall;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::methods::MethodRef;
use crate::metrics::{ExecutionPath, Outcome};
use crate::params::Params;

/// A call whose response another task is computing.
pub(super) struct PendingFill {
    id: Id,
    method: MethodRef,
    call: CacheableCall,
    filled: oneshot::Receiver<Option<Arc<Entry<CachedResponse>>>>,
    /// Registers the waiter while it exists.
    guard: cache::WaitGuard<CachedResponse>,
    /// How many more times it may wait.
    attempts: usize,
}

impl CallTask {
    /// Handles a call of a batch through the cache.
    pub(super) fn lookup(&mut self, id: Id, method: MethodRef) {
        let params = Params::new(self.params.as_deref());
        let find = || match cache_lookup::lookup_by_text(
            &self.node,
            ContentEncoding::Plain,
            &method,
            params,
        ) {
            Some(hit) => Err(hit),
            None => Ok(cache_lookup::cacheable_call(
                &self.node,
                ContentEncoding::Plain,
                &method,
                params,
            )),
        };
        match catch_panic(method.name, self.info.context.request, find) {
            Err(err) => self.refuse(&err, &id),
            Ok(Err(hit)) => {
                cache_lookup::record_text_hit(&self.node);
                self.send_hit(hit, id);
            }
            Ok(Ok(None)) => self.run_method(id, method),
            Ok(Ok(Some(cacheable))) => {
                self.lookup_or_fill(cacheable, None, (id, method), ATTEMPTS_MAX)
            }
        }
    }

    pub(super) fn lookup_or_fill(
        &mut self,
        cacheable: CacheableCall,
        ticket: Option<FillTicket<CachedResponse>>,
        (id, method): (Id, MethodRef),
        attempts: usize,
    ) {
        let (sender, filled) = oneshot::channel();
        let waker = self.sender.waker();
        let on_filled = || -> Option<OnFilled<CachedResponse>> {
            let waker = waker.clone();
            (attempts > 0).then(|| -> OnFilled<CachedResponse> {
                Box::new(move |entry| {
                    // The receiver may have been dropped.
                    let _ = sender.send(entry);
                    waker.wake();
                })
            })
        };
        let call = (self.coding(), &*method, Params::new(self.params.as_deref()));
        let client = self.info.context.client;
        match cache_lookup::lookup_or_fill(
            &self.node,
            (&cacheable, ticket),
            call,
            client,
            on_filled,
        ) {
            FillOutcome::Hit(hit) => self.send_hit(hit, id),
            FillOutcome::Fill(builder) => {
                self.stats.cache = "made";
                self.side_buffer = std::mem::take(&mut self.out);
                self.builder = Some(builder);
                self.run_method(id, method);
            }
            FillOutcome::Wait(guard) => {
                let attempts = attempts - 1; // without attempts it does not wait
                self.pending_fill =
                    Some(PendingFill { id, method, call: cacheable, filled, guard, attempts });
            }
            FillOutcome::Uncached(why) => {
                self.stats.cache = why;
                self.run_method(id, method);
            }
        }
    }

    /// A batch is compressed as a whole, so its calls use plain cache entries.
    fn coding(&self) -> ContentEncoding {
        if self.info.is_batch { ContentEncoding::Plain } else { self.info.context.coding }
    }

    /// Checks whether the other task has completed.
    pub(super) fn poll_fill(&mut self, mut pending: PendingFill) -> Option<TaskPoll> {
        // Checked first: a completion after this check wakes the task.
        let can_be_woken = self.sender.waker().is_set();
        let entry = match pending.filled.try_recv() {
            Err(TryRecvError::Empty) => {
                self.pending_fill = Some(pending);
                return Some(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
            }
            result => result.ok().flatten(),
        };
        let PendingFill { id, method, call: cacheable, attempts, guard, .. } = pending;
        drop(guard);
        match entry.and_then(|entry| cache_lookup::revalidate(&self.node, &cacheable, entry)) {
            Some(hit) if hit.entry.value.is_some() => self.send_hit(hit, id),
            _ => self.lookup_or_fill(cacheable, None, (id, method), attempts),
        }
        None
    }

    fn send_hit(&mut self, hit: CacheHit, id: Id) {
        if let Some((_, path)) = &mut self.label {
            *path = ExecutionPath::Cached;
        }
        if self.stats.cache == "none" {
            self.stats.cache = "hit";
        }
        if self.info.is_batch {
            return self.start_copy(hit, id);
        }
        self.record_call(Outcome::Succeeded);
        self.log_if_slow();
        self.sender.send_cached(hit.entry, hit.slot);
        self.is_closed = true;
    }

    /// Starts to copy a cached response into the batch.
    pub(super) fn start_copy(&mut self, CacheHit { entry, slot }: CacheHit, id: Id) {
        let name = self.label.map_or("", |(label, _)| self.node.metrics.method_name(label));
        match ResponseCopy::start(entry, slot, &mut self.out) {
            Some(result) => {
                let result = Box::new(result);
                self.active = Some(ActiveCall { id, name, result, starts_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }
}

//! A call of a task that uses the cache: it is copied from there, computed for the cache, or waits for another
//! task.
//!
//! Bounds: it waits for other tasks at most [`ATTEMPTS_MAX`] times, then it is computed.
//! Invariant: a waiting task is not one of the tasks that the pool is running.
//! Not here: what may be cached ([`response_cache`]), what happens to a response that is computed for the
//! cache ([`super::output`]).

use std::sync::Arc;

use cache::{Entry, FillTicket, OnFilled};
use http_server::ContentEncoding;
use pool::TaskPoll;
use response_cache::{
    ATTEMPTS_MAX, CacheHit, CacheableCall, CachedResponse, CallText, FillOutcome,
};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::cached_copy::ResponseCopy;
use super::{ActiveCall, CallTask};
use crate::api::{Api, MethodRef};
use crate::catch_panic::catch_panic;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::metrics::{ExecutionPath, Outcome};
use crate::params::Params;

/// A call whose response another task is computing.
pub(super) struct PendingFill<A: Api> {
    id: Id,
    method: MethodRef<A>,
    call: CacheableCall,
    filled: oneshot::Receiver<Option<Arc<Entry<CachedResponse>>>>,
    /// Registers the waiter while it exists.
    guard: cache::WaitGuard<CachedResponse>,
    /// How many more times it may wait.
    attempts: usize,
}

impl<A: Api> CallTask<A> {
    /// Handles a call of a batch through the cache.
    pub(super) fn lookup(&mut self, id: Id, method: MethodRef<A>) {
        let params = Params::new(self.params.as_deref());
        let (server, cache) = (&*self.server, &self.server.context.response_cache);
        let coding = ContentEncoding::Plain;
        let text = CallText { method: method.name, params: params.text(), coding };
        let find = || match cache.lookup_text(&server.api, text) {
            Some(hit) => Err(hit),
            None => Ok(method
                .dependencies
                .and_then(|dependencies| dependencies(&server.api, params))
                .filter(|dependencies| dependencies.is_cacheable)
                .and_then(|dependencies| {
                    Some(CacheableCall { key: text.cache_key()?, dependencies })
                })),
        };
        match catch_panic(method.name, self.info.context.request, find) {
            Err(err) => self.refuse(&err, &id),
            Ok(Err(hit)) => {
                self.server.context.response_cache.record_text_hit();
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
        (id, method): (Id, MethodRef<A>),
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
        let params = self.params.as_deref();
        let text = CallText { method: method.name, params, coding: self.coding() };
        let client = self.info.context.client;
        let (api, cache) = (&self.server.api, &self.server.context.response_cache);
        match cache.lookup_or_fill(api, (&cacheable, ticket), text, client, on_filled) {
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
    pub(super) fn poll_fill(&mut self, mut pending: PendingFill<A>) -> Option<TaskPoll> {
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
        let (api, cache) = (&self.server.api, &self.server.context.response_cache);
        match entry.and_then(|entry| cache.revalidate(api, &cacheable, entry)) {
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
        let metrics = &self.server.context.metrics;
        let name = self.label.map_or("", |(label, _)| metrics.method_name(label));
        match ResponseCopy::new(entry) {
            Some(result) => {
                self.start_value(result.context_at(slot));
                let result = Box::new(result);
                self.active = Some(ActiveCall { id, name, result, starts_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }
}

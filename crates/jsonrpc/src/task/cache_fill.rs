//! A call of a task that uses the cache: it is copied from there, computed for the cache, or waits for another
//! task.
//!
//! Invariant: a waiting task is not one of the tasks that the pool is running.
//! Not here: what may be cached, and how often a call waits ([`response_cache`]), what happens to a response that is
//! computed for the cache ([`super::output`]).

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http_server::ContentEncoding;
use response_cache::{CacheFill, CacheHit, CacheableCall, CallText, LookupContext, LookupOutcome};

use super::cached_copy::ResponseCopy;
use super::{CallTask, PendingFill, ValueStream};
use crate::api::{Api, MethodRef};
use crate::catch_panic::catch_panic;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::metrics::{ExecutionPath, Outcome};
use crate::params::Params;

impl<A: Api> CallTask<A> {
    /// Handles a call of a batch through the cache.
    pub(super) fn lookup(&mut self, id: Id, method: MethodRef<A>) {
        let params = Params::new(self.params.as_deref());
        let server = &*self.server;
        let cache = &self.server.context.response_cache;
        let coding = ContentEncoding::Plain;
        let text = CallText { method: method.name, params: params.text(), coding };
        let find = || match cache.lookup_text(&server.api, text) {
            Some(hit) => Err(hit),
            None => Ok(method
                .cache_dependencies
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
                let fill = CacheFill::for_task(cacheable, None);
                self.poll_fill(PendingFill { id, method, fill });
            }
        }
    }

    /// Looks the call up, unless it waits for another task. It stays pending if it has to wait.
    pub(super) fn poll_fill(&mut self, mut pending: PendingFill<A>) {
        let ledger = &self.server.api;
        let cache = &self.server.context.response_cache;
        let method = pending.method.name;
        let params = self.params.as_deref();
        let text = CallText { method, params, coding: self.coding() };
        let context = LookupContext { ledger, text, client: self.info.context.client };
        let waker = Waker::from(Arc::clone(self.sender.waker()));
        let outcome = pending.fill.poll(cache, &context, &mut Context::from_waker(&waker));
        let Poll::Ready(outcome) = outcome else {
            self.pending_fill = Some(pending);
            return;
        };
        let PendingFill { id, method, .. } = pending;
        match outcome {
            LookupOutcome::Hit(hit) => self.send_hit(hit, id),
            LookupOutcome::Fill(builder) => {
                self.stats.cache = "made";
                self.side_buffer = std::mem::take(&mut self.out);
                self.builder = Some(builder);
                self.run_method(id, method);
            }
            LookupOutcome::Uncached(why) => {
                self.stats.cache = why;
                self.run_method(id, method);
            }
        }
    }

    /// A batch is compressed as a whole, so its calls use plain cache entries.
    fn coding(&self) -> ContentEncoding {
        if self.info.is_batch { ContentEncoding::Plain } else { self.info.context.coding }
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
                self.active = Some(ValueStream { id, name, result, starts_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }
}

//! A call of a task that is looked for in the cache: copied from there, made for all, or waited for.
//!
//! Bounds: [`ATTEMPTS_MAX`] times somebody else's answer is waited for, then it is made.
//! Invariant: what waits has no place among the tasks that the pool has begun.
//! Not here: what may be kept ([`crate::look`]), what becomes of an answer that is made for all ([`super::write`]).

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

/// A call whose answer somebody else is making.
pub(super) struct PendingFill {
    id: Id,
    method: MethodRef,
    call: CacheableCall,
    filled: oneshot::Receiver<Option<Arc<Entry<CachedResponse>>>>,
    /// For as long as it is to be told.
    guard: cache::WaitGuard<CachedResponse>,
    /// How often it may be looked for again.
    attempts: usize,
}

impl CallTask {
    /// Answers a call of a batch from the cache, or for it.
    pub(super) fn lookup(&mut self, id: Id, method: MethodRef) {
        let params = Params::new(self.params.as_deref());
        let look = || match cache_lookup::lookup_by_text(
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
        match catch_panic(method.name, self.info.context.request, look) {
            Err(err) => self.refuse(&err, &id),
            Ok(Err(hit)) => {
                cache_lookup::record_text_hit(&self.node);
                self.send_hit(hit, id);
            }
            Ok(Ok(None)) => self.run_method(id, method),
            Ok(Ok(Some(asked))) => self.lookup_or_fill(asked, None, (id, method), ATTEMPTS_MAX),
        }
    }

    pub(super) fn lookup_or_fill(
        &mut self,
        asked: CacheableCall,
        turn: Option<FillTicket<CachedResponse>>,
        (id, method): (Id, MethodRef),
        attempts: usize,
    ) {
        let (sender, told) = oneshot::channel();
        let waker = self.sender.waker();
        let tell = || -> Option<OnFilled<CachedResponse>> {
            let waker = waker.clone();
            (attempts > 0).then(|| -> OnFilled<CachedResponse> {
                Box::new(move |entry| {
                    // Who waited may have gone.
                    let _ = sender.send(entry);
                    waker.wake();
                })
            })
        };
        let call = (self.coding(), &*method, Params::new(self.params.as_deref()));
        let client = self.info.context.client;
        match cache_lookup::lookup_or_fill(&self.node, (&asked, turn), call, client, tell) {
            FillOutcome::Hit(hit) => self.send_hit(hit, id),
            FillOutcome::Fill(keeping) => {
                self.stats.cache = "made";
                self.side_buffer = std::mem::take(&mut self.out);
                self.builder = Some(keeping);
                self.run_method(id, method);
            }
            FillOutcome::Wait(place) => {
                let attempts = attempts - 1; // who has none does not wait
                self.pending_fill = Some(PendingFill {
                    id,
                    method,
                    call: asked,
                    filled: told,
                    guard: place,
                    attempts,
                });
            }
            FillOutcome::Uncached(why) => {
                self.stats.cache = why;
                self.run_method(id, method);
            }
        }
    }

    /// A batch is compressed as a whole, so of its calls the plain answers are kept.
    fn coding(&self) -> ContentEncoding {
        if self.info.is_batch { ContentEncoding::Plain } else { self.info.context.coding }
    }

    /// Looks whether somebody told the answer that is waited for.
    pub(super) fn poll_fill(&mut self, mut waiting: PendingFill) -> Option<TaskPoll> {
        // Asked before: what is told after it wakes.
        let can_be_woken = self.sender.waker().is_set();
        let told = match waiting.filled.try_recv() {
            Err(TryRecvError::Empty) => {
                self.pending_fill = Some(waiting);
                return Some(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
            }
            told => told.ok().flatten(),
        };
        let PendingFill { id, method, call: asked, attempts, guard: place, .. } = waiting;
        drop(place);
        match told.and_then(|entry| cache_lookup::revalidate(&self.node, &asked, entry)) {
            Some(hit) if hit.entry.value.is_some() => self.send_hit(hit, id),
            _ => self.lookup_or_fill(asked, None, (id, method), attempts),
        }
        None
    }

    fn send_hit(&mut self, hit: CacheHit, id: Id) {
        if let Some((_, lane)) = &mut self.label {
            *lane = ExecutionPath::Cached;
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

    /// Begins to copy a kept answer out.
    pub(super) fn start_copy(&mut self, CacheHit { entry, slot }: CacheHit, id: Id) {
        let name = self.label.map_or("", |(subject, _)| subject.name());
        match ResponseCopy::start(entry, slot, &mut self.out) {
            Some(copying) => {
                let pieces = Box::new(copying);
                self.active = Some(ActiveCall { id, name, result: pieces, starts_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }
}

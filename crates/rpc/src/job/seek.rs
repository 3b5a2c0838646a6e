//! A call of a task that is looked for in the cache: copied from there, made for all, or waited for.
//!
//! Bounds: [`ATTEMPTS`] times somebody else's answer is waited for, then it is made.
//! Invariant: what waits has no place among the tasks that the pool has begun.
//! Not here: what may be kept ([`crate::look`]), what becomes of an answer that is made for all ([`super::write`]).

use std::sync::Arc;

use cache::{Entry, FillTicket, OnFilled};
use pool::TaskPoll;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{Current, Job};
use crate::cached::Asked;
use crate::compress::Coding;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::guard::guarded;
use crate::kept::{Copying, Kept};
use crate::look::{self, ATTEMPTS, Hit, ToMake};
use crate::methods::MethodRef;
use crate::metrics::{ExecutionPath, Outcome};
use crate::params::Params;

/// A call whose answer somebody else is making.
pub(super) struct Waiting {
    id: Id,
    method: MethodRef,
    asked: Asked,
    told: oneshot::Receiver<Option<Arc<Entry<Kept>>>>,
    /// For as long as it is to be told.
    place: cache::WaitGuard<Kept>,
    /// How often it may be looked for again.
    attempts: usize,
}

impl Job {
    /// Answers a call of a batch from the cache, or for it.
    pub(super) fn look(&mut self, id: Id, method: MethodRef) {
        let params = Params::new(self.params.as_deref());
        let look = || match look::known(&self.node, Coding::Plain, &method, params) {
            Some(hit) => Err(hit),
            None => Ok(look::kept_call(&self.node, Coding::Plain, &method, params)),
        };
        match guarded(method.name, self.about.asker.request, look) {
            Err(err) => self.refuse(&err, &id),
            Ok(Err(hit)) => {
                look::count_known(&self.node);
                self.copy_hit(hit, id);
            }
            Ok(Ok(None)) => self.run(id, method),
            Ok(Ok(Some(asked))) => self.look_for(asked, None, (id, method), ATTEMPTS),
        }
    }

    pub(super) fn look_for(
        &mut self,
        asked: Asked,
        turn: Option<FillTicket<Kept>>,
        (id, method): (Id, MethodRef),
        attempts: usize,
    ) {
        let (sender, told) = oneshot::channel();
        let waker = self.writer.waker();
        let tell = || -> Option<OnFilled<Kept>> {
            let waker = waker.clone();
            (attempts > 0).then(|| -> OnFilled<Kept> {
                Box::new(move |entry| {
                    // Who waited may have gone.
                    let _ = sender.send(entry);
                    waker.wake();
                })
            })
        };
        let call = (self.coding(), &*method, Params::new(self.params.as_deref()));
        let client = self.about.asker.client;
        match look::look_to_make(&self.node, (&asked, turn), call, client, tell) {
            ToMake::Hit(hit) => self.copy_hit(hit, id),
            ToMake::Make(keeping) => {
                self.made.cache = "made";
                self.aside = std::mem::take(&mut self.out);
                self.keeping = Some(keeping);
                self.run(id, method);
            }
            ToMake::Wait(place) => {
                let attempts = attempts - 1; // who has none does not wait
                self.waiting = Some(Waiting { id, method, asked, told, place, attempts });
            }
            ToMake::Alone(why) => {
                self.made.cache = why;
                self.run(id, method);
            }
        }
    }

    /// A batch is compressed as a whole, so of its calls the plain answers are kept.
    fn coding(&self) -> Coding {
        if self.about.is_batch { Coding::Plain } else { self.about.asker.coding }
    }

    /// Looks whether somebody told the answer that is waited for.
    pub(super) fn go_on_waiting(&mut self, mut waiting: Waiting) -> Option<TaskPoll> {
        // Asked before: what is told after it wakes.
        let can_be_woken = self.writer.waker().is_there();
        let told = match waiting.told.try_recv() {
            Err(TryRecvError::Empty) => {
                self.waiting = Some(waiting);
                return Some(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
            }
            told => told.ok().flatten(),
        };
        let Waiting { id, method, asked, attempts, place, .. } = waiting;
        drop(place);
        match told.and_then(|entry| look::still_good(&self.node, &asked, entry)) {
            Some(hit) if hit.entry.value.is_some() => self.copy_hit(hit, id),
            _ => self.look_for(asked, None, (id, method), attempts),
        }
        None
    }

    fn copy_hit(&mut self, hit: Hit, id: Id) {
        if let Some((_, lane)) = &mut self.subject {
            *lane = ExecutionPath::Cached;
        }
        if self.made.cache == "none" {
            self.made.cache = "hit";
        }
        if self.about.is_batch {
            return self.copy(hit, id);
        }
        self.count(Outcome::Succeeded);
        self.tell();
        self.writer.keep(hit.entry, hit.slot);
        self.is_closed = true;
    }

    /// Begins to copy a kept answer out.
    pub(super) fn copy(&mut self, Hit { entry, slot }: Hit, id: Id) {
        let name = self.subject.map_or("", |(subject, _)| subject.name());
        match Copying::begin(entry, slot, &mut self.out) {
            Some(copying) => {
                let pieces = Box::new(copying);
                self.current = Some(Current { id, name, pieces, begins_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }
}

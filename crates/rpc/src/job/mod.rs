//! The calls of a body as a task of the CPU pool: methods run and answers are written, slice by slice.
//!
//! Calls run one after another, so that a body is one task however long its batch is, and what it
//! holds is what one call holds.
//! A call of a batch is looked for in the answer cache when its turn comes: what is there is copied out part by
//! part; what is not, and is worth it, is made for all, collected whole, and then copied out as well; and what
//! somebody else is making is waited for, without a place among those that the pool has begun.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.
//! Invariant: who makes an answer for others waits for nobody, so not for his client either: nothing is sent
//! meanwhile, and what the batch had before it stands aside.
//!
//! The files: `owned` (what a task is given), `seek` (a call that is looked for in the cache), `write` (what is
//! written, on its way out), `count` (metrics and log). Here: the task itself, and running methods.

mod count;
mod owned;
mod seek;
mod write;

use std::sync::Arc;
use std::time::Duration;

use cache::FillTicket;
use pool::{Task, TaskEnd, TaskPoll, TimeSlice};

use crate::cached::Asked;
use crate::envelope::Id;
use crate::error::{OVERLOADED, RpcError};
use crate::guard::guarded;
use crate::held::Collected;
use crate::kept::{Coder, Keeping, Kept};
use crate::look::ATTEMPTS;
use crate::methods::{
    self, Class, InlineBudget, MethodRef, MethodResult, OutputKind, RESULT_CHUNK_BYTES,
    StreamState, StreamedResult,
};
use crate::metrics::{ExecutionPath, ExecutionStats, MethodLabel, Outcome};
use crate::node::Node;
use crate::outlet::{Taker, Writer, outlet};
use crate::params::Params;
use crate::stamp::Stamper;

pub(crate) use owned::{About, OwnedCall, Way};
use seek::Waiting;

/// The calls of one body on their way.
pub(crate) struct Job {
    node: Arc<Node>,
    about: About,
    calls: std::vec::IntoIter<OwnedCall>,
    answered: usize,
    /// Calls that were refused because there is too much to do.
    overloaded: usize,
    /// Written and not sent yet.
    out: Vec<u8>,
    current: Option<Current>,
    writer: Writer,
    /// Everything is written, if not sent.
    is_closed: bool,
    /// The answer is collected for the cache instead of sent piece by piece.
    keeping: Option<Keeping>,
    /// What was written before `out` and is too much to be sent at once.
    unsent: Option<Collected>,
    /// Of a batch: what was written before the answer that is collected.
    aside: Vec<u8>,
    /// It is collected, and being coded; for the call of that id.
    coder: Option<(Coder, Id)>,
    /// What is looked for in the cache when the only call is begun.
    sought: Option<(Asked, FillTicket<Kept>)>,
    /// Somebody makes the answer to the call that was begun last.
    waiting: Option<Waiting>,
    /// What names the answer if it is long.
    stamper: Option<Stamper>,
    /// What the call is of whose answer is being made, and where it comes from.
    subject: Option<(MethodLabel, ExecutionPath)>,
    /// Of the call that was begun last.
    params: Option<Box<str>>,
    made: ExecutionStats,
    slice_began: Duration,
}

/// A call whose answer is being made, or copied.
struct Current {
    id: Id,
    name: &'static str,
    pieces: Box<dyn StreamedResult>,
    /// Where in `out` the reply begins as long as nothing of the result is there.
    begins_at: Option<usize>,
}

impl Job {
    pub(crate) fn new(node: Arc<Node>, about: About, calls: Vec<OwnedCall>) -> (Self, Taker) {
        let asker = &about.asker;
        let (writer, taker) = outlet(asker.coding, asker.want, asker.request);
        let calls = calls.into_iter();
        let (out, current, aside, waiting) = (Vec::new(), None, Vec::new(), None);
        let (answered, overloaded, is_closed, keeping, coder) = (0, 0, false, None, None);
        let unsent = None;
        let job = Self {
            node,
            about,
            calls,
            answered,
            overloaded,
            out,
            current,
            writer,
            is_closed,
            keeping,
            unsent,
            aside,
            coder,
            sought: None,
            waiting,
            stamper: None,
            subject: None,
            params: None,
            made: ExecutionStats { cache: about.cache, ..ExecutionStats::default() },
            slice_began: Duration::ZERO,
        };
        (job, taker)
    }

    /// The same for a single call that is looked for in the cache once its turn has come, and made for it.
    pub(crate) fn look_for_it(mut self, sought: Option<(Asked, FillTicket<Kept>)>) -> Self {
        self.sought = sought;
        self
    }

    /// The same for a single call whose answer is to be named though it is long.
    pub(crate) fn stamp(mut self, stamper: Option<Stamper>) -> Self {
        self.stamper = stamper;
        self
    }

    /// Works on until the slice is over; whether there is more.
    fn work(&mut self, slice: &TimeSlice<'_>) -> std::io::Result<TaskPoll> {
        if !self.writer.has_room() {
            return Ok(TaskPoll::Wait);
        }
        loop {
            if self.out.len() >= RESULT_CHUNK_BYTES && self.unsent.is_none() && self.may_send() {
                self.pass_on()?;
                if !self.writer.has_room() {
                    return Ok(TaskPoll::Wait);
                }
            }
            if slice.is_cancelled() {
                return Ok(TaskPoll::More);
            }
            if let Some(unsent) = self.unsent.take() {
                self.send_unsent(unsent)?;
                if !self.writer.has_room() {
                    return Ok(TaskPoll::Wait);
                }
            } else if let Some(coder) = self.coder.take() {
                if let Some(step) = self.code(coder)? {
                    return Ok(step);
                }
            } else if let Some(waiting) = self.waiting.take() {
                if let Some(step) = self.go_on_waiting(waiting) {
                    return Ok(step);
                }
            } else if let Some(current) = self.current.take() {
                self.go_on(current, slice);
            } else if let Some(call) = self.calls.next() {
                self.begin(call);
            } else {
                return self.close();
            }
            if self.is_closed {
                return Ok(self.leave());
            }
            if slice.is_over() {
                return Ok(TaskPoll::More);
            }
        }
    }

    fn begin(&mut self, call: OwnedCall) {
        if self.about.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        let (id, method, params, way) = match call {
            OwnedCall::Answered { text, subject, outcome } => {
                self.subject = Some((subject, self.lane()));
                self.out.extend(text);
                return self.count(outcome);
            }
            OwnedCall::Run { id, method, params, way } => (id, method, params, way),
        };
        (self.subject, self.params) = (Some((method.label(), self.lane())), params);
        if let Some((asked, turn)) = self.sought.take() {
            return self.look_for(asked, Some(turn), (id, method), ATTEMPTS);
        }
        match way {
            Way::Run => self.run(id, method),
            Way::LookFirst => self.look(id, method),
            Way::ByCost => match self.run_if_cheap(method) {
                Some(answer) => self.take(answer, id, method),
                None => self.look(id, method),
            },
        }
    }

    fn params(&self) -> Params<'_> {
        Params::new(self.params.as_deref()).sent_by(self.about.asker.client)
    }

    fn lane(&self) -> ExecutionPath {
        ExecutionPath::Pool(self.about.class)
    }

    /// The answer to a call that would not come to the pool if it were alone: of others none is made.
    fn run_if_cheap(&self, method: MethodRef) -> Option<MethodResult> {
        let params = self.params();
        let mut budget = InlineBudget::new(&self.node);
        let run = || match method.class {
            Class::Inline => Some((method.run)(&self.node, params)),
            Class::Light | Class::Medium => None,
            Class::ByCost { class, .. } => match class(&self.node, params, &mut budget) {
                None => Some((method.run)(&self.node, params)),
                Some(_) => None,
            },
            Class::TryInline(run) => run(&self.node, params, &mut budget).ok(),
        };
        guarded(method.name, self.about.asker.request, run).unwrap_or_else(|err| Some(Err(err)))
    }

    fn run(&mut self, id: Id, method: MethodRef) {
        let params = self.params();
        let request = self.about.asker.request;
        let before = self.stamper.as_ref().and_then(|stamper| stamper.now(&self.node));
        let answer = guarded(method.name, request, || (method.run)(&self.node, params)).flatten();
        // The view was taken in between.
        let after = self.stamper.take().and_then(|stamper| stamper.now(&self.node));
        let stamps = before.zip(after).map(|((before, _), (after, _))| (before, after));
        self.writer.stamp(stamps.filter(|(before, after)| before == after).map(|(it, _)| it));
        self.take(answer, id, method);
    }

    /// Takes what a method gave.
    fn take(&mut self, answer: MethodResult, id: Id, method: MethodRef) {
        match answer.map(methods::MethodOutput::into_kind) {
            Err(err) => self.refuse(&err, &id),
            Ok(OutputKind::Full(bytes)) => {
                // Nearly every body is one call, whose answer is then not copied.
                if self.out.is_empty() {
                    self.out = bytes;
                } else {
                    self.out.extend(bytes);
                }
                self.close_reply(id);
            }
            Ok(OutputKind::Streamed(pieces)) => {
                let begins_at = Some(self.out.len());
                self.out.extend_from_slice(methods::PREFIX);
                self.current = Some(Current { id, name: method.name, pieces, begins_at });
            }
        }
    }

    fn go_on(&mut self, mut current: Current, slice: &TimeSlice<'_>) {
        let (before, touched) = (self.out.len(), current.pieces.records_visited());
        let (name, request) = (current.name, self.about.asker.request);
        let wrote = guarded(name, request, || current.pieces.write(slice, &mut self.out)).flatten();
        self.made.records_visited += current.pieces.records_visited() - touched;
        if self.out.len() > before {
            current.begins_at = if wrote.is_ok() { None } else { current.begins_at };
        }
        match (wrote, current.begins_at) {
            (Ok(StreamState::More), _) => self.current = Some(current),
            (Ok(StreamState::Done), _) => self.close_reply(current.id),
            (Err(err), Some(begins_at)) => {
                self.out.truncate(begins_at);
                self.refuse(&err, &current.id);
            }
            // Part of it may be gone already: the pool ends the task, and with it the connection.
            (Err(err), None) => panic!("an answer failed after it had begun: {err}"),
        }
    }
}

impl Task for Job {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        if self.is_closed {
            return self.leave();
        }
        self.slice_began = self.node.pool.now();
        self.made.slices += 1;
        let waited = self.slice_began.saturating_sub(self.about.asker.arrived);
        self.made.waited.get_or_insert(waited);
        let step = self.work(slice).unwrap_or_else(|err| panic!("compress an answer: {err}"));
        if !self.is_closed {
            self.made.ran += self.node.pool.now().saturating_sub(self.slice_began);
        }
        step
    }

    fn on_end(&mut self, why: TaskEnd) {
        let outcome = match why {
            _ if self.made.bytes > 0 => Outcome::Truncated,
            TaskEnd::Cancelled => Outcome::Truncated,
            TaskEnd::Expired | TaskEnd::ExpiredWaiting => Outcome::Refused(OVERLOADED),
            TaskEnd::Panicked | TaskEnd::ShutDown => Outcome::Refused(RpcError::internal().code),
        };
        self.slice_began = self.node.pool.now();
        self.count(outcome);
        let lane = self.lane();
        for call in std::mem::take(&mut self.calls) {
            self.subject = Some((call.subject(), lane));
            self.count(outcome);
        }
        if !self.is_closed {
            self.tell();
        }
        self.writer.end(why);
    }
}

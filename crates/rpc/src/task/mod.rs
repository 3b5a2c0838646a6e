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

mod cache_fill;
mod output;
mod owned_call;
mod record;

use std::sync::Arc;
use std::time::Duration;

use cache::FillTicket;
use pool::{Task, TaskEnd, TaskPoll, TimeSlice};

use crate::cache_lookup::ATTEMPTS_MAX;
use crate::cached_response::{CachedResponse, ResponseBuilder, ResponseEncoder};
use crate::catch_panic::catch_panic;
use crate::dependencies::CacheableCall;
use crate::envelope::Id;
use crate::error::{OVERLOADED, RpcError};
use crate::etag::ValidatorBuilder;
use crate::memory_budget::CollectedResponse;
use crate::methods::{
    self, Class, InlineBudget, MethodRef, MethodResult, OutputKind, RESULT_CHUNK_BYTES,
    StreamState, StreamedResult,
};
use crate::metrics::{ExecutionPath, ExecutionStats, MethodLabel, Outcome};
use crate::node::Node;
use crate::params::Params;
use crate::response_channel::{ResponseReceiver, ResponseSender, response_channel};

use cache_fill::PendingFill;
pub(crate) use owned_call::{CachePolicy, OwnedCall, TaskInfo};

/// The calls of one body on their way.
pub(crate) struct CallTask {
    node: Arc<Node>,
    info: TaskInfo,
    calls: std::vec::IntoIter<OwnedCall>,
    answered: usize,
    /// Calls that were refused because there is too much to do.
    overloaded: usize,
    /// Written and not sent yet.
    out: Vec<u8>,
    active: Option<ActiveCall>,
    sender: ResponseSender,
    /// Everything is written, if not sent.
    is_closed: bool,
    /// The answer is collected for the cache instead of sent piece by piece.
    builder: Option<ResponseBuilder>,
    /// What was written before `out` and is too much to be sent at once.
    unsent: Option<CollectedResponse>,
    /// Of a batch: what was written before the answer that is collected.
    side_buffer: Vec<u8>,
    /// It is collected, and being coded; for the call of that id.
    encoder: Option<(ResponseEncoder, Id)>,
    /// What is looked for in the cache when the only call is begun.
    cache_fill: Option<(CacheableCall, FillTicket<CachedResponse>)>,
    /// Somebody makes the answer to the call that was begun last.
    pending_fill: Option<PendingFill>,
    /// What names the answer if it is long.
    validator_builder: Option<ValidatorBuilder>,
    /// What the call is of whose answer is being made, and where it comes from.
    label: Option<(MethodLabel, ExecutionPath)>,
    /// Of the call that was begun last.
    params: Option<Box<str>>,
    stats: ExecutionStats,
    slice_started: Duration,
}

/// A call whose answer is being made, or copied.
struct ActiveCall {
    id: Id,
    name: &'static str,
    result: Box<dyn StreamedResult>,
    /// Where in `out` the reply begins as long as nothing of the result is there.
    starts_at: Option<usize>,
}

impl CallTask {
    pub(crate) fn new(
        node: Arc<Node>,
        about: TaskInfo,
        calls: Vec<OwnedCall>,
    ) -> (Self, ResponseReceiver) {
        let asker = &about.context;
        let (writer, taker) = response_channel(asker.coding, asker.options, asker.request);
        let calls = calls.into_iter();
        let (out, current, aside, waiting) = (Vec::new(), None, Vec::new(), None);
        let (answered, overloaded, is_closed, keeping, coder) = (0, 0, false, None, None);
        let unsent = None;
        let job = Self {
            node,
            info: about,
            calls,
            answered,
            overloaded,
            out,
            active: current,
            sender: writer,
            is_closed,
            builder: keeping,
            unsent,
            side_buffer: aside,
            encoder: coder,
            cache_fill: None,
            pending_fill: waiting,
            validator_builder: None,
            label: None,
            params: None,
            stats: ExecutionStats { cache: about.cache, ..ExecutionStats::default() },
            slice_started: Duration::ZERO,
        };
        (job, taker)
    }

    /// The same for a single call that is looked for in the cache once its turn has come, and made for it.
    pub(crate) fn with_cache_fill(
        mut self,
        sought: Option<(CacheableCall, FillTicket<CachedResponse>)>,
    ) -> Self {
        self.cache_fill = sought;
        self
    }

    /// The same for a single call whose answer is to be named though it is long.
    pub(crate) fn with_validator_builder(mut self, stamper: Option<ValidatorBuilder>) -> Self {
        self.validator_builder = stamper;
        self
    }

    /// Works on until the slice is over; whether there is more.
    fn run_slice(&mut self, slice: &TimeSlice<'_>) -> std::io::Result<TaskPoll> {
        if !self.sender.has_capacity() {
            return Ok(TaskPoll::Wait);
        }
        loop {
            if self.out.len() >= RESULT_CHUNK_BYTES && self.unsent.is_none() && self.may_send() {
                self.flush_chunk()?;
                if !self.sender.has_capacity() {
                    return Ok(TaskPoll::Wait);
                }
            }
            if slice.is_cancelled() {
                return Ok(TaskPoll::More);
            }
            if let Some(unsent) = self.unsent.take() {
                self.drain_collected(unsent)?;
                if !self.sender.has_capacity() {
                    return Ok(TaskPoll::Wait);
                }
            } else if let Some(coder) = self.encoder.take() {
                if let Some(step) = self.encode_chunk(coder)? {
                    return Ok(step);
                }
            } else if let Some(waiting) = self.pending_fill.take() {
                if let Some(step) = self.poll_fill(waiting) {
                    return Ok(step);
                }
            } else if let Some(current) = self.active.take() {
                self.poll_call(current, slice);
            } else if let Some(call) = self.calls.next() {
                self.start_call(call);
            } else {
                return self.close();
            }
            if self.is_closed {
                return Ok(self.finish());
            }
            if slice.is_over() {
                return Ok(TaskPoll::More);
            }
        }
    }

    fn start_call(&mut self, call: OwnedCall) {
        if self.info.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        let (id, method, params, way) = match call {
            OwnedCall::Answered { text, label: subject, outcome } => {
                self.label = Some((subject, self.path()));
                self.out.extend(text);
                return self.record_call(outcome);
            }
            OwnedCall::Run { id, method, params, cache_policy: way } => (id, method, params, way),
        };
        (self.label, self.params) = (Some((method.label(), self.path())), params);
        if let Some((asked, turn)) = self.cache_fill.take() {
            return self.lookup_or_fill(asked, Some(turn), (id, method), ATTEMPTS_MAX);
        }
        match way {
            CachePolicy::Bypass => self.run_method(id, method),
            CachePolicy::LookupFirst => self.lookup(id, method),
            CachePolicy::ByCost => match self.run_if_cheap(method) {
                Some(answer) => self.accept_result(answer, id, method),
                None => self.lookup(id, method),
            },
        }
    }

    fn params(&self) -> Params<'_> {
        Params::new(self.params.as_deref()).sent_by(self.info.context.client)
    }

    fn path(&self) -> ExecutionPath {
        ExecutionPath::Pool(self.info.class)
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
        catch_panic(method.name, self.info.context.request, run)
            .unwrap_or_else(|err| Some(Err(err)))
    }

    fn run_method(&mut self, id: Id, method: MethodRef) {
        let params = self.params();
        let request = self.info.context.request;
        let before = self.validator_builder.as_ref().and_then(|stamper| stamper.build(&self.node));
        let answer =
            catch_panic(method.name, request, || (method.run)(&self.node, params)).flatten();
        // The view was taken in between.
        let after = self.validator_builder.take().and_then(|stamper| stamper.build(&self.node));
        let stamps = before.zip(after).map(|((before, _), (after, _))| (before, after));
        self.sender
            .set_validator(stamps.filter(|(before, after)| before == after).map(|(it, _)| it));
        self.accept_result(answer, id, method);
    }

    /// Takes what a method gave.
    fn accept_result(&mut self, answer: MethodResult, id: Id, method: MethodRef) {
        match answer.map(methods::MethodOutput::into_kind) {
            Err(err) => self.refuse(&err, &id),
            Ok(OutputKind::Full(bytes)) => {
                // Nearly every body is one call, whose answer is then not copied.
                if self.out.is_empty() {
                    self.out = bytes;
                } else {
                    self.out.extend(bytes);
                }
                self.close_response(id);
            }
            Ok(OutputKind::Streamed(pieces)) => {
                let begins_at = Some(self.out.len());
                self.out.extend_from_slice(methods::PREFIX);
                self.active = Some(ActiveCall {
                    id,
                    name: method.name,
                    result: pieces,
                    starts_at: begins_at,
                });
            }
        }
    }

    fn poll_call(&mut self, mut current: ActiveCall, slice: &TimeSlice<'_>) {
        let (before, touched) = (self.out.len(), current.result.records_visited());
        let (name, request) = (current.name, self.info.context.request);
        let wrote =
            catch_panic(name, request, || current.result.write(slice, &mut self.out)).flatten();
        self.stats.records_visited += current.result.records_visited() - touched;
        if self.out.len() > before {
            current.starts_at = if wrote.is_ok() { None } else { current.starts_at };
        }
        match (wrote, current.starts_at) {
            (Ok(StreamState::More), _) => self.active = Some(current),
            (Ok(StreamState::Done), _) => self.close_response(current.id),
            (Err(err), Some(begins_at)) => {
                self.out.truncate(begins_at);
                self.refuse(&err, &current.id);
            }
            // Part of it may be gone already: the pool ends the task, and with it the connection.
            (Err(err), None) => panic!("an answer failed after it had begun: {err}"),
        }
    }
}

impl Task for CallTask {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        if self.is_closed {
            return self.finish();
        }
        self.slice_started = self.node.pool.now();
        self.stats.slices += 1;
        let waited = self.slice_started.saturating_sub(self.info.context.arrived);
        self.stats.waited.get_or_insert(waited);
        let step = self.run_slice(slice).unwrap_or_else(|err| panic!("compress an answer: {err}"));
        if !self.is_closed {
            self.stats.ran += self.node.pool.now().saturating_sub(self.slice_started);
        }
        step
    }

    fn on_end(&mut self, why: TaskEnd) {
        let outcome = match why {
            _ if self.stats.bytes > 0 => Outcome::Truncated,
            TaskEnd::Cancelled => Outcome::Truncated,
            TaskEnd::Expired | TaskEnd::ExpiredWaiting => Outcome::Refused(OVERLOADED),
            TaskEnd::Panicked | TaskEnd::ShutDown => Outcome::Refused(RpcError::internal().code),
        };
        self.slice_started = self.node.pool.now();
        self.record_call(outcome);
        let lane = self.path();
        for call in std::mem::take(&mut self.calls) {
            self.label = Some((call.label(), lane));
            self.record_call(outcome);
        }
        if !self.is_closed {
            self.log_if_slow();
        }
        self.sender.send_end(why);
    }
}

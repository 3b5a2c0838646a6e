//! The calls of a body as a task of the CPU pool: methods run and their responses are written, one time slice
//! after another.
//!
//! Calls run one after another, so a body is one task however long its batch is, and it uses the memory of one
//! call.
//! A call of a batch is looked up in the response cache before it runs. A hit is copied part by part. A miss
//! that is worth caching is computed for all waiters, collected, and then copied as well. If another task is
//! computing the response, the task waits, and is not one of those that the pool is running.
//! Invariant: a response is sent only after its last fallible step has succeeded.
//! Invariant: a task that computes a response for others waits for nothing, not even its own client: it sends
//! nothing meanwhile, and what its batch had before is in the side buffer.
//!
//! The files: `cached_copy` (a cached response in a batch), `cache_fill` (a call
//! that uses the cache), `output` (sending what is written), `raw_copy` (raw bytes), `record` (metrics and log). Here: the
//! task itself, and running methods.

mod cache_fill;
mod cached_copy;
mod output;
mod raw_copy;
mod record;

use std::borrow::Cow;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use cpu_pool::{Class as PoolClass, Task, TaskEnd, TaskPoll, TimeSlice};
use response_cache::{
    CacheFill, CollectedResponse, RESULT_CHUNK_BYTES, ResponseBuilder, ResponseEncoder,
    ResultContext, Scheduled, ValidatorBuilder,
};

use crate::api::{Api, Execution, MethodRef, Preparation, Server};
use crate::catch_panic::catch_panic;
use crate::envelope::Id;
use crate::error::{OVERLOADED, RpcError};
use crate::method_output::{
    MethodOutput, MethodResult, OutputBody, OutputKind, RawValue, StreamState, StreamedResult,
};
use crate::metrics::{ExecutionPath, ExecutionStats, MethodLabel, Outcome};
use crate::params::Params;
use crate::planned_call::{CallPlan, DoneCall, Placement, PlannedCall};
use crate::request_context::RequestContext;
use crate::response_channel::{ResponseReceiver, ResponseSender, response_channel};

use raw_copy::RawCopy;

/// Facts about a body other than its calls.
#[derive(Clone, Copy)]
pub(crate) struct TaskInfo {
    pub(crate) context: RequestContext,
    pub(crate) class: PoolClass,
    /// Outcome of the cache lookup, for the log.
    pub(crate) cache: &'static str,
    /// Whether the responses are in an array.
    pub(crate) is_batch: bool,
}

/// The calls of one body while they run.
pub(crate) struct CallTask<A: Api> {
    server: Arc<Server<A>>,
    info: TaskInfo,
    calls: std::vec::IntoIter<CallPlan<'static, A>>,
    answered: usize,
    /// Calls that were refused because of overload.
    overloaded: usize,
    /// Bytes that are written and not sent yet.
    out: Vec<u8>,
    active: Option<ValueStream>,
    /// Context of the value that is being written.
    context: Option<ResultContext>,
    sender: ResponseSender,
    /// Everything is written, but may not be sent yet.
    is_closed: bool,
    /// Collects the response for the cache instead of sending it in chunks.
    builder: Option<ResponseBuilder>,
    /// Bytes before `out` that are too many to be sent at once.
    unsent: Option<CollectedResponse>,
    /// In a batch: the text before the response that is being collected.
    side_buffer: Vec<u8>,
    /// Encodes the collected response of the call with that id.
    encoder: Option<(ResponseEncoder, Id)>,
    /// The cache lookup to do when the only call starts.
    cache_fill: Option<CacheFill<Scheduled>>,
    /// Another task is computing the response to the last started call.
    pending_fill: Option<PendingFill<A>>,
    /// The last started call waits for something.
    pending_preparation: Option<PendingPreparation<A>>,
    /// Builds the validator of a long response.
    validator_builder: Option<ValidatorBuilder>,
    /// Method and execution path of the active call.
    label: Option<(MethodLabel, ExecutionPath)>,
    /// Params of the last started call.
    params: Option<Cow<'static, str>>,
    stats: ExecutionStats,
    slice_started: Duration,
    /// Why the response cannot be completed.
    failure: Option<ResponseFailure>,
}

/// Why a response cannot be completed, which is a bug. The client gets -32603, or a truncated response if a part of
/// it was sent.
#[derive(Debug, thiserror::Error)]
enum ResponseFailure {
    /// A method returned an error after a part of its result.
    #[error("a method failed after a part of its result was written")]
    PartialResult(#[source] RpcError),
    /// The response could not be compressed.
    #[error("compress a response")]
    Compression(#[from] std::io::Error),
}

/// A call that is being looked up in the cache.
struct PendingFill<A: Api> {
    id: Id,
    method: MethodRef<A>,
    fill: CacheFill<Scheduled>,
}

/// A call that waits for something before it runs.
struct PendingPreparation<A: Api> {
    id: Id,
    method: MethodRef<A>,
    placement: Placement,
    preparation: Box<dyn Preparation>,
}

/// The value of a call while it is computed, or copied from the cache.
struct ValueStream {
    id: Id,
    name: &'static str,
    result: Box<dyn StreamedResult>,
    /// Offset in `out` at which the response starts, while nothing of the value is written.
    starts_at: Option<usize>,
}

impl<A: Api> CallTask<A> {
    pub(crate) fn new(
        server: Arc<Server<A>>,
        info: TaskInfo,
        calls: Vec<CallPlan<'static, A>>,
    ) -> (Self, ResponseReceiver) {
        let context = &info.context;
        let (sender, receiver) = response_channel(
            context.coding,
            context.options,
            context.request,
            Arc::clone(&server.context.http.metrics),
        );
        let calls = calls.into_iter();
        let task = Self {
            server,
            info,
            calls,
            answered: 0,
            overloaded: 0,
            out: Vec::new(),
            active: None,
            context: None,
            sender,
            is_closed: false,
            builder: None,
            unsent: None,
            side_buffer: Vec::new(),
            encoder: None,
            cache_fill: None,
            pending_fill: None,
            pending_preparation: None,
            validator_builder: None,
            label: None,
            params: None,
            stats: ExecutionStats { cache: info.cache, ..ExecutionStats::default() },
            slice_started: Duration::ZERO,
            failure: None,
        };
        (task, receiver)
    }

    /// The calls of a task that the pool refused.
    pub(crate) fn into_calls(self) -> Vec<CallPlan<'static, A>> {
        self.calls.collect()
    }

    /// A task for a single call that is looked up in the cache when it starts, and may fill it.
    pub(crate) fn with_cache_fill(mut self, cache_fill: Option<CacheFill<Scheduled>>) -> Self {
        self.cache_fill = cache_fill;
        self
    }

    /// A task for a single call whose response needs a validator even if it is long.
    pub(crate) fn with_validator_builder(
        mut self,
        validator_builder: Option<ValidatorBuilder>,
    ) -> Self {
        self.validator_builder = validator_builder;
        self
    }

    /// Runs until the slice is over; returns whether there is more.
    fn run_slice(&mut self, slice: &TimeSlice<'_>) -> Result<TaskPoll, ResponseFailure> {
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
            } else if let Some(encoder) = self.encoder.take() {
                if let Some(poll) = self.encode_chunk(encoder)? {
                    return Ok(poll);
                }
            } else if let Some(pending) = self.pending_fill.take() {
                // Checked first: a completion after this check wakes the task.
                let can_be_woken = self.sender.waker().is_set();
                self.poll_fill(pending);
                if self.pending_fill.is_some() {
                    return Ok(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
                }
            } else if let Some(mut pending) = self.pending_preparation.take() {
                let waker = self.sender.waker();
                let can_be_woken = self.sender.waker().is_set();
                let wake = || Waker::from(Arc::clone(waker));
                if pending.preparation.poll_ready(&wake).is_pending() {
                    self.pending_preparation = Some(pending);
                    return Ok(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
                }
                self.finish_preparation(pending);
            } else if let Some(mut active) = self.active.take() {
                let waker = self.sender.waker();
                let can_be_woken = self.sender.waker().is_set();
                if active.result.poll_ready(&|| Waker::from(Arc::clone(waker))).is_pending() {
                    self.active = Some(active);
                    return Ok(if can_be_woken { TaskPoll::Wait } else { TaskPoll::More });
                }
                self.poll_call(active, slice);
            } else if let Some(call) = self.calls.next() {
                self.start_call(call);
            } else {
                return Ok(self.close()?);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.is_closed {
                return Ok(self.finish());
            }
            if slice.is_over() {
                return Ok(TaskPoll::More);
            }
        }
    }

    fn start_call(&mut self, call: CallPlan<'static, A>) {
        if self.info.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        self.label = Some((call.label(), self.path()));
        let PlannedCall { id, method, text, placement, .. } = match call {
            CallPlan::Run(call) => call,
            CallPlan::Done(call) => return self.accept_done(call),
        };
        self.params = text;
        if let Some(fill) = self.cache_fill.take() {
            return self.poll_fill(PendingFill { id, method, fill });
        }
        let params = self.params();
        let prepare = || self.server.api.prepare(method.name, params);
        match catch_panic(method.name, self.info.context.request, prepare).flatten() {
            Ok(None) => self.run_prepared(id, method, placement),
            Ok(Some(preparation)) => {
                let pending = PendingPreparation { id, method, placement, preparation };
                self.pending_preparation = Some(pending);
            }
            Err(err) => self.refuse(&err, &id),
        }
    }

    /// Runs a call whose preparation is over, or refuses it.
    fn finish_preparation(&mut self, pending: PendingPreparation<A>) {
        let PendingPreparation { id, method, placement, preparation } = pending;
        let finish = || preparation.finish();
        match catch_panic(method.name, self.info.context.request, finish).flatten() {
            Ok(()) => self.run_prepared(id, method, placement),
            Err(err) => self.refuse(&err, &id),
        }
    }

    fn run_prepared(&mut self, id: Id, method: MethodRef<A>, placement: Placement) {
        match placement {
            // A single call was looked up before it got its task.
            _ if !self.info.is_batch => self.run_method(id, method),
            Placement::Inline => self.run_method(id, method),
            Placement::Pool(_) => self.lookup(id, method),
            Placement::Undecided => match self.run_if_cheap(method) {
                Some(result) => self.accept_result(result, id, method.name),
                None => self.lookup(id, method),
            },
        }
    }

    fn params(&self) -> Params<'_> {
        self.info.context.params(self.params.as_deref())
    }

    fn path(&self) -> ExecutionPath {
        ExecutionPath::Pool(self.info.class)
    }

    /// The result of a call that would run without the pool if it were single; `None` for any other call.
    fn run_if_cheap(&self, method: MethodRef<A>) -> Option<MethodResult> {
        let params = self.params();
        let mut budget = self.server.inline_budget();
        let run = || match method.execution {
            Execution::Inline => Some((method.run)(&self.server.api, params)),
            Execution::Light | Execution::Medium => None,
            Execution::ByCost { class, .. } => match class(&self.server.api, params, &mut budget) {
                None => Some((method.run)(&self.server.api, params)),
                Some(_) => None,
            },
            Execution::TryInline(run) => run(&self.server.api, params, &mut budget).ok(),
        };
        catch_panic(method.name, self.info.context.request, run)
            .unwrap_or_else(|err| Some(Err(err)))
    }

    fn run_method(&mut self, id: Id, method: MethodRef<A>) {
        let params = self.params();
        let request = self.info.context.request;
        let api = &self.server.api;
        let cache = &self.server.context.response_cache;
        let build = |builder: &ValidatorBuilder| builder.build(cache.process_key(), api);
        let before = self.validator_builder.as_ref().and_then(build);
        let result =
            catch_panic(method.name, request, || (method.run)(&self.server.api, params)).flatten();
        // The method took its view between the two.
        let after = self.validator_builder.as_ref().and_then(build);
        let validators = before.zip(after).map(|((before, _), (after, _))| (before, after));
        self.sender.set_validator(
            validators.filter(|(before, after)| before == after).map(|(validator, _)| validator),
        );
        self.accept_result(result, id, method.name);
    }

    /// Accepts a call that had its result before the task started.
    fn accept_done(&mut self, DoneCall { id, versioned, label, result, .. }: DoneCall) {
        match result {
            Err(err) if !versioned => self.refuse_unversioned(&err, &id),
            result => {
                let name = self.server.context.metrics.method_name(label);
                self.accept_result(result, id, name);
            }
        }
    }

    /// Accepts the result of the method with this name.
    fn accept_result(&mut self, result: MethodResult, id: Id, name: &'static str) {
        match result.map(MethodOutput::into_kind) {
            Err(err) => self.refuse(&err, &id),
            Ok(OutputKind::Json(context, OutputBody::Full(value))) => {
                self.start_value(context);
                self.out.extend_from_slice(value.as_bytes());
                self.close_response(id);
            }
            Ok(OutputKind::Json(context, OutputBody::Streamed(result))) => {
                let starts_at = Some(self.out.len());
                self.start_value(context);
                self.active = Some(ValueStream { id, name, result, starts_at });
            }
            Ok(OutputKind::Raw(RawValue { slot, fields, bytes })) => {
                if !self.sender.start_raw(slot, fields) {
                    return self.refuse(&RpcError::internal(), &id);
                }
                let result = Box::new(RawCopy::new(bytes));
                let starts_at = Some(self.out.len());
                self.active = Some(ValueStream { id, name, result, starts_at });
            }
        }
    }

    fn poll_call(&mut self, mut active: ValueStream, slice: &TimeSlice<'_>) {
        let before = self.out.len();
        let visited = active.result.records_visited();
        let name = active.name;
        let request = self.info.context.request;
        let written =
            catch_panic(name, request, || active.result.write(slice, &mut self.out)).flatten();
        self.stats.records_visited += active.result.records_visited() - visited;
        if self.out.len() > before {
            active.starts_at = if written.is_ok() { None } else { active.starts_at };
        }
        match (written, active.starts_at) {
            (Ok(StreamState::More), _) => self.active = Some(active),
            (Ok(StreamState::Done), _) => self.close_response(active.id),
            (Err(err), Some(starts_at)) => {
                self.out.truncate(starts_at);
                self.refuse(&err, &active.id);
            }
            // A part may have been sent already.
            (Err(err), None) => self.failure = Some(ResponseFailure::PartialResult(err)),
        }
    }

    /// Ends the task without the rest of its response. The receiver sees that the channel is closed.
    fn fail(&mut self, failure: &ResponseFailure) -> TaskPoll {
        let request = self.info.context.request;
        let err: &(dyn std::error::Error + 'static) = failure;
        tracing::error!(%request, err, "a response could not be completed");
        self.record_end(Outcome::Refused(RpcError::internal().code));
        TaskPoll::Done
    }

    /// Counts and logs the calls that get no response.
    fn record_end(&mut self, outcome: Outcome) {
        self.record_call(outcome);
        let path = self.path();
        for call in std::mem::take(&mut self.calls) {
            self.label = Some((call.label(), path));
            self.record_call(outcome);
        }
        if !self.is_closed {
            self.log_if_slow();
        }
    }
}

impl<A: Api> Task for CallTask<A> {
    fn poll(&mut self, slice: &TimeSlice<'_>) -> TaskPoll {
        if self.is_closed {
            return self.finish();
        }
        self.slice_started = self.server.context.pool.now();
        self.stats.slices += 1;
        let waited = self.slice_started.saturating_sub(self.info.context.arrived);
        self.stats.waited.get_or_insert(waited);
        let poll = match self.run_slice(slice) {
            Ok(poll) => poll,
            Err(failure) => return self.fail(&failure),
        };
        if !self.is_closed {
            self.stats.ran += self.server.context.pool.now().saturating_sub(self.slice_started);
        }
        poll
    }

    fn on_end(&mut self, why: TaskEnd) {
        let outcome = match why {
            _ if self.stats.bytes > 0 => Outcome::Truncated,
            TaskEnd::Cancelled => Outcome::Truncated,
            TaskEnd::Expired | TaskEnd::ExpiredWaiting => Outcome::Refused(OVERLOADED),
            TaskEnd::Panicked | TaskEnd::ShutDown => Outcome::Refused(RpcError::internal().code),
        };
        self.slice_started = self.server.context.pool.now();
        self.record_end(outcome);
        self.sender.send_end(why);
    }
}

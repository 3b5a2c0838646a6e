//! Calls one method by its name, for an interface other than JSON-RPC: with the same methods, classes, limits
//! and streaming.
//!
//! In: the name of a method, its parameters as JSON, and the options for its result
//! ([`crate::ResponseOptions`]). Out: the metadata of the result, and its bytes, in chunks if they are many.
//! Bounds: those of `dispatch`, and [`crate::ResponseOptions::etag_buffer_bytes_max`].
//! Invariant: dropping the result of [`MethodClient::call`], or its future, ends the task behind it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::ClientId;
use http_server::{ContentEncoding, PageAccess, RequestId, ResponseBody, poll_budget};
use ledger::{Commitment, Slot};

use crate::api::{Api, Server};
use crate::dispatch::{self, CachedBody, JsonRpcResponse, WatchedCall};
use crate::error::RpcError;
use crate::metrics::Rejection;
use crate::offload::{self, INLINE_BODY_BYTES_MAX};
use crate::request_context::RequestContext;
use crate::server_context::ServerContext;
use crate::state_slots::{RequiredSlots, StateRequest, StateRequirement, StateSlots};
use crate::trace_parent::TraceParent;
use crate::value_response::{ResponseMeta, ResponseOptions};

/// The client and the id of a request, for rate limits, fair scheduling and the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct MethodClient {
    client: ClientId,
    request: RequestId,
    trace: Option<TraceParent>,
    page_access: PageAccess,
    reached: Option<IpAddr>,
    min_slot: Option<Slot>,
}

/// A result: its metadata, and its bytes.
pub struct MethodResponse {
    /// Metadata, which is known before any of it is sent.
    pub meta: ResponseMeta,
    /// Content encoding of the response.
    pub coding: ContentEncoding,
    /// Its bytes, at the rate at which they are read. They are counted against the client's byte rate when they
    /// are sent.
    pub body: ResponseBody,
}

impl MethodClient {
    pub(crate) fn new(
        client: ClientId,
        request: RequestId,
        trace: Option<TraceParent>,
        page_access: PageAccess,
        reached: Option<IpAddr>,
    ) -> Self {
        Self { client, request, trace, page_access, reached, min_slot: None }
    }

    /// Sets the slot that the request requires of the state of its response.
    pub(crate) fn with_min_slot(self, min_slot: Option<Slot>) -> Self {
        Self { min_slot, ..self }
    }

    /// Whether the state at a commitment has reached the slot that the request requires.
    pub fn has_min_slot<A: Api>(self, server: &Server<A>, commitment: Commitment) -> bool {
        self.min_slot.is_none_or(|slot| server.api.version_and_slot(commitment).1 >= slot)
    }

    /// Waits until the state at a commitment has reached the slot that the request requires. Calls by this client do
    /// not wait for it: an interface knows the commitment of its response before it calls.
    ///
    /// Errors: -32016 if the slot is not reached in time, -32005 if too many requests wait.
    pub async fn wait_for_min_slot<A: Api>(
        self,
        server: &Server<A>,
        commitment: Commitment,
    ) -> Result<(), RpcError> {
        if self.has_min_slot(server, commitment) {
            return Ok(());
        }
        let request = StateRequest { commitment, min_slot: None };
        let requirement = StateRequirement::new(request, self.min_slot);
        let waits = &server.context.slot_waits;
        let mut slots = StateSlots::read(&server.api);
        if waits.are_enabled() {
            let mut required = RequiredSlots::default();
            requirement.add_to(&mut required);
            // In a box, because nearly no request waits.
            let waited = Box::pin(waits.wait(&server.api, self.client, required)).await;
            slots = waited.inspect_err(|_| {
                server.context.metrics.record_rejection(Rejection::Waits);
            })?;
        }
        requirement.check_header(slots, waits.time_limit())
    }

    /// Id of the request in the log.
    pub fn request(self) -> RequestId {
        self.request
    }

    /// The client, for its shares of what clients have in common.
    pub fn client(self) -> ClientId {
        self.client
    }

    /// Whether the request may call dangerous methods, and cause other work that a page of another site may not.
    pub fn page_access(self) -> PageAccess {
        self.page_access
    }

    /// The address of the node on which the request arrived, on which the results of some methods depend.
    pub fn reached(self) -> Option<IpAddr> {
        self.reached
    }

    /// Counts one request against the client's rate limit; -32005 if it exceeds the limit.
    pub fn admit(self, server: &ServerContext) -> Result<(), RpcError> {
        server.admit(self.client, 1).map_err(|too_many| RpcError::too_many(&too_many))
    }

    /// Runs `read` on this thread if `bytes` is small, otherwise on the CPU pool. `read` owns the data of the
    /// client, which has `bytes` bytes.
    ///
    /// Errors: -32005 if the pool is full, -32603 if `read` panics.
    pub async fn parse_offloaded<T: Send + 'static>(
        self,
        server: &ServerContext,
        bytes: usize,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        if bytes <= INLINE_BODY_BYTES_MAX {
            return Ok(read());
        }
        offload::run_on_pool(server, offload::class_of(bytes), self.client, read).await
    }

    /// Counts sent bytes against the client's byte rate.
    pub fn charge(self, server: &ServerContext, bytes: usize) {
        server.charge(self.client, bytes);
    }

    /// Metadata of a result that is cached or too long to be hashed, without computing it, if `is_known` says that the
    /// client has the result with that [`ResponseMeta::etag`], which is that of the current state.
    ///
    /// Cost: it parses the parameters and looks up the dependencies: some microseconds.
    /// Errors: as [`Self::call`], about the limits of the client.
    pub fn revalidate<A: Api>(
        self,
        server: &Server<A>,
        method: &str,
        params: &str,
        options: ResponseOptions,
        is_known: impl Fn(&[u8; 16]) -> bool,
    ) -> Result<Option<ResponseMeta>, RpcError> {
        let context = self.request_context(server.context.pool.now(), options);
        let Some(meta) = dispatch::revalidate(server, context, method, params, is_known) else {
            return Ok(None);
        };
        dispatch::admit_method(server, self.client, method)?;
        if let Some(method) = server.find_method(method) {
            dispatch::record_current_result(&server.context, &context, method.label());
        }
        Ok(Some(meta))
    }

    /// Starts to watch the dependencies of a call's result, before the call. `None` if they are not known. If these are
    /// more than `records_max` records, the block is watched instead.
    ///
    /// Cost: as [`Self::revalidate`].
    pub fn watch_call<A: Api>(
        self,
        server: &Server<A>,
        method: &str,
        params: &str,
        options: ResponseOptions,
        records_max: usize,
    ) -> Option<WatchedCall> {
        let context = self.request_context(server.context.pool.now(), options);
        dispatch::watch_call(server, &context, method, params, records_max)
    }

    /// Ends the watch of calls whose results were computed. `None` if a result may no longer be current.
    pub fn finish_watch<A: Api>(
        self,
        server: &Server<A>,
        calls: Vec<WatchedCall>,
    ) -> Option<Box<[WatchedCall]>> {
        let finish = |call: WatchedCall| {
            Some(WatchedCall { result: call.result.finish(&server.api)?, ..call })
        };
        calls.into_iter().map(finish).collect()
    }

    /// Returns whether the results of these calls, which were sent before, are still current. If so, the calls count as
    /// made by a request that was complete at `arrived`, by the clock of the pool.
    ///
    /// Errors: as [`Self::call`], about the limits of the client.
    pub fn repeat_watched<A: Api>(
        self,
        server: &Server<A>,
        calls: &[WatchedCall],
        arrived: Duration,
    ) -> Result<bool, RpcError> {
        let context = self.request_context(arrived, ResponseOptions::default());
        if server.context.health.withholds_state()
            || !calls.iter().all(|call| call.is_current(server, &context))
        {
            return Ok(false);
        }
        for call in calls {
            dispatch::admit_method(server, self.client, call.method)?;
            dispatch::record_current_result(&server.context, &context, call.label);
        }
        Ok(true)
    }

    /// Returns a body of complete parts. Its bytes are counted against the client's byte rate as they are sent.
    pub fn complete_body(self, server: &ServerContext, parts: Vec<Bytes>) -> ResponseBody {
        server.cached_body(self.client, parts)
    }

    fn request_context(self, arrived: Duration, options: ResponseOptions) -> RequestContext {
        let Self { client, request, trace, page_access, reached, min_slot: _ } = self;
        RequestContext {
            client,
            coding: options.coding,
            options: Some(options),
            request,
            trace,
            page_access,
            reached,
            arrived,
            min_slot: None,
            slots: StateSlots::default(),
        }
    }

    /// Runs a method where its class says, on parameters that are a JSON array. Long parameters are parsed on
    /// the CPU pool.
    ///
    /// Errors: those of the method, -32005 if the pool is full or the client exceeded a limit of the method, and -32601
    /// if the client may not call it.
    pub async fn call<A: Api>(
        self,
        server: &Arc<Server<A>>,
        method: &str,
        params: &str,
        options: ResponseOptions,
    ) -> Result<MethodResponse, RpcError> {
        dispatch::admit_method(server, self.client, method)?;
        let context = self.request_context(server.context.pool.now(), options);
        poll_budget::charge(params.len());
        let response = dispatch::call_method(server, context, method, params).await;
        let (meta, coding, body) = match response {
            JsonRpcResponse::Empty => return Err(RpcError::internal()),
            JsonRpcResponse::Inline(whole) | JsonRpcResponse::Pooled(whole, None) => {
                let meta = whole.meta.ok_or_else(RpcError::internal)?;
                (*meta, whole.coding, whole.bytes.into())
            }
            JsonRpcResponse::Cached(CachedBody { parts, coding, meta, .. }) => {
                (meta, coding, server.context.cached_body(self.client, parts))
            }
            JsonRpcResponse::Pooled(mut first, Some(rest)) => {
                let meta = first.meta.take().ok_or_else(RpcError::internal)?;
                let coding = first.coding;
                (*meta, coding, server.context.streamed_body(self.client, first, rest))
            }
        };
        match meta.err {
            Some(err) => Err(err),
            None => Ok(MethodResponse { meta, coding, body }),
        }
    }
}

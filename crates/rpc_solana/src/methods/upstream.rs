//! Results that only the upstream of a followed chain has.
//!
//! The call waits in the pool without occupying a thread.

use std::task::{Poll, Waker};

use chain_solana::{UpstreamCall, UpstreamError};
use cpu_pool::TimeSlice;
use jsonrpc::error::{OVERLOADED, RpcError};
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult};

use crate::solana_api::SolanaApi;

/// Forwards a call to the upstream; `None` if there is no upstream.
pub(super) fn call(
    api: &SolanaApi,
    method: &'static str,
    params: Option<&str>,
) -> Option<MethodResult> {
    let upstream = api.upstream.as_ref()?;
    let call = upstream.call(method, params.unwrap_or("[]"));
    let stream = |call| MethodOutput::streamed(None, ForwardedCall(Some(call)));
    Some(call.map(stream).map_err(error))
}

/// A call that waits for the upstream.
struct ForwardedCall(Option<UpstreamCall>);

impl StreamedResult for ForwardedCall {
    fn poll_ready(&mut self, waker: &dyn Fn() -> Waker) -> Poll<()> {
        self.0.as_ref().map_or(Poll::Ready(()), |call| call.poll(waker))
    }

    fn write(&mut self, _: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some(call) = self.0.take() {
            out.extend_from_slice(&call.wait().map_err(error)?);
        }
        Ok(StreamState::Done)
    }
}

fn error(err: UpstreamError) -> RpcError {
    let text = err.to_string();
    match err {
        UpstreamError::Refused { code, message, data } => RpcError { code, message, data },
        UpstreamError::Unreachable(_) => RpcError::internal_with(text),
        UpstreamError::TooMany { .. } => RpcError::new(OVERLOADED, text),
    }
}

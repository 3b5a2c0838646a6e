//! A call that waits for the ledger's writer, as a result that is written once it has arrived.

use std::task::{Poll, Waker};

use chain_solana::{ForkCall, ForkControlError};
use cpu_pool::TimeSlice;
use jsonrpc::error::{OVERLOADED, RpcError};
use jsonrpc::{StreamState, StreamedResult, write_json};
use serde_json::Value;

/// A call, and the encoder of its result.
pub(super) struct PendingCall<T> {
    call: Option<ForkCall<T>>,
    to_json: fn(T) -> Value,
}

impl<T> PendingCall<T> {
    pub(super) fn new(call: ForkCall<T>, to_json: fn(T) -> Value) -> Self {
        Self { call: Some(call), to_json }
    }
}

impl<T: Send> StreamedResult for PendingCall<T> {
    fn poll_ready(&mut self, waker: &dyn Fn() -> Waker) -> Poll<()> {
        self.call.as_ref().map_or(Poll::Ready(()), |call| call.poll(waker))
    }

    fn write(&mut self, _: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if let Some(call) = self.call.take() {
            let result = call.wait().map_err(|err| error(&err))?;
            write_json(out, &(self.to_json)(result))?;
        }
        Ok(StreamState::Done)
    }
}

fn error(err: &ForkControlError) -> RpcError {
    let text = err.to_string();
    match err {
        ForkControlError::OutOfRange { .. }
        | ForkControlError::UnknownSnapshot { .. }
        | ForkControlError::TooDeep { .. } => RpcError::invalid_params(text),
        ForkControlError::TooMany { .. } => RpcError::new(OVERLOADED, text),
        ForkControlError::Closed => RpcError::internal_with(text),
    }
}

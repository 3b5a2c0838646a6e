//! A wall around the code of a method.
//!
//! Not here: tasks, around each of which the pool has its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::RpcError;
use crate::request_id::RequestId;

/// Runs a method's code; a panic in it is the answer to this call and nothing more.
pub(crate) fn catch_panic<T>(
    name: &str,
    request: RequestId,
    run: impl FnOnce() -> T,
) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(%request, method = name, "a method panicked; its request got -32603");
        RpcError::internal()
    })
}

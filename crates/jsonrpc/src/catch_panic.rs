//! Isolates panics in the code of a method.
//!
//! Not here: tasks. The pool does the same for each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http_server::RequestId;

use crate::error::RpcError;

/// Runs a method's code. A panic is an error of this call only.
pub fn catch_panic<T>(
    name: &str,
    request: RequestId,
    run: impl FnOnce() -> T,
) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(%request, method = name, "a method panicked; its request got -32603");
        RpcError::internal()
    })
}

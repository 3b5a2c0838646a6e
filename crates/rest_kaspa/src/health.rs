//! The health of the node: 200, or 503 if it is not in sync.

use bytes::Bytes;
use http_server::{NO_STORE, ResponseBody};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::error::RpcError;
use jsonrpc::{Server, Status};
use rest::{ApiError, JSON_MEDIA, MethodCall, RequestContext};
use rpc_kaspa::KaspaApi;
use serde_json::Value;

/// Responds with the health of the chain and of the server. It is not cached.
pub(crate) async fn respond(
    context: &RequestContext<'_, KaspaApi>,
    call: &MethodCall,
) -> Result<Response<ResponseBody>, ApiError> {
    let result = context.call_short(call).await?;
    let mut health: Value =
        serde_json::from_slice(&result.json).map_err(|_| RpcError::internal())?;
    let is_synced = &mut health["database"]["isSynced"];
    if !is_server_healthy(context.server) {
        *is_synced = false.into();
    }
    let status = match is_synced.as_bool() {
        Some(true) => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = Response::new(ResponseBody::from(Bytes::from(health.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_MEDIA));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    Ok(response)
}

fn is_server_healthy(server: &Server<KaspaApi>) -> bool {
    server.context.health.status() == Status::Ok
}

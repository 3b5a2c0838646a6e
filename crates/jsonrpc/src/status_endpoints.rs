//! `/health`, `/ready` and `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use ::metrics::MEDIA_TYPE;
use clients::ClientId;
use http_server::{NO_STORE, ResponseBody, response, text_response};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::health::Status;
use crate::server_context::ServerContext;

/// Headers of a node that is behind: by how many slots, and for how long there has been no new block.
const SLOTS_BEHIND: HeaderName = HeaderName::from_static("hydrant-slots-behind");
const LAST_BLOCK_AGE_MS: HeaderName = HeaderName::from_static("hydrant-last-block-age-ms");

/// The texts of Agave, always with status 200 as there; headers say how far the node is behind.
/// 503 while the node drains.
pub(crate) fn health(server: &ServerContext) -> Response<ResponseBody> {
    if server.is_draining() {
        return draining("draining");
    }
    let (message, slots) = match server.health.status() {
        Status::Ok => return text_response(StatusCode::OK, "ok"),
        Status::Behind { slots } => ("behind", Some(slots)),
        Status::Unknown => ("unknown", None),
    };
    let mut response = text_response(StatusCode::OK, message);
    let headers = response.headers_mut();
    if let Some(slots) = slots {
        headers.insert(SLOTS_BEHIND, slots.into());
    }
    if let Some(age) = last_block_age(server) {
        headers.insert(LAST_BLOCK_AGE_MS, (age.as_millis() as u64).into());
    }
    response
}

/// Whether a load balancer should send requests here: 200, or 503 with the reason. A second line has the warning.
pub(crate) fn ready(server: &ServerContext) -> Response<ResponseBody> {
    if server.is_draining() {
        return draining("draining\n");
    }
    let warning = server.health.warning().map(|warning| format!("{warning}\n"));
    let warning = warning.unwrap_or_default();
    let why = match server.health.status() {
        Status::Ok => return fresh(text_response(StatusCode::OK, format!("ready\n{warning}"))),
        Status::Behind { slots } => format!("behind by {slots} slots"),
        Status::Unknown => match server.health.reason() {
            Some(reason) => format!("unknown: {reason}"),
            None => "unknown".to_owned(),
        },
    };
    let age =
        last_block_age(server).map(|age| format!(", last block {:.1} s ago", age.as_secs_f64()));
    let why = format!("{why}{}\n{warning}", age.unwrap_or_default());
    fresh(text_response(StatusCode::SERVICE_UNAVAILABLE, why))
}

/// The state of a node that ends. The connection is closed, so that it does not delay the end.
fn draining(text: &'static str) -> Response<ResponseBody> {
    let mut response = fresh(text_response(StatusCode::SERVICE_UNAVAILABLE, text));
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn last_block_age(server: &ServerContext) -> Option<Duration> {
    let [processed, ..] = server.health.slot_ages(server.pool.now())?;
    Some(processed)
}

/// Metrics are collected on the CPU pool, because that walks the ledger. The request counts against the
/// client's rate limit.
pub(crate) async fn serve_metrics(
    server: &ServerContext,
    client: ClientId,
) -> Response<ResponseBody> {
    if !server.may_read_metrics(client) {
        let message = "this client may not read the metrics (tiers.metrics)\n";
        return text_response(StatusCode::FORBIDDEN, message);
    }
    if let Err(too_many) = server.admit(client, 1) {
        let mut response = text_response(StatusCode::TOO_MANY_REQUESTS, format!("{too_many}\n"));
        let seconds = too_many.retry_after.as_secs() + 1;
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        return response;
    }
    match server.metrics.scrape(Arc::new(server.clone())).await {
        Some(text) => {
            server.charge(client, text.len());
            let media = HeaderValue::from_static(MEDIA_TYPE);
            fresh(response(StatusCode::OK, media, text.into()))
        }
        None => {
            text_response(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be collected\n")
        }
    }
}

fn fresh(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    response
}

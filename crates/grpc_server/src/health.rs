//! The health service (`grpc.health.v1.Health`) of a server.

use std::sync::Arc;

use clients::Share;
use futures_util::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service as _, http};
use tonic_health::pb::health_server::{Health, HealthServer};

use crate::call::Call;
use crate::compression::Compression;
use crate::counters::Event;
use crate::refusal::RefusedCall;
use crate::request_body::RequestBody;
use crate::server_state::ServerState;
use crate::shares;

type BoxedService = Box<
    dyn Fn(http::Request<RequestBody>) -> BoxFuture<'static, http::Response<Body>> + Send + Sync,
>;

/// The health service, as a function from request to response.
pub(crate) struct HealthCalls(BoxedService);

/// The response to a call, with the unit that a stream has of its client's share.
pub(crate) struct HealthResponse {
    pub(crate) response: http::Response<Body>,
    pub(crate) share: Option<Share>,
}

/// A call that was admitted.
struct OpenedCall {
    /// The health service reads the method there.
    uri: http::Uri,
    share: Option<Share>,
}

impl HealthCalls {
    pub(crate) fn new(health: HealthServer<impl Health>) -> Self {
        Self(Box::new(move |request| {
            let mut health = health.clone();
            Box::pin(async move {
                match health.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            })
        }))
    }

    /// Serves a call. Its client is an address.
    pub(crate) async fn serve(
        &self,
        state: &Arc<ServerState>,
        call: Call,
        method: &'static str,
    ) -> Result<HealthResponse, RefusedCall> {
        let OpenedCall { uri, share } = match open(state, &call, method) {
            Ok(opened) => opened,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let mut request = call.into_counted_request(state);
        *request.uri_mut() = uri;
        Ok(HealthResponse { response: (self.0)(request).await, share })
    }
}

/// Checks a call, and counts a stream.
fn open(state: &ServerState, call: &Call, method: &'static str) -> Result<OpenedCall, Status> {
    if Compression::from_request(&call.headers)?.is_some() {
        return Err(Status::unimplemented("the health service reads no compressed messages"));
    }
    match method {
        "Check" => {
            let uri = http::Uri::from_static("/grpc.health.v1.Health/Check");
            Ok(OpenedCall { uri, share: None })
        }
        "Watch" => {
            let uri = http::Uri::from_static("/grpc.health.v1.Health/Watch");
            let share = shares::acquire_unit(&state.shares.health, call.client);
            let share = share.inspect_err(|_| state.counters.record(Event::SubscriptionRefused))?;
            Ok(OpenedCall { uri, share: Some(share) })
        }
        _ => Err(Status::unimplemented("this method is not served")),
    }
}

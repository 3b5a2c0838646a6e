//! From a call to its response: the method, the token, the rate, the permits of a subscription.

use std::sync::Arc;

use api_keys::Permit;
use clients::ClientId;
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

use crate::access::Access;
use crate::call::Call;
use crate::connection_context::ConnectionContext;
use crate::counters::Event;
use crate::guarded_body::attach_guard;
use crate::health::{HealthCalls, HealthResponse};
use crate::method::Method;
use crate::refusal::{Refusal, RefusedCall};
use crate::server_state::ServerState;
use crate::shares;
use crate::stream_permits::StreamPermits;

/// A service, which serves the calls of admitted clients.
pub trait Service: Send + Sync + 'static {
    /// The name in the paths of its calls: `package.Service`.
    const NAME: &'static str;
    /// The names of its methods. Not all of them need to be served.
    const METHODS: &'static [&'static str];

    /// Returns whether a method is a subscription, for which an API key needs a permit.
    fn is_stream(method: &str) -> bool;

    /// Returns whether the health service reports `SERVING` from the start on.
    fn is_serving(&self) -> bool {
        true
    }

    /// Serves a call, which is due at the rate of its client. `method` is one of [`Self::METHODS`], or `unknown`. `key`
    /// is the permit of an API key for a stream.
    ///
    /// Errors: the refusal of a call, with its unread body.
    fn serve(
        &self,
        call: Call,
        method: &'static str,
        connection: &ConnectionContext,
        key: Option<Permit>,
    ) -> impl Future<Output = Result<http::Response<Body>, RefusedCall>> + Send;
}

/// The calls of a server: those of its service, and of the health service.
pub(crate) struct Dispatcher<S> {
    pub(crate) state: Arc<ServerState>,
    pub(crate) service: S,
    pub(crate) health: HealthCalls,
    pub(crate) access: Access,
}

impl<S: Service> Dispatcher<S> {
    pub(crate) fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Returns the bytes of requests that a connection may send before they are read. With API keys a connection may
    /// have several clients.
    pub(crate) fn connection_window_bytes(&self) -> u32 {
        let config = &self.state.config;
        match self.access.authenticator {
            Some(_) => config.shared_connection_window_bytes(),
            None => config.connection_window_bytes(),
        }
    }

    /// Serves a call of a connection.
    pub(crate) async fn call(
        &self,
        request: http::Request<Incoming>,
        connection: &ConnectionContext,
    ) -> http::Response<Body> {
        let method = Method::from_path(request.uri().path(), S::NAME, S::METHODS);
        let served = match method {
            Method::Own(method) => self.serve(request, method, connection).await,
            Method::Health(method) => self.check_health(request, method, connection).await,
            Method::Foreign => {
                let status = Status::unimplemented("this service is not served");
                Err(self.refuse(status.into(), request, connection))
            }
        };
        match served {
            Ok(response) => response,
            // A client that gets too many refusals gets later ones late: a connection has few streams at once.
            Err(refused) => refused.respond().await,
        }
    }

    /// Serves a call of the service.
    async fn serve(
        &self,
        request: http::Request<Incoming>,
        method: &'static str,
        connection: &ConnectionContext,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let client = match self.access.identify(&self.state, &request, connection.peer) {
            Ok(client) => client,
            Err(refusal) => return Err(self.refuse(refusal, request, connection)),
        };
        connection.unread.record_call(client);
        let call = Call::new(request, client);
        if let Err(refusal) = self.state.wait_for_call(client, connection).await {
            return Err(RefusedCall::new(refusal, call.body));
        }
        let key = match self.access.admit(client, method, S::is_stream(method)) {
            Ok(key) => key,
            Err(refusal) => return Err(RefusedCall::new(refusal, call.body)),
        };
        let open = connection.activity.start_call();
        let response = self.service.serve(call, method, connection, key).await?;
        Ok(attach_guard(response, open))
    }

    /// Serves a call of the health service. It needs no token, so with tokens it does not keep its connection open.
    async fn check_health(
        &self,
        request: http::Request<Incoming>,
        method: &'static str,
        connection: &ConnectionContext,
    ) -> Result<http::Response<Body>, RefusedCall> {
        let address = ClientId::from_ip(connection.peer);
        let call = Call::new(request, address);
        if let Err(refusal) = self.state.wait_for_health_check(address, connection).await {
            return Err(RefusedCall::new(refusal, call.body));
        }
        let HealthResponse { response, share } =
            self.health.serve(&self.state, call, method).await?;
        let open = (!self.access.needs_token()).then(|| connection.activity.start_call());
        Ok(attach_guard(response, (open, share)))
    }

    /// Refuses a call without a known client, and charges it to the address of its connection.
    fn refuse(
        &self,
        refusal: Refusal,
        request: http::Request<Incoming>,
        connection: &ConnectionContext,
    ) -> RefusedCall {
        let address = ClientId::from_ip(connection.peer);
        let refusal = self.state.charge_refused_call(refusal, address, connection);
        RefusedCall::new(refusal, request.into_body())
    }
}

impl ServerState {
    /// Counts one more subscription of a client, and of a connection, so that other calls find a stream of HTTP/2.
    ///
    /// Errors: the status of a client or a connection that has too many.
    pub fn open_subscription(
        &self,
        connection: &ConnectionContext,
        client: ClientId,
        key: Option<Permit>,
    ) -> Result<StreamPermits, Status> {
        let permit = Arc::clone(&connection.subscriptions).try_acquire_owned().map_err(|_| {
            self.counters.record(Event::SubscriptionRefused);
            Status::resource_exhausted(format!(
                "{} subscriptions are open on this connection, of {} streams \
                 (grpc.connection_streams_max): open another connection",
                self.config.connection_subscriptions_max(),
                self.config.connection_streams_max
            ))
        })?;
        let share = shares::acquire_unit(&self.shares.subscriptions, client)
            .inspect_err(|_| self.counters.record(Event::SubscriptionRefused))?;
        Ok(StreamPermits { _client: share, _connection: permit, _key: key })
    }
}

//! The port of kaspad's gRPC while the node cannot serve yet: each call ends with `UNAVAILABLE` and a reason, and the
//! health service reports `NOT_SERVING`.

use std::net::TcpListener;

use api_keys::Permit;
use grpc_server::{
    Call, Config, ConnectionContext, PreparedServer, RefusedCall, Security, Server, Service,
    StartError,
};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

use crate::service::{MESSAGE_STREAM, SERVICE};

/// A server that refuses each call. Dropping it ends it without a wait.
pub struct StartingGrpcServer(Server);

struct Refusing {
    reason: &'static str,
}

impl StartingGrpcServer {
    /// Serves on a bound listener.
    ///
    /// Errors: those of [`crate::KaspaGrpcServer::start`].
    pub fn start(
        config: Config,
        reason: &'static str,
        listener: TcpListener,
        security: Security,
    ) -> Result<Self, StartError> {
        let prepared = PreparedServer::new(config)?;
        Ok(Self(prepared.start(Refusing { reason }, listener, security)?))
    }

    /// Closes every connection, and waits until clients and threads have ended. The port stays open if the listener has
    /// a copy.
    pub fn shut_down(self) {
        self.0.shut_down();
    }
}

impl Service for Refusing {
    const NAME: &'static str = SERVICE;
    const METHODS: &'static [&'static str] = &[MESSAGE_STREAM];

    fn is_stream(_method: &str) -> bool {
        // A call that is refused at once needs no permit of an API key.
        false
    }

    fn is_serving(&self) -> bool {
        false
    }

    async fn serve(
        &self,
        call: Call,
        _method: &'static str,
        _connection: &ConnectionContext,
        _key: Option<Permit>,
    ) -> Result<http::Response<Body>, RefusedCall> {
        Err(RefusedCall::new(Status::unavailable(self.reason), call.body))
    }
}

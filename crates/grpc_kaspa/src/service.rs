//! The method of kaspad's service: from an admitted call to the response of a new session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api_keys::Permit;
use grpc_server::{
    Call, Compression, ConnectionContext, QueueBudget, RefusedCall, Requests, ServerState, Service,
    StreamId,
};
use parking_lot::Mutex;
use rpc_kaspa::{KaspaServer, MessageFormat, SessionState};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;
use websocket::serve_session;

use crate::incoming_requests::{IncomingRequests, run_session};
use crate::outgoing::Outgoing;
use crate::response_body::ResponseBody;
use crate::session_io::SessionIo;

/// The name of kaspad's service.
pub(crate) const SERVICE: &str = "protowire.RPC";
/// The only method of that service.
pub(crate) const MESSAGE_STREAM: &str = "MessageStream";

pub(crate) struct KaspaService {
    rpc: Arc<KaspaServer>,
    server: Arc<ServerState>,
    /// Counts the bytes that HTTP/2 has of all streams. Each stream is bounded, so the sum needs no bound.
    budget: Arc<QueueBudget>,
    next_stream: AtomicU64,
}

impl KaspaService {
    pub(crate) fn new(
        rpc: Arc<KaspaServer>,
        server: Arc<ServerState>,
        budget: Arc<QueueBudget>,
    ) -> Self {
        Self { rpc, server, budget, next_stream: AtomicU64::new(0) }
    }
}

impl Service for KaspaService {
    const NAME: &'static str = SERVICE;
    const METHODS: &'static [&'static str] = &[MESSAGE_STREAM];

    fn is_stream(method: &str) -> bool {
        method == MESSAGE_STREAM
    }

    async fn serve(
        &self,
        call: Call,
        method: &'static str,
        connection: &ConnectionContext,
        key: Option<Permit>,
    ) -> Result<http::Response<Body>, RefusedCall> {
        if method != MESSAGE_STREAM {
            let status = Status::unimplemented("this method is not served");
            return Err(RefusedCall::new(status, call.body));
        }
        let compression = match Compression::from_request(&call.headers) {
            Ok(compression) => compression,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let permits = match self.server.open_subscription(connection, call.client, key) {
            Ok(permits) => permits,
            Err(status) => return Err(RefusedCall::new(status, call.body)),
        };
        let id = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed));
        let timer = Arc::clone(&connection.timer);
        let outgoing = Arc::new(Outgoing::new(id, timer, Arc::clone(&self.budget)));
        let Call { client, body, .. } = call;
        let requests = Requests::new(body, Arc::clone(&self.server), client, compression)
            .with_unread_streams(Arc::clone(&connection.unread));
        let requests = Arc::new(Mutex::new(IncomingRequests::new(requests)));
        let mut io = SessionIo::new(Arc::clone(&requests), Arc::clone(&outgoing));
        let state = SessionState::with_format(MessageFormat::Protobuf);
        let rpc = Arc::clone(&self.rpc);
        let session = async move {
            // The client may not have read as far as the close frame.
            if let Some(frame) = serve_session(&mut io, client, rpc, state).await {
                io.set_close(&frame);
            }
        };
        tokio::spawn(run_session(session, requests, Arc::clone(&outgoing)));
        let body = Body::new(ResponseBody::new(outgoing, permits));
        let response = http::Response::builder().header("content-type", "application/grpc");
        // The header is valid.
        Ok(response.body(body).unwrap_or_else(|err| Status::internal(err.to_string()).into_http()))
    }
}

//! Forwards the calls of clients to the upstream over a few shared connections, after a check of each request.
//!
//! In: the messages of clients, one at a time. Out: the replies of the upstream, with the ids of the clients.
//! Shape: a request is checked before it is queued (`request`). Two queues for each encoding, one of them for slow
//! methods, have some connections each (`call_queue`). A connection sends one request at a time, as kaspad runs only one.
//! Messages over [`READ_HERE_BYTES_MAX`] are checked and copied on threads for blocking work.
//! Bounds: [`ForwarderConfig`]: connections, calls that wait, calls of one client, bytes of requests and of replies,
//! time. A call above a limit is refused.
//! Invariant: nothing is sent that would make kaspad close a connection, or reserve memory by a length that the request
//! does not have.
//! Not here: subscriptions, kaspad's safe mode, and the methods that need no upstream (`rpc_kaspa`).

mod byte_budget;
mod call_queue;
mod error;
mod metrics;
mod request;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::{ClientId, ClientShares, ShareNames};
use kaspa::{Encoding, Method, Operation};
use tokio::task::{JoinSet, spawn_blocking};

use crate::config::{ConnectionConfig, SourceConfig};

use self::byte_budget::ByteBudget;
use self::call_queue::{CallQueue, CallQueueConfig};
pub use self::error::ForwardError;
use self::metrics::ForwardMetrics;
use self::request::UpstreamRequest;

/// Bytes of a message that is read where sockets are polled: some 50 µs.
const READ_HERE_BYTES_MAX: usize = 64 * 1024;

const NAMES: ShareNames = ShareNames {
    clients: ["client", "clients"],
    units: "forwarded calls",
    each_settings: "client_calls_max",
    all_settings: "calls_max, client_calls_max",
};

/// The settings of a forwarder.
#[derive(Clone, Debug)]
pub struct ForwarderConfig {
    /// The upstreams, by their ports for Borsh. The first one that accepts a connection is used.
    pub sources: Vec<SourceConfig>,
    /// The upstreams, by their ports for JSON. Without one, calls in JSON are refused.
    pub json_sources: Vec<SourceConfig>,
    /// The limits of common methods, for each encoding.
    pub common: CallLimits,
    /// The limits of slow methods, for each encoding.
    pub slow: CallLimits,
    /// Time limit of a connection attempt. Default: 5 s.
    pub connect_timeout: Duration,
    /// Bytes of a request. Default: 16 MiB, above a full block in JSON.
    pub request_bytes_max: usize,
    /// Bytes of all requests that wait or are being processed. Default: 64 MiB.
    pub queue_bytes_max: usize,
    /// Bytes of all replies that their clients have not taken: a client takes its reply once its socket has accepted
    /// the messages before it. A reply that does not fit is dropped, and the call fails. Default: 512 MiB.
    pub replies_bytes_max: usize,
}

/// The limits of one kind of methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Connections to the upstream.
    pub connections: usize,
    /// Calls of all clients that wait or are being processed.
    pub calls_max: usize,
    /// Calls of one client that wait or are being processed.
    pub client_calls_max: usize,
    /// Time limit of a call, from its start at the upstream. It waits at most as long before.
    pub call_timeout: Duration,
    /// Bytes of a reply. Each connection may hold as many.
    pub response_bytes_max: usize,
}

/// Forwards calls. Its connections end when it is dropped.
pub struct Forwarder {
    borsh: CallQueues,
    json: Option<CallQueues>,
    request_bytes_max: usize,
    requests: ByteBudget,
    replies: ByteBudget,
    metrics: Arc<ForwardMetrics>,
    _tasks: JoinSet<()>,
}

/// The queues of an encoding.
struct CallQueues {
    common: CallQueue,
    slow: CallQueue,
}

impl ForwarderConfig {
    /// Creates the default settings for upstreams.
    pub fn new(sources: Vec<SourceConfig>, json_sources: Vec<SourceConfig>) -> Self {
        Self {
            sources,
            json_sources,
            common: CallLimits {
                connections: 4,
                calls_max: 512,
                client_calls_max: 32,
                call_timeout: Duration::from_secs(10),
                response_bytes_max: 16 << 20,
            },
            slow: CallLimits {
                connections: 2,
                calls_max: 32,
                client_calls_max: 2,
                call_timeout: Duration::from_secs(90),
                response_bytes_max: 256 << 20,
            },
            connect_timeout: Duration::from_secs(5),
            request_bytes_max: 16 << 20,
            queue_bytes_max: 64 << 20,
            replies_bytes_max: 512 << 20,
        }
    }
}

impl Forwarder {
    /// Starts the tasks of the connections on the current runtime. They connect at their first call.
    pub fn start(config: ForwarderConfig) -> Self {
        let metrics = Arc::new(ForwardMetrics::default());
        let replies = ByteBudget::new(config.replies_bytes_max);
        let mut tasks = JoinSet::new();
        let borsh = CallQueues::start(&config, Encoding::Borsh, &replies, &mut tasks);
        let has_json = !config.json_sources.is_empty();
        let json =
            has_json.then(|| CallQueues::start(&config, Encoding::Json, &replies, &mut tasks));
        Self {
            borsh,
            json,
            request_bytes_max: config.request_bytes_max,
            requests: ByteBudget::new(config.queue_bytes_max),
            replies,
            metrics,
            _tasks: tasks,
        }
    }

    /// Sends a client's message to the upstream, and returns its reply, which has the id of the message. The message
    /// has an id, and names the operation. A reply may be an error of the upstream.
    pub async fn forward(
        &self,
        client: ClientId,
        encoding: Encoding,
        operation: Operation,
        request: Bytes,
    ) -> Result<Bytes, ForwardError> {
        let result = self.try_forward(client, encoding, operation, request).await;
        self.metrics.record(&result);
        result
    }

    async fn try_forward(
        &self,
        client: ClientId,
        encoding: Encoding,
        operation: Operation,
        message: Bytes,
    ) -> Result<Bytes, ForwardError> {
        let Operation::Method(method) = operation else { return Err(ForwardError::NotAMethod) };
        let bytes = message.len();
        let bytes_max = self.request_bytes_max;
        if bytes > bytes_max {
            return Err(ForwardError::RequestTooLong { bytes, bytes_max });
        }
        let queues = match encoding {
            Encoding::Borsh => &self.borsh,
            Encoding::Json => self.json.as_ref().ok_or(ForwardError::NoJsonUpstream)?,
        };
        let permit = self.requests.try_reserve(bytes).ok_or(ForwardError::QueueFull)?;
        let check = move || UpstreamRequest::check(encoding, method, message);
        let request = run_by_length(bytes, check).await.ok_or_else(ForwardError::stopping)??;
        let queue = if is_slow(method) { &queues.slow } else { &queues.common };
        queue.call(client, request, permit).await
    }
}

/// Runs the work on a message of this length: on another thread if it is long. `None` if the node stops.
async fn run_by_length<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= READ_HERE_BYTES_MAX {
        return Some(work());
    }
    spawn_blocking(work).await.ok()
}

impl CallQueues {
    fn start(
        config: &ForwarderConfig,
        encoding: Encoding,
        replies: &ByteBudget,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let sources = match encoding {
            Encoding::Borsh => &config.sources,
            Encoding::Json => &config.json_sources,
        };
        let mut start = |limits: CallLimits| {
            let connection = ConnectionConfig {
                connect_timeout: config.connect_timeout,
                call_timeout: limits.call_timeout,
                message_bytes_max: limits.response_bytes_max,
                ..ConnectionConfig::default()
            };
            let each_max = Some(limits.client_calls_max);
            let shares = Arc::new(ClientShares::new(NAMES, limits.calls_max, each_max));
            let sources = sources.clone();
            let replies = replies.clone();
            let queue_config = CallQueueConfig { sources, connection, limits, replies };
            CallQueue::start(queue_config, shares, tasks)
        };
        Self { common: start(config.common), slow: start(config.slow) }
    }
}

/// Whether kaspad may need seconds for a method, or sends a long reply.
fn is_slow(method: Method) -> bool {
    matches!(
        method,
        Method::GetBlocks
            | Method::GetHeaders
            | Method::GetVirtualChainFromBlock
            | Method::GetVirtualChainFromBlockV2
            | Method::GetMempoolEntries
            | Method::GetMempoolEntriesByAddresses
            | Method::GetUtxosByAddresses
            | Method::GetBalancesByAddresses
            | Method::GetDaaScoreTimestampEstimate
            | Method::EstimateNetworkHashesPerSecond
            | Method::GetUtxoReturnAddress
            | Method::GetSeqCommitLaneProof
    )
}

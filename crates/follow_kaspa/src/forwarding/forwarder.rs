//! The forwarder: from a client's message to the queue of its method, and the reply back.

use std::sync::Arc;

use bytes::Bytes;
use clients::{ClientId, ClientShares, ShareNames};
use kaspa::{Encoding, Method, Operation};
use metrics::{Collector, Exposition, MetricKind};
use tokio::task::JoinSet;

use super::byte_budget::ByteBudget;
use super::call_queue::{CallQueue, CallQueueConfig};
use super::config::{CallLimits, ForwarderConfig};
use super::error::ForwardError;
use super::metrics::ForwardMetrics;
use super::request::UpstreamRequest;
use crate::config::ConnectionConfig;
use crate::long_message::run_by_length;

const NAMES: ShareNames = ShareNames {
    clients: ["client", "clients"],
    units: "forwarded calls",
    each_settings: "client_calls_max",
    all_settings: "calls_max, client_calls_max",
};

/// Forwards calls. Its connections end when it is dropped.
pub struct Forwarder {
    borsh: CallQueues,
    json: Option<CallQueues>,
    request_bytes_max: usize,
    requests: ByteBudget,
    replies: ByteBudget,
    metrics: ForwardMetrics,
    _tasks: JoinSet<()>,
}

struct CallQueues {
    common: CallQueue,
    slow: CallQueue,
}

impl Forwarder {
    /// Starts the tasks of the connections on the current runtime. They connect at their first call.
    pub fn start(config: ForwarderConfig) -> Self {
        let metrics = ForwardMetrics::default();
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
        let checked = run_by_length(bytes, check).await;
        let request = checked.map_err(|_| ForwardError::stopping())??;
        let queue = if is_slow(method) { &queues.slow } else { &queues.common };
        queue.call(client, request, permit).await
    }
}

impl Collector for Forwarder {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("kaspa_forward_queue", self.requests.bytes_in_use() as u64),
            ("kaspa_forward_replies", self.replies.bytes_in_use() as u64),
        ]
    }

    fn write(&self, out: &mut Exposition) {
        self.metrics.write(out);
        let help = "Calls of clients that wait for the upstream, by kind of method.";
        let mut family = out.family("hydrant_kaspa_forwarding", MetricKind::Gauge, help);
        let queues = [Some(&self.borsh), self.json.as_ref()];
        let encodings = ["borsh", "json"].into_iter().zip(queues);
        for (encoding, queues) in encodings.filter_map(|(name, queues)| Some((name, queues?))) {
            for (kind, queue) in [("common", &queues.common), ("slow", &queues.slow)] {
                family.put(&[("encoding", encoding), ("kind", kind)], queue.calls());
            }
        }
    }
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

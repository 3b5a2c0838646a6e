//! Reads the requests of a subscription, whether or not its client reads messages.
//!
//! In: the bytes of the requests. Out: pings, and filters that the index has.
//! Shape: a task for each subscription. It handles short requests itself; longer ones, and compressed ones, are decoded,
//! compiled and indexed on a thread of their own, so that they delay no connection.
//! Bounds: one request of a client at a time, at its rate (`grpc_server`). Meanwhile [`Requests`] reads a few kilobytes
//! ahead. A prepared request waits until the stream takes it; its filters count for their client (`shares`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use clients::ClientId;
use grpc_server::{ClientLock, EncodedRequest, Event, HEAD_BYTES, Requests};
use ledger::Slot;
use prost::Message;
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::AbortHandle;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequest;

use crate::broker::Broker;
use crate::filter::{FilterSet, check_lists};
use crate::filter_index::IndexedFilters;

/// Bytes of a request that the polling thread handles itself: some 20 addresses. A larger value saves a change of
/// threads, and lets a client occupy the polling thread for longer.
const INLINE_REQUEST_BYTES_MAX: usize = 1 << 10;

/// A request of a subscription.
pub(crate) enum StreamRequest {
    Ping { id: i32 },
    Filters { filters: IndexedFilters, from_slot: Option<Slot> },
}

/// The task that reads. Dropping it ends the task.
pub(crate) struct RequestReader {
    requests: mpsc::Receiver<Result<StreamRequest, Status>>,
    task: AbortHandle,
}

impl RequestReader {
    pub(crate) fn start(broker: Arc<Broker>, client: ClientId, requests: Requests) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        let task = tokio::spawn(read(broker, client, requests, sender)).abort_handle();
        Self { requests: receiver, task }
    }

    /// The next request; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<StreamRequest, Status>>> {
        self.requests.poll_recv(context)
    }
}

impl Drop for RequestReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(
    broker: Arc<Broker>,
    client: ClientId,
    mut requests: Requests,
    sender: mpsc::Sender<Result<StreamRequest, Status>>,
) {
    let client_lock = broker.server.request_budget.client_lock(client);
    while let Some(request) = poll_fn(|context| requests.poll_next(context)).await {
        let handled = async {
            let request = match request {
                Ok(request) => prepare(&broker, client, &client_lock, request).await,
                Err(status) => Err(status),
            };
            let is_last = request.is_err();
            sender.send(request).await.is_err() || is_last
        };
        let status = tokio::select! {
            biased;
            is_last = handled => {
                if is_last {
                    return;
                }
                continue;
            }
            status = poll_fn(|context| requests.poll_ahead(context)) => status,
        };
        // The frames of the stream leave the window now, whether or not the client reads the status.
        drop(requests);
        // The stream may have ended.
        let _ = sender.send(Err(status)).await;
        return;
    }
}

async fn prepare(
    broker: &Arc<Broker>,
    client: ClientId,
    client_lock: &ClientLock,
    request: EncodedRequest,
) -> Result<StreamRequest, Status> {
    let locked = Arc::clone(client_lock).lock_owned().await;
    let length = request.content_len();
    let server = &broker.server;
    server.request_budget.wait_until_due(client, length, &server.counters).await;
    if request.compression.is_none() && length <= INLINE_REQUEST_BYTES_MAX {
        return handle(broker, client, request, locked);
    }
    let broker = Arc::clone(broker);
    // The client is locked until the request is handled, even if its stream ends before.
    let handled = tokio::task::spawn_blocking(move || handle(&broker, client, request, locked));
    handled.await.unwrap_or_else(|_| Err(Status::internal("a request was not handled")))
}

/// Decodes a request, and puts its filters into the index.
fn handle(
    broker: &Arc<Broker>,
    client: ClientId,
    request: EncodedRequest,
    _locked: OwnedMutexGuard<()>,
) -> Result<StreamRequest, Status> {
    let refused = |_: &Status| broker.server.counters.record(Event::RequestRefused);
    let request = decode(broker, client, request).inspect_err(refused)?;
    if let Some(ping) = &request.ping {
        // As in the plugin, the other fields are ignored: clients repeat some of them in each ping.
        return Ok(StreamRequest::Ping { id: ping.id });
    }
    let filters = FilterSet::new(&request, &broker.config).inspect_err(refused)?;
    let filters = IndexedFilters::new(broker, client, filters)?;
    Ok(StreamRequest::Filters { filters, from_slot: request.from_slot })
}

/// Decodes a request, and frees its bytes. A long one gets contiguous bytes here, not on the polling thread.
fn decode(
    broker: &Broker,
    client: ClientId,
    request: EncodedRequest,
) -> Result<SubscribeRequest, Status> {
    let EncodedRequest { message, compression, share: _share } = request;
    let bytes = message.into_bytes_after(HEAD_BYTES);
    let config = &broker.config;
    let content = match compression {
        None => bytes,
        Some(compression) => {
            let content = compression.decompress(&bytes, config.request_bytes_max);
            let length = content.as_ref().map_or(config.request_bytes_max, Vec::len);
            broker.server.request_budget.charge(client, length.saturating_sub(bytes.len()));
            content?
        }
    };
    check_lists(&content, config)?;
    SubscribeRequest::decode(&content[..])
        .map_err(|err| Status::invalid_argument(format!("the request is invalid: {err}")))
}

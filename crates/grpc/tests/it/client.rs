//! A client: the stub of the proto's crate.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeRequest, SubscribeRequestPing, SubscribeUpdate,
};

/// Timeout of a test that waits for a message.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The id of pings that say that a request was handled.
const HANDLED: i32 = 7_777;

pub(crate) type Client = GeyserClient<Channel>;

pub(crate) async fn connect(address: SocketAddr) -> Client {
    connect_with(address, |endpoint| endpoint).await
}

pub(crate) async fn connect_with(
    address: SocketAddr,
    set: impl FnOnce(Endpoint) -> Endpoint,
) -> Client {
    let endpoint = set(Endpoint::from_shared(format!("http://{address}")).expect("a URL"));
    GeyserClient::new(endpoint.connect().await.expect("it listens"))
        .max_decoding_message_size(64 << 20)
}

pub(crate) struct Subscription {
    pub(crate) requests: mpsc::Sender<SubscribeRequest>,
    pub(crate) updates: Streaming<SubscribeUpdate>,
}

impl Subscription {
    /// Subscribes, and waits until the filters are in effect.
    pub(crate) async fn start(client: &mut Client, request: SubscribeRequest) -> Self {
        let mut subscription = Self::start_unchecked(client).await;
        subscription.replace(request).await;
        subscription
    }

    /// Opens a stream without a request.
    pub(crate) async fn start_unchecked(client: &mut Client) -> Self {
        let (requests, receiver) = mpsc::channel(16);
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let updates = client.subscribe(stream).await.expect("a stream").into_inner();
        Self { requests, updates }
    }

    /// Replaces the filters, and waits until they are in effect. Returns what came before.
    pub(crate) async fn replace(&mut self, request: SubscribeRequest) -> Vec<SubscribeUpdate> {
        self.send(request).await;
        let ping = Some(SubscribeRequestPing { id: HANDLED });
        self.send(SubscribeRequest { ping, ..SubscribeRequest::default() }).await;
        let mut before = Vec::new();
        loop {
            let update = self.next().await.expect("an update");
            match &update.update_oneof {
                Some(UpdateOneof::Pong(pong)) if pong.id == HANDLED => return before,
                _ => before.push(update),
            }
        }
    }

    pub(crate) async fn send(&self, request: SubscribeRequest) {
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next update, pings of the server left out.
    pub(crate) async fn next(&mut self) -> Result<SubscribeUpdate, Status> {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.updates.next()).await;
            let update = next.expect("a message in time").expect("the stream goes on")?;
            if !matches!(update.update_oneof, Some(UpdateOneof::Ping(_))) {
                return Ok(update);
            }
        }
    }

    /// The next `count` updates in short.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(short(&self.next().await.expect("an update")));
        }
        all
    }

    /// The status with which the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }
}

/// Returns a short form of an update: names of filters, then its content.
pub(crate) fn short(update: &SubscribeUpdate) -> String {
    let names = update.filters.join(",");
    let what = match update.update_oneof.as_ref().expect("an update") {
        UpdateOneof::Account(update) => {
            let account = update.account.as_ref().expect("an account");
            let data = String::from_utf8_lossy(&account.data);
            format!("account {} {} {data}", update.slot, account.pubkey[0])
        }
        UpdateOneof::Slot(slot) => {
            let status = SlotStatus::try_from(slot.status).expect("a status").as_str_name();
            format!("{} {}", status.trim_start_matches("SLOT_").to_lowercase(), slot.slot)
        }
        UpdateOneof::Transaction(update) => {
            let info = update.transaction.as_ref().expect("a transaction");
            format!("transaction {} {} {}", update.slot, info.index, info.signature[0])
        }
        UpdateOneof::TransactionStatus(status) => {
            let result = if status.err.is_some() { "failed" } else { "ok" };
            format!("status {} {} {result}", status.slot, status.signature[0])
        }
        UpdateOneof::Block(block) => {
            let transactions = block.transactions.len();
            let accounts = block.accounts.len();
            format!("block {} {transactions} {accounts}", block.slot)
        }
        UpdateOneof::BlockMeta(meta) => {
            format!("meta {} {}", meta.slot, meta.executed_transaction_count)
        }
        UpdateOneof::Entry(entry) => {
            let first = entry.starting_transaction_index;
            let count = entry.executed_transaction_count;
            format!("entry {} {} {count} from {first}", entry.slot, entry.index)
        }
        UpdateOneof::BlockFooter(footer) => {
            let has_certificate = footer.block_final_cert.is_some();
            format!("footer {} {has_certificate}", footer.slot)
        }
        UpdateOneof::Pong(pong) => format!("pong {}", pong.id),
        other => format!("{other:?}"),
    };
    format!("{names}: {what}")
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it holds in time");
}

//! A client of the plugin's server: everything, as a follower subscribes.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterEntry, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions, SubscribeRequestPing, SubscribeUpdate,
};

/// How long a test waits for a message.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) type Client = GeyserClient<Channel>;

pub(crate) async fn connect(address: SocketAddr) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    GeyserClient::new(endpoint.connect().await.expect("it listens"))
}

pub(crate) struct Subscription(Streaming<SubscribeUpdate>);

pub(crate) fn everything(commitment: CommitmentLevel) -> SubscribeRequest {
    let name = || "all".to_owned();
    let slots = SubscribeRequestFilterSlots {
        interslot_updates: Some(true),
        ..SubscribeRequestFilterSlots::default()
    };
    SubscribeRequest {
        accounts: [(name(), SubscribeRequestFilterAccounts::default())].into(),
        transactions: [(name(), SubscribeRequestFilterTransactions::default())].into(),
        entry: [(name(), SubscribeRequestFilterEntry::default())].into(),
        blocks_meta: [(name(), SubscribeRequestFilterBlocksMeta::default())].into(),
        slots: [(name(), slots)].into(),
        commitment: Some(commitment.into()),
        ..SubscribeRequest::default()
    }
}

impl Subscription {
    /// Subscribes to everything at processed, and waits until the filters are in effect.
    pub(crate) async fn start(client: &mut Client) -> Self {
        let ping = Some(SubscribeRequestPing { id: 7 });
        let ping = SubscribeRequest { ping, ..SubscribeRequest::default() };
        let requests = [everything(CommitmentLevel::Processed), ping];
        let mut subscription = Self::with_all(client, requests.into()).await;
        let first = subscription.next().await.expect("a pong").update_oneof;
        assert!(matches!(first, Some(UpdateOneof::Pong(_))), "{first:?}");
        subscription
    }

    pub(crate) async fn with(client: &mut Client, request: SubscribeRequest) -> Self {
        Self::with_all(client, vec![request]).await
    }

    async fn with_all(client: &mut Client, requests: Vec<SubscribeRequest>) -> Self {
        let requests: std::pin::Pin<Box<dyn Stream<Item = SubscribeRequest> + Send>> =
            Box::pin(futures_util::stream::iter(requests));
        Self(client.subscribe(requests).await.expect("a stream").into_inner())
    }

    /// The next update, pings of the server left out.
    pub(crate) async fn next(&mut self) -> Result<SubscribeUpdate, Status> {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await;
            let update = next.expect("a message in time").expect("the stream goes on")?;
            if !matches!(update.update_oneof, Some(UpdateOneof::Ping(_))) {
                return Ok(update);
            }
        }
    }

    /// The next updates in short, up to and with `last`.
    pub(crate) async fn until(&mut self, last: &str) -> Vec<String> {
        let mut all = Vec::new();
        while all.last().is_none_or(|it| it != last) {
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

pub(crate) fn short(update: &SubscribeUpdate) -> String {
    match update.update_oneof.as_ref().expect("an update") {
        UpdateOneof::Account(update) => {
            let account = update.account.as_ref().expect("an account");
            let by = account.txn_signature.as_ref().map_or(0, |signature| signature[0]);
            format!("account {} {} by {by}", update.slot, account.pubkey[0])
        }
        UpdateOneof::Slot(slot) => {
            let status = SlotStatus::try_from(slot.status).expect("a status").as_str_name();
            format!("{} {}", status.trim_start_matches("SLOT_").to_lowercase(), slot.slot)
        }
        UpdateOneof::Transaction(update) => {
            let info = update.transaction.as_ref().expect("a transaction");
            format!("transaction {} {}", update.slot, info.index)
        }
        UpdateOneof::Entry(entry) => {
            let first = entry.starting_transaction_index;
            let count = entry.executed_transaction_count;
            format!("entry {} {} of {count} from {first}", entry.slot, entry.index)
        }
        UpdateOneof::BlockMeta(meta) => {
            format!("meta {} {}", meta.slot, meta.executed_transaction_count)
        }
        other => format!("{other:?}"),
    }
}

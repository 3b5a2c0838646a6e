//! A gRPC subscriber that resumes after its server ended, and has the contents of each slot once.
//!
//! Shape: the status of its commitment ends a slot. Of a slot that was cut, everything is dropped, and the next stream
//! starts there (`from_slot`).
//! Errors: a slot or a part of it came twice, is missing, or was requested too late.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::watch;
use tonic::{Code, Status, Streaming};
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions, SubscribeUpdate,
};

/// Time limit of the wait for a message of a running server.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(60);

/// The updates of a slot that a subscriber received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotContent {
    /// The last state of each account: its lamports, and a hash of the rest.
    accounts: BTreeMap<Vec<u8>, (u64, u64)>,
    /// Signatures, in the order of execution.
    transactions: Vec<Vec<u8>>,
    blockhash: Option<String>,
}

/// A subscriber at one commitment.
pub(crate) struct ResumingSubscriber {
    pub(crate) level: CommitmentLevel,
    /// Current address of its server; `None` while no server is running.
    pub(crate) server: watch::Receiver<Option<SocketAddr>>,
    /// The last slot to be received, once it is known.
    pub(crate) end: watch::Receiver<Option<u64>>,
    /// The newest slot that came whole. At first the one before the first.
    pub(crate) newest: u64,
    /// Whether the server sends each account once a slot.
    pub(crate) is_deduplicated: bool,
}

/// The slots that a subscriber received.
pub(crate) struct Received {
    pub(crate) slots: BTreeMap<u64, SlotContent>,
    /// Streams that it started after the first one.
    pub(crate) resumed: usize,
}

impl ResumingSubscriber {
    /// Receives updates up to the last slot.
    pub(crate) async fn run(mut self) -> Result<Received> {
        let mut slots = BTreeMap::new();
        let mut streams = 0_usize;
        while !self.is_complete() {
            let server = *self.server.borrow_and_update();
            let stream = match server {
                Some(server) => self.subscribe(server).await,
                None => Err(Status::unavailable("no server")),
            };
            match stream {
                Ok(stream) => {
                    streams += 1;
                    self.receive(stream, &mut slots).await?;
                }
                Err(status) if status.code() == Code::OutOfRange => {
                    bail!("{:?}: slots after {} are gone: {status}", self.level, self.newest)
                }
                // It has ended, or it is not there yet.
                Err(_) => {
                    let changed = self.server.changed();
                    let _ = tokio::time::timeout(Duration::from_millis(20), changed).await;
                }
            }
        }
        Ok(Received { slots, resumed: streams.saturating_sub(1) })
    }

    fn is_complete(&self) -> bool {
        self.end.borrow().is_some_and(|end| self.newest >= end)
    }

    async fn subscribe(&self, server: SocketAddr) -> Result<Streaming<SubscribeUpdate>, Status> {
        let client = GeyserClient::connect(format!("http://{server}")).await;
        let mut client = client.map_err(|err| Status::unavailable(err.to_string()))?;
        let slots =
            SubscribeRequestFilterSlots { filter_by_commitment: Some(true), ..Default::default() };
        let request = SubscribeRequest {
            accounts: [("a".to_owned(), SubscribeRequestFilterAccounts::default())].into(),
            transactions: [("t".to_owned(), SubscribeRequestFilterTransactions::default())].into(),
            blocks_meta: [("m".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
            slots: [("s".to_owned(), slots)].into(),
            commitment: Some(self.level.into()),
            from_slot: Some(self.newest + 1),
            ..Default::default()
        };
        Ok(client.subscribe(futures_util::stream::iter([request])).await?.into_inner())
    }

    /// Receives until the stream or the test ends.
    async fn receive(
        &mut self,
        mut stream: Streaming<SubscribeUpdate>,
        slots: &mut BTreeMap<u64, SlotContent>,
    ) -> Result<()> {
        let mut open = BTreeMap::new();
        while !self.is_complete() {
            let next = tokio::select! {
                next = tokio::time::timeout(UPDATE_TIMEOUT, stream.message()) => {
                    next.context("nothing came")?
                }
                _ = self.end.changed() => continue,
            };
            match next {
                Ok(Some(update)) => self.add(update, &mut open, slots)?,
                Err(status) if status.code() == Code::OutOfRange => {
                    bail!("{:?}: slots after {} are gone: {status}", self.level, self.newest)
                }
                Err(status) if status.message().contains("lagged") => {
                    bail!("{:?}: this test is too slow: {status}", self.level)
                }
                // The server was killed.
                Ok(None) | Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        update: SubscribeUpdate,
        open: &mut BTreeMap<u64, SlotContent>,
        slots: &mut BTreeMap<u64, SlotContent>,
    ) -> Result<()> {
        let level = self.level;
        let newest = self.newest;
        if let Some(slot) = content_slot(&update) {
            ensure!(slot > newest, "{level:?}: slot {slot} comes twice, after {newest}");
        }
        match update.update_oneof {
            Some(UpdateOneof::Account(update)) => {
                let account = update.account.context("an account")?;
                let mut hasher = DefaultHasher::new();
                (&account.owner, account.executable, &account.data[..]).hash(&mut hasher);
                let state = (account.lamports, hasher.finish());
                let accounts = &mut open.entry(update.slot).or_default().accounts;
                let before = accounts.insert(account.pubkey, state);
                ensure!(
                    before.is_none() || !self.is_deduplicated,
                    "{level:?}: an account of slot {} comes twice",
                    update.slot
                );
            }
            Some(UpdateOneof::Transaction(update)) => {
                let transaction = update.transaction.context("a transaction")?;
                let transactions = &mut open.entry(update.slot).or_default().transactions;
                ensure!(
                    transaction.index == transactions.len() as u64,
                    "{level:?}: transaction {} of slot {} comes as number {}",
                    transaction.index,
                    update.slot,
                    transactions.len()
                );
                transactions.push(transaction.signature);
            }
            Some(UpdateOneof::BlockMeta(meta)) => {
                let content = open.entry(meta.slot).or_default();
                ensure!(content.blockhash.is_none(), "{level:?}: the meta of {} twice", meta.slot);
                let found = content.transactions.len() as u64;
                let expected = meta.executed_transaction_count;
                ensure!(found == expected, "{level:?}: {found} of {expected} transactions");
                content.blockhash = Some(meta.blockhash);
            }
            Some(UpdateOneof::Slot(status)) if status.status == self.status() as i32 => {
                let slot = status.slot;
                let content = open.remove(&slot).with_context(|| {
                    format!("{level:?}: the status of slot {slot} comes without its content")
                })?;
                // The ledger has no forks, and skips no slot.
                ensure!(slot == newest + 1, "{level:?}: slot {slot} comes after {newest}");
                ensure!(content.blockhash.is_some(), "{level:?}: no meta of slot {slot}");
                slots.insert(slot, content);
                self.newest = slot;
            }
            _ => {}
        }
        Ok(())
    }

    fn status(&self) -> SlotStatus {
        match self.level {
            CommitmentLevel::Processed => SlotStatus::SlotProcessed,
            CommitmentLevel::Confirmed => SlotStatus::SlotConfirmed,
            CommitmentLevel::Finalized => SlotStatus::SlotFinalized,
        }
    }
}

/// The slot of an update that is part of a bank.
fn content_slot(update: &SubscribeUpdate) -> Option<u64> {
    match update.update_oneof.as_ref()? {
        UpdateOneof::Account(update) => Some(update.slot),
        UpdateOneof::Transaction(update) => Some(update.slot),
        UpdateOneof::BlockMeta(meta) => Some(meta.slot),
        _ => None,
    }
}

//! Yellowstone gRPC of a running node: complete and in order under load, at every commitment.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use solana_sdk_ids::sysvar;
use solana_signer::Signer;
use tonic::Streaming;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, GetSlotRequest, GetVersionRequest, SlotStatus, SubscribeRequest,
    SubscribeRequestFilterAccounts, SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterEntry,
    SubscribeRequestFilterSlots, SubscribeRequestFilterTransactions, SubscribeUpdate,
    SubscribeUpdateEntry,
};

use crate::entry_chain;
use crate::node::start_node;
use crate::observability::metrics;
use crate::world::World;

/// Time limit of the wait for an update.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(30);
/// Finalized slots that a test checks of a followed chain, and of a local one.
pub(crate) const SLOTS: usize = 40;
const LOCAL_SLOTS: usize = 100;
const AIRDROPS: usize = 60;

/// The rules of a stream, checked update by update.
#[derive(Default)]
struct Checker {
    commitment: CommitmentLevel,
    banks: HashMap<u64, BankSeen>,
    ids: HashSet<u64>,
    write_version: u64,
    statuses: HashMap<i32, u64>,
    finalized: usize,
    /// Every signature of a transaction.
    signatures: HashSet<Vec<u8>>,
}

/// The received updates of a bank.
#[derive(Default)]
struct BankSeen {
    id: u64,
    accounts: Vec<Vec<u8>>,
    /// Signatures of account updates whose transaction has not come.
    unexplained: HashSet<Vec<u8>>,
    /// The signatures of each transaction.
    transactions: Vec<Vec<Vec<u8>>>,
    entries: Vec<SubscribeUpdateEntry>,
    has_meta: bool,
    statuses: Vec<SlotStatus>,
}

impl Checker {
    fn bank(&mut self, slot: u64) -> Result<&mut BankSeen> {
        self.banks.get_mut(&slot).with_context(|| format!("slot {slot} before its bank"))
    }

    fn check(&mut self, update: SubscribeUpdate) -> Result<()> {
        let is_processed = self.commitment == CommitmentLevel::Processed;
        match update.update_oneof.context("an empty update")? {
            UpdateOneof::Slot(slot) => {
                let status = SlotStatus::try_from(slot.status)?;
                if status == SlotStatus::SlotCreatedBank {
                    let id = slot.bank_id.unwrap_or_default();
                    ensure!(id > 0 && self.ids.insert(id), "bank id {id} of {}", slot.slot);
                    let bank = BankSeen { id, ..BankSeen::default() };
                    ensure!(self.banks.insert(slot.slot, bank).is_none(), "two of {}", slot.slot);
                    return Ok(());
                }
                let last = self.statuses.insert(slot.status, slot.slot);
                ensure!(last < Some(slot.slot), "{status:?} of {} after {last:?}", slot.slot);
                let bank = self.bank(slot.slot)?;
                bank.statuses.push(status);
                let order = [
                    SlotStatus::SlotCompleted,
                    SlotStatus::SlotProcessed,
                    SlotStatus::SlotConfirmed,
                    SlotStatus::SlotFinalized,
                ];
                ensure!(order.starts_with(&bank.statuses), "{:?}", bank.statuses);
                if status == SlotStatus::SlotFinalized {
                    self.finish(slot.slot)?;
                }
            }
            UpdateOneof::Account(update) => {
                let account = update.account.context("an account")?;
                let last = std::mem::replace(&mut self.write_version, account.write_version);
                ensure!(account.write_version > last, "write version after {last}");
                let bank = self.bank(update.slot)?;
                ensure!(!bank.has_meta && update.bank_id == Some(bank.id), "{}", update.slot);
                let is_repeated = bank.accounts.contains(&account.pubkey);
                ensure!(is_processed || !is_repeated, "an account twice in {}", update.slot);
                bank.accounts.push(account.pubkey);
                bank.unexplained.extend(account.txn_signature);
            }
            UpdateOneof::Transaction(update) => {
                let transaction = update.transaction.context("a transaction")?;
                let bank = self.bank(update.slot)?;
                ensure!(!bank.has_meta && update.bank_id == bank.id, "{}", update.slot);
                let index = bank.transactions.len() as u64;
                ensure!(transaction.index == index, "a hole in {}", update.slot);
                ensure!(bank.entries.is_empty(), "a transaction after entries in {}", update.slot);
                let signatures = transaction.transaction.context("a transaction")?.signatures;
                bank.transactions.push(signatures);
                bank.unexplained.remove(&transaction.signature);
                self.signatures.insert(transaction.signature);
            }
            UpdateOneof::Entry(entry) => {
                let bank = self.bank(entry.slot)?;
                ensure!(!bank.has_meta && entry.bank_id == bank.id, "{}", entry.slot);
                bank.entries.push(entry);
            }
            UpdateOneof::BlockMeta(meta) => {
                let bank = self.bank(meta.slot)?;
                ensure!(!bank.has_meta && meta.bank_id == bank.id, "{}", meta.slot);
                bank.has_meta = true;
                let count = meta.executed_transaction_count;
                let sent = bank.transactions.len() as u64;
                ensure!(count == sent, "{count} of {sent}");
                entry_chain::check(&meta, &bank.entries, &bank.transactions)
                    .with_context(|| format!("the entries of {}", meta.slot))?;
                ensure!(bank.unexplained.is_empty(), "a transaction is missing in {}", meta.slot);
                for id in [
                    sysvar::clock::ID,
                    sysvar::slot_hashes::ID,
                    sysvar::recent_blockhashes::ID,
                    sysvar::slot_history::ID,
                ] {
                    ensure!(bank.accounts.contains(&id.to_bytes().to_vec()), "no {id}");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A bank is finalized: all of it has come.
    fn finish(&mut self, slot: u64) -> Result<()> {
        let bank = self.banks.remove(&slot).context("a bank")?;
        ensure!(bank.has_meta && bank.statuses.len() == 4, "{slot}: {:?}", bank.statuses);
        self.finalized += 1;
        Ok(())
    }
}

/// Subscribes to everything from a slot on, or from now on.
pub(crate) async fn subscribe(
    address: SocketAddr,
    level: CommitmentLevel,
    from_slot: impl Into<Option<u64>>,
) -> Result<Streaming<SubscribeUpdate>> {
    let mut client = GeyserClient::connect(format!("http://{address}")).await?;
    let slots = SubscribeRequestFilterSlots { interslot_updates: Some(true), ..Default::default() };
    let request = SubscribeRequest {
        accounts: [("a".to_owned(), SubscribeRequestFilterAccounts::default())].into(),
        transactions: [("t".to_owned(), SubscribeRequestFilterTransactions::default())].into(),
        entry: [("e".to_owned(), SubscribeRequestFilterEntry::default())].into(),
        blocks_meta: [("m".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        slots: [("s".to_owned(), slots)].into(),
        commitment: Some(level.into()),
        from_slot: from_slot.into(),
        ..Default::default()
    };
    let requests = futures_util::stream::iter([request]);
    Ok(client.subscribe(requests).await?.into_inner())
}

/// Checks the updates until `slots` are final and these transactions have come.
pub(crate) async fn follow(
    mut updates: Streaming<SubscribeUpdate>,
    commitment: CommitmentLevel,
    slots: usize,
    wanted: Arc<OnceLock<HashSet<Vec<u8>>>>,
) -> Result<()> {
    let mut checker = Checker { commitment, ..Checker::default() };
    let is_complete = |checker: &Checker| {
        let wanted = wanted.get().is_some_and(|wanted| wanted.is_subset(&checker.signatures));
        wanted && checker.finalized >= slots
    };
    while !is_complete(&checker) {
        let next = tokio::time::timeout(UPDATE_TIMEOUT, updates.message()).await?;
        checker.check(next?.context("the stream ended")?)?;
    }
    Ok(())
}

#[test]
fn a_stream_is_complete_and_in_order_under_load() -> Result<()> {
    let node = start_node(&["--slot-ms", "40", "--finalize-after", "8"])?;
    let runtime = tokio::runtime::Runtime::new()?;
    let world = World::new(&node);
    let levels =
        [CommitmentLevel::Processed, CommitmentLevel::Confirmed, CommitmentLevel::Finalized];
    let address = node.grpc.context("the node serves gRPC")?;
    let streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for level in levels {
            streams.push((level, subscribe(address, level, 1).await?));
        }
        Ok::<_, anyhow::Error>(streams)
    })?;
    // The streams are read while the airdrops run: a machine that is slow must not make them lag.
    let wanted = Arc::new(OnceLock::new());
    let followed = streams.into_iter().map(|(level, updates)| {
        (level, runtime.spawn(follow(updates, level, LOCAL_SLOTS, Arc::clone(&wanted))))
    });
    let followed: Vec<_> = followed.collect();
    let mut signatures = HashSet::new();
    for n in 0..AIRDROPS {
        let signature = world.rpc.request_airdrop(&world.payer.pubkey(), 1_000_000 + n as u64)?;
        signatures.insert(signature.as_ref().to_vec());
    }
    ensure!(wanted.set(signatures).is_ok(), "the signatures are set once");
    runtime.block_on(async {
        for (level, task) in followed {
            task.await?.with_context(|| format!("{level:?}"))?;
        }
        let mut client = GeyserClient::connect(format!("http://{address}")).await?;
        let slot = client.get_slot(GetSlotRequest { commitment: Some(2) }).await?.into_inner();
        ensure!(slot.slot >= LOCAL_SLOTS as u64, "{slot:?}");
        let version = client.get_version(GetVersionRequest {}).await?.into_inner().version;
        ensure!(version.contains("\"package\":\"hydrant\""), "{version}");
        Ok(())
    })?;
    let metrics = metrics(&node)?;
    for metric in ["hydrant_grpc_lagged_total 0\n", "hydrant_memory_bytes{part=\"grpc_replay\"} "] {
        ensure!(metrics.contains(metric), "{metric} is not in {metrics}");
    }
    Ok(())
}

#[test]
fn grpc_can_be_closed() -> Result<()> {
    let node = start_node(&["--no-grpc"])?;
    ensure!(node.grpc.is_none());
    ensure!(!metrics(&node)?.contains("hydrant_grpc"));
    Ok(())
}

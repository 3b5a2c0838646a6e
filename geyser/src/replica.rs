//! From what the validator lends for one call to updates of our own.

use std::net::SocketAddr;
use std::sync::Arc;

use agave_geyser_plugin_interface::geyser_plugin_interface::{
    ReplicaAccountInfoVersions, ReplicaBlockInfoVersions, ReplicaContactInfoVersions,
    ReplicaEntryInfoVersions, ReplicaTransactionInfoVersions, SlotStatus as GeyserSlotStatus,
};
use chain_solana::{AccountUpdate, ExecutedTransaction};
use grpc::ContactInfo;
use ledger::Slot;
use solana::{Account, Entry};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction_status::RewardsAndNumPartitions;

/// Why an update is not understood. Fix: the plugin for the validator's version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplicaError {
    #[error("this plugin is for Agave 4.2.2, and the validator sent another version of {0}")]
    Version(&'static str),
    #[error("{field} has {bytes} bytes, not 32")]
    Length { field: &'static str, bytes: usize },
    #[error("{field} is no hash: {text:?}")]
    Hash { field: &'static str, text: String },
    #[error("the index {0} of a transaction")]
    Index(usize),
}

/// An update, as far as clients can get it.
#[derive(Clone, Debug)]
pub(crate) enum GeyserUpdate {
    Account { slot: Slot, update: AccountUpdate },
    Transaction(Arc<ExecutedTransaction>),
    Slot { slot: Slot, parent: Option<Slot>, status: SlotStatus },
    BlockMeta(Box<ReplicaBlock>),
    Entry { slot: Slot, index: u64, entry: Entry },
}

/// A status that the sequencer uses. Processed follows from the content, and the statuses of shreds are not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotStatus {
    CreatedBank,
    Confirmed,
    Rooted,
    Dead(String),
}

/// A frozen bank.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaBlock {
    pub(crate) slot: Slot,
    pub(crate) parent_slot: Slot,
    pub(crate) blockhash: Hash,
    pub(crate) parent_blockhash: Hash,
    pub(crate) rewards: RewardsAndNumPartitions,
    pub(crate) block_time: i64,
    pub(crate) block_height: u64,
    pub(crate) executed_transaction_count: u64,
    /// 0 in a block that the validator made itself.
    pub(crate) entry_count: u64,
}

impl GeyserUpdate {
    /// Estimated bytes on the heap.
    pub(crate) fn content_bytes(&self) -> usize {
        match self {
            Self::Account { update, .. } => {
                size_of::<Account>()
                    + solana_account::ReadableAccount::data(&update.account.0).len()
            }
            Self::Transaction(executed) => usize::try_from(executed.bytes()).unwrap_or(usize::MAX),
            Self::Slot { status: SlotStatus::Dead(error), .. } => error.len(),
            Self::Slot { .. } | Self::Entry { .. } => 0,
            Self::BlockMeta(meta) => size_of::<ReplicaBlock>() + meta.rewards.rewards.len() * 128,
        }
    }
}

pub(crate) fn account(
    info: &ReplicaAccountInfoVersions<'_>,
    slot: Slot,
) -> Result<GeyserUpdate, ReplicaError> {
    let ReplicaAccountInfoVersions::V0_0_3(info) = info else {
        return Err(ReplicaError::Version("an account"));
    };
    let account = AccountSharedData::from(solana_account::Account {
        lamports: info.lamports,
        data: info.data.to_vec(),
        owner: pubkey("an owner", info.owner)?,
        executable: info.executable,
        rent_epoch: info.rent_epoch,
    });
    let update = AccountUpdate {
        pubkey: pubkey("an address", info.pubkey)?,
        account: Arc::new(Account(account)),
        write_version: info.write_version,
        signature: info.txn.map(|transaction| *transaction.signature()),
        executed: None,
    };
    Ok(GeyserUpdate::Account { slot, update })
}

/// A transaction with its results.
pub(crate) fn transaction(
    info: &ReplicaTransactionInfoVersions<'_>,
    slot: Slot,
) -> Result<GeyserUpdate, ReplicaError> {
    let ReplicaTransactionInfoVersions::V0_0_3(info) = info else {
        return Err(ReplicaError::Version("a transaction"));
    };
    let meta = info.transaction_status_meta.clone();
    let message = &info.transaction.message;
    let loaded = &meta.loaded_addresses;
    let account_keys = message
        .static_account_keys()
        .iter()
        .chain(&loaded.writable)
        .chain(&loaded.readonly)
        .copied()
        .collect();
    let executed = ExecutedTransaction {
        slot,
        index: u32::try_from(info.index).map_err(|_| ReplicaError::Index(info.index))?,
        // The block's time comes with the block, and a transaction is sent without it.
        block_time: 0,
        transaction: info.transaction.clone(),
        account_keys,
        is_vote: info.is_vote,
        visibility: Default::default(),
        meta,
    };
    Ok(GeyserUpdate::Transaction(Arc::new(executed)))
}

/// A frozen bank.
pub(crate) fn block_meta(
    info: &ReplicaBlockInfoVersions<'_>,
) -> Result<GeyserUpdate, ReplicaError> {
    let ReplicaBlockInfoVersions::V0_0_4(info) = info else {
        return Err(ReplicaError::Version("a block"));
    };
    Ok(GeyserUpdate::BlockMeta(Box::new(ReplicaBlock {
        slot: info.slot,
        parent_slot: info.parent_slot,
        blockhash: hash("a blockhash", info.blockhash)?,
        parent_blockhash: hash("a parent's blockhash", info.parent_blockhash)?,
        rewards: info.rewards.clone(),
        block_time: info.block_time.unwrap_or_default(),
        block_height: info.block_height.unwrap_or_default(),
        executed_transaction_count: info.executed_transaction_count,
        entry_count: info.entry_count,
    })))
}

/// A link of Proof of History.
pub(crate) fn entry(info: &ReplicaEntryInfoVersions<'_>) -> Result<GeyserUpdate, ReplicaError> {
    let ReplicaEntryInfoVersions::V0_0_2(info) = info else {
        return Err(ReplicaError::Version("an entry"));
    };
    let hash = <[u8; 32]>::try_from(info.hash);
    let length = |_| ReplicaError::Length { field: "an entry's hash", bytes: info.hash.len() };
    let entry = Entry {
        num_hashes: info.num_hashes,
        hash: Hash::new_from_array(hash.map_err(length)?),
        transaction_count: info.executed_transaction_count,
        starting_transaction_index: info.starting_transaction_index as u64,
    };
    Ok(GeyserUpdate::Entry { slot: info.slot, index: info.index as u64, entry })
}

/// A status; `None` for one that clients do not get from here.
pub(crate) fn slot_status(
    slot: Slot,
    parent: Option<Slot>,
    status: &GeyserSlotStatus,
) -> Option<GeyserUpdate> {
    let status = match status {
        GeyserSlotStatus::CreatedBank => SlotStatus::CreatedBank,
        GeyserSlotStatus::Confirmed => SlotStatus::Confirmed,
        GeyserSlotStatus::Rooted => SlotStatus::Rooted,
        GeyserSlotStatus::Dead(error) => SlotStatus::Dead(error.clone()),
        GeyserSlotStatus::Processed
        | GeyserSlotStatus::FirstShredReceived
        | GeyserSlotStatus::Completed => return None,
    };
    Some(GeyserUpdate::Slot { slot, parent, status })
}

/// A node of the cluster, as it describes itself in gossip.
pub(crate) fn contact_info(
    info: &ReplicaContactInfoVersions<'_>,
) -> Result<ContactInfo, ReplicaError> {
    let ReplicaContactInfoVersions::V0_0_1(info) = info;
    let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    Ok(ContactInfo {
        pubkey: identity(info.pubkey)?.to_bytes().to_vec(),
        wallclock: info.wallclock,
        outset: info.outset,
        shred_version: info.shred_version.into(),
        version_major: info.version_major.into(),
        version_minor: info.version_minor.into(),
        version_patch: info.version_patch.into(),
        version_commit: info.version_commit,
        version_feature_set: info.version_feature_set,
        version_client_id: info.version_client_id.into(),
        gossip: text(info.gossip),
        tpu_quic: text(info.tpu_quic),
        tpu_forwards_quic: text(info.tpu_forwards_quic),
        tpu_vote_udp: text(info.tpu_vote_udp),
        tpu_vote_quic: text(info.tpu_vote_quic),
        tvu_udp: text(info.tvu_udp),
        tvu_quic: text(info.tvu_quic),
        serve_repair_udp: text(info.serve_repair_udp),
        serve_repair_quic: text(info.serve_repair_quic),
        rpc: text(info.rpc),
        rpc_pubsub: text(info.rpc_pubsub),
        alpenglow: text(info.alpenglow),
    })
}

pub(crate) fn identity(bytes: &[u8]) -> Result<Pubkey, ReplicaError> {
    pubkey("the identity of a node", bytes)
}

fn pubkey(field: &'static str, bytes: &[u8]) -> Result<Pubkey, ReplicaError> {
    Pubkey::try_from(bytes).map_err(|_| ReplicaError::Length { field, bytes: bytes.len() })
}

fn hash(field: &'static str, text: &str) -> Result<Hash, ReplicaError> {
    text.parse().map_err(|_| ReplicaError::Hash { field, text: text.to_owned() })
}

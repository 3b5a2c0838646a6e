//! What a validator calls, in short.

use std::any::Any;
use std::collections::HashSet;
use std::net::SocketAddr;

use agave_geyser_plugin_interface::geyser_plugin_interface::{
    GeyserPlugin, ReplicaAccountInfoV3, ReplicaAccountInfoVersions, ReplicaBlockInfoV4,
    ReplicaBlockInfoVersions, ReplicaContactInfoV0_0_1, ReplicaContactInfoVersions,
    ReplicaEntryInfoV2, ReplicaEntryInfoVersions, ReplicaTransactionInfoV3,
    ReplicaTransactionInfoVersions, Result, SlotStatus,
};
use hydrant_geyser::HydrantGeyser;
use solana_hash::Hash;
use solana_message::{Message, MessageHeader};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::Transaction;
use solana_transaction::sanitized::SanitizedTransaction;
use solana_transaction_status::{
    Reward, RewardType, RewardsAndNumPartitions, TransactionStatusMeta,
};
use tempfile::NamedTempFile;

/// A validator with the plugin.
pub(crate) struct Validator {
    pub(crate) plugin: Box<dyn GeyserPlugin>,
    config: NamedTempFile,
}

impl Validator {
    /// Loads the plugin on a free port, with more settings.
    pub(crate) fn load(settings: &str) -> Self {
        let mut validator = Self::new(&format!(r#""address": "127.0.0.1:0"{settings}"#));
        validator.reload().expect("it loads");
        validator
    }

    /// A validator that has not loaded it.
    pub(crate) fn new(settings: &str) -> Self {
        let config = NamedTempFile::new().expect("a file");
        let text = format!(r#"{{"libpath": "/lib/libhydrant_geyser.so", {settings}}}"#);
        std::fs::write(config.path(), text).expect("written");
        Self { plugin: Box::<HydrantGeyser>::default(), config }
    }

    pub(crate) fn reload(&mut self) -> Result<()> {
        self.plugin.on_load(self.config.path().to_str().expect("UTF-8"), false)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let any: &dyn Any = &*self.plugin;
        let plugin = any.downcast_ref::<HydrantGeyser>().expect("our plugin");
        plugin.address().expect("it serves")
    }

    pub(crate) fn status(&self, slot: u64, status: SlotStatus) {
        self.plugin.update_slot_status(slot, Some(slot - 1), &status).expect("taken");
    }

    /// A write of an account that the bank itself makes.
    pub(crate) fn write(&self, slot: u64, account: u8, write_version: u64) {
        self.write_account_with(slot, account, write_version, &[7], None).expect("taken");
    }

    pub(crate) fn write_account_with(
        &self,
        slot: u64,
        account: u8,
        write_version: u64,
        data: &[u8],
        txn: Option<&SanitizedTransaction>,
    ) -> Result<()> {
        let info = ReplicaAccountInfoV3 {
            pubkey: &[account; 32],
            lamports: 5,
            owner: &[9; 32],
            executable: false,
            rent_epoch: u64::MAX,
            data,
            write_version,
            txn,
        };
        self.plugin.update_account(ReplicaAccountInfoVersions::V0_0_3(&info), slot, false)
    }

    pub(crate) fn transaction(&self, slot: u64, index: usize, transaction: &SanitizedTransaction) {
        let versioned = transaction.to_versioned_transaction();
        let meta = TransactionStatusMeta { fee: 5_000, ..TransactionStatusMeta::default() };
        let info = ReplicaTransactionInfoV3 {
            signature: transaction.signature(),
            message_hash: transaction.message_hash(),
            is_vote: false,
            transaction: &versioned,
            transaction_status_meta: &meta,
            index,
        };
        let info = ReplicaTransactionInfoVersions::V0_0_3(&info);
        self.plugin.notify_transaction(info, slot).expect("taken");
    }

    /// The entry `index` of three: one transaction, another one, and a tick with the blockhash.
    pub(crate) fn entry(&self, slot: u64, index: usize) {
        let hash = if index == 2 { blockhash(slot) } else { blockhash(index as u64) };
        let info = ReplicaEntryInfoV2 {
            slot,
            index,
            num_hashes: 10 + index as u64,
            hash: hash.as_ref(),
            executed_transaction_count: u64::from(index < 2),
            starting_transaction_index: index,
        };
        self.plugin.notify_entry(ReplicaEntryInfoVersions::V0_0_2(&info)).expect("taken");
    }

    pub(crate) fn block_meta(&self, slot: u64, transactions: u64) {
        let rewards = RewardsAndNumPartitions {
            rewards: vec![Reward {
                pubkey: Pubkey::new_from_array([3; 32]).to_string(),
                lamports: 11,
                post_balance: 12,
                reward_type: Some(RewardType::Fee),
                commission: None,
                commission_bps: None,
            }],
            num_partitions: None,
        };
        let info = ReplicaBlockInfoV4 {
            parent_slot: slot - 1,
            parent_blockhash: &blockhash(slot - 1).to_string(),
            slot,
            blockhash: &blockhash(slot).to_string(),
            rewards: &rewards,
            block_time: Some(1_700_000_000),
            block_height: Some(slot - 10),
            executed_transaction_count: transactions,
            entry_count: if transactions > 0 { 3 } else { 0 },
        };
        let info = ReplicaBlockInfoVersions::V0_0_4(&info);
        self.plugin.notify_block_metadata(info).expect("taken");
    }

    /// A node in gossip, with a key of this length.
    pub(crate) fn contact_info(&self, node: u8, key_bytes: usize, wallclock: u64) -> Result<()> {
        let port = |port: u16| Some(SocketAddr::from(([127, 0, 0, node], port)));
        let info = ReplicaContactInfoV0_0_1 {
            pubkey: &vec![node; key_bytes],
            wallclock,
            outset: 77,
            shred_version: 50_000,
            version_major: 4,
            version_minor: 2,
            version_patch: 2,
            version_commit: 9,
            version_feature_set: 8,
            version_client_id: 3,
            gossip: port(8001),
            tpu_quic: port(8009),
            tpu_forwards_quic: None,
            tpu_vote_udp: None,
            tpu_vote_quic: None,
            tvu_udp: port(8002),
            tvu_quic: None,
            serve_repair_udp: None,
            serve_repair_quic: None,
            rpc: None,
            rpc_pubsub: None,
            alpenglow: port(8010),
        };
        self.plugin.notify_contact_info(ReplicaContactInfoVersions::V0_0_1(&info), wallclock == 0)
    }

    /// A whole bank without transactions, up to its metadata.
    pub(crate) fn bank(&self, slot: u64) {
        self.status(slot, SlotStatus::CreatedBank);
        self.write(slot, 1, slot * 10);
        self.block_meta(slot, 0);
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        self.plugin.on_unload();
    }
}

pub(crate) fn blockhash(slot: u64) -> Hash {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    Hash::new_from_array(bytes)
}

/// A signed transaction without instructions.
pub(crate) fn sign_transaction(number: u8) -> SanitizedTransaction {
    let message = Message {
        header: MessageHeader { num_required_signatures: 1, ..MessageHeader::default() },
        account_keys: vec![Pubkey::new_from_array([number; 32])],
        recent_blockhash: blockhash(1),
        instructions: Vec::new(),
    };
    let signatures = vec![Signature::from([number; 64])];
    let transaction = Transaction { signatures, message };
    SanitizedTransaction::try_from_legacy_transaction(transaction, &HashSet::new())
        .expect("a transaction")
}

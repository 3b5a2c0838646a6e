//! Messages as bytes. The messages of one update share their common parts.
//!
//! Shape: a message is the names of its filters (field 1), then its body: the part of the update and its time. A body
//! is encoded once for all messages with the part, and a message once for all clients that get the same.
//! Bounds: [`SHARED_BYTES_MAX`] of bodies and messages that are shared; beyond it they are encoded again.

use bytes::{BufMut, Bytes};
use chain_solana::BlockFooter;
use foldhash::{HashMap, HashMapExt};
use prost::Message;
use prost_types::Timestamp;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SubscribeUpdate, SubscribeUpdateAccount, SubscribeUpdateBlock, SubscribeUpdateBlockFooter,
    SubscribeUpdateBlockMeta, SubscribeUpdatePing, SubscribeUpdatePong, SubscribeUpdateSlot,
    SubscribeUpdateTransaction, SubscribeUpdateTransactionStatus,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block::{BlockHeight, UnixTimestamp};

use crate::convert;
use crate::data_slices::DataSlices;
use crate::filter::{BlockFilter, MessageSpec, Part};
use crate::update::{FrozenBlock, Update, UpdateKind};

/// Bytes of bodies and messages of one update that are stored for other clients: a large block in some variants.
const SHARED_BYTES_MAX: usize = 64 << 20;

/// Encodes the messages of one update.
pub(crate) struct Encoder<'a> {
    update: &'a Update,
    shared_bytes: usize,
    encoded: usize,
    bodies: HashMap<Part, Vec<u8>>,
    messages: HashMap<MessageSpec, Bytes>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(update: &'a Update) -> Self {
        Self {
            update,
            shared_bytes: 0,
            encoded: 0,
            bodies: HashMap::new(),
            messages: HashMap::new(),
        }
    }

    /// Messages that were encoded, each for one or more clients.
    pub(crate) fn encoded_messages(&self) -> usize {
        self.encoded
    }

    /// Returns the bytes of a message.
    pub(crate) fn message(&mut self, spec: MessageSpec) -> Bytes {
        if let Some(message) = self.messages.get(&spec) {
            return message.clone();
        }
        if self.shared_bytes > SHARED_BYTES_MAX {
            self.bodies.clear();
            self.messages.clear();
            self.shared_bytes = 0;
        }
        let update = self.update;
        let shared_bytes = &mut self.shared_bytes;
        let body = self.bodies.entry(spec.part.clone()).or_insert_with(|| {
            let body = encode_body(update, &spec.part);
            *shared_bytes += body.len();
            body
        });
        let mut message = Vec::with_capacity(spec.names.len() + body.len());
        message.put_slice(&spec.names);
        message.put_slice(body);
        let message = Bytes::from(message);
        self.shared_bytes += message.len();
        self.encoded += 1;
        self.messages.insert(spec, message.clone());
        message
    }
}

/// Encodes a ping of the server.
pub(crate) fn ping(now_ms: u64) -> Bytes {
    encode(UpdateOneof::Ping(SubscribeUpdatePing {}), now_ms).into()
}

/// The response to a ping of the client.
pub(crate) fn pong(id: i32, now_ms: u64) -> Bytes {
    encode(UpdateOneof::Pong(SubscribeUpdatePong { id }), now_ms).into()
}

/// A time in milliseconds since 1970.
pub(crate) fn timestamp(ms: u64) -> Timestamp {
    Timestamp { seconds: (ms / 1_000) as i64, nanos: (ms % 1_000 * 1_000_000) as i32 }
}

fn encode(update: UpdateOneof, created_ms: u64) -> Vec<u8> {
    SubscribeUpdate {
        filters: Vec::new(),
        update_oneof: Some(update),
        created_at: Some(timestamp(created_ms)),
    }
    .encode_to_vec()
}

fn encode_body(update: &Update, part: &Part) -> Vec<u8> {
    let slot = update.slot;
    let bank_id = update.bank_id;
    let body = match (&update.kind, part) {
        (UpdateKind::Slot(status), _) => UpdateOneof::Slot(SubscribeUpdateSlot {
            slot,
            parent: status.parent,
            status: status.status.into(),
            dead_error: status.dead_error.clone(),
            bank_id: Some(bank_id),
        }),
        (UpdateKind::Account(account), part) => {
            let whole = DataSlices::default();
            let slices = if let Part::Account(slices) = part { slices } else { &whole };
            UpdateOneof::Account(SubscribeUpdateAccount {
                account: Some(convert::account(account, slices)),
                slot,
                is_startup: false,
                bank_id: Some(bank_id),
            })
        }
        (UpdateKind::Transaction(executed), Part::TransactionStatus) => {
            UpdateOneof::TransactionStatus(SubscribeUpdateTransactionStatus {
                slot,
                signature: executed.signature().as_ref().to_vec(),
                is_vote: executed.is_vote,
                index: executed.index.into(),
                err: convert::transaction_error(&executed.meta.status),
                bank_id,
            })
        }
        (UpdateKind::Transaction(executed), _) => {
            UpdateOneof::Transaction(SubscribeUpdateTransaction {
                transaction: Some(convert::transaction_info(executed)),
                slot,
                bank_id,
            })
        }
        (UpdateKind::Entry { index, entry }, _) => {
            UpdateOneof::Entry(convert::entry(slot, bank_id, *index, entry))
        }
        (UpdateKind::Footer(footer), part) => {
            let with_certificates = *part == Part::Footer { with_certificates: true };
            UpdateOneof::BlockFooter(block_footer(slot, bank_id, footer, with_certificates))
        }
        (UpdateKind::Block(frozen), Part::Block(filter)) => {
            UpdateOneof::Block(block(frozen, filter, bank_id))
        }
        (UpdateKind::Block(frozen) | UpdateKind::BlockMeta(frozen), _) => {
            UpdateOneof::BlockMeta(block_meta(frozen, bank_id))
        }
    };
    encode(body, update.created_ms)
}

fn block_footer(
    slot: u64,
    bank_id: u64,
    footer: &BlockFooter,
    with_certificates: bool,
) -> SubscribeUpdateBlockFooter {
    let certificates = if with_certificates { &footer.certificates[..] } else { &[] };
    SubscribeUpdateBlockFooter {
        slot,
        bank_id,
        bank_hash: footer.bank_hash.clone(),
        block_producer_time_nanos: footer.producer_time_nanos,
        block_user_agent: footer.user_agent.clone(),
        // They were encoded from such a message.
        ..SubscribeUpdateBlockFooter::decode(certificates).unwrap_or_default()
    }
}

fn block(frozen: &FrozenBlock, filter: &BlockFilter, bank_id: u64) -> SubscribeUpdateBlock {
    let block = &frozen.block;
    let transactions = block.transactions.iter().filter(|executed| {
        filter.with_transactions
            && (filter.includes_all() || executed.account_keys.iter().any(|it| filter.includes(it)))
    });
    let accounts = frozen.accounts.iter().filter(|account| {
        filter.with_accounts && (filter.includes_all() || filter.includes(&account.pubkey))
    });
    let entries = (0..).zip(&block.entries).filter(|_| filter.with_entries);
    let whole = DataSlices::default();
    SubscribeUpdateBlock {
        slot: block.id.slot,
        blockhash: block.blockhash.to_string(),
        rewards: Some(convert::rewards(&block.rewards, block.reward_partitions)),
        block_time: Some(UnixTimestamp { timestamp: block.block_time }),
        block_height: Some(BlockHeight { block_height: block.block_height }),
        parent_slot: block.parent.slot,
        parent_blockhash: block.previous_blockhash.to_string(),
        executed_transaction_count: block.transactions.len() as u64,
        transactions: transactions.map(|executed| convert::transaction_info(executed)).collect(),
        updated_account_count: frozen.accounts.len() as u64,
        accounts: accounts.map(|account| convert::account(account, &whole)).collect(),
        entries_count: block.entries.len() as u64,
        entries: entries
            .map(|(index, entry)| convert::entry(block.id.slot, bank_id, index, entry))
            .collect(),
        bank_id,
    }
}

fn block_meta(frozen: &FrozenBlock, bank_id: u64) -> SubscribeUpdateBlockMeta {
    let block = &frozen.block;
    SubscribeUpdateBlockMeta {
        slot: block.id.slot,
        blockhash: block.blockhash.to_string(),
        rewards: Some(convert::rewards(&block.rewards, block.reward_partitions)),
        block_time: Some(UnixTimestamp { timestamp: block.block_time }),
        block_height: Some(BlockHeight { block_height: block.block_height }),
        parent_slot: block.parent.slot,
        parent_blockhash: block.previous_blockhash.to_string(),
        executed_transaction_count: block.transactions.len() as u64,
        entries_count: block.entries.len() as u64,
        bank_id,
    }
}

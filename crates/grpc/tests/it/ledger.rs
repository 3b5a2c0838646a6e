//! A ledger for tests that send its events one by one.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use chain_solana::{
    AccountUpdate, Block, BlockInfo, BlockhashQueue, ClusterInfo, EventSink, ExecutedTransaction,
    LedgerEvent, RevertReason,
};
use grpc::{Config, GrpcEventSink, GrpcNode, Security, Server};
use ledger::{BlockId, Slot};
use query::{Ledger, LedgerConfig};
use solana::{Account, Entry};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::{Message, MessageHeader, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;
use solana_transaction_status::TransactionStatusMeta;
use testkit::cluster_info::cluster_info;
use testkit::test_ledger::{block_info, empty_block};

/// The first bank has this slot.
pub(crate) const FIRST: Slot = 101;

pub(crate) struct ScriptedLedger {
    pub(crate) server: Server,
    events: GrpcEventSink,
    write_version: u64,
    blocks: HashMap<BlockId, Arc<Block>>,
    open: HashMap<BlockId, (BlockId, Vec<Arc<ExecutedTransaction>>)>,
    /// Of the next block that is frozen.
    entries: Vec<Entry>,
}

pub(crate) fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

pub(crate) fn signature(n: u8) -> Signature {
    Signature::from([n; 64])
}

pub(crate) fn block_id(slot: Slot) -> BlockId {
    BlockId { slot, version: slot }
}

/// A transaction with these accounts; its signature is `n`.
pub(crate) fn transaction(slot: Slot, index: u32, n: u8, keys: &[u8]) -> ExecutedTransaction {
    let account_keys: Vec<Pubkey> = keys.iter().map(|n| key(*n)).collect();
    let message = Message {
        header: MessageHeader { num_required_signatures: 1, ..MessageHeader::default() },
        account_keys: account_keys.clone(),
        recent_blockhash: Hash::default(),
        instructions: Vec::new(),
    };
    ExecutedTransaction {
        slot,
        index,
        block_time: 0,
        transaction: VersionedTransaction {
            signatures: vec![signature(n)],
            message: VersionedMessage::Legacy(message),
        },
        meta: TransactionStatusMeta::default(),
        account_keys,
        is_vote: false,
        visibility: Default::default(),
    }
}

/// Returns a failed transaction with these accounts.
pub(crate) fn failed_transaction(
    slot: Slot,
    index: u32,
    n: u8,
    keys: &[u8],
) -> ExecutedTransaction {
    let mut executed = transaction(slot, index, n, keys);
    executed.meta.status = Err(TransactionError::AccountInUse);
    executed
}

impl ScriptedLedger {
    pub(crate) fn start(config: Config) -> Self {
        Self::start_with(config, Vec::new())
    }

    /// A ledger with blocks of an earlier run.
    pub(crate) fn start_with(config: Config, stored_blocks: Vec<Arc<Block>>) -> Self {
        Self::start_secured(config, stored_blocks, Security::default())
    }

    pub(crate) fn start_secured(
        config: Config,
        stored_blocks: Vec<Arc<Block>>,
        security: Security,
    ) -> Self {
        let (_, reader) =
            Ledger::new(LedgerConfig::new(1_000), block_id(100), Arc::new(bank(block_id(100))));
        let reader = Box::new(reader);
        let cluster = Some(Arc::new(cluster()));
        let node = GrpcNode { reader, cluster, program: ("test", "1.2.3"), stored_blocks };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (server, events) =
            Server::start_secured(config, node, listener, security).expect("it starts");
        let blocks = HashMap::new();
        let open = HashMap::new();
        Self { server, events, write_version: 0, blocks, open, entries: Vec::new() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn send(&mut self, event: &LedgerEvent) {
        self.events.send(event);
    }

    /// Opens the bank of a slot on the slot before.
    pub(crate) fn open(&mut self, slot: Slot) {
        self.open_on(block_id(slot), block_id(slot - 1));
    }

    pub(crate) fn open_on(&mut self, block: BlockId, parent: BlockId) {
        self.open.insert(block, (parent, Vec::new()));
        self.send(&LedgerEvent::BankCreated { block, parent, root: 0, timestamp_ms: 0 });
    }

    /// Writes an account with one owner and data.
    pub(crate) fn write(&mut self, slot: Slot, n: u8, owner: u8, data: &[u8], by: Option<u8>) {
        self.write_version += 1;
        let mut account = AccountSharedData::new(u64::from(n) * 1_000, 0, &key(owner));
        account.set_data_from_slice(data);
        let update = AccountUpdate {
            pubkey: key(n),
            account: Arc::new(Account(account)),
            write_version: self.write_version,
            signature: by.map(signature),
            executed: None,
        };
        let updates = [update].into();
        self.send(&LedgerEvent::AccountsWritten { block: block_id(slot), updates });
    }

    /// Writes an account and executes the transaction that did so, as a ledger that shows open blocks does.
    pub(crate) fn write_and_execute(&mut self, n: u8, executed: &Arc<ExecutedTransaction>) {
        self.write_version += 1;
        let update = AccountUpdate {
            pubkey: key(n),
            account: Arc::new(Account(AccountSharedData::new(1_000, 0, &key(9)))),
            write_version: self.write_version,
            signature: Some(executed.signature()),
            executed: Some(Arc::clone(executed)),
        };
        let block = block_id(executed.slot);
        let updates = [update].into();
        self.send(&LedgerEvent::AccountsWritten { block, updates });
        self.send(&LedgerEvent::Executed([Arc::clone(executed)].into()));
    }

    /// As [`Self::write`], by a writer that may wait.
    pub(crate) fn write_and_wait(&mut self, slot: Slot, n: u8, data: &[u8]) {
        self.write_version += 1;
        let mut account = AccountSharedData::new(1_000, 0, &key(9));
        account.set_data_from_slice(data);
        let update = AccountUpdate {
            pubkey: key(n),
            account: Arc::new(Account(account)),
            write_version: self.write_version,
            signature: None,
            executed: None,
        };
        let updates = [update].into();
        self.events.send_and_wait(LedgerEvent::AccountsWritten { block: block_id(slot), updates });
    }

    pub(crate) fn execute(&mut self, executed: ExecutedTransaction) {
        let executed = Arc::new(executed);
        let bank = self.open.get_mut(&block_id(executed.slot)).expect("an open bank");
        bank.1.push(Arc::clone(&executed));
        self.send(&LedgerEvent::Executed([executed].into()));
    }

    /// Executes a transaction in a bank that is not shown before it is frozen.
    pub(crate) fn execute_unreported(&mut self, executed: ExecutedTransaction) {
        let bank = self.open.get_mut(&block_id(executed.slot)).expect("an open bank");
        bank.1.push(Arc::new(executed));
    }

    /// Sets the entries of the next block that is frozen: the number of transactions of each.
    pub(crate) fn set_entries(&mut self, transaction_counts: &[u64]) {
        let mut starting_transaction_index = 0;
        self.entries.clear();
        for (n, transaction_count) in (1..).zip(transaction_counts.iter().copied()) {
            let hash = Hash::new_from_array([n; 32]);
            let num_hashes = u64::from(n) * 10;
            self.entries.push(Entry {
                num_hashes,
                hash,
                transaction_count,
                starting_transaction_index,
            });
            starting_transaction_index += transaction_count;
        }
    }

    pub(crate) fn freeze(&mut self, slot: Slot) {
        self.freeze_block(block_id(slot));
    }

    pub(crate) fn freeze_block(&mut self, id: BlockId) {
        let (parent, transactions) = self.open.remove(&id).expect("an open bank");
        let entries = std::mem::take(&mut self.entries);
        let block = new_block(id, parent, transactions, entries);
        self.blocks.insert(id, Arc::clone(&block));
        let info = Arc::new(block_info(id.slot));
        self.send(&LedgerEvent::Frozen { block, info, timestamp_ms: 0 });
    }

    /// The ledger jumps from the block of one slot to that of another.
    pub(crate) fn jump(&mut self, to: Slot, from: Slot) {
        let block = new_block(block_id(to), block_id(from), Vec::new(), Vec::new());
        self.blocks.insert(block.id, Arc::clone(&block));
        let info = Arc::new(block_info(to));
        self.send(&LedgerEvent::Jumped { block, info });
        self.confirm(block_id(to));
        self.root(block_id(to));
    }

    pub(crate) fn confirm(&mut self, id: BlockId) {
        let block = Arc::clone(&self.blocks[&id]);
        self.send(&LedgerEvent::Confirmed { block, timestamp_ms: 0 });
    }

    pub(crate) fn root(&mut self, id: BlockId) {
        let block = Arc::clone(&self.blocks[&id]);
        self.send(&LedgerEvent::Rooted { block, timestamp_ms: 0 });
    }

    pub(crate) fn revert(&mut self, id: BlockId, reason: RevertReason) {
        let block = Arc::clone(&self.blocks[&id]);
        self.send(&LedgerEvent::Reverted { block, reason, timestamp_ms: 0 });
    }

    /// A bank with one write of account `n`, from its start to confirmed.
    pub(crate) fn bank_with_write(&mut self, slot: Slot, n: u8) {
        self.open(slot);
        self.write(slot, n, 9, b"data", None);
        self.freeze(slot);
        self.confirm(block_id(slot));
    }
}

fn bank(block: BlockId) -> BlockInfo {
    BlockInfo {
        block_height: 77,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([7; 32]))),
        ..block_info(block.slot)
    }
}

fn cluster() -> ClusterInfo {
    ClusterInfo { rpc: Some(SocketAddr::from(([127, 0, 0, 1], 8899))), ..cluster_info() }
}

pub(crate) fn new_block(
    id: BlockId,
    parent: BlockId,
    transactions: Vec<Arc<ExecutedTransaction>>,
    entries: Vec<Entry>,
) -> Arc<Block> {
    let block_time = 1_700_000_000;
    Arc::new(Block { block_time, transactions, entries, ..empty_block(id, parent) })
}

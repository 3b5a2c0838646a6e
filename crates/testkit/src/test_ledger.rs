//! A Solana ledger that a test writes block by block: state, history and events, in the order that a producer promises.
//!
//! In: calls that open a block, execute transactions in it, complete, confirm and finalize it. Out: a reader, a history,
//! and the events of each step, sent once readers see its effects.
//! Shape: one chain. The version of a block is its slot. Forks are the business of [`crate::forked_chain`].
//! Not here: a node that serves the ledger (`solana_node`), accounts to fill it with (`sample_ledger`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use chain_solana::{
    AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue, EventSink,
    ExecutedTransaction, History, HistoryLimits, LedgerEvent, Reader, StatusVisibility,
};
use ledger::{Address, BlockId, Change, KeyKind, Record, Slot, StoredRecord};
use query::{Ledger, LedgerConfig};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

/// Time of the event that a bank was created, in ms.
const CREATED_MS: u64 = 1;
/// Time of the events that a block was frozen and confirmed, in ms.
const FROZEN_MS: u64 = 2;
/// Time of the event that a block was rooted, in ms.
const ROOTED_MS: u64 = 3;

/// The properties of a ledger that do not change while a test writes it.
pub struct TestLedgerConfig {
    /// Addresses and indices.
    pub ledger: LedgerConfig,
    /// Blocks that are retained.
    pub history: HistoryLimits,
    /// The hash of the block of a slot.
    pub blockhash: fn(Slot) -> Hash,
    /// The time of the block of a slot, in Unix seconds.
    pub block_time: fn(Slot) -> i64,
}

/// All indices, 10,000 addresses and 1,000 blocks; 400 ms a slot since Unix time 1,600,000,000.
impl Default for TestLedgerConfig {
    fn default() -> Self {
        Self {
            ledger: LedgerConfig::new(10_000),
            history: HistoryLimits { blocks_max: 1_000, bytes_max: 100_000_000 },
            blockhash,
            block_time: |slot| 1_600_000_000 + (slot * 2 / 5) as i64,
        }
    }
}

/// The accounts that a transaction writes. `None` closes an account.
pub type AccountWrites = Vec<(Pubkey, Option<AccountSharedData>)>;

/// A transaction to be executed. The ledger adds its slot, index and time.
pub struct TestTransaction {
    /// The transaction.
    pub transaction: VersionedTransaction,
    /// Result of the transaction.
    pub meta: TransactionStatusMeta,
    /// All accounts that it names, those of lookup tables last.
    pub account_keys: Vec<Pubkey>,
    /// Whether it is a vote.
    pub is_vote: bool,
    /// When its status is visible.
    pub visibility: StatusVisibility,
    /// The accounts that it writes.
    pub writes: AccountWrites,
}

impl TestTransaction {
    /// Returns a transaction that succeeds, writes nothing, and whose status is visible at once.
    pub fn new(transaction: VersionedTransaction) -> Self {
        Self {
            account_keys: transaction.message.static_account_keys().to_vec(),
            transaction,
            meta: TransactionStatusMeta::default(),
            is_vote: false,
            visibility: StatusVisibility::default(),
            writes: Vec::new(),
        }
    }
}

/// The contents of the open block.
#[derive(Default)]
struct OpenBlock {
    transactions: Vec<Arc<ExecutedTransaction>>,
    writes: Vec<AccountWrite>,
}

/// A ledger of one chain.
pub struct TestLedger {
    ledger: Ledger<Account, BlockInfo>,
    reader: Reader,
    history: Arc<History>,
    sinks: Vec<Box<dyn EventSink>>,
    config: TestLedgerConfig,
    /// The facts of the newest block.
    tip: BlockInfo,
    /// The contents of the newest block, unless it is complete.
    open: Option<OpenBlock>,
    /// The index keys of each account that was written.
    keys: HashMap<Pubkey, Vec<(KeyKind, Address)>>,
    /// Blocks that are complete and not final, the oldest first.
    unrooted: VecDeque<Arc<Block>>,
}

impl TestLedger {
    /// Returns a ledger whose root has these accounts.
    pub fn new(root: BlockInfo, accounts: AccountWrites, config: TestLedgerConfig) -> Self {
        let info = Arc::new(root.clone());
        let (ledger, reader) = Ledger::new(config.ledger.clone(), root.block, info);
        let history = Arc::new(History::new(config.history, root.block));
        let mut ledger = Self {
            ledger,
            reader,
            history,
            sinks: Vec::new(),
            config,
            tip: root,
            open: None,
            keys: HashMap::new(),
            unrooted: VecDeque::new(),
        };
        ledger.apply(accounts);
        ledger.ledger.publish();
        ledger
    }

    /// Returns a reader of its state.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns its history.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the facts of the newest block.
    pub fn tip(&self) -> &BlockInfo {
        &self.tip
    }

    /// Returns the number of blocks that are complete and not final.
    pub fn unrooted(&self) -> usize {
        self.unrooted.len()
    }

    /// Adds a receiver of the events to come.
    pub fn add_sink(&mut self, sink: Box<dyn EventSink>) {
        self.sinks.push(sink);
    }

    /// Sends an event as it is.
    pub fn send(&mut self, event: &LedgerEvent) {
        self.sinks.iter_mut().for_each(|sink| sink.send(event));
    }

    /// Opens the block of a slot on the newest block, which must be complete. The facts of the block follow from its
    /// parent's and the configuration.
    pub fn open(&mut self, slot: Slot) {
        let parent = self.tip.clone();
        self.open_as(BlockInfo {
            block: BlockId { slot, version: slot },
            parent: parent.block,
            block_height: parent.block_height + 1,
            unix_timestamp: (self.config.block_time)(slot),
            ..parent
        });
    }

    /// Opens a block with these facts on the newest block.
    pub fn open_as(&mut self, info: BlockInfo) {
        self.tip = BlockInfo { parent: self.tip.block, complete: false, ..info };
        self.open = Some(OpenBlock::default());
        let BlockInfo { block, parent, .. } = self.tip;
        self.ledger.open(block, parent, self.tip_info()).expect("the parent is complete");
        self.ledger.publish();
        let timestamp_ms = CREATED_MS;
        self.send(&LedgerEvent::BankCreated { block, parent, root: 0, timestamp_ms });
    }

    /// Writes accounts in the open block.
    pub fn write(&mut self, writes: AccountWrites) {
        let written = self.apply(writes);
        self.ledger.publish();
        let open = self.open.as_mut().expect("a block is open");
        for write in written {
            open.writes.retain(|other| other.pubkey != write.pubkey);
            open.writes.push(write);
        }
    }

    /// Executes a transaction in the open block.
    pub fn execute(&mut self, transaction: TestTransaction) -> Arc<ExecutedTransaction> {
        let executed = self.execute_unreported(transaction);
        self.send(&LedgerEvent::Executed([Arc::clone(&executed)].into()));
        executed
    }

    /// Executes a transaction in the open block, without an event.
    pub fn execute_unreported(&mut self, transaction: TestTransaction) -> Arc<ExecutedTransaction> {
        self.tip.transaction_count += 1;
        self.write(transaction.writes);
        let open = self.open.as_mut().expect("a block is open");
        let executed = Arc::new(ExecutedTransaction {
            slot: self.tip.block.slot,
            index: open.transactions.len() as u32,
            block_time: self.tip.unix_timestamp,
            transaction: transaction.transaction,
            meta: transaction.meta,
            account_keys: transaction.account_keys,
            is_vote: transaction.is_vote,
            visibility: transaction.visibility,
        });
        open.transactions.push(Arc::clone(&executed));
        self.history.record_transactions(self.tip.block, &[Arc::clone(&executed)]);
        self.history.publish();
        executed
    }

    /// Completes the open block, which becomes the tip.
    pub fn complete(&mut self) -> Arc<Block> {
        self.complete_with(|_| ())
    }

    /// Completes the open block after `edit` has changed what its history says of it.
    pub fn complete_with(&mut self, edit: impl FnOnce(&mut Block)) -> Arc<Block> {
        let open = self.open.take().expect("a block is open");
        let mut block = self.tip_block(open);
        edit(&mut block);
        let block = Arc::new(block);
        self.history.record_block(&block);
        self.history.set_tip(block.id);
        self.history.publish();
        self.complete_tip(block.blockhash);
        self.ledger.publish();
        self.unrooted.push_back(Arc::clone(&block));
        let info = self.tip_info();
        let timestamp_ms = FROZEN_MS;
        self.send(&LedgerEvent::Frozen { block: Arc::clone(&block), info, timestamp_ms });
        self.send(&LedgerEvent::TipMoved { block: block.id });
        block
    }

    /// Confirms the newest block, which must be complete.
    pub fn confirm(&mut self) {
        let block = Arc::clone(self.unrooted.back().expect("a block is complete"));
        self.history.confirm(block.id);
        self.history.publish();
        self.ledger.confirm(block.id).expect("it is complete");
        self.ledger.publish();
        self.send(&LedgerEvent::Confirmed { block, timestamp_ms: FROZEN_MS });
    }

    /// Finalizes the oldest block that is not final, which must be confirmed.
    pub fn finalize(&mut self) {
        let block = self.unrooted.pop_front().expect("a block is complete");
        self.history.finalize(block.id);
        self.history.publish();
        self.ledger.finalize(block.id).expect("it is next to the root");
        self.ledger.publish();
        self.send(&LedgerEvent::Rooted { block, timestamp_ms: ROOTED_MS });
    }

    /// Jumps over the slots up to this one, as a follower does that missed blocks. All earlier blocks become final.
    pub fn jump(&mut self, slot: Slot, writes: AccountWrites) {
        while !self.unrooted.is_empty() {
            self.finalize();
        }
        let parent = self.tip.block;
        let block = BlockId { slot, version: slot };
        let unix_timestamp = (self.config.block_time)(slot);
        let tip = self.tip.clone();
        let block_height = slot;
        self.tip =
            BlockInfo { block, parent, block_height, unix_timestamp, complete: false, ..tip };
        self.ledger.open(block, parent, self.tip_info()).expect("the parent is complete");
        let writes = self.apply(writes);
        let block = Arc::new(self.tip_block(OpenBlock { transactions: Vec::new(), writes }));
        self.history.record_jump(&block);
        self.history.set_tip(block.id);
        self.history.confirm(block.id);
        self.history.finalize(block.id);
        self.history.publish();
        self.complete_tip(block.blockhash);
        self.ledger.confirm(block.id).expect("it is complete");
        self.ledger.finalize(block.id).expect("it is confirmed");
        self.ledger.publish();
        let info = self.tip_info();
        self.send(&LedgerEvent::Jumped { block: Arc::clone(&block), info });
        self.send(&LedgerEvent::TipMoved { block: block.id });
        let confirmed = Arc::clone(&block);
        self.send(&LedgerEvent::Confirmed { block: confirmed, timestamp_ms: FROZEN_MS });
        self.send(&LedgerEvent::Rooted { block, timestamp_ms: ROOTED_MS });
    }

    fn tip_info(&self) -> Arc<BlockInfo> {
        Arc::new(self.tip.clone())
    }

    /// Returns the newest block with these contents.
    fn tip_block(&self, open: OpenBlock) -> Block {
        let BlockInfo { block: id, parent, .. } = self.tip;
        Block {
            block_height: self.tip.block_height,
            blockhash: (self.config.blockhash)(id.slot),
            previous_blockhash: (self.config.blockhash)(parent.slot),
            block_time: self.tip.unix_timestamp,
            transaction_count: self.tip.transaction_count,
            transactions: open.transactions,
            writes: open.writes,
            ..empty_block(id, parent)
        }
    }

    fn complete_tip(&mut self, blockhash: Hash) {
        self.tip.complete = true;
        self.tip.blockhashes = Arc::new(self.tip.blockhashes.with(blockhash));
        self.ledger.complete(self.tip.block, self.tip_info()).expect("it is open");
    }

    fn apply(&mut self, writes: AccountWrites) -> Vec<AccountWrite> {
        let records: Vec<_> = writes
            .into_iter()
            .map(|(pubkey, account)| (pubkey, account.and_then(|one| Account(one).into_record())))
            .collect();
        let changes = records.iter().map(|(pubkey, record)| Change {
            address: Address::from(pubkey.to_bytes()),
            record: record.clone(),
        });
        let info = self.tip_info();
        let ids = self.ledger.apply(self.tip.block, changes.collect(), info);
        let ids = ids.expect("the block is open, and has room");
        let written = records.into_iter().zip(ids).map(|((pubkey, record), id)| {
            let keys = keys_of(record.as_deref());
            let old_keys = self.keys.insert(pubkey, keys.clone()).unwrap_or_default();
            let removed_keys = old_keys.into_iter().filter(|key| !keys.contains(key)).collect();
            AccountWrite { pubkey, id, account: record.map(StoredRecord::from), removed_keys }
        });
        written.collect()
    }
}

/// Returns the facts of a complete bank on the bank of the slot before. Its only blockhash is the default one, and it
/// has no transactions.
pub fn block_info(slot: Slot) -> BlockInfo {
    let parent = slot.saturating_sub(1);
    BlockInfo {
        block: BlockId { slot, version: slot },
        parent: BlockId { slot: parent, version: parent },
        block_height: slot,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::default())),
        transaction_count: 0,
        unix_timestamp: 0,
        capitalization: 0,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete: true,
    }
}

/// Returns a block without transactions, of Unix time 0.
pub fn empty_block(id: BlockId, parent: BlockId) -> Block {
    Block {
        id,
        parent,
        block_height: id.slot,
        blockhash: blockhash(id.slot),
        previous_blockhash: blockhash(parent.slot),
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        block_time: 0,
        transaction_count: 0,
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes: Vec::new(),
    }
}

/// Returns the hash of the block of a slot, unless a test says otherwise: its lowest byte, repeated.
pub fn blockhash(slot: Slot) -> Hash {
    Hash::new_from_array([slot as u8; 32])
}

fn keys_of(account: Option<&Account>) -> Vec<(KeyKind, Address)> {
    let mut keys = Vec::new();
    if let Some(account) = account {
        account.keys(&mut |kind, address| keys.push((kind, address)));
    }
    keys
}

//! A producer of a Solana chain that forks, as a follower is one: the fork injector says what happens, and this writes
//! state, history and events in the promised order (docs/design/ledgers.md, section 5).
//!
//! In: [`ForkEvent`]s. Out: a ledger, a history, events to the sinks, and the model of both.
//! Shape: nothing of an open block is shown. Changes are visible, and their events are sent, at the next
//! [`ForkEvent::Publish`]: frozen blocks, then reverted ones, the newest first, then the moves of the tips. A confirmed
//! block is never dropped, and a root is an ancestor of the confirmed block; events that say otherwise are ignored.
//! Bounds: the length of the run; every block is retained for the expected results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chain_solana::{
    AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue, EventSink,
    ExecutedTransaction, History, LedgerEvent, Reader, RevertReason,
};
use fastrand::Rng;
use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record, StoredRecord};
use query::{Ledger, LedgerConfig};
use solana::Account;
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

use crate::{ForkEvent, Model};

/// The root that the chain starts at.
pub const ROOT: BlockId = BlockId { slot: 0, version: 0 };
/// The owner of all accounts.
pub const OWNER: Pubkey = Pubkey::new_from_array([200; 32]);
/// Number of accounts that are written.
const ACCOUNTS: u8 = 8;

/// The ledger's writer.
pub type Writer = Ledger<Account, BlockInfo>;

/// The contents of an open block.
#[derive(Default)]
struct OpenBlock {
    parent: Option<BlockId>,
    transactions: Vec<Arc<ExecutedTransaction>>,
    writes: BTreeMap<Pubkey, AccountWrite>,
}

/// A chain that forks, with its model.
pub struct ForkedChain {
    /// The expected accounts.
    pub model: Model<Account>,
    ledger: Writer,
    history: Arc<History>,
    sinks: Vec<Box<dyn EventSink>>,
    open: BTreeMap<BlockId, OpenBlock>,
    /// The frozen blocks that are not reverted.
    frozen: BTreeMap<BlockId, Arc<Block>>,
    rooted: BTreeSet<BlockId>,
    /// Blocks whose events are sent with the next publish.
    unsent_frozen: BTreeSet<BlockId>,
    unsent_rooted: Vec<BlockId>,
    /// Blocks that were dropped, in contrast to those that a root removed.
    dropped: BTreeSet<BlockId>,
    /// Blocks whose transactions were reported as executed.
    executed: BTreeSet<BlockId>,
    sent_tips: [BlockId; 2],
    signatures: u64,
}

/// An empty ledger, and its reader.
pub fn ledger() -> (Writer, Reader) {
    let info = info(ROOT, ROOT, true);
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), ROOT, info);
    ledger.publish();
    (ledger, reader)
}

/// The account of a number.
pub fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

/// All accounts that are ever written.
pub fn keys() -> impl Iterator<Item = Pubkey> {
    (1..=ACCOUNTS).map(key)
}

/// The hash of a block.
pub fn blockhash(block: BlockId) -> Hash {
    let mut bytes = [9; 32];
    bytes[..8].copy_from_slice(&block.slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.version.to_le_bytes());
    Hash::new_from_array(bytes)
}

/// The signature of a number.
pub fn signature(n: u64) -> Signature {
    let mut bytes = [3; 64];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes.into()
}

impl ForkedChain {
    /// A chain that writes to these.
    pub fn new(ledger: Writer, history: Arc<History>, sinks: Vec<Box<dyn EventSink>>) -> Self {
        Self {
            model: Model::new(ROOT),
            ledger,
            history,
            sinks,
            open: BTreeMap::new(),
            frozen: BTreeMap::new(),
            rooted: BTreeSet::new(),
            unsent_frozen: BTreeSet::new(),
            unsent_rooted: Vec::new(),
            dropped: BTreeSet::new(),
            executed: BTreeSet::new(),
            sent_tips: [ROOT; 2],
            signatures: 0,
        }
    }

    /// Number of signatures that were ever used: those of the numbers below it.
    pub fn signatures(&self) -> u64 {
        self.signatures
    }

    /// The blocks from the first one to the tip of a commitment, the oldest first.
    pub fn chain(&self, commitment: Commitment) -> Vec<Arc<Block>> {
        self.chain_to(self.model.tip(commitment))
    }

    /// The blocks from the first one to `tip`, the oldest first.
    pub fn chain_to(&self, tip: BlockId) -> Vec<Arc<Block>> {
        let mut chain = Vec::new();
        let mut next = tip;
        while let Some(block) = self.frozen.get(&next) {
            next = block.parent;
            chain.push(Arc::clone(block));
        }
        chain.reverse();
        chain
    }

    /// Sends an event as it is.
    pub fn send(&mut self, event: &LedgerEvent) {
        self.sinks.iter_mut().for_each(|sink| sink.send(event));
    }

    /// Lets an event happen. `rng` chooses what a block writes.
    pub fn apply(&mut self, event: ForkEvent, rng: &mut Rng) {
        match event {
            ForkEvent::Open { block, parent } => self.open(block, parent),
            ForkEvent::Write(block) => self.write(block, rng),
            ForkEvent::Complete(block) => self.freeze(block),
            ForkEvent::SetTip(block) if self.frozen.contains_key(&block) => self.set_tip(block),
            ForkEvent::SetTip(_) => {}
            ForkEvent::Confirm(block) => {
                self.model.confirm(block);
                self.ledger.confirm(block).expect("it is frozen");
                self.history.confirm(block);
            }
            ForkEvent::Finalize(block) => self.finalize(block),
            ForkEvent::DropFork(block) => self.drop_fork(block),
            ForkEvent::Publish => self.publish(),
        }
    }

    fn open(&mut self, block: BlockId, parent: BlockId) {
        let tip = self.model.tip(Commitment::Processed);
        self.model.open(block, parent);
        self.ledger.open(block, parent, info(block, parent, false)).expect("the parent is frozen");
        self.open.insert(block, OpenBlock { parent: Some(parent), ..OpenBlock::default() });
        self.model.set_tip(tip);
        self.ledger.set_tip(tip).expect("it is frozen");
    }

    /// Executes a transaction that writes one account. It may be on another fork already.
    fn write(&mut self, block: BlockId, rng: &mut Rng) {
        let Some(parent) = self.open[&block].parent else { return };
        let chain = self.chain_to(parent);
        let known = chain.iter().flat_map(|block| &block.transactions);
        let known: BTreeSet<Signature> =
            known.chain(&self.open[&block].transactions).map(|one| one.signature()).collect();
        let recent = self.signatures.saturating_sub(10)..=self.signatures;
        let mut number = rng.u64(recent);
        if known.contains(&signature(number)) {
            number = self.signatures;
        }
        self.signatures = self.signatures.max(number + 1);

        let pubkey = key(rng.u8(1..=ACCOUNTS));
        let address = Address::from(pubkey.to_bytes());
        let lamports = if rng.u8(..5) == 0 { 0 } else { rng.u64(1..1_000_000) };
        let record = Account(AccountSharedData::new(lamports, 0, &OWNER)).into_record();
        let old_keys = keys_of(self.model.records(block).get(&address).map(Arc::as_ref));
        let new_keys = keys_of(record.as_deref());
        let change = || Change { address, record: record.clone() };
        self.model.apply(block, &[change()]);
        let info = info(block, parent, false);
        let ids = self.ledger.apply(block, vec![change()], info).expect("there is room");
        let open = self.open.get_mut(&block).expect("it is open");
        let mut removed_keys = old_keys;
        removed_keys.retain(|key| !new_keys.contains(key));
        let account = record.map(StoredRecord::from);
        let write = AccountWrite { pubkey, id: ids[0], account, removed_keys };
        open.writes.insert(pubkey, write);
        let transaction = executed(block, open.transactions.len(), signature(number), pubkey);
        open.transactions.push(Arc::new(transaction));
    }

    fn freeze(&mut self, id: BlockId) {
        let OpenBlock { parent, transactions, writes } =
            self.open.remove(&id).expect("only open blocks are completed");
        let parent = parent.expect("an open block has a parent");
        let block = Arc::new(Block {
            id,
            parent,
            block_height: id.slot,
            blockhash: blockhash(id),
            previous_blockhash: blockhash(parent),
            bank_hash: blockhash(id),
            hash_components: BankHashComponents::default(),
            block_time: id.slot as i64,
            transaction_count: 0,
            transactions,
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: writes.into_values().collect(),
        });
        self.model.complete(id);
        self.ledger.complete(id, info(id, parent, true)).expect("it is open");
        self.history.record_block(&block);
        self.frozen.insert(id, block);
        self.unsent_frozen.insert(id);
    }

    fn set_tip(&mut self, block: BlockId) {
        self.model.set_tip(block);
        self.ledger.set_tip(block).expect("it is frozen");
        self.history.set_tip(block);
    }

    fn finalize(&mut self, block: BlockId) {
        if !self.model.is_on(self.model.tip(Commitment::Confirmed), block) {
            return;
        }
        let new = self.chain_to(block).into_iter().map(|block| block.id);
        let new: Vec<BlockId> = new.filter(|id| !self.rooted.contains(id)).collect();
        self.model.finalize(block);
        self.ledger.finalize(block).expect("it is frozen");
        self.history.finalize(block);
        self.rooted.extend(&new);
        self.unsent_rooted.extend(new);
        self.forget_open();
    }

    fn drop_fork(&mut self, block: BlockId) {
        if self.model.is_on(self.model.tip(Commitment::Confirmed), block) {
            return;
        }
        let frozen = self.model.unrooted(true);
        self.dropped.extend(frozen.into_iter().filter(|id| self.model.is_on(*id, block)));
        self.model.drop_fork(block);
        self.ledger.drop_fork(block).expect("it is unrooted");
        self.history.drop_fork(block);
        self.forget_open();
    }

    fn forget_open(&mut self) {
        let open = self.model.unrooted(false);
        self.open.retain(|id, _| open.contains(id));
    }

    fn publish(&mut self) {
        let confirmed = self.model.tip(Commitment::Confirmed);
        if !self.model.is_on(self.model.tip(Commitment::Processed), confirmed) {
            self.set_tip(confirmed);
        }
        self.history.publish();
        self.ledger.publish();
        let timestamp_ms = 1;

        let alive = self.model.unrooted(true);
        let gone: Vec<BlockId> = self.frozen.keys().copied().collect();
        let gone = gone.into_iter().filter(|id| !alive.contains(id) && !self.rooted.contains(id));
        let gone: Vec<Arc<Block>> =
            gone.collect::<Vec<_>>().iter().filter_map(|id| self.frozen.remove(id)).collect();
        // A block that was never reported as frozen needs no end.
        let gone: Vec<_> =
            gone.into_iter().filter(|block| !self.unsent_frozen.remove(&block.id)).collect();
        for id in std::mem::take(&mut self.unsent_frozen) {
            let block = Arc::clone(&self.frozen[&id]);
            let info = info(block.id, block.parent, true);
            self.send(&LedgerEvent::Frozen { block, info, timestamp_ms });
        }
        for block in gone.into_iter().rev() {
            let reason = match self.dropped.remove(&block.id) {
                true => RevertReason::Dead { error: "dropped".to_owned() },
                false => RevertReason::Abandoned,
            };
            self.send(&LedgerEvent::Reverted { block, reason, timestamp_ms });
        }
        let tips = [Commitment::Processed, Commitment::Confirmed].map(|at| self.model.tip(at));
        let [processed, confirmed] = tips;
        if self.sent_tips[0] != processed {
            for block in self.chain_to(processed) {
                if self.executed.insert(block.id) && !block.transactions.is_empty() {
                    self.send(&LedgerEvent::Executed(block.transactions.clone().into()));
                }
            }
            self.send(&LedgerEvent::TipMoved { block: processed });
        }
        if self.sent_tips[1] != confirmed
            && let Some(block) = self.frozen.get(&confirmed).cloned()
        {
            self.send(&LedgerEvent::Confirmed { block, timestamp_ms });
        }
        self.sent_tips = tips;
        for id in std::mem::take(&mut self.unsent_rooted) {
            self.send(&LedgerEvent::Rooted { block: Arc::clone(&self.frozen[&id]), timestamp_ms });
        }
    }
}

fn info(block: BlockId, parent: BlockId, complete: bool) -> Arc<BlockInfo> {
    Arc::new(BlockInfo {
        block,
        parent,
        block_height: block.slot,
        blockhashes: Arc::new(BlockhashQueue::new(blockhash(block))),
        transaction_count: 0,
        unix_timestamp: block.slot as i64,
        capitalization: 0,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete,
    })
}

fn keys_of(account: Option<&Account>) -> Vec<(KeyKind, Address)> {
    let mut keys = Vec::new();
    if let Some(account) = account {
        account.keys(&mut |kind, address| keys.push((kind, address)));
    }
    keys
}

fn executed(
    block: BlockId,
    index: usize,
    signature: Signature,
    pubkey: Pubkey,
) -> ExecutedTransaction {
    ExecutedTransaction {
        slot: block.slot,
        index: index as u32,
        block_time: block.slot as i64,
        transaction: VersionedTransaction {
            signatures: vec![signature],
            message: VersionedMessage::default(),
        },
        meta: TransactionStatusMeta {
            log_messages: Some(vec!["a line".to_owned()]),
            ..TransactionStatusMeta::default()
        },
        account_keys: vec![pubkey],
        is_vote: false,
        visibility: Default::default(),
    }
}

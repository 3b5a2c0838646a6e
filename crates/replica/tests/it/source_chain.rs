//! A chain with forks whose blocks have real sums and bank hashes, and the accounts after each block.
//!
//! Shape: a block is known by its index. The first one is the root that replicas start at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chain_solana::{
    AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue, ExecutedTransaction,
};
use fastrand::Rng;
use lattice::{BankHashInputs, LtHash};
use ledger::{AddressId, BlockId, Slot, StoredRecord};
use solana::{Account, lt_hash};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_status::TransactionStatusMeta;

/// The slot of the first block.
pub(crate) const FIRST_SLOT: Slot = 10;
/// Number of accounts that are written.
const ACCOUNTS: u8 = 40;

/// The accounts after a block.
pub(crate) type Accounts = BTreeMap<Pubkey, AccountSharedData>;

/// A block with the state after it.
pub(crate) struct SourceBlock {
    pub(crate) block: Arc<Block>,
    pub(crate) info: Arc<BlockInfo>,
    pub(crate) parent: usize,
    pub(crate) accounts: Accounts,
    pub(crate) lt_hash: LtHash,
}

/// The events of a step, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Block(usize),
    Reverted(usize),
    TipMoved(usize),
    Confirmed(usize),
    Rooted(usize),
}

/// A chain with forks.
pub(crate) struct SourceChain {
    pub(crate) blocks: Vec<SourceBlock>,
    /// The blocks above the root.
    alive: BTreeSet<usize>,
    pub(crate) tip: usize,
    pub(crate) confirmed: usize,
    pub(crate) root: usize,
    newest_slot: Slot,
    signatures: u64,
    rng: Rng,
}

fn key(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

fn hash(n: u64) -> Hash {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    Hash::new_from_array(bytes)
}

fn account(rng: &mut Rng) -> AccountSharedData {
    let data: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
    let owner = key(200 + rng.u8(..3));
    let lamports = rng.u64(1..1_000_000);
    AccountSharedData::from(solana_account::Account { lamports, data, owner, ..Default::default() })
}

fn bank_hash(parent_hash: Hash, signature_count: u64, blockhash: Hash, sum: &LtHash) -> Hash {
    let inputs = BankHashInputs {
        parent_hash: parent_hash.to_bytes(),
        signature_count,
        last_blockhash: blockhash.to_bytes(),
        lt_hash: sum,
        hard_forks: 0,
    };
    Hash::new_from_array(inputs.hash())
}

fn capitalization(accounts: &Accounts) -> u64 {
    accounts.values().map(ReadableAccount::lamports).sum()
}

impl SourceChain {
    /// The chain of a seed, with its first block.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let accounts: Accounts =
            (0..ACCOUNTS).step_by(2).map(|n| (key(n), account(&mut rng))).collect();
        let mut sum = LtHash::EMPTY;
        for (pubkey, account) in &accounts {
            sum.mix_in(&lt_hash(pubkey, account));
        }
        let id = BlockId { slot: FIRST_SLOT, version: 1 };
        let parent = BlockId { slot: FIRST_SLOT - 1, version: 0 };
        let components = BankHashComponents {
            parent_hash: hash(1),
            signature_count: 0,
            last_blockhash: hash(FIRST_SLOT),
            lt_checksum: Hash::new_from_array(sum.checksum()),
        };
        let block = Block {
            id,
            parent,
            block_height: 5,
            blockhash: hash(FIRST_SLOT),
            previous_blockhash: hash(FIRST_SLOT - 1),
            bank_hash: bank_hash(hash(1), 0, hash(FIRST_SLOT), &sum),
            hash_components: components,
            block_time: FIRST_SLOT as i64,
            transaction_count: 0,
            transactions: Vec::new(),
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes: Vec::new(),
        };
        let blockhashes = BlockhashQueue::new(hash(FIRST_SLOT - 1)).with(block.blockhash);
        let info = BlockInfo {
            block: id,
            parent,
            block_height: block.block_height,
            blockhashes: Arc::new(blockhashes),
            transaction_count: 0,
            unix_timestamp: FIRST_SLOT as i64,
            capitalization: capitalization(&accounts),
            bank_hash: block.bank_hash,
            hash_components: components,
            complete: true,
        };
        let first = SourceBlock {
            block: Arc::new(block),
            info: Arc::new(info),
            parent: 0,
            accounts,
            lt_hash: sum,
        };
        Self {
            blocks: vec![first],
            alive: BTreeSet::new(),
            tip: 0,
            confirmed: 0,
            root: 0,
            newest_slot: FIRST_SLOT,
            signatures: 0,
            rng,
        }
    }

    /// The blocks from the first one to `block`, the oldest first.
    pub(crate) fn chain_to(&self, block: usize) -> Vec<usize> {
        let mut chain = vec![block];
        let mut at = block;
        while at != 0 {
            at = self.blocks[at].parent;
            chain.push(at);
        }
        chain.reverse();
        chain
    }

    fn is_on(&self, block: usize, ancestor: usize) -> bool {
        self.chain_to(block).contains(&ancestor)
    }

    /// Makes a block on any parent that is alive, or on the root.
    pub(crate) fn make_block(&mut self, parent: usize) -> usize {
        self.newest_slot += self.rng.u64(1..4);
        let slot = self.newest_slot;
        let index = self.blocks.len();
        let before = &self.blocks[parent];
        let mut accounts = before.accounts.clone();
        let mut sum = before.lt_hash.clone();
        let mut written = BTreeMap::new();
        for _ in 0..self.rng.usize(1..5) {
            let pubkey = key(self.rng.u8(..ACCOUNTS));
            let is_closed = self.rng.u8(..5) == 0;
            let after = (!is_closed).then(|| account(&mut self.rng));
            written.insert(pubkey, after);
        }
        let mut writes = Vec::new();
        for (pubkey, after) in written {
            let replaced = match &after {
                Some(account) => accounts.insert(pubkey, account.clone()),
                None => accounts.remove(&pubkey),
            };
            if let Some(replaced) = replaced {
                sum.mix_out(&lt_hash(&pubkey, &replaced));
            }
            if let Some(account) = &after {
                sum.mix_in(&lt_hash(&pubkey, account));
            }
            let account = after.map(|account| StoredRecord::from(Arc::new(Account(account))));
            writes.push(AccountWrite {
                pubkey,
                id: AddressId(0),
                account,
                removed_keys: Vec::new(),
            });
        }
        let transactions: Vec<_> =
            (0..self.rng.usize(..4)).map(|at| Arc::new(self.make_transaction(slot, at))).collect();
        let before = &self.blocks[parent];
        let id = BlockId { slot, version: index as u64 + 1 };
        let blockhash = hash(slot);
        let signature_count = transactions.len() as u64;
        let bank_hash = bank_hash(before.block.bank_hash, signature_count, blockhash, &sum);
        let components = BankHashComponents {
            parent_hash: before.block.bank_hash,
            signature_count,
            last_blockhash: blockhash,
            lt_checksum: Hash::new_from_array(sum.checksum()),
        };
        let block = Block {
            id,
            parent: before.block.id,
            block_height: before.block.block_height + 1,
            blockhash,
            previous_blockhash: before.block.blockhash,
            bank_hash,
            hash_components: components,
            block_time: slot as i64,
            transaction_count: before.block.transaction_count + signature_count,
            transactions,
            rewards: Vec::new(),
            reward_partitions: None,
            entries: Vec::new(),
            writes,
        };
        let info = BlockInfo {
            block: id,
            parent: block.parent,
            block_height: block.block_height,
            blockhashes: Arc::new(before.info.blockhashes.with(blockhash)),
            transaction_count: block.transaction_count,
            unix_timestamp: slot as i64,
            capitalization: capitalization(&accounts),
            bank_hash,
            hash_components: components,
            complete: true,
        };
        self.blocks.push(SourceBlock {
            block: Arc::new(block),
            info: Arc::new(info),
            parent,
            accounts,
            lt_hash: sum,
        });
        self.alive.insert(index);
        index
    }

    fn make_transaction(&mut self, slot: Slot, index: usize) -> ExecutedTransaction {
        self.signatures += 1;
        let mut signature = [3; 64];
        signature[..8].copy_from_slice(&self.signatures.to_le_bytes());
        ExecutedTransaction {
            slot,
            index: index as u32,
            block_time: slot as i64,
            transaction: VersionedTransaction {
                signatures: vec![Signature::from(signature)],
                message: VersionedMessage::default(),
            },
            meta: TransactionStatusMeta::default(),
            account_keys: Vec::new(),
            is_vote: false,
            visibility: Default::default(),
        }
    }

    /// Makes the next block on this parent, and the moves of the tips that follow it.
    pub(crate) fn extend(&mut self, parent: usize) -> Vec<Step> {
        let block = self.make_block(parent);
        let mut steps = vec![Step::Block(block)];
        if self.is_on(block, self.confirmed) {
            steps.extend(self.move_tips(block));
        }
        steps
    }

    /// Makes the next block somewhere, mostly on the tip.
    pub(crate) fn step(&mut self) -> Vec<Step> {
        let parent = match self.rng.u8(..10) {
            0..7 => self.tip,
            7..9 => {
                let chain = self.chain_to(self.tip);
                let from_root = chain.into_iter().skip_while(|block| *block != self.root);
                let candidates: Vec<_> = from_root.collect();
                candidates[self.rng.usize(..candidates.len())]
            }
            _ => {
                let alive: Vec<_> = self.alive.iter().copied().collect();
                let any = (!alive.is_empty()).then(|| alive[self.rng.usize(..alive.len())]);
                any.unwrap_or(self.root)
            }
        };
        self.extend(parent)
    }

    /// Moves the tip to a block, confirms its grandparent, and roots the block 5 below it.
    fn move_tips(&mut self, tip: usize) -> Vec<Step> {
        let mut steps = vec![Step::TipMoved(tip)];
        self.tip = tip;
        let chain = self.chain_to(tip);
        let below = |depth: usize| chain.len().checked_sub(depth + 1).map(|at| chain[at]);
        if let Some(confirmed) = below(2).filter(|block| *block > self.confirmed)
            && self.is_on(confirmed, self.confirmed)
        {
            let new = chain
                .iter()
                .copied()
                .filter(|block| *block > self.confirmed && *block <= confirmed);
            steps.extend(new.map(Step::Confirmed));
            self.confirmed = confirmed;
        }
        if let Some(root) = below(5).filter(|block| *block > self.root) {
            let new: Vec<_> =
                chain.iter().copied().filter(|it| *it > self.root && *it <= root).collect();
            for root in new {
                self.root = root;
                let dead: Vec<_> = self
                    .alive
                    .iter()
                    .rev()
                    .copied()
                    .filter(|block| !self.is_on(*block, root) && !chain.contains(block))
                    .collect();
                for block in dead {
                    self.alive.remove(&block);
                    steps.push(Step::Reverted(block));
                }
                self.alive.remove(&root);
                steps.push(Step::Rooted(root));
            }
        }
        steps
    }
}

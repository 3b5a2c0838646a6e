//! A made-up chain whose blocks have real sums and bank hashes, so that a replica accepts them.
//!
//! An account is known by its index. Its content follows from the index and the number of its writes, so the chain
//! holds no account. Data does not compress, lamports never change, and blocks have no transactions.

use std::collections::VecDeque;
use std::sync::Arc;

use chain_solana::{AccountWrite, BankHashComponents, Block, BlockInfo, BlockhashQueue};
use lattice::{BankHashInputs, LtHash};
use ledger::{AddressId, BlockId, Slot, StoredRecord};
use solana::{Account, lt_hash};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// The slot of the first block.
const FIRST_SLOT: Slot = 10;
const LAMPORTS: u64 = 1_000_000;
/// Blocks that are remembered: those above the root, and the root.
const RECENT_BLOCKS: usize = 64;
/// An odd number: a product with it visits all numbers once.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Accounts of the state.
    pub(crate) accounts: u32,
    /// Bytes of an account's data.
    pub(crate) account_bytes: usize,
}

/// A block, and the state after it.
#[derive(Clone)]
pub(crate) struct MadeBlock {
    pub(crate) block: Arc<Block>,
    pub(crate) info: Arc<BlockInfo>,
    pub(crate) sum: LtHash,
}

/// The chain so far.
pub(crate) struct MadeChain {
    shape: Shape,
    /// The number of writes of each account.
    writes: Vec<u32>,
    next: u32,
    recent: VecDeque<MadeBlock>,
}

impl MadeChain {
    /// A chain with its first block, after which all accounts exist.
    pub(crate) fn new(shape: Shape) -> Self {
        let mut sum = LtHash::EMPTY;
        for index in 0..shape.accounts {
            sum.mix_in(&lt_hash(&key(index), &account(shape, index, 0)));
        }
        let parent = BlockId { slot: FIRST_SLOT - 1, version: 0 };
        let id = BlockId { slot: FIRST_SLOT, version: 1 };
        let parent_hash = blockhash(parent.slot);
        let blockhashes = BlockhashQueue::new(parent_hash);
        let first = make_block(id, parent, parent_hash, &blockhashes, shape, sum, Vec::new());
        let writes = vec![0; shape.accounts as usize];
        Self { shape, writes, next: 0, recent: VecDeque::from([first]) }
    }

    /// Returns the newest block.
    pub(crate) fn tip(&self) -> &MadeBlock {
        &self.recent[self.recent.len() - 1]
    }

    /// Returns a block of the newest ones.
    pub(crate) fn find(&self, slot: Slot) -> Option<&MadeBlock> {
        self.recent.iter().find(|made| made.block.id.slot == slot)
    }

    /// Returns the accounts of the first block. Call it before [`Self::extend`].
    pub(crate) fn first_accounts(&self) -> impl Iterator<Item = (Pubkey, AccountSharedData)> {
        let shape = self.shape;
        (0..shape.accounts).map(move |index| (key(index), account(shape, index, 0)))
    }

    /// Makes a block that writes `count` accounts, the next ones in a circle.
    pub(crate) fn extend(&mut self, count: u32) -> &MadeBlock {
        let parent = self.tip().clone();
        let mut sum = parent.sum.clone();
        let mut writes = Vec::new();
        for _ in 0..count.min(self.shape.accounts) {
            let index = self.next;
            self.next = (self.next + 1) % self.shape.accounts;
            let pubkey = key(index);
            let version = &mut self.writes[index as usize];
            sum.mix_out(&lt_hash(&pubkey, &account(self.shape, index, *version)));
            *version += 1;
            let written = account(self.shape, index, *version);
            sum.mix_in(&lt_hash(&pubkey, &written));
            let account = Some(StoredRecord::from(Arc::new(Account(written))));
            let id = AddressId(0);
            writes.push(AccountWrite { pubkey, id, account, removed_keys: Vec::new() });
        }
        writes.sort_by_key(|write| write.pubkey);
        let parent_id = parent.block.id;
        let id = BlockId { slot: parent_id.slot + 1, version: parent_id.version + 1 };
        let parent_hash = parent.block.bank_hash;
        let blockhashes = &parent.info.blockhashes;
        let made = make_block(id, parent_id, parent_hash, blockhashes, self.shape, sum, writes);
        if self.recent.len() == RECENT_BLOCKS {
            self.recent.pop_front();
        }
        self.recent.push_back(made);
        self.tip()
    }
}

fn make_block(
    id: BlockId,
    parent: BlockId,
    parent_hash: Hash,
    blockhashes: &BlockhashQueue,
    shape: Shape,
    sum: LtHash,
    writes: Vec<AccountWrite>,
) -> MadeBlock {
    let last_blockhash = blockhash(id.slot);
    let hash_components = BankHashComponents {
        parent_hash,
        signature_count: 0,
        last_blockhash,
        lt_checksum: Hash::new_from_array(sum.checksum()),
    };
    let inputs = BankHashInputs {
        parent_hash: parent_hash.to_bytes(),
        signature_count: 0,
        last_blockhash: last_blockhash.to_bytes(),
        lt_hash: &sum,
        hard_forks: 0,
    };
    let bank_hash = Hash::new_from_array(inputs.hash());
    let block = Block {
        id,
        parent,
        block_height: id.slot,
        blockhash: last_blockhash,
        previous_blockhash: blockhash(parent.slot),
        bank_hash,
        hash_components,
        block_time: id.slot as i64,
        transaction_count: 0,
        transactions: Vec::new(),
        rewards: Vec::new(),
        reward_partitions: None,
        entries: Vec::new(),
        writes,
    };
    let info = BlockInfo {
        block: id,
        parent,
        block_height: block.block_height,
        blockhashes: Arc::new(blockhashes.with(last_blockhash)),
        transaction_count: 0,
        unix_timestamp: block.block_time,
        capitalization: u64::from(shape.accounts) * LAMPORTS,
        bank_hash,
        hash_components,
        complete: true,
    };
    MadeBlock { block: Arc::new(block), info: Arc::new(info), sum }
}

/// The address of an account. Neighbours are far from each other.
fn key(index: u32) -> Pubkey {
    let mut bytes = [0x5A; 32];
    bytes[..8].copy_from_slice(&u64::from(index + 1).wrapping_mul(SPREAD).to_be_bytes());
    Pubkey::new_from_array(bytes)
}

fn blockhash(slot: Slot) -> Hash {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&slot.to_le_bytes());
    Hash::new_from_array(bytes)
}

/// An account after a number of writes.
fn account(shape: Shape, index: u32, writes: u32) -> AccountSharedData {
    // xorshift64, whose state must not be zero.
    let mut state = ((u64::from(index) << 32) | u64::from(writes)).wrapping_mul(SPREAD) | 1;
    let mut data = vec![0; shape.account_bytes];
    for chunk in data.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    let owner = Pubkey::new_from_array([9; 32]);
    AccountSharedData::from(solana_account::Account {
        lamports: LAMPORTS,
        data,
        owner,
        ..Default::default()
    })
}

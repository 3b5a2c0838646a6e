//! A chain whose hashes are computed from its whole state, and a follower with a state of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lattice::{BankHashInputs, LtHash};
use ledger::BlockId;
use solana::{Account, lt_hash};
use solana_account::AccountSharedData;
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::{
    AccountChange, ArchivedBank, FrozenBank, RootBank, Verdict, VerdictChange, Verifier,
    VerifierConfig, VerifierError,
};

const ACCOUNTS: u8 = 24;
const WRITES: usize = 6;

type State = BTreeMap<Pubkey, Arc<Account>>;

/// A bank as a stream sends it.
#[derive(Clone, Debug)]
pub(super) struct SentBank {
    pub(super) block: BlockId,
    pub(super) parent: BlockId,
    /// The first one is not a removal.
    pub(super) writes: Vec<(Pubkey, Option<Arc<Account>>)>,
    pub(super) signature_count: u64,
    pub(super) blockhash: Hash,
    pub(super) hash: Hash,
}

#[derive(Clone)]
pub(super) struct Chain {
    pub(super) random: Rng,
    state: State,
    block: BlockId,
    hash: Hash,
}

/// A verifier, and the state of each bank that it knows.
pub(super) struct Follower {
    pub(super) verifier: Verifier,
    states: BTreeMap<BlockId, State>,
}

pub(super) fn random_hash(random: &mut Rng) -> Hash {
    Hash::new_from_array(std::array::from_fn(|_| random.u8(..)))
}

pub(super) fn random_account(random: &mut Rng) -> Account {
    let owner = Pubkey::new_from_array([random.u8(..); 32]);
    let data: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
    Account(AccountSharedData::from(solana_account::Account {
        lamports: 1 + random.u64(..1 << 50),
        data,
        owner,
        executable: random.u8(..8) == 0,
        rent_epoch: 0,
    }))
}

fn full_sum(state: &State) -> LtHash {
    let mut sum = LtHash::EMPTY;
    state.iter().for_each(|(key, account)| sum.mix_in(&lt_hash(key, &account.0)));
    sum
}

impl Chain {
    /// A chain at its root, and a follower that starts there.
    pub(super) fn start(seed: u64, config: VerifierConfig) -> (Self, Follower) {
        let mut random = Rng::with_seed(seed);
        let key = |n| Pubkey::new_from_array([n; 32]);
        let state: State =
            (0..ACCOUNTS / 2).map(|n| (key(n), Arc::new(random_account(&mut random)))).collect();
        let block = BlockId { slot: 100, version: 0 };
        let hash = random_hash(&mut random);
        let root = RootBank { block, bank_hash: hash, lt_hash: full_sum(&state) };
        let verifier = Verifier::new(config, root);
        let states = [(block, state.clone())].into();
        (Self { random, state, block, hash }, Follower { verifier, states })
    }

    pub(super) fn next(&mut self) -> SentBank {
        let slot = self.block.slot + self.random.u64(1..3);
        self.next_at(BlockId { slot, version: 0 })
    }

    /// The next bank, as this block.
    pub(super) fn next_at(&mut self, block: BlockId) -> SentBank {
        let mut keys: Vec<u8> = (0..ACCOUNTS).collect();
        self.random.shuffle(&mut keys);
        let mut writes = Vec::new();
        for key in keys.into_iter().take(WRITES) {
            let key = Pubkey::new_from_array([key; 32]);
            let removes = !writes.is_empty() && self.state.contains_key(&key) && self.random.bool();
            let account = (!removes).then(|| Arc::new(random_account(&mut self.random)));
            match &account {
                Some(account) => self.state.insert(key, Arc::clone(account)),
                None => self.state.remove(&key),
            };
            writes.push((key, account));
        }
        let signature_count = self.random.u64(..1_000);
        let blockhash = random_hash(&mut self.random);
        let inputs = BankHashInputs {
            parent_hash: self.hash.to_bytes(),
            signature_count,
            last_blockhash: blockhash.to_bytes(),
            lt_hash: &full_sum(&self.state),
            hard_forks: 0,
        };
        self.hash = Hash::new_from_array(inputs.hash());
        let parent = std::mem::replace(&mut self.block, block);
        SentBank { block, parent, writes, signature_count, blockhash, hash: self.hash }
    }
}

impl Follower {
    /// Jumps from a bank to the newest one of a chain, whose archive claims this hash.
    pub(super) fn jump(&mut self, parent: BlockId, chain: &Chain, bank_hash: Hash) -> BlockId {
        let block = chain.block;
        let bank = RootBank { block, bank_hash, lt_hash: full_sum(&chain.state) };
        let archived = ArchivedBank { bank, parent, hard_forks: Vec::new() };
        let changed = self.verifier.jump(archived, Duration::ZERO).expect("it is above");
        assert_eq!(changed, []);
        self.states.insert(block, chain.state.clone());
        block
    }

    /// Applies a bank to the follower's own state of the parent, and freezes it.
    pub(super) fn freeze(&mut self, bank: &SentBank) -> Result<Vec<VerdictChange>, VerifierError> {
        let mut state = self.states[&bank.parent].clone();
        let mut changes = Vec::new();
        for (pubkey, after) in &bank.writes {
            let before = match after {
                Some(account) => state.insert(*pubkey, Arc::clone(account)),
                None => state.remove(pubkey),
            };
            changes.push(AccountChange { pubkey: *pubkey, before, after: after.clone() });
        }
        let frozen = FrozenBank {
            block: bank.block,
            parent: bank.parent,
            changes: &changes,
            signature_count: bank.signature_count,
            blockhash: bank.blockhash,
        };
        let changed = self.verifier.freeze(&frozen, Duration::ZERO)?;
        self.states.insert(bank.block, state);
        Ok(changed)
    }

    /// Freezes a bank, and reports its true hash as a child does. Returns its verdict.
    pub(super) fn follow(&mut self, bank: &SentBank) -> Verdict {
        assert_eq!(self.freeze(bank), Ok(Vec::new()), "nothing is known of its hash yet");
        let now = Duration::from_millis(400);
        let reported = self.verifier.child_reports(bank.block, bank.hash, now);
        let reported = reported.expect("the bank is known");
        let [change] = &reported[..] else { panic!("one verdict: {reported:?}") };
        assert_eq!((change.block, change.since_frozen), (bank.block, now));
        assert_eq!(self.verifier.verdict(bank.block), Some(&change.verdict));
        change.verdict.clone()
    }
}

//! Bank hashes: the carried sum over all accounts, what the hashes cover, and that `verify` confirms each of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{
    Block, BlockInfo, ControlCommand, EventSink, LedgerEvent, ResetScope, TimeTarget, View,
};
use lattice::{BankHashInputs, LtHash};
use ledger::{BlockId, Commitment};
use localnet::{Config, Localnet};
use parking_lot::Mutex;
use solana::{Account, EpochVoter, VerificationLevel, lt_hash};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{incinerator, system_program, sysvar};
use solana_signer::Signer;
use solana_system_interface::instruction::{create_account, transfer};
use verify::{
    AccountChange, FrozenBank, RootBank, SignedVote, StakedVoters, Verdict, Verifier,
    VerifierConfig, newest_slot_hash,
};

use crate::control::{control, set};
use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
const SLOTS: u64 = 32;
/// Banks above the follower's root.
const UNROOTED: u64 = 8;

fn epochs_of_32_slots() -> Config {
    Config { slots_per_epoch: SLOTS, ..on_demand() }
}

fn key_of(address: &ledger::Address) -> Pubkey {
    Pubkey::try_from(address.as_bytes()).expect("an address of 32 bytes")
}

/// The sum over all accounts of a view, computed from nothing.
fn full_sum(view: &View) -> LtHash {
    let mut sum = LtHash::EMPTY;
    view.all().for_each(|(address, account)| sum.mix_in(&lt_hash(&key_of(&address), &account.0)));
    sum
}

/// Compares the carried sum and the hash of the newest block with what follows from the whole state.
fn check_newest(node: &Node) -> BlockInfo {
    let view = node.reader.view(Commitment::Confirmed);
    let sum = full_sum(&view);
    let info = (**view.meta()).clone();
    let components = info.hash_components;
    let slot = info.block.slot;
    assert_eq!(components.lt_checksum.to_bytes(), sum.checksum(), "slot {slot}");
    assert_eq!(components.last_blockhash, info.last_blockhash(), "slot {slot}");
    let inputs = BankHashInputs {
        parent_hash: components.parent_hash.to_bytes(),
        signature_count: components.signature_count,
        last_blockhash: components.last_blockhash.to_bytes(),
        lt_hash: &sum,
        hard_forks: 0,
    };
    assert_eq!(info.bank_hash.to_bytes(), inputs.hash(), "slot {slot}");
    info
}

/// Random transactions: transfers, new accounts, closed ones, burnt lamports, failures, and calls of no program.
fn random_load(node: &Node, random: &mut fastrand::Rng, count: usize) {
    let payer = Keypair::new();
    node.airdrop(&payer.pubkey(), 1_000 * SOL);
    let mut wallets: Vec<Keypair> = Vec::new();
    for _ in 0..count {
        let from = payer.pubkey();
        let new = Keypair::new();
        let wallet = (!wallets.is_empty()).then(|| random.usize(..wallets.len()));
        let (instructions, signers) = match (random.u8(..6), wallet) {
            (0, Some(index)) => {
                // Closes a wallet: its whole balance goes back.
                let wallet = wallets.swap_remove(index);
                let lamports = node.lamports(&wallet.pubkey());
                let close = vec![transfer(&wallet.pubkey(), &from, lamports)];
                node.send(signed(&close, &[&payer, &wallet], &node.blockhash()));
                assert_eq!(node.account(&wallet.pubkey()), None);
                continue;
            }
            (1, _) => {
                let space = random.u64(..2_000);
                let owner = Pubkey::new_unique();
                (vec![create_account(&from, &new.pubkey(), SOL, space, &owner)], vec![&payer, &new])
            }
            (2, _) => (vec![transfer(&from, &incinerator::ID, SOL)], vec![&payer]),
            (3, _) => (vec![transfer(&from, &new.pubkey(), u64::MAX)], vec![&payer]),
            (4, Some(index)) => {
                let program_id = wallets[index].pubkey();
                let call = Instruction { program_id, accounts: Vec::new(), data: Vec::new() };
                (vec![call], vec![&payer])
            }
            _ => (vec![transfer(&from, &new.pubkey(), SOL)], vec![&payer]),
        };
        node.send(signed(&instructions, &signers, &node.blockhash()));
        let account = node.account(&new.pubkey());
        if account.is_some_and(|account| account.0.owner() == &system_program::ID) {
            wallets.push(new);
        }
    }
}

#[test]
fn the_carried_sum_equals_that_over_the_whole_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { dir: Some(dir.path().join("ledger")), ..epochs_of_32_slots() };
    let mut random = fastrand::Rng::with_seed(11);
    let mut last: Option<BlockInfo> = None;
    // Each start is a restart of the one before, and each run passes an end of an epoch with rewards.
    for _ in 0..3 {
        let node = Node::start(&config);
        if let Some(last) = last {
            let head = check_newest(&node);
            assert!(head.block.slot >= last.block.slot);
            if head.block == last.block {
                assert_eq!(head.bank_hash, last.bank_hash);
                assert_eq!(head.hash_components, last.hash_components);
            }
        }
        for _ in 0..5 {
            random_load(&node, &mut random, 10);
            check_newest(&node);
        }
        last = Some(check_newest(&node));
        node.stop();
    }
    assert!(last.is_some_and(|last| last.block.slot > 4 * SLOTS), "epochs paid rewards");
}

#[test]
fn a_ledger_from_a_snapshot_continues_its_sum() {
    let localnet = localnet::open_snapshot(&on_demand(), crate::from_snapshot::sample());
    let localnet = localnet.expect("the ledger is made");
    let node = Node::run(localnet);
    random_load(&node, &mut fastrand::Rng::with_seed(12), 10);
    check_newest(&node);
    node.stop();
}

#[test]
fn a_bank_hash_counts_the_signatures_of_failed_transactions_and_not_those_of_precompiles() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let bob = Keypair::new();
    node.airdrop(&alice.pubkey(), SOL);
    let vote = 2; // the identity pays, and the vote account votes
    let fails = [transfer(&alice.pubkey(), &bob.pubkey(), u64::MAX)];
    let call = Instruction { program_id: bob.pubkey(), accounts: Vec::new(), data: Vec::new() };
    let two = [create_account(&alice.pubkey(), &bob.pubkey(), SOL / 2, 0, &system_program::ID)];
    let checked = crate::precompiles::ed25519(crate::precompiles::MESSAGE);
    let cases: [(&[Instruction], &[&Keypair], u64); 4] = [
        (&fails, &[&alice], 1),
        (&[call], &[&alice], 1),
        (&two, &[&alice, &bob], 2),
        (&[checked], &[&alice], 1),
    ];
    for (instructions, signers, signatures) in cases {
        node.send(signed(instructions, signers, &node.blockhash()));
        assert_eq!(check_newest(&node).hash_components.signature_count, vote + signatures);
    }
    node.stop();
}

/// What a [`Follower`] found.
#[derive(Default)]
struct Found {
    sequence: usize,
    voted: usize,
    mismatches: Vec<(BlockId, Verdict)>,
}

/// Follows the ledger's events, with a state of its own, and verifies each block.
struct Follower {
    verifier: Verifier,
    state: HashMap<Pubkey, Arc<Account>>,
    blocks: Vec<BlockId>,
    found: Arc<Mutex<Found>>,
}

impl Follower {
    /// Starts at the newest block of a ledger. Its one validator has all the stake.
    fn new(localnet: &Localnet) -> (Self, Arc<Mutex<Found>>) {
        let view = localnet.reader().view(Commitment::Confirmed);
        let block = view.block();
        let bank_hash = view.meta().bank_hash;
        let root = RootBank { block, bank_hash, lt_hash: full_sum(&view) };
        let mut verifier = Verifier::new(VerifierConfig::default(), root);
        let vote_account = localnet.vote_account();
        let authorized_voter = Some(vote_account);
        let node = localnet.identity().pubkey();
        let voter = EpochVoter { vote_account, node, authorized_voter, stake: SOL };
        verifier.set_epoch_stakes(StakedVoters::new(0..=u64::MAX, vec![voter]));
        let state = view.all().map(|(address, account)| (key_of(&address), account)).collect();
        let found = Arc::<Mutex<Found>>::default();
        (Self { verifier, state, blocks: vec![block], found: Arc::clone(&found) }, found)
    }

    fn follow(&mut self, block: &Block) {
        let now = Duration::from_secs(block.block_time as u64);
        let mut changed = Vec::new();
        for write in &block.writes {
            if write.pubkey == sysvar::slot_hashes::ID
                && let Some(account) = write.after()
                && let Some((slot, hash)) = newest_slot_hash(account.0.data())
                && self.blocks.len() > 1
            {
                assert_eq!(slot, block.parent.slot);
                let reported = self.verifier.child_reports(block.parent, hash, now);
                changed.extend(reported.expect("the parent is frozen"));
            }
        }
        for executed in block.transactions.iter().filter(|executed| executed.is_vote) {
            let vote = SignedVote::verify(&executed.transaction).expect("a signed vote");
            changed.extend(self.verifier.vote(&vote, now));
        }
        let changes: Vec<AccountChange> = block
            .writes
            .iter()
            .map(|write| {
                let before = match write.after() {
                    Some(account) => self.state.insert(write.pubkey, account),
                    None => self.state.remove(&write.pubkey),
                };
                AccountChange { pubkey: write.pubkey, before, after: write.after() }
            })
            .collect();
        let signatures =
            block.transactions.iter().map(|executed| executed.transaction.signatures.len() as u64);
        let bank = FrozenBank {
            block: block.id,
            parent: block.parent,
            changes: &changes,
            signature_count: signatures.sum(),
            blockhash: block.blockhash,
        };
        changed.extend(self.verifier.freeze(&bank, now).expect("the parent is frozen"));
        assert_eq!(self.verifier.bank_hash(block.id), Some(block.bank_hash));
        self.blocks.push(block.id);
        let mut found = self.found.lock();
        for change in changed {
            match change.verdict {
                Verdict::Matched(VerificationLevel::Sequence) => found.sequence += 1,
                Verdict::Matched(VerificationLevel::Voted) => found.voted += 1,
                verdict => found.mismatches.push((change.block, verdict)),
            }
        }
        if self.blocks.len() as u64 > UNROOTED {
            let root = self.blocks[self.blocks.len() - UNROOTED as usize];
            self.verifier.root(root).expect("it is frozen");
        }
    }
}

impl EventSink for Follower {
    fn send(&mut self, event: &LedgerEvent) {
        if let LedgerEvent::Frozen { block, .. } = event {
            self.follow(block);
        }
    }
}

#[test]
fn a_follower_verifies_each_block_by_its_child_and_by_votes() {
    let localnet = localnet::open(&epochs_of_32_slots()).expect("the ledger opens");
    let (follower, found) = Follower::new(&localnet);
    let node = Node::run_with(localnet, vec![Box::new(follower)]);
    random_load(&node, &mut fastrand::Rng::with_seed(13), 3 * SLOTS as usize);
    let slot = check_newest(&node).block.slot;
    let hash = |slot| -> Option<Hash> {
        Some(node.history.snapshot().block(slot, Commitment::Confirmed)?.bank_hash)
    };
    assert_ne!(hash(slot), hash(slot - 1));
    node.stop();
    let found = found.lock();
    assert_eq!(found.mismatches, []);
    // The newest block has no child.
    assert!(found.sequence as u64 >= slot - 1, "{} of {slot}", found.sequence);
    assert!(found.voted as u64 >= slot - 1, "{} of {slot}", found.voted);
}

#[test]
fn writes_without_a_transaction_are_verified_like_any_others() {
    let localnet = localnet::open(&epochs_of_32_slots()).expect("the ledger opens");
    let (follower, found) = Follower::new(&localnet);
    let node = Node::run_with(localnet, vec![Box::new(follower)]);
    let mut random = fastrand::Rng::with_seed(14);
    let keys: Vec<Pubkey> = (0..10).map(|_| Pubkey::new_unique()).collect();
    for round in 0..60 {
        let written = random.choose_multiple(&keys, 3);
        let accounts = written.into_iter().map(|key| {
            let lamports = random.u64(0..3) * SOL;
            let bytes = random.usize(0..500);
            (*key, AccountSharedData::new(lamports, bytes, &system_program::ID))
        });
        set(&node, accounts.collect()).expect("they are written");
        check_newest(&node);
        if round % 20 == 9 {
            let slot = node.reader.view(Commitment::Processed).block().slot + 40;
            control(&node, ControlCommand::Travel(TimeTarget::Slot(slot))).expect("forward");
        }
        if round % 20 == 19 {
            let all = ControlCommand::Reset(ResetScope::All);
            control(&node, all).expect("it is reset");
            assert!(keys.iter().all(|key| node.account(key).is_none()));
            check_newest(&node);
        }
        random_load(&node, &mut random, 1);
    }
    node.stop();
    let found = found.lock();
    assert_eq!(found.mismatches, []);
    assert!(found.sequence > 100, "{} banks", found.sequence);
}

//! Commands for the ledger: edits, protected accounts, time, the paused clock, and resets.

use std::sync::mpsc::sync_channel;

use chain_solana::{
    ACCOUNT_BYTES_MAX, ControlCommand, ControlError, ControlOutcome, EditedAccounts, LedgerEvent,
    ResetScope, TimeTarget, VerifiedTransaction,
};
use ledger::Commitment;
use localnet::{Config, GenesisAccount};
use solana_account::{Account, AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_instruction::Instruction;
use solana_instruction::error::InstructionError;
use solana_keypair::Keypair;
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_program_runtime::solana_sbpf::ebpf;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, feature, incinerator, system_program, sysvar};
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction_error::TransactionError;

use crate::elf;
use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

type Done = Result<ControlOutcome, ControlError>;

/// Waits for the result of a command.
pub(crate) fn control(node: &Node, command: ControlCommand) -> Done {
    node.control
        .control(CLIENT, command)
        .expect("the queue has space")
        .wait()
        .expect("the ledger runs")
}

pub(crate) fn set(node: &Node, accounts: EditedAccounts) -> Done {
    control(node, ControlCommand::Edit(Box::new(|_| Ok(accounts))))
}

fn travel(node: &Node, to: TimeTarget) -> Done {
    control(node, ControlCommand::Travel(to))
}

fn wallet(lamports: u64) -> AccountSharedData {
    AccountSharedData::new(lamports, 0, &system_program::ID)
}

fn clock(node: &Node) -> Clock {
    let account = node.account_at(Commitment::Processed, &sysvar::clock::ID).expect("the clock");
    bincode::deserialize(account.0.data()).expect("its form")
}

fn capitalization(node: &Node) -> u64 {
    node.reader.view(Commitment::Processed).meta().capitalization
}

#[test]
fn an_edit_is_visible_at_once_and_its_lamports_can_be_spent() {
    let node = Node::start(&on_demand());
    let alice = Keypair::new();
    let before = capitalization(&node);
    let done = set(&node, vec![(alice.pubkey(), wallet(5 * SOL))]).expect("it is written");
    // A block on demand ends with the edit, so it is confirmed.
    assert_eq!(node.lamports(&alice.pubkey()), 5 * SOL);
    assert_eq!(node.reader.view(Commitment::Confirmed).block().slot, done.slot);
    // The next block is open, and its vote has paid.
    assert!((before + 5 * SOL).abs_diff(capitalization(&node)) < SOL / 1_000);
    let bob = Pubkey::new_unique();
    let pay = transfer(&alice.pubkey(), &bob, SOL);
    node.send(signed(&[pay], &[&alice], &node.blockhash()));
    assert_eq!(node.lamports(&bob), SOL);
    // An account without lamports is removed, and what is equal makes no block.
    set(&node, vec![(bob, wallet(0))]).expect("it is removed");
    assert_eq!(node.account(&bob), None);
    let slot = node.reader.view(Commitment::Confirmed).block().slot;
    set(&node, vec![(bob, wallet(0))]).expect("nothing to do");
    assert_eq!(node.reader.view(Commitment::Confirmed).block().slot, slot);
    node.stop();
}

#[test]
fn an_edit_reads_the_open_block_and_may_refuse() {
    let node = Node::start(&Config { slot_ms: 60_000, ..Config::default() });
    let key = Pubkey::new_unique();
    let add = move || {
        ControlCommand::Edit(Box::new(move |now| {
            let lamports = now.account(&key).map_or(0, |account| account.0.lamports());
            if lamports == 3 {
                return Err(ControlError::Invalid("it has enough".into()));
            }
            Ok(vec![(key, wallet(lamports + 1))])
        }))
    };
    for _ in 0..3 {
        control(&node, add()).expect("it is written");
    }
    assert_eq!(control(&node, add()), Err(ControlError::Invalid("it has enough".into())));
    let account = node.account_at(Commitment::Processed, &key).expect("the account");
    assert_eq!(account.0.lamports(), 3);
    // The block is still open.
    assert_eq!(node.account_at(Commitment::Confirmed, &key), None);
    node.stop();
}

#[test]
fn what_the_ledger_itself_needs_is_protected() {
    let node = Node::start(&on_demand());
    let protected = |key: Pubkey, account: AccountSharedData| {
        let result = set(&node, vec![(key, account)]);
        assert!(
            matches!(&result, Err(ControlError::Protected { pubkey, .. }) if *pubkey == key),
            "{key}: {result:?}"
        );
    };
    for key in [
        sysvar::clock::ID,
        sysvar::rent::ID,
        system_program::ID,
        solana_sdk_ids::bpf_loader::ID,
        node.vote_account,
        node.cluster_info.identity,
    ] {
        protected(key, wallet(7));
        protected(key, wallet(0));
    }
    let a_feature = node.reader.view(Commitment::Processed);
    let a_feature = a_feature.all().find(|(_, account)| account.0.owner() == &feature::ID);
    let (a_feature, _) = a_feature.expect("features are active");
    protected(Pubkey::try_from(a_feature.as_bytes()).expect("a pubkey"), wallet(7));
    protected(Pubkey::new_unique(), AccountSharedData::new(7, 9, &feature::ID));
    protected(Pubkey::new_unique(), AccountSharedData::new(7, 9, &sysvar::ID));
    // The ledger continues.
    node.airdrop(&Pubkey::new_unique(), SOL);
    node.stop();
}

#[test]
fn an_edit_past_a_bound_changes_nothing() {
    let node = Node::start(&on_demand());
    let key = Pubkey::new_unique();
    let before = capitalization(&node);
    let large = AccountSharedData::new(1, ACCOUNT_BYTES_MAX + 1, &system_program::ID);
    let bytes = ACCOUNT_BYTES_MAX + 1;
    assert_eq!(set(&node, vec![(key, large)]), Err(ControlError::TooLarge { pubkey: key, bytes }));
    let rich = set(&node, vec![(key, wallet(u64::MAX))]);
    assert!(matches!(rich, Err(ControlError::TooManyLamports { .. })), "{rich:?}");
    let two = vec![(key, wallet(u64::MAX / 2)), (Pubkey::new_unique(), wallet(u64::MAX))];
    let rich = set(&node, two);
    assert!(matches!(rich, Err(ControlError::TooManyLamports { .. })), "{rich:?}");
    let many = (0..100_001).map(|_| (Pubkey::new_unique(), wallet(1))).collect();
    let many = set(&node, many);
    assert!(matches!(many, Err(ControlError::TooManyAccounts { .. })), "{many:?}");
    let panics = ControlCommand::Edit(Box::new(|_| panic!("a bug of an edit")));
    assert_eq!(control(&node, panics), Err(ControlError::Panicked));
    assert_eq!((node.account(&key), capitalization(&node)), (None, before));
    node.airdrop(&key, SOL);
    assert_eq!(node.lamports(&key), SOL);
    node.stop();
}

#[test]
fn commands_that_wait_are_bounded() {
    let node = Node::start(&on_demand());
    let (started, start) = sync_channel(1);
    let (release, released) = sync_channel::<()>(0);
    let blocks = ControlCommand::Edit(Box::new(move |_| {
        let _ = started.send(());
        let _ = released.recv();
        Ok(Vec::new())
    }));
    let blocking = node.control.control(CLIENT, blocks).expect("the queue has space");
    start.recv().expect("it runs");
    let mut waiting = Vec::new();
    let refused = loop {
        match node.control.control(CLIENT, ControlCommand::ResumeClock) {
            Ok(call) => waiting.push(call),
            Err(err) => break err,
        }
    };
    let limit = waiting.len();
    assert_eq!(refused, ControlError::QueueFull { limit });
    let stats = node.queue.stats().calls;
    assert_eq!((stats.waiting, stats.refused), ([limit, 0], [1, 0]));
    // Calls that control forks have a share of their own, and wait in the same line.
    let snapshot = node.forks.snapshot(CLIENT);
    assert_eq!(node.queue.stats().calls.waiting, [limit, 1]);
    drop(release);
    assert!(matches!(blocking.wait(), Some(Ok(_))));
    assert!(waiting.into_iter().all(|call| matches!(call.wait(), Some(Ok(_)))));
    assert!(snapshot.wait().is_ok());
    let control = std::sync::Arc::clone(&node.control);
    node.stop();
    assert_eq!(
        control.control(CLIENT, ControlCommand::ResumeClock).err(),
        Some(ControlError::Closed)
    );
}

#[test]
fn time_travels_forward_to_a_slot_a_time_or_an_epoch() {
    for slot_ms in [0, 60_000] {
        let config = Config { slot_ms, slots_per_epoch: 100, ..on_demand() };
        let node = Node::start(&config);
        let alice = Keypair::new();
        set(&node, vec![(alice.pubkey(), wallet(SOL))]).expect("it is written");
        let start = clock(&node);
        let done = travel(&node, TimeTarget::Slot(1_050)).expect("forward");
        assert_eq!(done.slot, 1_050);
        // Without a clock the journey ends its block, and the next one is open.
        let reached = || {
            let commitment =
                if slot_ms == 0 { Commitment::Confirmed } else { Commitment::Processed };
            let account = node.account_at(commitment, &sysvar::clock::ID).expect("the clock");
            bincode::deserialize::<Clock>(account.0.data()).expect("its form")
        };
        let at_slot = reached();
        assert_eq!((at_slot.slot, at_slot.epoch), (1_050, 10));
        let slot_s = if slot_ms == 0 { 0.4 } else { 60.0 };
        let passed = (at_slot.unix_timestamp - start.unix_timestamp) as f64;
        let expected = (1_050 - start.slot) as f64 * slot_s;
        assert!((passed - expected).abs() <= 60.0, "{passed} s, not {expected} s");
        // The block before is complete, and the slots between have none.
        let confirmed = node.reader.view(Commitment::Confirmed).block().slot;
        let (newest, more_blocks) = if slot_ms == 0 { (1_050, 2) } else { (start.slot, 1) };
        assert_eq!(confirmed, newest);
        let epoch = travel(&node, TimeTarget::Epoch(12)).expect("forward");
        let height = done.block_height + more_blocks;
        assert!(epoch.slot == 1_200 && epoch.block_height >= height, "{epoch:?}");
        assert_eq!(clock(&node).epoch, 12);

        let unix_ms = clock(&node).unix_timestamp as u64 * 1_000 + YEAR_MS;
        let later = travel(&node, TimeTarget::UnixMs(unix_ms)).expect("forward");
        assert_eq!(reached().unix_timestamp as u64, unix_ms / 1_000);
        let slots = YEAR_MS / if slot_ms == 0 { 400 } else { slot_ms };
        assert!(later.slot.abs_diff(1_200 + slots) <= 200, "{}", later.slot);
        let both = TimeTarget::SlotAt { slot: later.slot + 3, unix_ms: unix_ms + YEAR_MS };
        assert_eq!(travel(&node, both).expect("forward").slot, later.slot + 3);
        let now = reached();
        assert_eq!(now.unix_timestamp as u64, (unix_ms + YEAR_MS) / 1_000);

        // The ledger continues from there, with transactions too.
        let bob = Pubkey::new_unique();
        let pay = signed(&[transfer(&alice.pubkey(), &bob, SOL / 2)], &[&alice], &node.blockhash());
        let verified = VerifiedTransaction::verify(pay).expect("signed");
        let signature = verified.signature();
        node.transaction_sender.send(CLIENT.into(), verified).expect("space");
        node.executed(&signature);
        let paid = node.account_at(Commitment::Processed, &bob).expect("it was paid");
        assert_eq!(paid.0.lamports(), SOL / 2);
        let history = node.history.snapshot();
        let executed = history.transaction(&signature, Commitment::Processed).expect("it ran");
        assert!(executed.slot >= now.slot);
        node.stop();
    }
}

#[test]
fn time_does_not_travel_back_or_past_its_end() {
    let node = Node::start(&on_demand());
    let start = travel(&node, TimeTarget::Slot(100)).expect("forward");
    let unix_ms = clock(&node).unix_timestamp as u64 * 1_000;
    for (to, expected) in [
        (TimeTarget::Slot(100), "slot 100 is not later than slot 101, which is open"),
        (TimeTarget::Slot(7), "slot 7 is not later than slot 101"),
        (TimeTarget::Epoch(0), "slot 0 is not later than slot 101"),
        (TimeTarget::Slot(u64::MAX), "at most 18446744069414584319"),
        (TimeTarget::Epoch(u64::MAX), "at most 18446744069414584319"),
        (TimeTarget::UnixMs(unix_ms - 10_000), "ms is not later than the ledger's time"),
        (TimeTarget::UnixMs(0), "0 ms is not later than the ledger's time"),
        (TimeTarget::UnixMs(u64::MAX), "the end of the year 9999"),
        (TimeTarget::Slot(1 << 60), "the end of the year 9999"),
        (TimeTarget::SlotAt { slot: 1, unix_ms: unix_ms + YEAR_MS }, "slot 1 is not later"),
    ] {
        match travel(&node, to) {
            Err(ControlError::Invalid(why)) => assert!(why.contains(expected), "{to:?}: {why}"),
            result => panic!("{to:?}: {result:?}"),
        }
    }
    assert_eq!(node.reader.view(Commitment::Confirmed).block().slot, start.slot);
    // The slot of the block that waits.
    assert_eq!(travel(&node, TimeTarget::Slot(101)).expect("it is open").slot, 101);
    assert_eq!(node.reader.view(Commitment::Confirmed).block().slot, 101);
    // The last slot and time that are possible.
    let end = TimeTarget::SlotAt { slot: localnet::WARP_SLOT_MAX, unix_ms: 253_402_300_799_999 };
    travel(&node, end).expect("forward");
    node.airdrop(&Pubkey::new_unique(), SOL);
    assert!(clock(&node).unix_timestamp >= 253_402_300_799);
    node.stop();
}

#[test]
fn a_long_journey_makes_the_blocks_before_it_final() {
    let node = Node::start(&Config { finalize_after: 5, ..on_demand() });
    let key = Pubkey::new_unique();
    let last = set(&node, vec![(key, wallet(SOL))]).expect("it is written");
    assert_eq!(node.account_at(Commitment::Finalized, &key), None);
    travel(&node, TimeTarget::Slot(last.slot + 3)).expect("forward");
    assert_eq!(node.account_at(Commitment::Finalized, &key), None);
    travel(&node, TimeTarget::Slot(1_000_000)).expect("forward");
    assert!(node.account_at(Commitment::Finalized, &key).is_some());
    for _ in 0..20 {
        node.airdrop(&key, SOL);
    }
    assert_eq!(node.lamports(&key), 21 * SOL);
    node.stop();
}

#[test]
fn a_paused_clock_stops_slots_and_not_transactions() {
    let node = Node::start(&Config { slot_ms: 10, ..Config::default() });
    let key = Pubkey::new_unique();
    node.opened(5);
    let paused = control(&node, ControlCommand::PauseClock).expect("it is paused");
    for _ in 0..3 {
        let lamports = node.account_at(Commitment::Processed, &key);
        let lamports = lamports.map_or(0, |account| account.0.lamports());
        let airdrop = node.faucet.airdrop(CLIENT.into(), key, SOL, node.blockhash());
        let airdrop = airdrop.expect("an airdrop");
        node.executed(&airdrop);
        let account = node.account_at(Commitment::Processed, &key).expect("it was paid");
        assert_eq!(account.0.lamports(), lamports + SOL);
        let history = node.history.snapshot();
        let executed = history.transaction(&airdrop, Commitment::Processed).expect("it ran");
        assert_eq!(executed.slot, paused.slot);
    }
    // A journey is possible, and the clock stays paused after it.
    let later = travel(&node, TimeTarget::Slot(paused.slot + 50)).expect("forward");
    assert_eq!(control(&node, ControlCommand::PauseClock).expect("still").slot, later.slot);
    control(&node, ControlCommand::ResumeClock).expect("it is resumed");
    node.opened(later.slot + 3);
    node.stop();
}

#[test]
fn a_reset_restores_the_accounts_of_genesis() {
    let known = Keypair::new();
    let genesis = GenesisAccount { address: known.pubkey(), account: wallet(10 * SOL) };
    let node = Node::start(&Config { accounts: vec![genesis], ..on_demand() });
    let before = capitalization(&node);
    let new = Pubkey::new_unique();
    let owned = Pubkey::new_unique();
    let pay = transfer(&known.pubkey(), &new, SOL);
    node.send(signed(&[pay], &[&known], &node.blockhash()));
    set(&node, vec![(owned, AccountSharedData::new(SOL, 9, &new))]).expect("it is written");
    let one = |pubkey, with_owned| {
        let scope = ResetScope::Account { pubkey, with_owned };
        control(&node, ControlCommand::Reset(scope)).expect("it is reset");
    };
    one(new, false);
    assert_eq!(node.account(&new), None);
    assert_eq!(node.lamports(&owned), SOL);
    one(new, true);
    assert_eq!(node.account(&owned), None);
    assert!(node.lamports(&known.pubkey()) < 9 * SOL);
    one(known.pubkey(), false);
    assert_eq!(node.lamports(&known.pubkey()), 10 * SOL);

    // All of it at once, and the faucet with it.
    let faucet = node.lamports(&node.faucet_pubkey);
    for _ in 0..5 {
        node.airdrop(&Pubkey::new_unique(), SOL);
    }
    set(&node, vec![(known.pubkey(), wallet(0)), (owned, wallet(7))]).expect("it is written");
    control(&node, ControlCommand::Reset(ResetScope::All)).expect("it is reset");
    assert_eq!(node.lamports(&known.pubkey()), 10 * SOL);
    assert_eq!(node.account(&owned), None);
    assert!(node.lamports(&node.faucet_pubkey) >= faucet);
    // Only the validator's own accounts differ: it pays for its votes and gets a part of the fees.
    assert!(before.abs_diff(capitalization(&node)) < SOL / 100);
    let protected = ResetScope::Account { pubkey: node.vote_account, with_owned: false };
    let result = control(&node, ControlCommand::Reset(protected));
    assert!(matches!(result, Err(ControlError::Protected { .. })), "{result:?}");
    node.stop();

    let none = Node::start(&Config { baseline_bytes_max: 1_000, ..on_demand() });
    let result = control(&none, ControlCommand::Reset(ResetScope::All));
    assert_eq!(result, Err(ControlError::NoBaseline { bytes_max: 1_000 }));
    none.stop();
}

/// The accounts of a program whose code ends with `result`.
fn program(id: Pubkey, slot: u64, result: i64) -> EditedAccounts {
    let code = [elf::insn(ebpf::MOV64_IMM, 0, 0, 0, result), elf::exit()];
    let data_key = get_program_data_address(&id);
    let state = |state: &UpgradeableLoaderState| bincode::serialize(state).expect("its form");
    let mut data = state(&UpgradeableLoaderState::ProgramData {
        slot,
        upgrade_authority_address: Some(Pubkey::default()),
    });
    data.extend_from_slice(&elf::file(&code));
    let program = state(&UpgradeableLoaderState::Program { programdata_address: data_key });
    let account = |data: Vec<u8>, executable| {
        let owner = bpf_loader_upgradeable::ID;
        AccountSharedData::from(Account { lamports: SOL, data, owner, executable, rent_epoch: 0 })
    };
    vec![(data_key, account(data, false)), (id, account(program, true))]
}

#[test]
fn code_that_is_replaced_is_called_at_once() {
    let node = Node::start(&on_demand());
    let payer = Keypair::new();
    let id = Pubkey::new_unique();
    set(&node, vec![(payer.pubkey(), wallet(SOL))]).expect("it is written");
    let call = |data: u8| {
        let call = Instruction { program_id: id, accounts: Vec::new(), data: vec![data] };
        node.send(signed(&[call], &[&payer], &node.blockhash())).meta.status.clone()
    };
    let failed = |err| Err(TransactionError::InstructionError(0, err));
    assert_eq!(call(1), Err(TransactionError::ProgramAccountNotFound));
    set(&node, program(id, 0, 0)).expect("it is written");
    assert_eq!(call(2), Ok(()));
    set(&node, program(id, 0, 7)).expect("it is replaced");
    assert_eq!(call(3), failed(InstructionError::Custom(7)));
    // Only the data account.
    set(&node, program(id, 0, 8).drain(..1).collect()).expect("it is replaced");
    assert_eq!(call(4), failed(InstructionError::Custom(8)));
    // Half of an ELF is stored, and its call fails.
    let mut half = program(id, 0, 9);
    let data = half[0].1.data()[..100].to_vec();
    half[0].1.set_data_from_slice(&data);
    set(&node, half).expect("it is written");
    assert!(call(5).is_err());
    set(&node, vec![(id, wallet(SOL))]).expect("it is no program any more");
    assert_eq!(call(6), Err(TransactionError::InvalidProgramForExecution));
    set(&node, program(id, 0, 0)).expect("it is one again");
    assert_eq!(call(7), Ok(()));
    node.stop();
}

#[test]
fn edits_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let inflation = solana_inflation::Inflation::new_disabled();
    let config = Config { dir: Some(dir.path().join("ledger")), inflation, ..on_demand() };
    let key = Pubkey::new_unique();
    let node = Node::start(&config);
    set(&node, vec![(key, wallet(3 * SOL)), (incinerator::ID, wallet(SOL))]).expect("written");
    travel(&node, TimeTarget::Epoch(1)).expect("forward");
    let before = capitalization(&node);
    node.airdrop(&key, SOL);
    let slot = node.reader.view(Commitment::Confirmed).block().slot;
    node.stop();
    let node = Node::start(&config);
    assert_eq!(node.lamports(&key), 4 * SOL);
    assert_eq!(node.lamports(&incinerator::ID), 0);
    assert!(node.reader.view(Commitment::Confirmed).block().slot >= slot);
    assert!(before.abs_diff(capitalization(&node)) < SOL / 100);
    node.stop();
}

#[test]
fn an_edit_is_sent_to_subscribers_as_a_write_without_a_transaction() {
    struct Updates(std::sync::mpsc::SyncSender<(Pubkey, Option<solana_signature::Signature>)>);
    impl chain_solana::EventSink for Updates {
        fn send(&mut self, event: &LedgerEvent) {
            if let LedgerEvent::AccountsWritten { updates, .. } = event {
                for update in updates.iter() {
                    let _ = self.0.send((update.pubkey, update.signature));
                }
            }
        }

        fn needs_account_updates(&self) -> bool {
            true
        }
    }
    let (send, updates) = sync_channel(100_000);
    let localnet = localnet::open(&on_demand()).expect("the ledger opens");
    let node = Node::run_with(localnet, vec![Box::new(Updates(send))]);
    let key = Pubkey::new_unique();
    set(&node, vec![(key, wallet(SOL))]).expect("it is written");
    node.stop();
    let found: Vec<_> = updates.into_iter().filter(|(pubkey, _)| *pubkey == key).collect();
    assert_eq!(found, [(key, None)]);
}

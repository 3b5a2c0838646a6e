//! Sysvars, epochs, and the behaviour at each bound.

use std::path::Path;
use std::sync::Arc;

use chain_solana::{
    Block, ControlCommand, ControlError, HistoryLimits, QueueBound, SendError, SimulationRequest,
    VerifiedTransaction,
};
use ledger::{Address, BlockId, Commitment};
use ledger_store::LedgerStore;
use localnet::{Config, GenesisAccount, WARP_SLOT_MAX};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_signer::Signer;
use solana_slot_hashes::SlotHashes;
use solana_slot_history::{Check, SlotHistory};
use solana_stake_interface::stake_history::StakeHistory;
use solana_system_interface::instruction::{create_account, transfer};
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use crate::fixture::{CLIENT, Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;

fn sysvar<T: serde::de::DeserializeOwned>(node: &Node, key: &Pubkey) -> T {
    let account = node.account(key).expect("the sysvar's account");
    bincode::deserialize(account.0.data()).expect("the sysvar's form")
}

#[test]
fn sysvars_follow_the_chain_and_epochs_add_to_the_stake_history() {
    let node = Node::start(&Config { slots_per_epoch: 32, ..on_demand() });
    for _ in 0..70 {
        node.airdrop(&Keypair::new().pubkey(), SOL);
    }
    let clock: Clock = sysvar(&node, &sysvar::clock::ID);
    assert_eq!((clock.slot, clock.epoch), (70, 2));
    let parent = node
        .history
        .snapshot()
        .block(69, Commitment::Processed)
        .cloned()
        .expect("the block is stored");
    let hashes: SlotHashes = sysvar(&node, &sysvar::slot_hashes::ID);
    assert_eq!(hashes.first(), Some(&(69, parent.bank_hash)));
    let slots: SlotHistory = sysvar(&node, &sysvar::slot_history::ID);
    assert_eq!(slots.check(70), Check::Found);
    assert_eq!(slots.check(71), Check::Future);
    let stakes: StakeHistory = sysvar(&node, &sysvar::stake_history::ID);
    let ended: Vec<_> = stakes.iter().map(|(epoch, entry)| (*epoch, entry.effective)).collect();
    // A million, without the rent-exempt reserve of the account.
    let staked = 1_000_000 * SOL - 2_282_880;
    assert_eq!(ended, [(1, staked), (0, staked)]);
    node.stop();
}

#[test]
fn genesis_has_the_accounts_of_a_test_validator() {
    let node = Node::start(&on_demand());
    node.airdrop(&Keypair::new().pubkey(), SOL);
    assert_eq!(node.account(&sysvar::fees::ID), None);
    let stake_config = node.account(&solana_stake_interface::config::ID).expect("StakeConfig");
    assert_eq!(stake_config.0.lamports(), 960_480);
    assert_eq!(stake_config.0.data(), [0, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f, 12]);
    let wrapped = node.account(&spl_generic_token::token::native_mint::id()).expect("a mint");
    assert_eq!(wrapped.0.rent_epoch(), 1);
    assert_eq!(node.account(&sysvar::clock::ID).expect("the clock").0.rent_epoch(), 0);
    let key = node.vote_account;
    let account = node.account(&key).expect("the vote account");
    assert_eq!(account.0.lamports(), 1_000_000 * SOL);
    let vote = solana_vote_interface::state::VoteStateV4::deserialize(account.0.data(), &key);
    let vote = vote.expect("a vote state");
    assert_eq!((vote.authorized_withdrawer, vote.inflation_rewards_collector), (key, key));
    assert_eq!(vote.authorized_voters.last(), Some((&0, &key)));
    assert_eq!(vote.block_revenue_collector, node.cluster_info.identity);
    assert!(vote.bls_pubkey_compressed.is_some_and(|key| key != [0; 48]));
    // No mint was configured, so a new key has the mint's lamports. The faucet has its own.
    let view = node.reader.view(Commitment::Confirmed);
    let rich = view.all().filter(|(_, account)| account.0.lamports() == 500_000_000 * SOL);
    assert_eq!(rich.count(), 1);
    drop(view);
    node.stop();
}

#[test]
fn a_warp_leaves_slots_without_blocks() {
    let node = Node::start(&Config { warp_slot: Some(1_000), ..on_demand() });
    let airdrop = node.airdrop(&Keypair::new().pubkey(), SOL);
    assert_eq!(airdrop.slot, 1_000);
    let block = node
        .history
        .snapshot()
        .block(1_000, Commitment::Processed)
        .cloned()
        .expect("the block is stored");
    assert_eq!((block.parent.slot, block.block_height), (0, 1));
    node.stop();
}

#[test]
fn history_retains_up_to_its_slot_limit_and_drops_the_rest() {
    let history = HistoryLimits { blocks_max: 10, bytes_max: u64::MAX };
    let node = Node::start(&Config { history, ..on_demand() });
    let alice = Keypair::new().pubkey();
    let first = node.airdrop(&alice, SOL);
    for _ in 0..30 {
        node.airdrop(&alice, SOL);
    }
    let history = node.history.snapshot();
    assert_eq!(history.first_slot(), Some(22));
    assert!(history.transaction(&first.signature(), Commitment::Processed).is_none());
    assert_eq!(history.signatures_for_address(&alice).map(|entries| entries.len()), Some(10));
    // Old versions of accounts would take 160 KB of sysvars a block.
    assert!(history.blocks(.., Commitment::Processed).all(|block| block.writes.is_empty()));
    node.stop();
}

#[test]
fn history_retains_up_to_its_byte_limit() {
    let history = HistoryLimits { blocks_max: u64::MAX, bytes_max: 100_000 };
    let node = Node::start(&Config { history, ..on_demand() });
    for _ in 0..100 {
        node.airdrop(&Keypair::new().pubkey(), SOL);
    }
    let history = node.history.snapshot();
    // The open block's vote may be added.
    assert!(history.bytes() <= 105_000, "{} bytes", history.bytes());
    assert!(history.blocks(.., Commitment::Processed).count() > 10);
    node.stop();
}

#[test]
fn a_finalized_block_leaves_no_old_version_of_an_account() {
    let node = Node::start(&on_demand());
    let versions: Vec<_> = (0..20)
        .map(|_| {
            let airdrop =
                node.faucet.airdrop(CLIENT.into(), Keypair::new().pubkey(), SOL, node.blockhash());
            let airdrop = airdrop.expect("an airdrop");
            let block = node.completed(|block| {
                block.transactions.iter().any(|executed| executed.signature() == airdrop)
            });
            let write = block.writes.iter().find(|write| write.pubkey == sysvar::slot_history::ID);
            let account = write.and_then(|write| write.account.as_ref());
            Arc::downgrade(account.expect("each block writes the slot history").base())
        })
        .collect();
    node.opened(21);
    let live = versions.iter().filter(|version| version.strong_count() > 0).count();
    assert!(live <= 3, "{live} of 20: the root's, the tip's, and one that is being released");
    node.stop();
}

#[test]
fn a_publication_is_followed_by_a_pause_in_which_transactions_gather() {
    let node = Node::start(&Config { slot_ms: 60_000, ..Config::default() });
    let alice = Keypair::new();
    let airdrop = node
        .faucet
        .airdrop(CLIENT.into(), alice.pubkey(), SOL, node.blockhash())
        .expect("an airdrop");
    node.executed(&airdrop);
    let blockhash = node.blockhash();
    let all: Vec<_> = (0..200)
        .map(|n| {
            let pay = [transfer(&alice.pubkey(), &alice.pubkey(), n)];
            let transaction = signed(&pay, &[&alice], &blockhash);
            VerifiedTransaction::verify(transaction).expect("a good transaction")
        })
        .collect();
    let version = || node.reader.view(Commitment::Processed).version();
    let before = version();
    let started_at = now();
    // They are sent one after another, so each could be published separately.
    for transaction in all {
        let signature = transaction.signature();
        node.transaction_sender.send(CLIENT.into(), transaction).expect("the queue has space");
        node.executed(&signature);
    }
    let publications = u128::from(version() - before);
    let ms = started_at.elapsed().as_millis();
    assert!(publications > 0 && publications <= ms + 2, "{publications} in {ms} ms");
    node.stop();
}

#[expect(clippy::disallowed_methods, reason = "a rate is to be measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn a_full_queue_refuses_and_accepts_more_later() {
    let node = Node::start(&Config { queue_max: 1, slot_ms: 50, ..Config::default() });
    let alice = Keypair::new();
    let blockhash = node.blockhash();
    let airdrop =
        node.faucet.airdrop(CLIENT.into(), alice.pubkey(), SOL, blockhash).expect("an airdrop");
    node.confirmed(&airdrop);
    let pay = |lamports| {
        let pay = [transfer(&alice.pubkey(), &alice.pubkey(), lamports)];
        VerifiedTransaction::verify(signed(&pay, &[&alice], &blockhash))
            .expect("a good transaction")
    };
    let all: Vec<_> = (1..2_000).map(pay).collect();
    let refused = all
        .into_iter()
        .find_map(|transaction| node.transaction_sender.send(CLIENT.into(), transaction).err());
    assert_eq!(
        refused,
        Some(SendError::QueueFull { bound: QueueBound::Transactions, queued: 1, limit: 1 })
    );
    let last = pay(5_000);
    let signature = last.signature();
    while node.transaction_sender.send(CLIENT.into(), last.clone()).is_err() {
        std::thread::yield_now();
    }
    node.confirmed(&signature);
    node.stop();
}

#[test]
fn a_ledger_without_space_for_its_own_accounts_is_refused_with_the_setting() {
    let refused = localnet::open(&Config { addresses_max: 10, ..on_demand() });
    let err = refused.err().map(|err| err.to_string()).unwrap_or_default();
    assert!(err.contains("--max-addresses"), "{err}");
}

#[test]
fn a_ledger_without_space_drops_the_transaction_and_continues() {
    let unbounded = Node::start(&on_demand());
    let used = unbounded.reader.addresses().len() as u32;
    unbounded.stop();
    let node = Node::start(&Config { addresses_max: used + 60, ..on_demand() });
    let alice = Keypair::new();
    node.airdrop(&alice.pubkey(), 100 * SOL);
    for _ in 0..200 {
        let to = Keypair::new().pubkey();
        let pay = [transfer(&alice.pubkey(), &to, SOL / 10)];
        let transaction = signed(&pay, &[&alice], &node.blockhash());
        let verified = VerifiedTransaction::verify(transaction).expect("a good transaction");
        node.transaction_sender.send(CLIENT.into(), verified).expect("the queue has space");
    }
    let pay = [transfer(&alice.pubkey(), &alice.pubkey(), 1)];
    node.send(signed(&pay, &[&alice], &node.blockhash()));
    let made = node.reader.addresses().len() as u32 - used;
    assert!((1..=60).contains(&made), "{made} addresses were made");
    let alice_now = node.reader.view(ledger::Commitment::Confirmed);
    assert!(alice_now.record(&Address::from(alice.pubkey().to_bytes())).is_some());
    node.stop();
}

#[test]
fn a_ledger_is_made_next_to_files_of_others_and_with_their_keys() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let theirs = ["genesis.bin", ".gitkeep", "validator-1.log"].map(|name| dir.path().join(name));
    for path in &theirs {
        std::fs::write(path, "theirs").expect("the file is written");
    }
    std::fs::create_dir(dir.path().join("lost+found")).expect("a directory");
    let identity = Keypair::new();
    let keypair = dir.path().join("validator-keypair.json");
    solana_keypair::write_keypair_file(&identity, &keypair).expect("it is written");
    let config = Config { dir: Some(dir.path().into()), ..on_demand() };
    let node = Node::start(&config);
    let hash = node.cluster_info.genesis_hash;
    assert_eq!(node.cluster_info.identity, identity.pubkey());
    let in_use = localnet::reset_directory(dir.path()).err().map(|err| err.to_string());
    let in_use = in_use.unwrap_or_default();
    assert!(in_use.contains(&format!("in use by process {}", std::process::id())), "{in_use}");
    node.stop();
    let node = Node::start(&config);
    assert_eq!(node.cluster_info.genesis_hash, hash, "it continues");
    node.stop();

    // With the same keys the next ledger is another one.
    localnet::reset_directory(dir.path()).expect("it is reset");
    let node = Node::start(&config);
    assert_eq!(node.cluster_info.identity, identity.pubkey());
    assert_ne!(node.cluster_info.genesis_hash, hash);
    node.stop();
    for path in &theirs {
        assert_eq!(std::fs::read_to_string(path).expect("the file is there"), "theirs");
    }
}

#[test]
fn a_key_that_cannot_be_read_is_not_replaced() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let keypair = dir.path().join("faucet-keypair.json");
    std::fs::write(&keypair, "theirs").expect("the file is written");
    let config = Config { dir: Some(dir.path().into()), ..on_demand() };
    let err = localnet::open(&config).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(err.contains("faucet-keypair.json is not a keypair file"), "{err}");
    assert_eq!(std::fs::read_to_string(&keypair).expect("the file is there"), "theirs");
    assert!(!dir.path().join("store").exists());
}

/// Appends a block to a ledger that is not open: a successor of the newest one, changed by `edit`.
fn append(dir: &Path, edit: impl FnOnce(&mut Block)) {
    let (mut store, restored) = <LedgerStore>::open_whole(&dir.join("store"))
        .expect("the store opens")
        .expect("there is a ledger");
    let newest = restored.blocks.last().expect("a ledger has a block");
    let mut block = Block {
        id: BlockId { slot: newest.id.slot + 1, version: newest.id.version + 1 },
        parent: newest.id,
        block_height: newest.block_height + 1,
        previous_blockhash: newest.blockhash,
        transactions: Vec::new(),
        writes: Vec::new(),
        ..(**newest).clone()
    };
    edit(&mut block);
    store.append(&block).expect("the block is stored");
}

#[test]
fn a_warp_to_the_end_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let warp_slot = Some(WARP_SLOT_MAX + 1);
    let config = Config { dir: Some(dir.path().into()), warp_slot, ..on_demand() };
    let err = localnet::open(&config).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(err.contains(&format!("--warp-slot {}: at most", WARP_SLOT_MAX + 1)), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
}

#[test]
fn a_ledger_that_is_warped_to_the_last_slot_continues() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().into()), ..on_demand() };
    let node = Node::start(&Config { warp_slot: Some(WARP_SLOT_MAX), ..config.clone() });
    assert_eq!(node.airdrop(&Keypair::new().pubkey(), SOL).slot, WARP_SLOT_MAX);
    assert_eq!(node.airdrop(&Keypair::new().pubkey(), SOL).slot, WARP_SLOT_MAX + 1);
    node.stop();
    let node = Node::start(&config);
    // The block that was open at the end has its own slot.
    assert_eq!(node.airdrop(&Keypair::new().pubkey(), SOL).slot, WARP_SLOT_MAX + 3);
    node.stop();
}

#[test]
fn a_ledger_that_was_warped_to_the_end_is_refused_with_its_slot() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().into()), ..on_demand() };
    Node::start(&config).stop();
    append(dir.path(), |block| block.id.slot = u64::MAX);
    let err = localnet::open(&config).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(err.contains("newest block is at slot 18446744073709551615"), "{err}");
    assert!(err.contains("--reset"), "{err}");
}

#[test]
fn a_ledger_from_the_future_reports_it_and_its_time_advances() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config { dir: Some(dir.path().into()), slot_ms: 50, ..Config::default() };
    Node::start(&config).stop();
    let mut future = 0;
    append(dir.path(), |block| {
        block.block_time += 3_600;
        future = block.block_time;
    });
    let localnet = localnet::open(&config).expect("the ledger opens");
    let ahead = localnet.ahead_of_clock().expect("it is ahead").as_secs();
    assert!((3_000..=3_600).contains(&ahead), "{ahead} s");
    let node = Node::run(localnet);
    let mut newest = future;
    // The time neither stops nor goes back, and stays near that of the future block.
    while newest < future + 2 {
        let block = node.completed(|_| true);
        assert!(block.block_time >= newest, "{} after {newest}", block.block_time);
        newest = block.block_time;
    }
    let clock: Clock = sysvar(&node, &sysvar::clock::ID);
    assert!((future..future + 600).contains(&clock.unix_timestamp), "{}", clock.unix_timestamp);
    node.stop();
}

/// Returns the configuration of a ledger with space for `bytes` more of account data, and one funded wallet.
fn with_space_for(bytes: u64) -> (Config, Keypair) {
    let node = Node::start(&on_demand());
    let used = node.account_bytes.bytes();
    node.stop();
    let wallet = Keypair::new();
    let account = AccountSharedData::new(1_000 * SOL, 0, &solana_sdk_ids::system_program::ID);
    let account = GenesisAccount { address: wallet.pubkey(), account };
    let config = Config { account_bytes_max: used + bytes, accounts: vec![account], ..on_demand() };
    (config, wallet)
}

/// Returns a transaction that makes an account of 10 MiB.
fn make_large_account(node: &Node, payer: &Keypair) -> VersionedTransaction {
    let new = Keypair::new();
    let owner = solana_sdk_ids::system_program::ID;
    let make = create_account(&payer.pubkey(), &new.pubkey(), 75 * SOL, 10 << 20, &owner);
    signed(&[make], &[payer, &new], &node.blockhash())
}

#[test]
fn accounts_past_their_bytes_are_refused_and_transfers_continue() {
    let (config, hostile) = with_space_for(25 << 20);
    let node = Node::start(&config);
    let honest = Keypair::new();
    node.airdrop(&honest.pubkey(), SOL);
    for _ in 0..2 {
        let made = node.send(make_large_account(&node, &hostile));
        assert_eq!(made.meta.status, Ok(()));
    }
    let past_limit = make_large_account(&node, &hostile);
    let request = SimulationRequest {
        transaction: past_limit.clone(),
        replace_recent_blockhash: false,
        inner_instructions: false,
    };
    let view = node.reader.view(Commitment::Processed);
    let simulated = node.simulator.simulate(&view, request).expect("it runs");
    assert_eq!(simulated.err, Some(TransactionError::WouldExceedAccountDataTotalLimit));
    node.send_in_vain(past_limit, &honest);
    let large = AccountSharedData::new(SOL, 10 << 20, &Pubkey::new_unique());
    let edit = ControlCommand::Edit(Box::new(move |_| Ok(vec![(Pubkey::new_unique(), large)])));
    let refused = node.control.control(CLIENT, edit).expect("the queue has space").wait();
    let limit = config.account_bytes_max;
    assert_eq!(refused, Some(Err(ControlError::AccountBytesFull { limit })));
    assert_eq!(node.account_bytes.refused_writes(), 2);
    assert!(node.account_bytes.bytes() <= limit);
    // Another client's transfers are executed as before.
    let pay = [transfer(&honest.pubkey(), &Keypair::new().pubkey(), SOL / 10)];
    assert_eq!(node.send(signed(&pay, &[&honest], &node.blockhash())).meta.status, Ok(()));
    node.stop();
}

#[test]
fn a_new_ledger_with_too_many_account_bytes_is_refused() {
    let (mut config, _) = with_space_for(5 << 20);
    let account = AccountSharedData::new(SOL, 10 << 20, &Pubkey::new_unique());
    config.accounts.push(GenesisAccount { address: Pubkey::new_unique(), account });
    let err = localnet::open(&config).err().map(|err| err.to_string()).unwrap_or_default();
    assert!(err.contains("--account-bytes-max"), "{err}");
}

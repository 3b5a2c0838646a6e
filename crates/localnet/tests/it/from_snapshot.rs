//! A ledger that continues from an archive that `solana-test-validator` wrote.

use std::collections::HashSet;

use ledger::{Address, Commitment};
use localnet::{Config, LocalnetError};
use snapshot_ledger::LoadedSnapshot;
use snapshot_solana::Progress;
use solana_account::ReadableAccount;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::create_account;

use crate::fixture::{Node, on_demand, signed};

const SOL: u64 = 1_000_000_000;
const MINT_BYTES: u64 = 82;
/// `InitializeMint2` of the token program.
const INITIALIZE_MINT: u8 = 20;
/// Faucet, identity, vote and stake account.
const OWN_ACCOUNTS: usize = 4;

pub(crate) fn sample() -> LoadedSnapshot {
    let path = testkit::archive::find_recorded().expect("the recorded archive");
    snapshot_ledger::load_snapshot(
        &Config::default().ledger(),
        &path,
        None,
        1,
        &Progress::default(),
    )
    .expect("the sample loads")
}

/// Creates a mint with the token program of the snapshot.
fn make_mint(node: &Node) -> Pubkey {
    let payer = Keypair::new();
    let mint = Keypair::new();
    node.airdrop(&payer.pubkey(), SOL);
    let token = spl_generic_token::token::id();
    let mut data = vec![INITIALIZE_MINT, 6];
    data.extend(payer.pubkey().to_bytes());
    data.push(0);
    let instructions = [
        create_account(&payer.pubkey(), &mint.pubkey(), 1_461_600, MINT_BYTES, &token),
        Instruction {
            program_id: token,
            accounts: vec![AccountMeta::new(mint.pubkey(), false)],
            data,
        },
    ];
    let executed = node.send(signed(&instructions, &[&payer, &mint], &node.blockhash()));
    assert_eq!(executed.meta.status, Ok(()));
    mint.pubkey()
}

#[test]
fn a_ledger_starts_with_every_account_of_the_snapshot_at_its_slot() {
    let read = sample();
    let bank = read.snapshot().bank.clone();
    let lamports = read.snapshot().lamports;
    let view = read.into_view().expect("the ledger has space");
    let expected: Vec<_> = view.all().map(|(key, account)| (key, account.0.clone())).collect();

    let localnet = localnet::open_snapshot(&on_demand(), sample()).expect("the ledger is made");
    let view = localnet.reader().view(Commitment::Finalized);
    assert_eq!(view.block().slot, bank.slot);
    assert_eq!(view.meta().block_height, bank.block_height);
    assert_eq!(view.meta().transaction_count, bank.transaction_count);
    assert_eq!(view.meta().last_blockhash(), *bank.blockhashes.last().expect("a blockhash"));
    assert_eq!(localnet.cluster_info().first_slot, bank.slot);
    assert_eq!(localnet.cluster_info().epoch_schedule, bank.epoch_schedule);
    assert_eq!(view.all().count(), expected.len() + OWN_ACCOUNTS);
    for (key, account) in &expected {
        let record = view.record(key);
        assert_eq!(record.map(|record| record.0.clone()).as_ref(), Some(account), "{key:?}");
    }
    let known: HashSet<Address> = expected.iter().map(|(key, _)| *key).collect();
    let own: u64 = view
        .all()
        .filter(|(key, _)| !known.contains(key))
        .map(|(_, account)| account.0.lamports())
        .sum();
    assert_eq!(view.meta().capitalization, lamports + own);
    assert!(view.record(&Address::from(localnet.faucet_pubkey().to_bytes())).is_some());
}

#[test]
fn blocks_follow_programs_run_and_a_directory_stores_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { dir: Some(dir.path().join("ledger")), ..on_demand() };
    let loaded = sample();
    let slot = loaded.snapshot().bank.slot;
    let accounts = loaded.snapshot().accounts_len;
    let localnet = localnet::open_snapshot(&config, loaded).expect("the ledger is made");
    let node = Node::run(localnet);
    let mint = make_mint(&node);
    let first = node.history.snapshot().first_slot();
    assert_eq!(first, Some(slot));
    let genesis_hash = node.cluster_info.genesis_hash;
    node.stop();

    assert!(matches!(
        localnet::open_snapshot(&config, sample()),
        Err(LocalnetError::Exists { .. })
    ));
    let node = Node::start(&config);
    assert_eq!(node.cluster_info.genesis_hash, genesis_hash);
    assert_eq!(node.cluster_info.epoch_schedule.slots_per_epoch, 64);
    assert_eq!(node.account(&mint).map(|mint| mint.0.data().len() as u64), Some(MINT_BYTES));
    let view = node.reader.view(Commitment::Confirmed);
    assert!(view.block().slot > slot);
    assert!(view.all().count() > accounts + OWN_ACCOUNTS);
    let all: u64 = view.all().map(|(_, account)| account.0.lamports()).sum();
    assert_eq!(view.meta().capitalization, all);
    make_mint(&node);
    node.stop();
}

//! Accounts that a user adds to a new ledger: which are refused, and that no other makes it panic.

use chain_solana::SimulationRequest;
use ledger::{Address, Commitment};
use localnet::{Config, GenesisAccount, GenesisAccountSource, GenesisError, LocalnetError};
use solana_account::{Account, AccountSharedData, ReadableAccount};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader, system_program, sysvar};
use solana_signer::Signer;
use spl_generic_token::token;

use crate::fixture::{Node, on_demand, signed};

fn genesis_account(address: Pubkey, owner: Pubkey, data: Vec<u8>) -> GenesisAccount {
    let account = Account { lamports: 1, data, owner, executable: false, rent_epoch: u64::MAX };
    GenesisAccount { address, account: AccountSharedData::from(account) }
}

fn wallet(address: Pubkey, lamports: u64) -> GenesisAccount {
    let account = AccountSharedData::new(lamports, 0, &system_program::ID);
    GenesisAccount { address, account }
}

fn open(accounts: Vec<GenesisAccount>) -> Result<Node, LocalnetError> {
    let source: &mut GenesisAccountSource<'_> = &mut accounts.into_iter().map(Ok);
    localnet::open_with(&on_demand(), source).map(Node::run)
}

/// Makes some blocks, with their sysvars.
fn make_blocks(node: &Node) {
    let to = Keypair::new().pubkey();
    for lamports in 1..=3 {
        node.airdrop(&to, lamports * 1_000_000);
    }
    assert_eq!(node.lamports(&to), 6_000_000);
}

#[test]
fn a_sysvar_is_refused_or_blocks_are_made_with_it() {
    let all = [
        sysvar::clock::ID,
        sysvar::epoch_rewards::ID,
        sysvar::epoch_schedule::ID,
        sysvar::fees::ID,
        sysvar::last_restart_slot::ID,
        sysvar::recent_blockhashes::ID,
        sysvar::rent::ID,
        sysvar::slot_hashes::ID,
        sysvar::slot_history::ID,
        sysvar::stake_history::ID,
    ];
    let sizes = [0, 3, 8, 17, 33, 40, 81, 1_000, 20_488, 131_097];
    let mut refused = 0;
    for address in all {
        let mut accepted = Vec::new();
        for data in sizes.iter().flat_map(|size| [0, 1, 0xff].map(|byte| vec![byte; *size])) {
            let account = genesis_account(address, sysvar::ID, data.clone());
            match localnet::check_account(&account) {
                Err(GenesisError::Sysvar { address: named, .. }) => {
                    assert_eq!(named, address);
                    refused += 1;
                }
                Err(err) => panic!("{address} of {} bytes: {err}", data.len()),
                // Only the first two and the last accepted ones are tried.
                Ok(()) => accepted.push(account),
            }
        }
        assert!(accepted.len() < sizes.len() * 3, "nothing was refused of {address}");
        let firsts_and_last = accepted.len().saturating_sub(1);
        for (index, account) in accepted.into_iter().enumerate() {
            if index > 1 && index < firsts_and_last {
                continue;
            }
            let what = format!("{address} {:?}…", account.account.data().get(..8));
            let node = open(vec![account]).unwrap_or_else(|err| panic!("{what}: {err}"));
            make_blocks(&node);
            node.stop();
        }
    }
    assert!(refused > 100, "{refused} were refused");
}

#[test]
fn a_sysvar_that_parses_and_cannot_work_is_refused_with_the_reason() {
    let reason = |address, data: Vec<u8>| {
        let account = genesis_account(address, sysvar::ID, data);
        localnet::check_account(&account).map_err(|err| err.to_string()).expect_err("it is invalid")
    };
    // Slots of an epoch, offset, warmup, first normal epoch and slot.
    let schedule = |slots: u64, first: u64| {
        [&slots.to_le_bytes()[..], &slots.to_le_bytes(), &[0], &first.to_le_bytes(), &[0; 8]]
            .concat()
    };
    let id = sysvar::epoch_schedule::ID;
    assert!(reason(id, schedule(0, 0)).contains("an epoch has from 32 to 10000000 slots"));
    assert!(reason(id, schedule(u64::MAX, 0)).contains("an epoch has from 32"));
    assert!(reason(id, schedule(64, 7)).contains("first normal epoch"));
    let clock = [&u64::MAX.to_le_bytes()[..], &[0; 32]].concat();
    assert!(reason(sysvar::clock::ID, clock).contains("no slots remain"));
    let rent = [&(1_u64 << 60).to_le_bytes()[..], &2_f64.to_le_bytes(), &[50]].concat();
    assert!(reason(sysvar::rent::ID, rent).contains("more than a u64 holds"));
    // A history of one block of bits: present, length 1, 64 bits, next slot 1.
    let history =
        [&[1][..], &1_u64.to_le_bytes(), &[0; 8], &64_u64.to_le_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0]];
    assert!(reason(sysvar::slot_history::ID, history.concat()).contains("1048576 slots"));
}

#[test]
fn of_two_accounts_the_later_one_counts_and_the_capitalization_is_their_sum() {
    let [one, two, gone] = [1, 2, 3].map(|n| Pubkey::new_from_array([n; 32]));
    let config = Config { accounts: vec![wallet(one, 5), wallet(gone, 7)], ..on_demand() };
    // Enough for several chunks.
    let many = (0..10_000_u32).map(|n| {
        let mut address = [9; 32];
        address[..4].copy_from_slice(&n.to_le_bytes());
        wallet(Pubkey::new_from_array(address), 3)
    });
    let last = [wallet(one, 11), wallet(two, 12), wallet(two, 13), wallet(gone, 0)];
    let source: &mut GenesisAccountSource<'_> = &mut many.chain(last).map(Ok);
    let node = Node::run(localnet::open_with(&config, source).expect("the ledger opens"));
    make_blocks(&node);
    assert_eq!((node.lamports(&one), node.lamports(&two)), (11, 13));
    assert!(node.account(&gone).is_none());
    let view = node.reader.view(Commitment::Confirmed);
    let sum: u64 = view.all().map(|(_, account)| account.0.lamports()).sum();
    assert_eq!(view.meta().capitalization, sum);
    assert!(view.all().count() > 10_000);
    node.stop();
}

#[test]
fn an_added_account_that_replaces_the_mint_counts_once() {
    let mint = Pubkey::new_from_array([7; 32]);
    let config = Config { mint: Some(mint), ..on_demand() };
    let check = |localnet: localnet::Localnet, lamports: u64| {
        let view = localnet.reader().view(Commitment::Finalized);
        let account = view.record(&Address::from(mint.to_bytes()));
        assert_eq!(account.map_or(0, |account| account.0.lamports()), lamports);
        let sum: u64 = view.all().map(|(_, account)| account.0.lamports()).sum();
        assert_eq!(view.meta().capitalization, sum);
    };
    for lamports in [0, 11] {
        let source: &mut GenesisAccountSource<'_> = &mut [Ok(wallet(mint, lamports))].into_iter();
        check(localnet::open_with(&config, source).expect("the ledger opens"), lamports);
        let source: &mut GenesisAccountSource<'_> = &mut [Ok(wallet(mint, lamports))].into_iter();
        let opened = localnet::open_snapshot_with(&config, crate::from_snapshot::sample(), source);
        check(opened.expect("the ledger is made"), lamports);
    }
}

#[test]
fn more_lamports_than_a_ledger_can_sum_are_refused() {
    let [one, two] = [1, 2].map(|n| Pubkey::new_from_array([n; 32]));
    for config in [vec![wallet(one, u64::MAX)], Vec::new()] {
        let config = Config { accounts: config, ..on_demand() };
        let more = [wallet(two, u64::MAX), wallet(one, u64::MAX)].map(Ok);
        let source: &mut GenesisAccountSource<'_> = &mut more.into_iter();
        let err = localnet::open_with(&config, source).err().expect("it is too much");
        assert!(
            err.to_string().contains("lamports together, at most 9223372036854775807"),
            "{err}"
        );
    }
    // Genesis has 503,000,000 SOL of its own.
    let node = open(vec![wallet(one, u64::MAX / 2 - 510_000_000_000_000_000)]).expect("it is not");
    make_blocks(&node);
    node.stop();
}

#[test]
fn a_source_that_fails_ends_the_opening_with_its_error() {
    let one = wallet(Pubkey::new_from_array([1; 32]), 5);
    let source: &mut GenesisAccountSource<'_> =
        &mut [Ok(one), Err("no such file".into())].into_iter();
    let opened = localnet::open_with(&on_demand(), source);
    let err = opened.err().expect("the source failed").to_string();
    assert_eq!(err, "no such file");
}

#[test]
fn a_program_whose_account_was_replaced_is_the_new_one() {
    let payer = Keypair::new();
    let instruction =
        |program| solana_instruction::Instruction::new_with_bytes(program, &[17], vec![]);
    let logs = |accounts: Vec<GenesisAccount>| {
        let node = open(accounts).expect("the ledger opens");
        node.airdrop(&payer.pubkey(), 1_000_000_000);
        let transaction = signed(&[instruction(token::id())], &[&payer], &node.blockhash());
        let view = node.reader.view(Commitment::Confirmed);
        let request = SimulationRequest {
            transaction,
            replace_recent_blockhash: false,
            inner_instructions: false,
        };
        let simulated = node.simulator.simulate(&view, request).expect("it is simulated");
        node.stop();
        simulated.logs
    };
    let before = logs(Vec::new());
    let ran = |logs: &[String]| !logs.iter().any(|line| line == "Program is not deployed");
    assert!(!before.is_empty() && ran(&before), "{before:?}");
    let junk = genesis_account(token::id(), bpf_loader::ID, vec![1, 2, 3]);
    let after = logs(vec![junk]);
    assert!(!ran(&after), "{after:?}");
}

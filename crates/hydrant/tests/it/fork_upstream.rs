//! The fork of another cluster: a node that fetches accounts of another one, and upstreams that misbehave.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_address_lookup_table_interface::state::{AddressLookupTable, LookupTableMeta};
use solana_commitment_config::CommitmentConfig;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::AddressLookupTableAccount;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use spl_token_interface::instruction::transfer_checked;
use spl_token_interface::state::{Account as TokenAccount, AccountState, Mint};
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::Node;

use crate::cheatcodes::{call, ok, post};
use crate::clients::ProgramElves;
use crate::follower::FollowedDev;
use crate::hostile_upstream::{HostileResponse, hostile};
use crate::node::{HYDRANT, start_node};
use crate::observability::metrics;
use crate::tpu_client;
use crate::world::{LAMPORTS_PER_SOL, WAIT_TIMEOUT, World, wait_until};

pub(crate) fn pubkey(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

/// A wallet whose key is known.
fn wallet(n: u8) -> Keypair {
    Keypair::new_from_array([n; 32])
}

/// An account in the format of `solana account --output json`.
pub(crate) fn account_json(address: &Pubkey, owner: &Pubkey, data: &[u8]) -> Value {
    json!({
        "pubkey": address.to_string(),
        "account": {
            "lamports": 5 * LAMPORTS_PER_SOL,
            "data": [BASE64_STANDARD.encode(data), "base64"],
            "owner": owner.to_string(),
            "executable": false,
            "rentEpoch": u64::MAX,
            "space": data.len(),
        },
    })
}

/// An upstream with these accounts, and with other flags.
pub(crate) fn upstream_with(accounts: &[Value], flags: &[&str]) -> Result<Node> {
    let files = TempDir::new()?;
    for (n, account) in accounts.iter().enumerate() {
        fs::write(files.path().join(format!("{n}.json")), account.to_string())?;
    }
    let dir = files.path().display().to_string();
    start_node(&[&["--slot-ms", "0", "--account-dir", &dir], flags].concat())
}

/// A fork of a node, with other flags.
pub(crate) fn start_fork(upstream: &Node, flags: &[&str]) -> Result<Node> {
    let url = upstream.rpc_url();
    start_node(&[&["--fork-url", &url], flags].concat())
}

fn balance(node: &Node, key: &Pubkey, commitment: &str) -> Result<u64> {
    let params = json!([key.to_string(), { "commitment": commitment }]);
    ok(node, "getBalance", &params)?["value"].as_u64().context("a balance")
}

/// The value of a metric without labels.
pub(crate) fn metric(node: &Node, name: &str) -> Result<u64> {
    let text = metrics(node)?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    Ok(line.with_context(|| format!("{name} in {text}"))?.trim().parse()?)
}

const COMMITMENTS: [&str; 3] = ["processed", "confirmed", "finalized"];

#[test]
fn a_fork_takes_accounts_over_once_and_its_own_writes_win() -> Result<()> {
    let alice = wallet(1);
    let bob = pubkey(2);
    let carol = pubkey(3);
    let nobody = pubkey(4);
    let system = Pubkey::default();
    let accounts = [
        account_json(&alice.pubkey(), &system, &[]),
        account_json(&bob, &system, &[1, 2, 3]),
        account_json(&carol, &system, &[]),
    ];
    let upstream = upstream_with(&accounts, &[])?;
    let there = World::new(&upstream);
    let fork = start_fork(&upstream, &["--slot-ms", "50"])?;
    let here = World::new(&fork);

    // The default commitment is finalized, and no block of the fork is final yet that has the account.
    for commitment in COMMITMENTS.into_iter().rev() {
        ensure!(balance(&fork, &alice.pubkey(), commitment)? == 5 * LAMPORTS_PER_SOL);
        ensure!(balance(&fork, &nobody, commitment)? == 0, "{commitment}");
    }
    ensure!(here.rpc.get_account(&bob)? == there.rpc.get_account(&bob)?);
    let keys = json!([[bob.to_string(), nobody.to_string(), carol.to_string()]]);
    let several = ok(&fork, "getMultipleAccounts", &keys)?;
    ensure!(several["value"][0]["space"] == 3 && several["value"][1].is_null(), "{several}");
    ensure!(several["value"][2]["lamports"] == 5 * LAMPORTS_PER_SOL, "{several}");
    let batch: Vec<Value> = (0..3)
        .map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "getBalance", "params": [pubkey(60 + id).to_string()] }))
        .collect();
    ensure!(
        post(fork.rpc, &json!(batch).to_string())?.as_array().is_some_and(|all| all.len() == 3)
    );

    // Later changes of the upstream are not visible on the fork.
    there.airdrop(&bob, 7)?;
    there.airdrop(&nobody, 7)?;
    ensure!(balance(&fork, &bob, "processed")? == 5 * LAMPORTS_PER_SOL);
    ensure!(balance(&fork, &nobody, "processed")? == 0, "its absence is known");

    // A wallet of the upstream pays here, and stays as it was there.
    let world = World { payer: alice, ..World::new(&fork) };
    let all = 5 * LAMPORTS_PER_SOL - 5_000;
    world.send(&[transfer(&world.payer.pubkey(), &carol, all)], &[])?;
    ensure!(balance(&fork, &carol, "processed")? == 5 * LAMPORTS_PER_SOL + all);
    ensure!(there.rpc.get_balance(&carol)? == 5 * LAMPORTS_PER_SOL);
    // It was closed here, and is not fetched again, at any commitment.
    for commitment in COMMITMENTS {
        wait_until("the closed account", WAIT_TIMEOUT, || {
            Ok((balance(&fork, &world.payer.pubkey(), commitment)? == 0).then_some(()))
        })?;
    }
    let account = ok(&fork, "getAccountInfo", &json!([world.payer.pubkey().to_string()]))?;
    ensure!(account["value"].is_null(), "{account}");
    // An account of the fork's own that is closed is not fetched either.
    let faucet_paid = Keypair::new();
    let local = World { payer: faucet_paid, ..World::new(&fork) };
    local.airdrop(&local.payer.pubkey(), 1)?;
    local.send(&[transfer(&local.payer.pubkey(), &carol, LAMPORTS_PER_SOL - 5_000)], &[])?;
    there.airdrop(&local.payer.pubkey(), 9)?;
    ensure!(balance(&fork, &local.payer.pubkey(), "processed")? == 0);
    ensure!(metric(&fork, "hydrant_fork_upstream_requests_failed_total")? == 0);
    ensure!(metric(&fork, "hydrant_fork_upstream_bytes")? > 0);
    Ok(())
}

#[test]
fn tokens_of_a_forked_mint_are_transferred() -> Result<()> {
    let alice = wallet(1);
    let mint = pubkey(2);
    let from = pubkey(3);
    let to = pubkey(4);
    let mint_state = Mint { supply: 900, decimals: 2, is_initialized: true, ..Mint::default() };
    let mut mint_data = [0; Mint::LEN];
    Mint::pack(mint_state, &mut mint_data)?;
    let token = |owner: &Pubkey, amount| -> Result<[u8; TokenAccount::LEN]> {
        let state = AccountState::Initialized;
        let account = TokenAccount { mint, owner: *owner, amount, state, ..Default::default() };
        let mut data = [0; TokenAccount::LEN];
        TokenAccount::pack(account, &mut data)?;
        Ok(data)
    };
    let program = spl_token_interface::id();
    let upstream = upstream_with(
        &[
            account_json(&alice.pubkey(), &Pubkey::default(), &[]),
            account_json(&mint, &program, &mint_data),
            account_json(&from, &program, &token(&alice.pubkey(), 900)?),
            account_json(&to, &program, &token(&pubkey(5), 0)?),
        ],
        &[],
    )?;
    let fork = start_fork(&upstream, &["--slot-ms", "0"])?;
    // The mint comes along with the account that names it.
    let amount = ok(&fork, "getTokenAccountBalance", &json!([from.to_string()]))?;
    ensure!(amount["value"]["uiAmountString"] == "9", "{amount}");
    let parsed = json!([to.to_string(), { "encoding": "jsonParsed" }]);
    let parsed = ok(&fork, "getAccountInfo", &parsed)?;
    let decimals = &parsed["value"]["data"]["parsed"]["info"]["tokenAmount"]["decimals"];
    ensure!(*decimals == 2, "{parsed}");
    let world = World { payer: alice, ..World::new(&fork) };
    // A program of slot 0 cannot be called in slot 0.
    world.airdrop(&Pubkey::new_unique(), 1)?;
    let owner = world.payer.pubkey();
    let send = transfer_checked(&program, &from, &mint, &to, &owner, &[], 250, 2)?;
    world.send(&[send], &[])?;
    for (key, amount) in [(from, "650"), (to, "250")] {
        let found = ok(&fork, "getTokenAccountBalance", &json!([key.to_string()]))?;
        ensure!(found["value"]["amount"] == amount, "{found}");
    }
    // Lists contain the fetched accounts.
    let by_owner =
        json!([owner.to_string(), { "mint": mint.to_string() }, { "encoding": "base64" }]);
    let listed = ok(&fork, "getTokenAccountsByOwner", &by_owner)?;
    ensure!(listed["value"][0]["pubkey"] == from.to_string(), "{listed}");
    Ok(())
}

#[test]
fn a_program_and_a_lookup_table_of_the_upstream_are_used_here() -> Result<()> {
    let alice = wallet(1);
    let listed = pubkey(2);
    let table = pubkey(3);
    let program = pubkey(5);
    // It was extended in a slot that the fork has not reached.
    let meta = LookupTableMeta { last_extended_slot: 300_000_000, ..LookupTableMeta::default() };
    let addresses = [listed];
    let state = AddressLookupTable { meta, addresses: addresses.as_slice().into() };
    let table_data = state.serialize_for_tests()?;
    let elf = ProgramElves::find()?.upgrade.display().to_string();
    let program_text = program.to_string();
    let authority = alice.pubkey().to_string();
    let upstream = upstream_with(
        &[
            account_json(&alice.pubkey(), &Pubkey::default(), &[]),
            account_json(&listed, &Pubkey::default(), &[]),
            account_json(&table, &solana_sdk_ids::address_lookup_table::ID, &table_data),
        ],
        &["--upgradeable-program", &program_text, &elf, &authority],
    )?;
    let fork = start_fork(&upstream, &["--slot-ms", "0"])?;
    let world = World { payer: alice, ..World::new(&fork) };
    // A program of slot 0 cannot be called in slot 0.
    world.airdrop(&Pubkey::new_unique(), 1)?;
    let called = Instruction::new_with_bytes(program, b"hello", Vec::new());
    let pay = transfer(&world.payer.pubkey(), &listed, 1_000_000);
    let table = AddressLookupTableAccount { key: table, addresses: addresses.to_vec() };
    let blockhash = world.rpc.get_latest_blockhash()?;
    let transaction = world.sign(&[called, pay], &[], &[table], blockhash)?;
    // The simulation is on a state that is older than the fetched accounts.
    let simulated = world.rpc.simulate_transaction(&transaction)?.value;
    ensure!(simulated.err.is_none(), "{simulated:?}");
    let logs = simulated.logs.context("logs")?;
    ensure!(logs[0] == format!("Program {program} invoke [1]"), "{logs:?}");
    world.rpc.send_and_confirm_transaction(&transaction)?;
    ensure!(balance(&fork, &listed, "processed")? == 5 * LAMPORTS_PER_SOL + 1_000_000);
    // A cheat code copies it, with code that was fetched for it.
    let copy = pubkey(6);
    ok(&fork, "surfnet_cloneProgramAccount", &json!([program_text, copy.to_string()]))?;
    let called = Instruction::new_with_bytes(copy, b"again", Vec::new());
    world.send(&[called], &[])?;
    Ok(())
}

#[test]
fn a_revert_loses_no_fetched_account_and_revives_none() -> Result<()> {
    let alice = wallet(1);
    let bob = pubkey(2);
    let carol = pubkey(3);
    let system = Pubkey::default();
    let accounts: Vec<_> =
        [alice.pubkey(), bob, carol].iter().map(|key| account_json(key, &system, &[])).collect();
    let upstream = upstream_with(&accounts, &[])?;
    let fork = start_fork(&upstream, &["--slot-ms", "0", "--finalize-after", "31"])?;
    let world = World { payer: alice, ..World::new(&fork) };
    let payer = world.payer.pubkey();
    let five = 5 * LAMPORTS_PER_SOL;
    ensure!(balance(&fork, &payer, "processed")? == five);
    let first = ok(&fork, "hydrant_snapshot", &json!([]))?;
    // One account is fetched after the snapshot, and another one is closed after it.
    ensure!(balance(&fork, &bob, "processed")? == five);
    world.send(&[transfer(&payer, &carol, five - 5_000)], &[])?;
    ensure!(balance(&fork, &payer, "processed")? == 0);
    let second = ok(&fork, "hydrant_snapshot", &json!([]))?;
    // The upstream has other ones by now, or none at all.
    drop(upstream);
    ok(&fork, "hydrant_revert", &json!([second]))?;
    for commitment in COMMITMENTS {
        ensure!(balance(&fork, &payer, commitment)? == 0 || commitment == "finalized");
        ensure!(balance(&fork, &bob, commitment)? == five, "{commitment}");
    }
    ok(&fork, "hydrant_revert", &json!([first]))?;
    for key in [payer, bob, carol] {
        for commitment in COMMITMENTS {
            ensure!(balance(&fork, &key, commitment)? == five, "{key} {commitment}");
        }
    }
    // They are in the ledger itself, and not only in the layer of fetched accounts below it.
    world.send(&[transfer(&payer, &bob, LAMPORTS_PER_SOL)], &[])?;
    ensure!(balance(&fork, &bob, "processed")? == five + LAMPORTS_PER_SOL);
    // Executes the transaction again on another fork of the newest block.
    let left = ok(&fork, "hydrant_reorg", &json!([{ "depth": 1, "transactions": "keep" }]))?;
    ensure!(left["executed"] == 1 && left["dropped"] == 0, "{left}");
    ensure!(balance(&fork, &bob, "processed")? == five + LAMPORTS_PER_SOL);
    Ok(())
}

#[test]
fn cheat_codes_change_and_reset_accounts_of_the_upstream() -> Result<()> {
    let alice = pubkey(1);
    let bob = pubkey(2);
    let owner = pubkey(9);
    let accounts =
        [account_json(&alice, &Pubkey::default(), &[1, 2]), account_json(&bob, &owner, &[3])];
    let upstream = upstream_with(&accounts, &[])?;
    let fork = start_fork(&upstream, &["--slot-ms", "0"])?;
    let info = |key: &Pubkey| -> Result<Value> {
        let params = json!([key.to_string(), { "encoding": "base64", "commitment": "processed" }]);
        Ok(ok(&fork, "getAccountInfo", &params)?["value"].take())
    };
    // Fields that the request does not have stay as the upstream has them.
    ok(&fork, "surfnet_setAccount", &json!([alice.to_string(), { "lamports": 77 }]))?;
    let changed = info(&alice)?;
    ensure!(changed["lamports"] == 77 && changed["data"][0] == "AQI=", "{changed}");
    ok(&fork, "surfnet_resetAccount", &json!([alice.to_string()]))?;
    ensure!(info(&alice)?["lamports"] == 5 * LAMPORTS_PER_SOL);
    ok(&fork, "surfnet_setAccount", &json!([alice.to_string(), { "lamports": 0 }]))?;
    ensure!(info(&alice)?.is_null());
    ok(&fork, "surfnet_resetNetwork", &json!([]))?;
    ensure!(info(&alice)?["lamports"] == 5 * LAMPORTS_PER_SOL);
    // Neither an account that is offline nor the accounts that it owns are fetched.
    let offline = json!([owner.to_string(), { "includeOwnedAccounts": true }]);
    let done = ok(&fork, "surfnet_offlineAccount", &offline)?;
    ensure!(done["value"].is_null() && done["context"]["slot"].is_u64(), "{done}");
    ensure!(info(&bob)?.is_null() && info(&owner)?.is_null());
    let stream = call(&fork, "surfnet_streamAccount", &json!([bob.to_string()]))?;
    let message = stream["error"]["message"].as_str().context("an error")?;
    ensure!(message.contains("surfnet_resetAccount has it fetched again"), "{message}");
    // A cheat code that is disabled fetches nothing.
    ok(&fork, "surfnet_disableCheatcode", &json!([["surfnet_setAccount"]]))?;
    let refused = call(&fork, "surfnet_setAccount", &json!([pubkey(8).to_string(), {}]))?;
    ensure!(refused["error"]["code"] == -32601, "{refused}");
    Ok(())
}

#[test]
fn transactions_over_quic_wait_for_their_accounts() -> Result<()> {
    let alice = wallet(1);
    let bob = pubkey(2);
    let accounts = [account_json(&alice.pubkey(), &Pubkey::default(), &[])];
    let upstream = upstream_with(&accounts, &[])?;
    let fork = start_fork(&upstream, &["--slot-ms", "50"])?;
    let world = World { payer: alice, ..World::new(&fork) };
    let pay = transfer(&world.payer.pubkey(), &bob, LAMPORTS_PER_SOL);
    let transaction = world.sign(&[pay], &[], &[], world.rpc.get_latest_blockhash()?)?;
    let _client = tpu_client::send(&fork, std::slice::from_ref(&transaction))?;
    world.wait_until_confirmed(&transaction.signatures[0])??;
    ensure!(balance(&fork, &bob, "processed")? == LAMPORTS_PER_SOL);
    ensure!(metric(&fork, "hydrant_fork_upstream_transactions_dropped_total")? == 0);
    Ok(())
}

#[test]
fn a_restart_without_network_has_what_the_cache_has() -> Result<()> {
    let dir = TempDir::new()?;
    let cache = dir.path().display().to_string();
    let alice = pubkey(1);
    let bob = pubkey(2);
    let nobody = pubkey(3);
    let late = pubkey(4);
    let system = Pubkey::default();
    let accounts = [account_json(&alice, &system, &[7; 100]), account_json(&bob, &system, &[])];
    let upstream = upstream_with(&accounts, &[])?;
    let url = upstream.rpc_url();
    let five = 5 * LAMPORTS_PER_SOL;
    let fork = start_fork(&upstream, &["--fork-cache", &cache])?;
    ensure!(balance(&fork, &alice, "finalized")? == five);
    ensure!(balance(&fork, &nobody, "finalized")? == 0);
    drop(fork);
    // The upstream continues, and a pinned fork does not see its changes.
    let there = World::new(&upstream);
    let pin = there.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?.to_string();
    there.airdrop(&alice, 1)?;
    there.airdrop(&nobody, 1)?;
    let pinned = start_fork(&upstream, &["--fork-cache", &cache, "--fork-slot", &pin])?;
    ensure!(balance(&pinned, &alice, "finalized")? == five);
    ensure!(balance(&pinned, &nobody, "finalized")? == 0);
    let refused = call(&pinned, "getBalance", &json!([bob.to_string()]))?;
    let message = refused["error"]["message"].as_str().with_context(|| refused.to_string())?;
    ensure!(message.contains(&format!("--fork-slot is {pin}")), "{message}");
    ensure!(message.contains("is not in --fork-cache"), "{message}");
    drop((pinned, upstream));

    let fork = start_node(&["--fork-url", &url, "--fork-cache", &cache])?;
    ensure!(fork.log().contains("did not answer"), "{}", fork.log());
    ensure!(balance(&fork, &alice, "finalized")? == five);
    ensure!(balance(&fork, &nobody, "finalized")? == 0);
    ensure!(metric(&fork, "hydrant_fork_cache_hits_total")? == 2);
    let missing = call(&fork, "getBalance", &json!([late.to_string()]))?;
    let message = missing["error"]["message"].as_str().with_context(|| missing.to_string())?;
    ensure!(message.contains("did not answer") && message.contains("--fork-url"), "{message}");
    Ok(())
}

/// Slot, epoch and time of a node's processed state.
fn position(node: &Node) -> Result<(u64, u64, i64)> {
    let config = json!({ "encoding": "jsonParsed", "commitment": "processed" });
    let params = json!([solana_sdk_ids::sysvar::clock::ID.to_string(), config]);
    let clock = ok(node, "getAccountInfo", &params)?["value"]["data"]["parsed"]["info"].clone();
    let number = |name: &str| clock[name].as_u64().with_context(|| clock.to_string());
    Ok((number("slot")?, number("epoch")?, clock["unixTimestamp"].as_i64().context("a time")?))
}

#[test]
fn a_fork_starts_at_slot_epoch_and_time_of_its_upstream() -> Result<()> {
    let upstream =
        start_node(&["--slot-ms", "0", "--slots-per-epoch", "64", "--warp-slot", "13000"])?;
    let later = json!([{ "absoluteTimestamp": 4_102_444_800_000_u64 }]);
    ok(&upstream, "surfnet_timeTravel", &later)?;
    // The slot after the travel depends on the current time. In the middle of an epoch, all commitments have its number.
    let (travelled, _, _) = position(&upstream)?;
    ok(&upstream, "hydrant_mine", &json!([64 + 32 - travelled % 64]))?;
    let (slot, epoch, time) = position(&upstream)?;
    let dir = TempDir::new()?;
    let cache = dir.path().display().to_string();
    let cached = ["--slot-ms", "0", "--fork-cache", cache.as_str()];
    let check = |fork: &Node| -> Result<()> {
        let (slot_here, epoch_here, time_here) = position(fork)?;
        ensure!(slot_here.abs_diff(slot) <= 2 && epoch_here == epoch, "{slot_here} {epoch_here}");
        ensure!((time_here - time).abs() < 300, "{time_here} {time}");
        for commitment in ["confirmed", "finalized"] {
            let at = json!([{ "commitment": commitment }]);
            ensure!(ok(fork, "getEpochInfo", &at)?["epoch"] == epoch);
            let slot = ok(fork, "getSlot", &at)?;
            let config = json!({ "commitment": commitment, "transactionDetails": "none" });
            ensure!(ok(fork, "getBlock", &json!([slot, config]))?["blockhash"].is_string());
        }
        ensure!(ok(fork, "getEpochSchedule", &json!([]))?["slotsPerEpoch"] == 64);
        let history = json!([solana_sdk_ids::sysvar::stake_history::ID.to_string(),
                             { "encoding": "jsonParsed", "commitment": "processed" }]);
        let history =
            ok(fork, "getAccountInfo", &history)?["value"]["data"]["parsed"]["info"].clone();
        ensure!(history[0]["epoch"] == epoch - 1, "{}", history[0]);
        ok(fork, "hydrant_mine", &json!([3]))?;
        Ok(())
    };
    check(&start_fork(&upstream, &["--slot-ms", "0", "--warp-slot"])?)?;
    check(&start_fork(&upstream, &cached)?)?;
    let genesis = position(&start_fork(&upstream, &["--fork-from-genesis"])?)?;
    ensure!(genesis.0 < 10_000 && genesis.1 == 0 && genesis.2 < time - 1_000_000, "{genesis:?}");
    let warped = position(&start_fork(&upstream, &["--slot-ms", "0", "--warp-slot", "7"])?)?;
    ensure!((warped.0, warped.1) == (7, 0), "{warped:?}");
    let other = start_fork(&upstream, &["--slot-ms", "0", "--slots-per-epoch", "100"])?;
    ensure!(position(&other)?.1 == position(&other)?.0 / 100);
    // Without the network it is known from the cache.
    let url = upstream.rpc_url();
    drop(upstream);
    check(&start_node(&[&["--fork-url", url.as_str()][..], &cached].concat())?)
}

#[test]
fn an_upstream_without_sysvars_is_forked_at_slot_0() -> Result<()> {
    let unknown =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;
    let url = hostile(HostileResponse::Body(unknown))?;
    let fork = start_node(&["--fork-url", &url, "--slot-ms", "0"])?;
    ensure!(fork.log().contains("the fork starts at slot 0"), "{}", fork.log());
    ensure!(position(&fork)?.0 == 1);
    Ok(())
}

#[test]
fn a_fork_without_its_upstream_does_not_start() -> Result<()> {
    // Nothing listens on port 1.
    for (flags, code, expected) in [
        (&["--fork-url", "http://127.0.0.1:1"][..], 1, "did not answer"),
        (
            &["--fork-url", "http://127.0.0.1:1", "--ledger", "x"][..],
            2,
            "'--fork-url <URL>' cannot be used with '--ledger <DIR>'",
        ),
        (&["--fork-slot", "7"][..], 2, "<--fork-url <URL>|--config <FILE>>"),
    ] {
        let run = run_to_end(Command::new(HYDRANT).args(["dev", "--rpc-port", "0"]).args(flags))?;
        let text = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
        ensure!(run.status.code() == Some(code) && text.contains(expected), "{text}");
    }
    let upstream = start_node(&["--slot-ms", "0"])?;
    let url = upstream.rpc_url();
    let other = Pubkey::new_from_array([3; 32]).to_string();
    let args = ["dev", "--rpc-port", "0", "--fork-url", &url, "--fork-genesis", &other];
    let run = run_to_end(Command::new(HYDRANT).args(args))?;
    let text = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    ensure!(run.status.code() == Some(1), "{text}");
    ensure!(text.contains(&format!("--fork-genesis is {other}")), "{text}");
    Ok(())
}

#[test]
fn an_upstream_that_misbehaves_costs_an_error_and_no_more() -> Result<()> {
    let unknown = pubkey(9);
    for (hostile_response, expected) in [
        (HostileResponse::Body("not JSON"), "no response of JSON-RPC"),
        (
            HostileResponse::Body(r#"{"result":{"context":{"slot":1000},"value":[]}}"#),
            "0 accounts for 1",
        ),
        (
            HostileResponse::Body(r#"{"result":{"context":{"slot":999},"value":[null]}}"#),
            "as of slot 999",
        ),
        (
            HostileResponse::Body(r#"{"error":{"code":-32602,"message":"no"}}"#),
            "refused the request: -32602: no",
        ),
        (
            HostileResponse::Raw(
                "HTTP/1.1 302 Found\r\nLocation: http://x\r\nContent-Length: 0\r\n\r\n",
            ),
            "a redirect is not followed",
        ),
        (
            HostileResponse::Raw("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{"),
            "more than 33554432 bytes",
        ),
        (
            HostileResponse::Raw("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"),
            "broke before its response",
        ),
        (HostileResponse::Flood, "more than 33554432 bytes"),
        (HostileResponse::Stall, "within 1500 ms (--fork-timeout-ms)"),
        (HostileResponse::Raw("nonsense\r\n\r\n"), "invalid HTTP"),
    ] {
        let url = hostile(hostile_response)?;
        let fork =
            start_node(&["--fork-url", &url, "--slot-ms", "0", "--fork-timeout-ms", "1500"])?;
        for (method, params) in [
            ("getBalance", json!([unknown.to_string()])),
            ("getAccountInfo", json!([unknown.to_string()])),
            ("requestAirdrop", json!([unknown.to_string(), 5])),
        ] {
            let response = call(&fork, method, &params)?;
            let error = &response["error"];
            let message = error["message"]
                .as_str()
                .with_context(|| format!("{hostile_response:?} {response}"))?;
            ensure!(message.contains(expected), "{hostile_response:?} {method}: {message}");
            ensure!(message.contains("--fork-url") && !message.contains("secret"), "{message}");
        }
        // Accounts that the ledger has itself are served nevertheless.
        let clock = json!(["SysvarC1ock11111111111111111111111111111111"]);
        ensure!(ok(&fork, "getAccountInfo", &clock)?["value"]["lamports"].is_u64());
        ensure!(metric(&fork, "hydrant_fork_upstream_requests_failed_total")? == 3);
    }
    Ok(())
}

#[test]
fn the_secret_of_an_upstreams_url_in_a_file_is_shown_nowhere() -> Result<()> {
    const SECRET: &str = "SECRETKEY";
    let upstream = upstream_with(&[account_json(&pubkey(1), &Pubkey::default(), &[])], &[])?;
    let dir = TempDir::new()?;
    let config = dir.path().join("hydrant.toml");
    let url = format!("{}/?key={SECRET}", upstream.rpc_url());
    fs::write(
        &config,
        format!("[dev]\nslot-ms = 0\nfork-timeout-ms = 1500\nfork-url = \"{url}\"\n"),
    )?;
    let fork = start_node(&["--config", &config.display().to_string()])?;
    ensure!(balance(&fork, &pubkey(1), "processed")? == 5 * LAMPORTS_PER_SOL);
    drop(upstream);
    let failed = call(&fork, "getBalance", &json!([pubkey(2).to_string()]))?;
    ensure!(failed["error"]["message"].as_str().is_some(), "{failed}");
    let arguments = fs::read(format!("/proc/{}/cmdline", fork.pid()))?;
    let shown = [
        ("the error", failed.to_string()),
        ("the log", fork.log()),
        ("the arguments", String::from_utf8(arguments)?),
        ("the metrics", metrics(&fork)?),
    ];
    for (place, text) in shown {
        ensure!(!text.contains(SECRET), "{place}: {text}");
    }
    Ok(())
}

#[test]
fn a_rate_limit_is_waited_for_and_another_cluster_is_not() -> Result<()> {
    let limited = hostile(HostileResponse::Limited)?;
    let fork = start_node(&["--fork-url", &limited, "--slot-ms", "0"])?;
    ensure!(balance(&fork, &pubkey(9), "processed")? == 7);
    drop(fork);
    let other = hostile(HostileResponse::OtherCluster)?;
    let fork = start_node(&["--fork-url", &other, "--slot-ms", "0"])?;
    let response = call(&fork, "getBalance", &json!([pubkey(9).to_string()]))?;
    let message = response["error"]["message"].as_str().with_context(|| response.to_string())?;
    ensure!(message.contains("it is another cluster now"), "{message}");
    Ok(())
}

#[test]
fn a_stalled_upstream_delays_no_other_client_and_its_bounds_hold() -> Result<()> {
    let url = hostile(HostileResponse::Stall)?;
    let flags = ["--slot-ms", "0", "--fork-timeout-ms", "10000", "--fork-requests-max", "1"];
    let fork = start_node(&[&["--fork-url", &url][..], &flags].concat())?;
    let clients: Vec<_> = (0..40_u8)
        .map(|n| {
            let rpc = fork.rpc;
            std::thread::spawn(move || -> Result<()> {
                let key = pubkey(100 + n).to_string();
                let body =
                    json!({ "jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [key] });
                let body = body.to_string();
                let mut stream = TcpStream::connect(rpc)?;
                stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
                write!(
                    stream,
                    "POST / HTTP/1.1\r\nHost: {rpc}\r\nContent-Type: application/json\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                )?;
                let mut response = String::new();
                stream.read_to_string(&mut response)?;
                ensure!(response.contains("error"), "{response}");
                Ok(())
            })
        })
        .collect();
    wait_until("requests that wait", WAIT_TIMEOUT, || {
        Ok((metric(&fork, "hydrant_fork_upstream_requests_waiting")? > 20).then_some(()))
    })?;
    // Nothing else waits for them.
    let world = World::new(&fork);
    for _ in 0..20 {
        world.rpc.get_slot()?;
        world.rpc.get_latest_blockhash()?;
    }
    for client in clients {
        match client.join() {
            Ok(result) => result?,
            Err(_) => bail!("a client panicked"),
        }
    }
    Ok(())
}

#[test]
fn accounts_past_the_bound_are_an_error_that_names_it() -> Result<()> {
    let small = pubkey(1);
    let large = pubkey(2);
    let system = Pubkey::default();
    let accounts =
        [account_json(&small, &system, &[1; 100]), account_json(&large, &system, &[1; 4_000])];
    let upstream = upstream_with(&accounts, &[])?;
    let fork = start_fork(&upstream, &["--slot-ms", "0", "--fork-bytes-max", "2000"])?;
    ensure!(balance(&fork, &small, "processed")? == 5 * LAMPORTS_PER_SOL);
    let response = call(&fork, "getBalance", &json!([large.to_string()]))?;
    let message = response["error"]["message"].as_str().with_context(|| response.to_string())?;
    ensure!(message.contains("at most 2000 (--fork-bytes-max)"), "{message}");
    ensure!(metric(&fork, "hydrant_fork_upstream_bytes_max")? == 2000);
    Ok(())
}

#[test]
fn a_follower_verifies_the_blocks_in_which_accounts_were_taken_over() -> Result<()> {
    let alice = wallet(1);
    let bob = pubkey(2);
    let system = Pubkey::default();
    let accounts =
        [account_json(&alice.pubkey(), &system, &[]), account_json(&bob, &system, &[1, 2, 3])];
    let upstream = upstream_with(&accounts, &[])?;
    let url = upstream.rpc_url();
    let flags = ["--fork-url", &url, "--slot-ms", "50", "--finalize-after", "8"];
    let nodes = FollowedDev::start(&flags)?;
    let dev = &nodes.dev;
    let follower = &nodes.follower;
    let world = World { payer: alice, ..World::new(dev) };
    world.send(&[transfer(&world.payer.pubkey(), &bob, LAMPORTS_PER_SOL)], &[])?;
    wait_until("the follower to have the account", WAIT_TIMEOUT, || {
        Ok((balance(follower, &bob, "finalized")? == 6 * LAMPORTS_PER_SOL).then_some(()))
    })?;
    let verification = ok(follower, "hydrantGetVerification", &json!([]))?;
    ensure!(verification["mismatchedBanks"] == 0, "{verification}");
    Ok(())
}

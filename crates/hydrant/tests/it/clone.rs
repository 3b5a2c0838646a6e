//! A ledger that takes accounts, programs and features from another node.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_address_lookup_table_interface::state::{AddressLookupTable, LookupTableMeta};
use solana_instruction::Instruction;
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::child_process::run_to_end;

use crate::clients::ProgramElves;
use crate::node::{HYDRANT, start_node};
use crate::world::World;

/// A feature that is active on a new ledger: `increase_cpi_account_info_limit` has no effect on this test.
const FEATURE: &str = "H6iVbVaDZgDphcPbcZwc5LoznMPWQfnJ1AM7L1xzqvt5";

fn pubkey(n: u8) -> Pubkey {
    Pubkey::new_from_array([n; 32])
}

/// An account in the format of `solana account --output json`.
fn account_json(address: &Pubkey, owner: &Pubkey, data: &[u8]) -> Value {
    json!({
        "pubkey": address.to_string(),
        "account": {
            "lamports": 5_000_000_000_u64,
            "data": [BASE64_STANDARD.encode(data), "base64"],
            "owner": owner.to_string(),
            "executable": false,
            "rentEpoch": u64::MAX,
            "space": data.len(),
        },
    })
}

fn lookup_table(addresses: &[Pubkey]) -> Result<Vec<u8>> {
    let meta = LookupTableMeta::default();
    let table = AddressLookupTable { meta, addresses: addresses.into() };
    Ok(table.serialize_for_tests()?)
}

/// Runs `hydrant dev` until it ends with an error, and returns its output.
fn run_to_failure(args: &[&str]) -> Result<String> {
    let run = run_to_end(Command::new(HYDRANT).args(["dev", "--rpc-port", "0"]).args(args))?;
    let text = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    ensure!(run.status.code() == Some(1), "{:?}: {text}", run.status);
    Ok(text)
}

#[test]
fn a_new_ledger_has_what_it_cloned_from_another_node() -> Result<()> {
    let files = TempDir::new()?;
    let [funded, listed, missing, table, program] = [1, 2, 3, 4, 5].map(pubkey);
    let system = Pubkey::default();
    let table_data = lookup_table(&[listed, missing])?;
    let table_owner = solana_sdk_ids::address_lookup_table::ID;
    let accounts = [
        account_json(&funded, &system, &[1, 2, 3]),
        account_json(&listed, &system, &[]),
        account_json(&table, &table_owner, &table_data),
    ];
    for (n, account) in accounts.iter().enumerate() {
        fs::write(files.path().join(format!("{n}.json")), account.to_string())?;
    }
    let dir = files.path().display().to_string();
    let elf = ProgramElves::find()?.upgrade.display().to_string();
    let program_text = program.to_string();
    let authority = funded.to_string();
    let upstream = start_node(&[
        "--slot-ms",
        "0",
        "--account-dir",
        &dir,
        "--upgradeable-program",
        &program_text,
        &elf,
        &authority,
        "--deactivate-feature",
        FEATURE,
        "--warp-slot",
        "1000",
    ])?;
    let there = World::new(&upstream);
    there.airdrop(&listed, 1)?;
    let url = upstream.rpc_url();
    let [funded_text, missing_text, table_text] = [funded, missing, table].map(|it| it.to_string());
    let node = start_node(&[
        "--slot-ms",
        "0",
        "--url",
        &url,
        "--clone",
        &funded_text,
        "--maybe-clone",
        &missing_text,
        "--clone-upgradeable-program",
        &program_text,
        "--deep-clone-address-lookup-table",
        &table_text,
        "--clone-feature-set",
        "--warp-slot",
    ])?;
    let here = World::new(&node);
    for address in [funded, listed, table, program] {
        ensure!(here.rpc.get_account(&address)? == there.rpc.get_account(&address)?, "{address}");
    }
    ensure!(node.log().contains(&format!("--maybe-clone {missing}: no such account")));
    ensure!(here.rpc.get_balance(&missing)? == 0);

    // A program is called as if it had been deployed at genesis.
    let data = here.rpc.get_account_data(&get_program_data_address(&program))?;
    let state: UpgradeableLoaderState = bincode::deserialize(&data)?;
    let expected = Some(funded);
    ensure!(
        state
            == UpgradeableLoaderState::ProgramData { slot: 0, upgrade_authority_address: expected },
        "{state:?}"
    );
    here.airdrop(&here.payer.pubkey(), 10)?;
    ensure!(here.rpc.get_slot()? >= 1_000, "the slot of the cluster");
    let call = Instruction::new_with_bytes(program, &[], Vec::new());
    let called = here.sign(&[call], &[], &[], here.rpc.get_latest_blockhash()?)?;
    let logs = here.rpc.simulate_transaction(&called)?.value.logs.context("logs")?;
    ensure!(logs[0] == format!("Program {program} invoke [1]"), "{logs:?}");
    ensure!(logs.iter().any(|line| line.contains("consumed")), "{logs:?}");

    let feature: Pubkey = FEATURE.parse()?;
    ensure!(here.rpc.get_account(&feature).is_err(), "the feature is not active upstream");
    Ok(())
}

#[test]
fn an_existing_ledger_is_not_changed_and_nothing_is_fetched() -> Result<()> {
    let files = TempDir::new()?;
    let ledger = files.path().join("ledger").display().to_string();
    let base = ["--ledger", &ledger, "--slot-ms", "0"];
    drop(start_node(&base)?);
    let address = pubkey(1).to_string();
    // Nothing listens on port 1.
    let cloning = [&base[..], &["--url", "http://127.0.0.1:1", "--clone", &address]].concat();
    let node = start_node(&cloning)?;
    let ignored = "hydrant: --clone argument ignored, ledger already exists";
    ensure!(node.log().contains(ignored), "{}", node.log());
    drop(node);
    let text = run_to_failure(&[&cloning[..], &["--reset"]].concat())?;
    ensure!(text.contains("clone from http://127.0.0.1:1"), "{text}");
    // The failure did not cost the ledger.
    let node = start_node(&base)?;
    ensure!(World::new(&node).rpc.get_slot().is_ok());
    Ok(())
}

#[test]
fn what_cannot_be_cloned_is_an_error_that_names_it() -> Result<()> {
    let upstream = start_node(&["--slot-ms", "0"])?;
    let url = upstream.rpc_url();
    let missing = pubkey(9).to_string();
    let system = Pubkey::default().to_string();
    let clone = |flag: &str, address: &str| run_to_failure(&["--url", &url, flag, address]);
    for flag in ["--clone", "--clone-upgradeable-program", "--deep-clone-address-lookup-table"] {
        let text = clone(flag, &missing)?;
        ensure!(text.contains(&format!("{flag} {missing}: no such account")), "{text}");
    }
    let text = clone("--clone-upgradeable-program", &system)?;
    ensure!(text.contains("no program of the upgradeable loader; use --clone"), "{text}");
    let text = clone("--deep-clone-address-lookup-table", &system)?;
    ensure!(text.contains("no lookup table"), "{text}");
    let text = run_to_failure(&["--clone", &missing])?;
    ensure!(text.contains("require --url"), "{text}");
    let text = run_to_failure(&["--warp-slot"])?;
    ensure!(text.contains("--warp-slot needs a slot, or --url"), "{text}");
    Ok(())
}

#[test]
fn a_cluster_that_sends_something_else_is_refused() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}", listener.local_addr()?);
    let bodies = [
        r#"{"result":{"value":[]}}"#,
        r#"{"result":{"value":[{"lamports":"many"}]}}"#,
        r#"{"result":null}"#,
        "not JSON",
    ];
    let server = std::thread::spawn(move || -> Result<()> {
        for body in bodies {
            let mut socket = listener.accept()?.0;
            // One request is one segment on loopback, and its content does not matter.
            let read = socket.read(&mut [0; 4096])?;
            ensure!(read > 0, "no request");
            let length = body.len();
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")?;
        }
        Ok(())
    });
    let address = pubkey(1).to_string();
    let expected =
        ["0 accounts for 1 addresses", "not in the format", "not in the format", "HTTP 200"];
    for part in expected {
        let text = run_to_failure(&["--url", &url, "--clone", &address])?;
        ensure!(text.contains(part) && text.contains("clone from http://"), "{part}: {text}");
    }
    server.join().map_err(|_| anyhow::anyhow!("the server panicked"))?
}

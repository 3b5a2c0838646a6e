//! `--compute-unit-limit`, `--transaction-account-lock-limit` and `--log-messages-bytes-limit`, for transactions that
//! are simulated and executed.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_instruction::Instruction;
use solana_message::Message;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::Transaction;
use testkit::node::Node;

use crate::node::start_node;
use crate::raw_http::{body, connect, exchange, post_text};
use crate::world::World;

/// The error of a simulation with the node's own identity as payer.
fn error(node: &Node, world: &World, instructions: &[Instruction]) -> Result<Value> {
    let payer: Pubkey = world.rpc.get_identity()?;
    let unsigned = Transaction::new_unsigned(Message::new(instructions, Some(&payer)));
    let text = BASE64_STANDARD.encode(bincode::serialize(&unsigned)?);
    let config =
        json!({ "encoding": "base64", "replaceRecentBlockhash": true, "commitment": "processed" });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "simulateTransaction", "params": [text, config] });
    let response = exchange(connect(node.rpc)?, &post_text("", &request))?;
    let mut response: Value = serde_json::from_str(body(&response)?)?;
    let value = response["result"]["value"].as_object_mut().context("a result")?;
    Ok(value.get_mut("err").context("its error")?.take())
}

fn compute_unit_limit(units: u32) -> Instruction {
    let data = [&[2], units.to_le_bytes().as_slice()].concat();
    Instruction { program_id: solana_sdk_ids::compute_budget::ID, accounts: Vec::new(), data }
}

#[test]
fn a_transaction_has_the_compute_units_of_the_flag() -> Result<()> {
    for flag in ["--compute-unit-limit", "--max-compute-units"] {
        let node = start_node(&[flag, "3000"])?;
        let world = World::new(&node);
        // An airdrop consumes 150 units, and a vote 2,100.
        world.airdrop(&world.alice.pubkey(), 1)?;
        let payer: Pubkey = world.rpc.get_identity()?;
        let pay = |count: u64| -> Vec<Instruction> {
            let to = Pubkey::new_from_array([7; 32]);
            (0..count).map(|n| transfer(&payer, &to, 1_000_000 + n)).collect()
        };
        ensure!(error(&node, &world, &pay(20))?.is_null());
        let exceeded = json!({ "InstructionError": [20, "ComputationalBudgetExceeded"] });
        ensure!(error(&node, &world, &pay(21))? == exceeded);
        // The request of a transaction has no effect.
        let requested = [vec![compute_unit_limit(1_000_000)], pay(20)].concat();
        ensure!(error(&node, &world, &requested)? == exceeded);
        let requested = [vec![compute_unit_limit(150)], pay(19)].concat();
        ensure!(error(&node, &world, &requested)?.is_null());
    }
    Ok(())
}

#[test]
fn a_transaction_names_no_more_accounts_than_the_flag_allows() -> Result<()> {
    let node = start_node(&["--transaction-account-lock-limit", "5"])?;
    let world = World::new(&node);
    world.airdrop(&world.alice.pubkey(), 1)?;
    let payer: Pubkey = world.rpc.get_identity()?;
    let pay = |accounts: usize| -> Vec<Instruction> {
        (2..accounts).map(|_| transfer(&payer, &Pubkey::new_unique(), 1_000_000)).collect()
    };
    ensure!(error(&node, &world, &pay(5))?.is_null());
    ensure!(error(&node, &world, &pay(6))? == "TooManyAccountLocks");
    Ok(())
}

#[test]
fn logs_have_at_most_the_bytes_of_the_flag() -> Result<()> {
    // A transfer logs two lines of 51 bytes each.
    for (limit, last) in [("80", "Log truncated"), ("400", "success")] {
        let node = start_node(&["--log-messages-bytes-limit", limit])?;
        let world = World::new(&node);
        world.airdrop(&world.alice.pubkey(), 1)?;
        let pay = transfer(&world.alice.pubkey(), &Pubkey::new_unique(), 1_000_000);
        let payer = &world.alice;
        let blockhash = world.rpc.get_latest_blockhash()?;
        let paid =
            Transaction::new_signed_with_payer(&[pay], Some(&payer.pubkey()), &[payer], blockhash);
        let logs = world.rpc.simulate_transaction(&paid)?.value.logs.context("logs")?;
        ensure!(logs.last().is_some_and(|line| line.ends_with(last)), "{limit}: {logs:?}");
    }
    Ok(())
}

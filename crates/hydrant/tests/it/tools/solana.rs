//! The Solana CLI: every command that queries a cluster, and those that send transactions.

use std::fs::{self, File};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_commitment_config::CommitmentConfig;
use testkit::child_process::KillOnDrop;

use crate::clients::ProgramElves;
use crate::tools::{LedgerName, ToolWorld, with_tools};
use crate::world::{LAMPORTS_PER_SOL, WAIT_TIMEOUT, wait_until};

/// An address with lamports, for reads.
const RECIPIENT: &str = "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse";
/// The feature that a node with [`super::LEDGER_FLAGS`] does not have.
const INACTIVE: &str = "B8JJXCy5amZyWG9r7EnUYLwzXSXTxG7GZ1qZ1qggo83g";

#[test]
#[ignore = "needs solana"]
fn solana_cli_flow_on_dev() -> Result<()> {
    with_tools(LedgerName::Dev, &[], |world, _| flow(world))
}

#[test]
#[ignore = "needs solana"]
fn solana_cli_flow_on_test_validator() -> Result<()> {
    with_tools(LedgerName::TestValidator, &[], |world, _| flow(world))
}

fn flow(world: &ToolWorld) -> Result<()> {
    type Step = fn(&ToolWorld) -> Result<()>;
    let steps: [(&str, Step); 9] = [
        ("transfers and history", transfers_and_history),
        ("the cluster", cluster),
        ("validators and supply", validators_and_supply),
        ("features", features),
        ("logs", logs),
        ("nonce accounts", nonces),
        ("stake accounts", stakes),
        ("lookup tables", lookup_tables),
        ("programs", programs),
    ];
    steps.iter().try_for_each(|(name, step)| step(world).context(*name))
}

/// A transfer, and its signature.
fn transfer(world: &ToolWorld, sol: &str) -> Result<String> {
    let args = ["transfer", "--allow-unfunded-recipient", RECIPIENT, sol];
    signature(&world.solana_json(&args)?)
}

fn signature(sent: &Value) -> Result<String> {
    Ok(sent["signature"].as_str().with_context(|| format!("no signature: {sent}"))?.to_owned())
}

fn transfers_and_history(world: &ToolWorld) -> Result<()> {
    ensure!(world.solana(&["balance"])?.trim() == "500 SOL");
    let sent = transfer(world, "2")?;
    let account = world.solana_json(&["account", RECIPIENT])?;
    ensure!(account["account"]["lamports"] == 2 * LAMPORTS_PER_SOL, "{account}");
    let confirmed = world.solana(&["confirm", "-v", &sent])?;
    for part in [
        "Transfer { lamports: 2000000000 }",
        "Status: Ok",
        "Program 11111111111111111111111111111111 success",
    ] {
        ensure!(confirmed.contains(part), "{part:?} is not in {confirmed}");
    }
    let history = world.solana(&["transaction-history", RECIPIENT, "--show-transactions"])?;
    ensure!(history.contains(&sent) && history.contains("1 transactions found"), "{history}");
    let statuses = world.rpc.get_signature_statuses(&[sent.parse()?])?.value;
    let slot = statuses[0].as_ref().context("a status")?.slot;
    let block = world.solana(&["block", &slot.to_string()])?;
    ensure!(block.contains(&format!("Signature 0: {sent}")), "{block}");
    let time = world.solana(&["block-time", &slot.to_string()])?;
    ensure!(time.contains(&format!("Block: {slot}")), "{time}");
    let unknown = "1".repeat(64);
    ensure!(world.solana(&["confirm", &unknown])?.contains("Not found"));
    Ok(())
}

fn cluster(world: &ToolWorld) -> Result<()> {
    let text = |args: &[&str]| world.solana(args).map(|text| text.trim().to_owned());
    ensure!(text(&["cluster-version"])? == world.rpc.get_version()?.solana_core);
    ensure!(text(&["genesis-hash"])? == world.rpc.get_genesis_hash()?.to_string());
    let before = world.rpc.get_slot()?;
    // No slot was skipped; and there were an airdrop and a transfer.
    for (command, least) in [("slot", before), ("block-height", before), ("transaction-count", 2)] {
        let number: u64 = text(&[command])?.parse().context(command)?;
        ensure!(number >= least, "{command}: {number} before {least}");
    }
    ensure!(text(&["epoch"])? == "0" && text(&["first-available-block"])? == "0");
    ensure!(text(&["cluster-date"])?.contains("Date: "));
    let epoch = world.solana_json(&["epoch-info"])?;
    ensure!(epoch["slotsInEpoch"] == 8_192 && epoch["epoch"] == 0, "{epoch}");
    let rent = world.solana_json(&["rent", "100"])?;
    let expected = world.rpc.get_minimum_balance_for_rent_exemption(100)?;
    ensure!(rent["rentExemptMinimumLamports"] == expected, "{rent}");
    let fees = world.solana_json(&["recent-prioritization-fees", "--limit-num-slots", "3"])?;
    ensure!(fees["min"] == 0 && fees["num_slots"].as_u64() >= Some(1), "{fees}");
    let inflation = world.solana(&["inflation"])?;
    ensure!(inflation.contains("Terminal rate:            1.50%"), "{inflation}");
    Ok(())
}

fn validators_and_supply(world: &ToolWorld) -> Result<()> {
    let identity = world.rpc.get_identity()?.to_string();
    let schedule = world.solana_json(&["leader-schedule"])?;
    let slots = schedule["leaderScheduleEntries"].as_array().context("slots")?;
    ensure!(slots.len() == 8_192 && slots.iter().all(|slot| slot["leader"] == identity.as_str()));
    let validators = world.solana_json(&["validators"])?;
    ensure!(validators["validators"][0]["identityPubkey"] == identity.as_str(), "{validators}");
    ensure!(validators["totalActiveStake"].as_u64() > Some(0), "{validators}");
    let production = world.solana_json(&["block-production"])?;
    ensure!(production["leaders"][0]["identityPubkey"] == identity.as_str(), "{production}");
    let gossip = world.solana(&["gossip"])?;
    let rpc = world.node.rpc.to_string();
    ensure!(gossip.contains(&identity) && gossip.contains(&rpc), "{gossip}");
    let supply = world.solana_json(&["supply"])?;
    ensure!(supply["total"] == supply["circulating"] && supply["nonCirculating"] == 0, "{supply}");
    let largest = world.solana_json(&["largest-accounts"])?;
    ensure!(largest["accounts"].as_array().is_some_and(|all| all.len() == 20), "{largest}");
    let published = world.solana(&["validator-info", "publish", "A validator"])?;
    ensure!(published.contains("Success!"), "{published}");
    ensure!(world.solana(&["validator-info", "get"])?.contains("Name: A validator"));
    Ok(())
}

fn features(world: &ToolWorld) -> Result<()> {
    let features = world.solana_json(&["feature", "status"])?;
    let all = features["features"].as_array().context("features")?;
    let inactive = all.iter().filter(|feature| feature["status"] != "active");
    let mut inactive: Vec<&str> = inactive.filter_map(|feature| feature["id"].as_str()).collect();
    inactive.sort_unstable();
    ensure!(all.len() > 200 && inactive.len() == 2 && inactive[0] == INACTIVE, "{inactive:?}");
    Ok(())
}

fn logs(world: &ToolWorld) -> Result<()> {
    let file = world.path("logs.txt");
    let child = world.spawn_solana(&["logs", RECIPIENT], File::create(&file)?)?;
    let _child = KillOnDrop(child);
    let wait_for = |text: &str| {
        wait_until(text, WAIT_TIMEOUT, || {
            let logs = fs::read_to_string(&file)?;
            Ok(logs.contains(text).then_some(logs))
        })
    };
    wait_for("Streaming transaction logs mentioning")?;
    let sent = transfer(world, "1")?;
    let logs = wait_for("success")?;
    ensure!(logs.contains(&format!("Signature: {sent}")), "{logs}");
    Ok(())
}

fn nonces(world: &ToolWorld) -> Result<()> {
    let address = world.keypair("nonce.json")?;
    world.solana(&["create-nonce-account", "nonce.json", "1"])?;
    let nonce = |world: &ToolWorld| world.solana(&["nonce", &address]);
    let first = nonce(world)?;
    let account = world.solana_json(&["nonce-account", &address])?;
    ensure!(account["authority"] == world.wallet.to_string(), "{account}");
    let args = ["transfer", RECIPIENT, "0.5", "--nonce", &address, "--blockhash", first.trim()];
    world.solana(&args)?;
    let second = nonce(world)?;
    ensure!(second != first, "a transaction with a nonce advances it");
    world.solana(&["new-nonce", &address])?;
    ensure!(nonce(world)? != second);
    world.solana(&["withdraw-from-nonce-account", &address, RECIPIENT, "0.5"])?;
    let account = world.solana_json(&["nonce-account", &address])?;
    ensure!(account["balance"] == LAMPORTS_PER_SOL / 2, "{account}");
    Ok(())
}

fn stakes(world: &ToolWorld) -> Result<()> {
    let address = world.keypair("stake.json")?;
    let validators = world.solana_json(&["validators"])?;
    let vote = validators["validators"][0]["voteAccountPubkey"].as_str().context("a validator")?;
    world.solana(&["create-stake-account", "stake.json", "10"])?;
    world.solana(&["delegate-stake", &address, vote])?;
    let stake = world.solana_json(&["stake-account", &address])?;
    ensure!(
        stake["delegatedVoteAccountAddress"] == vote && stake["activationEpoch"] == 0,
        "{stake}"
    );
    let split = world.keypair("split.json")?;
    world.solana(&["split-stake", &address, "split.json", "4"])?;
    let stakes = world.solana_json(&["stakes", vote])?;
    let found = |address: &str| stakes.to_string().contains(address);
    ensure!(found(&address) && found(&split), "{stakes}");
    world.solana(&["merge-stake", &address, &split])?;
    world.solana(&["deactivate-stake", &address])?;
    let stake = world.solana_json(&["stake-account", &address])?;
    ensure!(stake["deactivationEpoch"] == 0, "{stake}");
    // It was never active, so all of it is there.
    world.solana(&["withdraw-stake", &address, RECIPIENT, "ALL"])?;
    let account = world.solana_json(&["vote-account", vote])?;
    let votes = account["votesObserved"]["Tower"].as_array().context("votes")?;
    ensure!(!votes.is_empty(), "{account}");
    ensure!(world.solana(&["stake-minimum-delegation"])?.trim() == "1 SOL");
    Ok(())
}

fn lookup_tables(world: &ToolWorld) -> Result<()> {
    let created = world.solana_json(&["address-lookup-table", "create"])?;
    let table = created["lookupTableAddress"].as_str().context("a table")?;
    let wallet = world.wallet.to_string();
    let addresses = format!("{RECIPIENT},{wallet}");
    world.solana(&["address-lookup-table", "extend", table, "--addresses", &addresses])?;
    let found = world.solana_json(&["address-lookup-table", "get", table])?;
    ensure!(found["addresses"] == json!([RECIPIENT, wallet]), "{found}");
    world.solana(&["address-lookup-table", "deactivate", table, "--bypass-warning"])?;
    Ok(())
}

/// By the TPU, which is the default, and by RPC.
fn programs(world: &ToolWorld) -> Result<()> {
    let elves = ProgramElves::find()?;
    let [first, upgrade] = [&elves.first, &elves.upgrade].map(|path| path.display().to_string());
    let program = world.keypair("program.json")?;
    for (elf, way) in [(&first, &[][..]), (&upgrade, &["--use-rpc"][..])] {
        let deploy = ["program", "deploy", elf, "--program-id", "program.json"];
        let deployed = world.solana_json(&[&deploy, way].concat())?;
        ensure!(deployed["programId"] == program.as_str(), "{deployed}");
        let shown = world.solana_json(&["program", "show", &program])?;
        ensure!(shown["authority"] == world.wallet.to_string(), "{shown}");
        world.solana(&["program", "dump", &program, "dump.so"])?;
        let dump = fs::read(world.path("dump.so"))?;
        let elf = fs::read(elf)?;
        // The account stays as large as its first program.
        ensure!(dump.starts_with(&elf) && dump[elf.len()..].iter().all(|byte| *byte == 0));
    }
    let listed = world.solana_json(&["program", "show", "--programs"])?;
    ensure!(listed.to_string().contains(&program), "{listed}");
    let buffer = world.keypair("buffer.json")?;
    world.solana(&["program", "write-buffer", &upgrade, "--buffer", "buffer.json"])?;
    let buffers = world.solana_json(&["program", "show", "--buffers"])?;
    ensure!(buffers["buffers"][0]["address"] == buffer.as_str(), "{buffers}");
    world.solana(&["program", "close", "--buffers"])?;
    let authority = world.keypair("authority.json")?;
    let set = ["program", "set-upgrade-authority", "program.json", "--new-upgrade-authority"];
    let skip = "--skip-new-upgrade-authority-signer-check";
    world.solana(&[&set[..], &["authority.json", skip]].concat())?;
    let shown = world.solana_json(&["program", "show", &program])?;
    ensure!(shown["authority"] == authority.as_str(), "{shown}");
    // The CLI reads at `confirmed`; a slot in which the program was deployed is over by then.
    let close = ["program", "close", &program, "--bypass-warning", "--authority", "authority.json"];
    world.solana(&close)?;
    let slot = world.rpc.get_slot_with_commitment(CommitmentConfig::confirmed())?;
    wait_until("a slot after the close", Duration::from_secs(30), || {
        Ok((world.rpc.get_slot()? > slot).then_some(()))
    })?;
    ensure!(world.solana(&["program", "show", &program]).is_err(), "a closed program");
    Ok(())
}

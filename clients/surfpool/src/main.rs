//! surfpool's node, from its published crates: `surfpool start --offline --no-tui` without its command line.
//!
//! `surfpool-node RPC_PORT WS_PORT ACCOUNT_DIR` serves until it is killed. ACCOUNT_DIR has one JSON file an account,
//! as `solana-test-validator --account-dir` reads them. They are set before the start: surfpool's own `--snapshot` waits
//! forever with more than 1,024 accounts, because it fills a queue whose reader starts later.
//! Slots of 400 ms, blocks by the clock and profiles of instructions are surfpool's defaults.

use std::error::Error;
use std::{env, fs, thread};

use serde_json::Value;
use surfpool_core::surfnet::svm::{SurfnetSvm, SurfnetSvmConfig};
use surfpool_types::{AccountSnapshot, RpcConfig, SimnetConfig, SurfpoolConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [rpc_port, ws_port, account_dir] = &args[..] else {
        return Err("usage: surfpool-node RPC_PORT WS_PORT ACCOUNT_DIR".into());
    };
    let simnet =
        SimnetConfig { offline_mode: true, remote_rpc_url: None, ..SimnetConfig::default() };
    let rpc = RpcConfig {
        bind_host: "127.0.0.1".to_owned(),
        bind_port: rpc_port.parse()?,
        ws_port: ws_port.parse()?,
        ..RpcConfig::default()
    };
    let config = SurfpoolConfig { simnets: vec![simnet], rpc, ..SurfpoolConfig::default() };
    let (mut svm, events, geyser_events) = SurfnetSvm::new(SurfnetSvmConfig::default())?;
    set_accounts(&mut svm, account_dir)?;
    // surfpool's terminal interface reads the events; unread, they would fill the memory.
    thread::spawn(move || events.iter().for_each(drop));
    let (commands_tx, commands_rx) = crossbeam_channel::unbounded();
    hiro_system_kit::nestable_block_on(surfpool_core::start_local_surfnet(
        svm,
        config,
        commands_tx,
        commands_rx,
        geyser_events,
    ))
}

fn set_accounts(svm: &mut SurfnetSvm, dir: &str) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(dir)? {
        let file: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let account = &file["account"];
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("not a text");
        let snapshot = AccountSnapshot {
            lamports: account["lamports"].as_u64().ok_or("no lamports")?,
            owner: text(&account["owner"])?,
            executable: account["executable"].as_bool().unwrap_or(false),
            rent_epoch: account["rentEpoch"].as_u64().unwrap_or(u64::MAX),
            data: text(&account["data"][0])?,
            parsed_data: None,
        };
        svm.set_account(&text(&file["pubkey"])?.parse()?, snapshot.to_account()?)?;
    }
    Ok(())
}

//! `surfpool start`: the command of that name, with the meaning of its flags.
//!
//! A program that is called [`PROGRAM`] is that command ([`arguments`]), so Anchor's default path runs Hydrant. The ledger is
//! in memory. Its genesis has the airdrops, the accounts of snapshots, and what Anchor's files list.
//! Not here: the flags (`surfpool_flags`), Anchor's files (`anchor`), the cheat codes (`rpc_solana`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand};
use localnet::GenesisAccount;
use serde::Deserialize;
use solana::JsonU64;
use solana_account::{Account, AccountSharedData};
use solana_pubkey::Pubkey;
use solana_sdk_ids::{feature, native_loader, system_program, sysvar};

use crate::accounts_file::address_or_keypair;
use crate::anchor::{self, AnchorSetup};
use crate::local::LocalPreset;
use crate::local::flags::{BlockMode, DevFlags, FeatureBase};
use crate::node::NodeFlags;
use crate::node::flags::{ConsoleFlags, ListenFlags, OutputFlags};
use crate::process_setup::resolve_address;
use crate::surfpool_flags::SurfpoolFlags;

/// The program that this one replaces.
const PROGRAM: &str = "surfpool";
pub(crate) const COMMAND: &str = "surfpool";
/// Output of `--version` after the program's name: the version of surfpool with these flags and methods.
pub(crate) const VERSION: &str = concat!("1.7.0 (hydrant-", env!("CARGO_PKG_VERSION"), ")");
/// The highest port of JSON-RPC: WebSocket has the next port, and QUIC the one after it.
const PORT_MAX: u16 = u16::MAX - 2;
/// The flags of `hydrant dev` that errors name, and their names in surfpool. The fork has two.
const RENAMED_FLAGS: &[(&str, &str)] = &[
    ("--rpc-port", "--port"),
    ("--bind-address", "--host"),
    ("--slot-ms", "--slot-time"),
    ("--block-mode", "--block-production-mode"),
    ("--deactivate-feature", "--disable-feature"),
    ("--log-messages-bytes-limit", "--log-bytes-limit"),
];
/// Bytes of a snapshot: what `surfnet_exportSnapshot` makes of 32 MiB of data.
const SNAPSHOT_BYTES_MAX: u64 = 128 << 20;

/// The commands of surfpool that Hydrant has.
#[derive(Args)]
pub(crate) struct SurfpoolArgs {
    #[command(subcommand)]
    command: SurfpoolCommand,
}

#[derive(Subcommand)]
enum SurfpoolCommand {
    /// Run a local Solana ledger in memory.
    #[command(alias = "simnet")]
    Start(Box<SurfpoolFlags>),
}

/// The settings of `hydrant dev` that the flags of surfpool mean.
pub(crate) struct SurfpoolSetup {
    pub(crate) flags: DevFlags,
    pub(crate) preset: LocalPreset,
    /// One line for each flag that is ignored.
    pub(crate) lines: Vec<String>,
    /// Whether the ledger runs in the background.
    pub(crate) is_daemon: bool,
    /// The flag that names the forked cluster.
    pub(crate) fork_flag: &'static str,
}

/// Returns the arguments with the command inserted if the program is called [`PROGRAM`].
pub(crate) fn arguments(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_program = args.first().is_some_and(|name| Path::new(name).ends_with(PROGRAM));
    if is_program {
        args.insert(1, COMMAND.into());
    }
    args
}

/// The flags of `dev` with the same meaning. An error if a flag is refused. Files are read below `dir`.
pub(crate) fn setup(args: SurfpoolArgs, dir: &Path) -> Result<SurfpoolSetup> {
    let SurfpoolCommand::Start(flags) = args.command;
    let refused = flags.other.refused_lines();
    if !refused.is_empty() {
        bail!("flags of surfpool that Hydrant refuses\n  {}", refused.join("\n  "));
    }
    let (slot_ms, block_mode) = match flags.block_production_mode {
        BlockMode::Clock => (Some(flags.slot_time), None),
        BlockMode::Transaction => (Some(0), None),
        BlockMode::Manual => (None, Some(BlockMode::Manual)),
    };
    let mut lines = flags.other.ignored_lines();
    let upstream = upstream(&flags, &mut lines);
    let mut anchor = anchor_setup(&flags, dir, &mut lines)?;
    lines.append(&mut anchor.lines);
    let mut accounts = Vec::new();
    for path in &flags.snapshot {
        let read = snapshot(&dir.join(path));
        accounts.extend(read.with_context(|| format!("--snapshot {}", path.display()))?);
    }
    accounts.extend(airdrops(&flags)?);
    accounts.append(&mut anchor.accounts);
    let bind_address =
        resolve_address(&flags.host).map_err(|err| anyhow::anyhow!("--host: {err}"))?;
    let log = flags.log_level != "none";
    let is_daemon = flags.daemon;
    let fork_flag = if flags.rpc_url.is_some() { "--rpc-url" } else { "--network" };
    ensure!(
        flags.port <= PORT_MAX,
        "--port {}: must be at most {PORT_MAX}, because the next two ports are used as well",
        flags.port
    );
    // The system chooses both ports, or none.
    let pubsub_port = flags.ws_port.filter(|_| flags.port != 0);
    let is_cloned = !anchor.clone.is_empty();
    let cloned_addresses = anchor.clone;
    let preset = LocalPreset { pubsub_port, cloned_addresses, accounts, ..LocalPreset::default() };
    let node = NodeFlags {
        listen: ListenFlags {
            bind_address: Some(bind_address),
            rpc_port: Some(flags.port),
            endpoints_file: flags.endpoints_file,
            ..ListenFlags::default()
        },
        console: ConsoleFlags { no_console: flags.no_studio || flags.ci },
        output: OutputFlags { quiet: flags.no_tui || flags.ci, log, ..OutputFlags::default() },
        ..NodeFlags::default()
    };
    let flags = DevFlags {
        slot_ms,
        block_mode,
        features: Some(if flags.features_all { FeatureBase::All } else { FeatureBase::Mainnet }),
        deactivate_feature: [flags.disable_feature, anchor.deactivate_feature].concat(),
        slots_per_epoch: anchor.slots_per_epoch,
        warp_slot: anchor.warp_slot.map(Some),
        faucet_sol: anchor.faucet_sol,
        faucet_port: anchor.faucet_port,
        account_dir: anchor.account_dirs,
        // Anchor's files have one cluster to clone from, and surfpool the one that it forks.
        url: anchor.url.or_else(|| upstream.clone()).filter(|_| is_cloned),
        bpf_program: anchor.programs,
        upgradeable_program: anchor.upgradeable_programs,
        log_messages_bytes_limit: flags.log_bytes_limit.map(log_bytes_max),
        fork_from_genesis: flags.fork_from_genesis && upstream.is_some(),
        fork_url: upstream,
        skip_blockhash_check: flags.skip_blockhash_check,
        node,
        ..DevFlags::default()
    };
    Ok(SurfpoolSetup { flags, preset, lines, is_daemon, fork_flag })
}

/// Returns an error of `hydrant dev` with the flags of surfpool.
pub(crate) fn rename_flags(err: &Error, fork_flag: &str) -> Error {
    let renamed = RENAMED_FLAGS.iter().copied().chain([("--fork-url", fork_flag)]);
    anyhow!("{}", renamed.fold(format!("{err:#}"), |text, (dev, own)| text.replace(dev, own)))
}

/// Reads Anchor's files, unless nothing is to be deployed.
fn anchor_setup(flags: &SurfpoolFlags, dir: &Path, lines: &mut Vec<String>) -> Result<AnchorSetup> {
    let deploys = !flags.no_deploy && !flags.ci;
    if !deploys {
        if !flags.anchor_test_config_path.is_empty() {
            lines
                .push("--anchor-test-config-path is ignored: nothing is to be deployed".to_owned());
        }
        return Ok(AnchorSetup::default());
    }
    if flags.legacy_anchor_compatibility {
        lines.push(
            "--legacy-anchor-compatibility: genesis has the programs, accounts and clones of Anchor.toml, with and \
             without it"
                .to_owned(),
        );
    }
    anchor::read(dir, &flags.artifacts_path, &flags.anchor_test_config_path)
}

/// The limit of logs: 0 is none in surfpool.
fn log_bytes_max(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// The cluster that is forked. Without a flag it is none, where surfpool has mainnet.
fn upstream(flags: &SurfpoolFlags, lines: &mut Vec<String>) -> Option<String> {
    if flags.offline {
        return None;
    }
    let upstream = flags.rpc_url.clone().or_else(|| flags.network.clone());
    if upstream.is_none() {
        lines.push(
            "no cluster is forked: --network mainnet forks that of surfpool's default".to_owned(),
        );
    }
    upstream
}

/// The accounts that get an airdrop: those of the flags, or else the wallet of the Solana CLI.
fn airdrops(flags: &SurfpoolFlags) -> Result<Vec<GenesisAccount>> {
    let mut addresses = Vec::new();
    for address in &flags.airdrop {
        addresses.push(address.parse().with_context(|| format!("--airdrop {address:?}"))?);
    }
    for path in &flags.airdrop_keypair_path {
        addresses.push(address_or_keypair(path).context("--airdrop-keypair-path")?);
    }
    if flags.airdrop_keypair_path.is_empty()
        && let Some(home) = std::env::var_os("HOME")
    {
        let path = PathBuf::from(home).join(".config/solana/id.json");
        addresses.extend(address_or_keypair(&path.to_string_lossy()).ok());
    }
    let wallet = |address: Pubkey| {
        let account = AccountSharedData::new(flags.airdrop_amount, 0, &system_program::ID);
        GenesisAccount { address, account }
    };
    Ok(addresses.into_iter().map(wallet).collect())
}

/// An account as `surfnet_exportSnapshot` writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotAccount {
    lamports: JsonU64,
    owner: String,
    executable: bool,
    rent_epoch: JsonU64,
    data: String,
}

/// The accounts of a snapshot: the method's result, or only its value. Accounts that every ledger makes itself are left
/// out.
fn snapshot(path: &Path) -> Result<Vec<GenesisAccount>> {
    #[derive(Deserialize)]
    struct InContext {
        value: BTreeMap<String, Option<SnapshotAccount>>,
    }
    let text = input_file::read(path, SNAPSHOT_BYTES_MAX)?;
    let accounts = match serde_json::from_slice::<InContext>(&text) {
        Ok(InContext { value }) => value,
        Err(_) => {
            serde_json::from_slice(&text).context("not in the format of surfnet_exportSnapshot")?
        }
    };
    let mut found = Vec::new();
    for (address, account) in accounts {
        let account = account.with_context(|| {
            format!("{address} is null: accounts are not fetched from another cluster")
        })?;
        let key = address.parse::<Pubkey>().with_context(|| format!("address {address:?}"))?;
        let owner = account.owner.parse::<Pubkey>();
        let owner = owner.with_context(|| format!("owner of {address}"))?;
        if [sysvar::ID, feature::ID, native_loader::ID].contains(&owner) {
            continue;
        }
        let data = BASE64_STANDARD.decode(&account.data);
        let account = Account {
            lamports: account.lamports.into(),
            data: data.with_context(|| format!("data of {address}"))?,
            owner,
            executable: account.executable,
            rent_epoch: account.rent_epoch.into(),
        };
        let account = GenesisAccount { address: key, account: AccountSharedData::from(account) };
        localnet::check_account(&account).with_context(|| address.clone())?;
        found.push(account);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use solana_account::ReadableAccount;

    use super::*;
    use crate::anchor::ANCHOR_FILE;
    use crate::command_line::{Cli, Command};
    use crate::local::config::DevConfig;

    fn start(dir: &Path, flags: &[&str]) -> Result<SurfpoolSetup> {
        let cli = Cli::try_parse_from([&["hydrant", COMMAND, "start"], flags].concat())?;
        match cli.command {
            Command::Surfpool(args) => setup(args, dir),
            _ => bail!("it is another command"),
        }
    }

    /// The flags that Anchor 1.0 passes.
    const OF_ANCHOR: &[&str] = &[
        "--airdrop",
        "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM",
        "--rpc-url",
        "https://api.mainnet-beta.solana.com",
        "--host",
        "127.0.0.1",
        "--port",
        "8899",
        "--ws-port",
        "8900",
        "--manifest-file-path",
        "txtx.yml",
        "--runbook",
        "deployment",
        "--slot-time",
        "1",
        "--offline",
        "--block-production-mode",
        "transaction",
        "--log-level",
        "none",
        "--no-tui",
        "--disable-instruction-profiling",
        "--max-profiles",
        "1",
        "--no-studio",
        "--legacy-anchor-compatibility",
        "--anchor-test-config-path",
        "tests/Test.toml",
    ];

    #[test]
    fn an_error_has_the_flags_of_surfpool() {
        let dir = tempfile::tempdir().expect("a directory");
        for (flags, expected) in [
            (["--port", "65535"], "--port 65535: "),
            (["--slot-time", "99999999"], "--slot-time"),
            (["--network", "x"], "--network http://x: "),
            (["--rpc-url", "ftp://x"], "--rpc-url ftp://x: "),
            (["--disable-feature", "x"], "--disable-feature \"x\""),
        ] {
            let err = start(dir.path(), &flags).and_then(|setup| {
                let config = DevConfig::from_flags(setup.flags, setup.preset);
                config.map(drop).map_err(|err| rename_flags(&err, setup.fork_flag))
            });
            let text = format!("{:#}", err.expect_err("it is refused"));
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn the_flags_of_anchor_start_a_ledger_with_its_programs() {
        let dir = tempfile::tempdir().expect("a directory");
        let anchor = "[programs.localnet]\nmy-counter = \"9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM\"\n\
                      other = { address = \"2ojv9BAiHUrvsm9gxDe7fJSzbNZSJcxZvf8dqmWGHG8S\" }\n\
                      [provider]\ncluster = \"localnet\"\nwallet = \"/nowhere/id.json\"\n";
        std::fs::write(dir.path().join(ANCHOR_FILE), anchor).expect("it is written");
        let deploy = dir.path().join("target/deploy");
        std::fs::create_dir_all(&deploy).expect("a directory");
        std::fs::write(deploy.join("my_counter.so"), "elf").expect("it is written");
        std::fs::create_dir(dir.path().join("tests")).expect("a directory");
        std::fs::write(dir.path().join("tests/Test.toml"), "").expect("it is written");
        let setup = start(dir.path(), OF_ANCHOR).expect("they are known");
        let flags = &setup.flags;
        let node = &flags.node;
        assert_eq!((node.listen.rpc_port, flags.slot_ms), (Some(8899), Some(0)));
        assert!(node.output.quiet && !node.output.log);
        assert!(node.console.no_console && node.ledger.ledger.is_none());
        let path = deploy.join("my_counter.so").to_string_lossy().into_owned();
        let address = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM";
        assert_eq!(flags.upgradeable_program, [address, path.as_str(), "none"]);
        let airdrop = setup.preset.accounts.iter().find(|it| it.address.to_string() == address);
        assert!(airdrop.is_some());
        let lines = setup.lines.join("\n");
        for flag in ["--manifest-file-path", "--runbook", "--max-profiles"] {
            assert!(lines.contains(&format!("{flag} is ignored: ")), "{flag}: {lines}");
        }
        assert_eq!(flags.fork_url, None, "--offline");
        let online: Vec<_> =
            OF_ANCHOR.iter().copied().filter(|flag| *flag != "--offline").collect();
        let forked = start(dir.path(), &online).expect("they are known").flags;
        assert_eq!(forked.fork_url.as_deref(), Some("https://api.mainnet-beta.solana.com"));
        let network = start(dir.path(), &["--network", "devnet"]).expect("it is known");
        assert_eq!(network.flags.fork_url.as_deref(), Some("devnet"));
        assert!(lines.contains("--legacy-anchor-compatibility: genesis has"), "{lines}");
        let flags = ["--network", "devnet", "--fork-from-genesis", "--skip-blockhash-check"];
        let from_genesis = start(dir.path(), &flags).expect("they are known").flags;
        assert!(from_genesis.fork_from_genesis && from_genesis.skip_blockhash_check);
        assert!(!start(dir.path(), &flags[2..]).expect("no fork").flags.fork_from_genesis);
        let none = start(dir.path(), &[]).expect("no flag");
        assert!(
            none.flags.fork_url.is_none() && none.lines.join(" ").contains("--network mainnet")
        );
        assert!(lines.contains("program other is not deployed: "), "{lines}");
        let without = start(dir.path(), &["--no-deploy"]).expect("it is known");
        assert!(without.flags.upgradeable_program.is_empty());
        assert_eq!(without.flags.slot_ms, Some(400));
        let ports = |flags: &[&str]| {
            let setup = start(dir.path(), flags).expect("it is known");
            (setup.flags.node.listen.rpc_port, setup.preset.pubsub_port)
        };
        assert_eq!(ports(&["--ws-port", "9000"]), (Some(8899), Some(9000)));
        assert_eq!(ports(&["--port", "0", "--ws-port", "9000"]), (Some(0), None));
        assert!(start(dir.path(), &["--daemon"]).expect("it is known").is_daemon);
        let log_bytes = |flags: &[&str]| {
            start(dir.path(), flags).expect("it is known").flags.log_messages_bytes_limit
        };
        assert_eq!(log_bytes(&[]), None);
        assert_eq!(log_bytes(&["--log-bytes-limit", "64000"]), Some(64_000));
        assert_eq!(log_bytes(&["--log-bytes-limit", "0"]), Some(usize::MAX));
        let plugin = start(dir.path(), &["-g", "plugin.json"]).expect("it is ignored");
        assert!(plugin.lines.join(" ").contains("--geyser-plugin-config is ignored: "));
        let manual = start(dir.path(), &["-b", "manual"]).expect("it is known").flags;
        assert_eq!((manual.slot_ms, manual.block_mode), (None, Some(BlockMode::Manual)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_an_alternative() {
        let dir = tempfile::tempdir().expect("a directory");
        let refusal = |flags: &[&str]| match start(dir.path(), flags) {
            Ok(_) => panic!("{flags:?} is accepted"),
            Err(err) => format!("{err:#}"),
        };
        assert!(refusal(&["--airdrop", "x"]).contains("--airdrop \"x\""));
        assert!(refusal(&["--snapshot", "none.json"]).contains("--snapshot none.json"));
        let all = refusal(&["--db", "x", "--skip-signature-verification"]);
        for flag in ["--db", "--skip-signature-verification"] {
            assert!(all.contains(&format!("{flag}: ")), "{flag}: {all}");
        }
    }

    #[test]
    fn the_accounts_of_a_snapshot_are_those_of_genesis() {
        let dir = tempfile::tempdir().expect("a directory");
        let account = |owner: &str| {
            format!(
                r#"{{"lamports":7,"owner":"{owner}","executable":false,"rentEpoch":0,"data":"AQID","parsedData":null}}"#
            )
        };
        let key = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM";
        let clock = "SysvarC1ock11111111111111111111111111111111";
        let value = format!(
            r#"{{"{key}":{},"{clock}":{}}}"#,
            account("2ojv9BAiHUrvsm9gxDe7fJSzbNZSJcxZvf8dqmWGHG8S"),
            account("Sysvar1111111111111111111111111111111111111")
        );
        let result = format!(r#"{{"context":{{"slot":1}},"value":{value}}}"#);
        for text in [value, result] {
            std::fs::write(dir.path().join("s.json"), text).expect("it is written");
            let setup = start(dir.path(), &["--snapshot", "s.json"]).expect("it is read");
            let found: Vec<_> =
                setup.preset.accounts.iter().map(|it| it.address.to_string()).collect();
            assert!(found.contains(&key.to_owned()) && !found.contains(&clock.to_owned()));
        }
        // As JavaScript writes the rent epoch of most accounts.
        let account = account("2ojv9BAiHUrvsm9gxDe7fJSzbNZSJcxZvf8dqmWGHG8S");
        let account = account.replace(r#""rentEpoch":0"#, r#""rentEpoch":18446744073709552000"#);
        let text = format!(r#"{{"{key}":{account}}}"#);
        std::fs::write(dir.path().join("s.json"), text).expect("it is written");
        let setup = start(dir.path(), &["--snapshot", "s.json"]).expect("it is read");
        let found = setup.preset.accounts.iter().find(|it| it.address.to_string() == key);
        assert_eq!(found.expect("the account").account.rent_epoch(), u64::MAX);
        std::fs::write(dir.path().join("s.json"), format!(r#"{{"{key}":null}}"#)).expect("written");
        let err = start(dir.path(), &["--snapshot", "s.json"]).err().expect("it has no source");
        assert!(format!("{err:#}").contains("is null"), "{err:#}");
    }

    #[test]
    fn a_program_of_that_name_is_the_command_of_that_name() {
        let args = |name: &str| arguments(vec![name.into(), "start".into()]);
        for name in ["surfpool", "/usr/bin/surfpool"] {
            assert_eq!(args(name), [name, COMMAND, "start"]);
        }
        assert_eq!(args("/usr/bin/hydrant"), ["/usr/bin/hydrant", "start"]);
    }
}

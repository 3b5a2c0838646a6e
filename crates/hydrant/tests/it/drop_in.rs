//! The program under the name of `solana-test-validator`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use solana_keypair::{Keypair, write_keypair_file};
use solana_loader_v3_interface::get_program_data_address;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use tempfile::TempDir;
use testkit::child_process::run_to_end;
use testkit::node::{Node, NodeCommand};

use crate::clients::ProgramElves;
use crate::node::{HYDRANT, start_node};
use crate::world::{WAIT_TIMEOUT, World, wait_until};

/// A link of that name in `dir`.
fn link(dir: &TempDir) -> Result<PathBuf> {
    let path = dir.path().join("solana-test-validator");
    if !path.exists() {
        symlink(HYDRANT, &path)?;
    }
    Ok(path)
}

/// A node of that name with its ledger in `dir`.
fn start(dir: &TempDir, flags: &[&str]) -> Result<Node> {
    let command = NodeCommand::new(Command::new(link(dir)?)).args(["--rpc-port", "0", "--ledger"]);
    command.args([ledger(dir)]).args(flags).logged().watched().start()
}

/// The exit code and the output of a start that fails.
fn fail(dir: &TempDir, flags: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(link(dir)?);
    command.args(["--rpc-port", "0", "--ledger"]).arg(ledger(dir)).args(flags);
    let run = run_to_end(command.env("HOME", dir.path()))?;
    let output = [run.stdout, run.stderr].concat();
    Ok((run.status.code(), String::from_utf8_lossy(&output).into_owned()))
}

fn ledger(dir: &TempDir) -> PathBuf {
    dir.path().join("test-ledger")
}

/// Creates the files that Agave, file systems and scripts leave in a ledger directory.
fn fill_as_agave(ledger: &Path) -> Result<Keypair> {
    for below in ["rocksdb", "accounts/run", "lost+found", "program-logs"] {
        fs::create_dir_all(ledger.join(below))?;
    }
    for file in ["genesis.bin", "rocksdb/CURRENT", "validator-1.log", ".gitkeep", ".DS_Store"] {
        fs::write(ledger.join(file), "theirs")?;
    }
    let identity = Keypair::new();
    let written = write_keypair_file(&identity, ledger.join("validator-keypair.json"));
    written.map_err(|err| anyhow::anyhow!("{err}"))?;
    Ok(identity)
}

#[test]
fn a_link_of_that_name_runs_with_the_flags_and_output_of_test_validator() -> Result<()> {
    let dir = TempDir::new()?;
    let wallet = Keypair::new();
    let keypair = dir.path().join("wallet.json");
    write_keypair_file(&wallet, &keypair).map_err(|err| anyhow::anyhow!("{err}"))?;
    let config = dir.path().join("config.yml");
    fs::write(&config, format!("---\nkeypair_path: {}\n", keypair.display()))?;
    let ledger = dir.path().join("anchor/test-ledger");
    fs::create_dir_all(&ledger)?;
    // Anchor's log is in the ledger directory before the start.
    fs::write(ledger.join("test-ledger-log.txt"), "")?;
    let command = NodeCommand::new(Command::new(link(&dir)?)).args([
        "-C".as_ref(),
        config.as_os_str(),
        "--ledger".as_ref(),
        ledger.as_os_str(),
        "--reset".as_ref(),
        "--rpc-port".as_ref(),
        "0".as_ref(),
        "--gossip-port".as_ref(),
        "23000".as_ref(),
        "--faucet-per-request-sol-cap".as_ref(),
        "--bind-address".as_ref(),
        "localhost".as_ref(),
    ]);
    let node = command.logged().watched().start()?;
    let world = World::new(&node);
    let log = node.log();
    let genesis = world.rpc.get_genesis_hash()?;
    let lines = [
        format!("Ledger location: {}", ledger.display()),
        format!("Log: {}", ledger.join("validator.log").display()),
        format!("Identity: {}", world.rpc.get_identity()?),
        format!("Genesis Hash: {genesis}"),
        format!("Version: {}", world.rpc.get_version()?.solana_core),
        format!("JSON RPC URL: http://{}", node.rpc),
        format!("WebSocket PubSub URL: ws://{}", node.ws),
        "hydrant: --gossip-port is ignored: this ledger has one node and no gossip".to_owned(),
    ];
    for line in &lines {
        ensure!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    ensure!(fs::read_to_string(ledger.join("validator.log"))?.contains(&genesis.to_string()));
    ensure!(ledger.join("test-ledger-log.txt").exists(), "a file of others");
    ensure!(world.rpc.get_balance(&wallet.pubkey())? > 0, "the wallet of the CLI is the mint");
    Ok(())
}

const NO_WALLET: &str =
    "\nNotice! No wallet available. `solana airdrop` localnet SOL after creating one\n\n";

#[test]
fn on_a_pipe_its_output_is_that_of_test_validator_line_by_line() -> Result<()> {
    let dir = TempDir::new()?;
    let node = start(&dir, &[])?;
    let line = wait_until("a status line", WAIT_TIMEOUT, || {
        let log = node.log();
        let line = log.lines().find(|line| line.contains(" | Processed Slot: 2 | "));
        Ok(line.map(str::to_owned))
    })?;
    let fields: Vec<&str> = line.split(" | ").collect();
    let names = fields[1..7].iter().map(|field| field.split_once(": ").map(|(name, _)| name));
    let expected = [
        "Processed Slot",
        "Confirmed Slot",
        "Finalized Slot",
        "Full Snapshot Slot",
        "Incremental Snapshot Slot",
        "Transactions",
    ];
    ensure!(names.eq(expected.map(Some)), "{line}");
    ensure!(fields[0].starts_with("00:00:") && fields[7].starts_with('◎'), "{line}");
    ensure!(fields[7].len() == "◎500.000000000".len(), "{line}");

    let rpc = World::new(&node).rpc;
    let nodes = rpc.get_cluster_nodes()?;
    let start = [
        NO_WALLET.to_owned(),
        format!("Ledger location: {}\n", ledger(&dir).display()),
        format!("Log: {}\n", ledger(&dir).join("validator.log").display()),
        "Initializing...\nConnecting...\n".to_owned(),
        format!("Identity: {}\n", rpc.get_identity()?),
        format!("Genesis Hash: {}\n", rpc.get_genesis_hash()?),
        format!("Version: {}\n", rpc.get_version()?.solana_core),
        format!("Shred Version: {}\n", nodes[0].shred_version.context("a shred version")?),
        format!("TPU QUIC Address: {}\n", node.tpu.context("a TPU")?),
        format!("JSON RPC URL: http://{}\n", node.rpc),
        format!("WebSocket PubSub URL: ws://{}\n00:00:0", node.ws),
    ]
    .concat();
    ensure!(node.log().starts_with(&start), "{start}\nis not the start of\n{}", node.log());
    Ok(())
}

#[test]
fn a_quiet_or_logging_node_prints_no_status_lines() -> Result<()> {
    let dir = TempDir::new()?;
    for flag in ["--quiet", "--log"] {
        let node = start(&dir, &[flag, "--reset", "--ticks-per-slot", "8"])?;
        World::new(&node).slot_after(12)?;
        let log = node.log();
        ensure!(!log.contains("Processed Slot: "), "{flag}: {log}");
        ensure!(flag != "--quiet" || log == NO_WALLET, "{log}");
    }
    Ok(())
}

#[test]
fn a_ledger_directory_of_agave_is_left_as_it_is() -> Result<()> {
    let dir = TempDir::new()?;
    let identity = fill_as_agave(&ledger(&dir))?;
    let node = start(&dir, &[])?;
    ensure!(World::new(&node).rpc.get_identity()? == identity.pubkey(), "its keys are used");
    drop(node);
    for file in ["genesis.bin", "rocksdb/CURRENT", "validator-1.log", ".gitkeep", ".DS_Store"] {
        ensure!(fs::read_to_string(ledger(&dir).join(file))? == "theirs", "{file}");
    }
    Ok(())
}

#[test]
fn a_reset_under_that_name_empties_the_directory() -> Result<()> {
    let dir = TempDir::new()?;
    let directory = ledger(&dir);
    let identity = fill_as_agave(&directory)?;
    let outside = dir.path().join("outside");
    fs::create_dir(&outside)?;
    fs::write(outside.join("kept"), "")?;
    symlink(&outside, directory.join("link"))?;
    // As Agave while it runs.
    let lock = File::create(directory.join("ledger.lock"))?;
    lock.lock()?;
    let (code, output) = fail(&dir, &["--reset"])?;
    ensure!(code == Some(1) && output.contains("is in use by another process"), "{output}");
    ensure!(directory.join("rocksdb/CURRENT").exists(), "it was removed");
    drop(lock);
    let node = start(&dir, &["--reset"])?;
    ensure!(World::new(&node).rpc.get_identity()? != identity.pubkey());
    for removed in ["rocksdb", "accounts", "program-logs", "genesis.bin", ".gitkeep", "link"] {
        ensure!(fs::symlink_metadata(directory.join(removed)).is_err(), "{removed} is there");
    }
    ensure!(outside.join("kept").exists() && directory.join("lost+found").exists());
    Ok(())
}

#[test]
fn flags_of_genesis_are_named_when_the_ledger_exists() -> Result<()> {
    let dir = TempDir::new()?;
    drop(start(&dir, &[])?);
    let flags = [
        ["--mint", "Vote111111111111111111111111111111111111111"],
        ["--slots-per-epoch", "64"],
        ["--inflation-fixed", "0.5"],
        ["--faucet-sol", "5"],
        ["--deactivate-feature", "9onWzzvCzNC2jfhxxeqRgs5q7nFAAKpCUvkj6T6GJK9i"],
    ];
    let node = start(&dir, flags.as_flattened())?;
    let lines = flags.map(|[flag, _]| format!("{flag} argument ignored, ledger already exists\n"));
    let log = node.log();
    ensure!(log.starts_with(&format!("{}Ledger location: ", lines.concat())), "{log}");
    ensure!(World::new(&node).rpc.get_epoch_schedule()?.slots_per_epoch == 432_000);
    Ok(())
}

#[test]
fn values_that_only_agave_has_become_the_largest_ones() -> Result<()> {
    let dir = TempDir::new()?;
    let flags = [
        ["--limit-ledger-size", "18446744073709551615"],
        ["--compute-unit-limit", "4294967295"],
        ["--transaction-account-lock-limit", "256"],
        ["--faucet-time-slice-secs", "31536000"],
        ["--slots-per-epoch", "20000000"],
        ["--faucet-sol", "5000000000"],
        ["--inflation-fixed", "2"],
    ];
    let node = start(&dir, flags.as_flattened())?;
    let log = node.log();
    for line in [
        "--limit-ledger-size is 18446744073709551615: 895367775 is used, a tebibyte",
        "--compute-unit-limit is 4294967295: 1000000000 is used",
        "--transaction-account-lock-limit is 256: 128 is used, the most that the protocol allows",
        "--slots-per-epoch is 20000000: 10000000 is used, 46 days of 400 ms slots",
        "--faucet-sol is 5000000000: 4611686018 is used",
        "--inflation-fixed is 2: 1 is used",
    ] {
        ensure!(log.lines().any(|found| found == format!("hydrant: {line}")), "{line}\n{log}");
    }
    ensure!(!log.contains("--faucet-time-slice-secs"), "{log}");
    ensure!(World::new(&node).rpc.get_epoch_schedule()?.slots_per_epoch == 10_000_000);
    drop(node);
    // Values that Agave refuses are refused.
    for flag in [["--slots-per-epoch", "31"], ["--ticks-per-slot", "0"], ["--unknown", "1"]] {
        let (code, output) = fail(&dir, &flag)?;
        ensure!(code == Some(1) && output.contains(flag[0]), "{code:?} {output}");
    }
    Ok(())
}

#[test]
fn a_program_that_does_not_load_is_a_warning_under_that_name() -> Result<()> {
    let dir = TempDir::new()?;
    let program = Keypair::new().pubkey();
    let path = dir.path().join("program.so");
    fs::write(&path, "no ELF")?;
    let node = start(&dir, &["--bpf-program", &program.to_string(), &path.display().to_string()])?;
    ensure!(World::new(&node).rpc.get_account(&program)?.executable);
    let line = format!("hydrant: program {program} does not load, so every call of it fails: ");
    ensure!(node.log().contains(&line), "{}", node.log());
    Ok(())
}

#[test]
fn a_configuration_of_the_cli_does_not_end_the_start() -> Result<()> {
    let dir = TempDir::new()?;
    let wallet = Keypair::new();
    let keypair = dir.path().join("wallet.json");
    write_keypair_file(&wallet, &keypair).map_err(|err| anyhow::anyhow!("{err}"))?;
    let config = dir.path().join("config.yml");
    let start_with = |text: &str| {
        fs::write(&config, text)?;
        start(&dir, &["--reset", "--config", &config.display().to_string()])
    };
    let node =
        start_with(&format!("keypair_path: >-\n  {} # a part of the path\n", keypair.display()))?;
    ensure!(node.log().contains("No wallet available"), "{}", node.log());
    drop(node);
    let node = start_with(&format!("keypair_path: {} # mine\n", keypair.display()))?;
    ensure!(World::new(&node).rpc.get_balance(&wallet.pubkey())? > 0);
    drop(node);
    let node = start_with("keypair_path: [")?;
    ensure!(node.log().contains("hydrant: --config is ignored: "), "{}", node.log());
    Ok(())
}

/// kit's script starts the validator with `&`, so that an interrupt of the script leaves it to others that use it.
#[test]
fn in_the_background_of_a_script_an_interrupt_does_not_end_it() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = Command::new("env");
    command.args(["--ignore-signal=INT", "--ignore-signal=QUIT"]).arg(link(&dir)?);
    let ledger = dir.path().join("test-ledger");
    let flags = ["--quiet", "--rpc-port", "0", "--ledger"];
    let mut node = NodeCommand::new(command).args(flags).args([ledger]).logged().start()?;
    let signal = |node: &Node, name: &str| {
        let kill = Command::new("kill").args(["-s", name, &node.pid().to_string()]).status()?;
        ensure!(kill.success(), "kill -s {name}: {kill}");
        Ok(())
    };
    for name in ["INT", "QUIT"] {
        // The system drops an ignored signal at once.
        signal(&node, name)?;
        World::new(&node).rpc.get_slot().with_context(|| format!("after SIG{name}"))?;
    }
    signal(&node, "TERM")?;
    let status = wait_until("its end", WAIT_TIMEOUT, || Ok(node.process().try_wait()?))?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn its_version_and_help_are_those_of_the_name() -> Result<()> {
    let dir = TempDir::new()?;
    let link = link(&dir)?;
    let text = |flag: &str| -> Result<String> {
        Ok(String::from_utf8(run_to_end(Command::new(&link).arg(flag))?.stdout)?)
    };
    let version = text("--version")?;
    ensure!(version.starts_with("solana-test-validator 4.2."), "{version}");
    ensure!(version.ends_with("feat:21b0d33a, client:Hydrant)\n"), "{version}");
    let help = text("--help")?;
    ensure!(help.contains("--hydrant-config") && help.contains("--clone"), "{help}");
    Ok(())
}

#[test]
fn surfpool_has_a_version_and_a_background_that_must_be_reachable() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("surfpool");
    symlink(HYDRANT, &path)?;
    let version = run_to_end(Command::new(&path).arg("--version"))?;
    let version = String::from_utf8(version.stdout)?;
    ensure!(version.starts_with("surfpool 1.7.0 (hydrant-"), "{version}");
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port().to_string();
    for (port, expected) in [("0", "a --port that is not 0"), (&port, "another program listens")] {
        let run = run_to_end(Command::new(&path).args(["start", "--daemon", "--port", port]))?;
        let text = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.code() == Some(1) && text.contains(expected), "{text}");
    }
    Ok(())
}

#[test]
fn surfpool_in_the_background_reports_the_error_of_its_start() -> Result<()> {
    let free_port = || Ok::<_, anyhow::Error>(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?);
    // It binds its own port before it asks the cluster, which does not respond.
    let port = free_port()?.port().to_string();
    let address = free_port()?.to_string();
    let cluster = format!("http://{address}");
    let args = ["surfpool", "start", "--ci", "--daemon", "--port", &port, "--rpc-url", &cluster];
    let run = run_to_end(Command::new(HYDRANT).args(args))?;
    let text = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.code() == Some(1), "{:?}: {text}", run.status);
    ensure!(run.stdout.is_empty(), "{}", String::from_utf8_lossy(&run.stdout));
    ensure!(text.contains("--rpc-url: ") && text.contains(&address), "{text}");
    Ok(())
}

#[test]
fn a_link_named_surfpool_runs_with_the_flags_of_anchor() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("surfpool");
    symlink(HYDRANT, &path)?;
    let wallet = Keypair::new().pubkey();
    let mut command = Command::new(path);
    command.args(["start", "--airdrop", &wallet.to_string()]);
    command.args(["--host", "127.0.0.1", "--port", "0", "--offline", "--no-tui", "--no-studio"]);
    command.args(["--block-production-mode", "transaction", "--log-level", "none"]);
    command.args(["--disable-instruction-profiling", "--max-profiles", "1", "--no-deploy"]);
    let node = NodeCommand::new(command).logged().watched().start()?;
    let world = World::new(&node);
    ensure!(world.rpc.get_balance(&wallet)? == 10_000_000_000_000);
    let log = node.log();
    ensure!(log.contains("--max-profiles is ignored: "), "{log}");
    Ok(())
}

/// An account in the format of `solana account --output json`, as JavaScript writes it.
fn account_file(address: &Pubkey) -> String {
    let account = json!({
        "lamports": 123_456_789, "data": ["", "base64"], "owner": Pubkey::default().to_string(),
        "executable": false, "rentEpoch": 18_446_744_073_709_552_000_f64, "space": 0,
    });
    json!({ "pubkey": address.to_string(), "account": account }).to_string()
}

#[test]
fn a_workspace_of_anchor_has_its_fixtures_at_genesis() -> Result<()> {
    let [own, genesis, cloned, account, of_dir, of_test] =
        [1, 2, 3, 4, 5, 6].map(|n| Pubkey::new_from_array([n; 32]));
    let elf = ProgramElves::find()?.upgrade;
    let id = cloned.to_string();
    let elf_text = elf.display().to_string();
    let authority = own.to_string();
    let upstream = start_node(&["--upgradeable-program", &id, &elf_text, &authority])?;

    let dir = TempDir::new()?;
    for path in ["target/deploy", "fix/dir", "tests"] {
        fs::create_dir_all(dir.path().join(path))?;
    }
    fs::copy(&elf, dir.path().join("target/deploy/mine.so"))?;
    fs::copy(&elf, dir.path().join("fix/other.so"))?;
    let fixtures = [("fix/a.json", account), ("fix/dir/b.json", of_dir), ("tests/t.json", of_test)];
    for (path, address) in fixtures {
        fs::write(dir.path().join(path), account_file(&address))?;
    }
    let anchor = format!(
        r#"
        [programs.localnet]
        mine = "{own}"
        [[test.genesis]]
        address = "{genesis}"
        program = "./fix/other.so"
        [test.validator]
        url = "{}"
        bind_address = "127.0.0.1"
        [[test.validator.account]]
        address = "{account}"
        filename = "./fix/a.json"
        [[test.validator.account_dir]]
        directory = "./fix/dir"
        [[test.validator.clone]]
        address = "{cloned}"
        "#,
        upstream.rpc_url()
    );
    fs::write(dir.path().join("Anchor.toml"), anchor)?;
    let entry =
        format!("[[test.validator.account]]\naddress = \"{of_test}\"\nfilename = \"t.json\"");
    fs::write(dir.path().join("tests/Base.toml"), entry)?;
    fs::write(dir.path().join("tests/Test.toml"), "extends = [\"./Base.toml\"]")?;

    let path = dir.path().join("surfpool");
    symlink(HYDRANT, &path)?;
    let mut command = Command::new(path);
    command.current_dir(dir.path());
    command.args(["start", "--port", "0", "--offline", "--no-tui", "--no-studio"]);
    command.args(["--legacy-anchor-compatibility", "--anchor-test-config-path", "tests/Test.toml"]);
    // Not watched: that would start it in another directory.
    let node = NodeCommand::new(command).logged().start()?;
    let rpc = World::new(&node).rpc;
    for address in [account, of_dir, of_test] {
        let found = rpc.get_account(&address)?;
        ensure!(found.lamports == 123_456_789 && found.rent_epoch == u64::MAX, "{address}");
    }
    for program in [own, genesis, cloned] {
        ensure!(rpc.get_account(&program)?.executable, "{program}");
    }
    let code = get_program_data_address(&cloned);
    let upstream_code = World::new(&upstream).rpc.get_account_data(&code)?;
    ensure!(rpc.get_account_data(&code)? == upstream_code, "the code of the clone");
    let log = node.log();
    ensure!(log.contains("test.validator.bind_address of Anchor.toml is ignored: "), "{log}");
    ensure!(log.contains("--legacy-anchor-compatibility: genesis has"), "{log}");
    Ok(())
}

//! A line of the table as it is run: on free ports, with a local cluster, and with the files that it names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use solana_keypair::{Keypair, write_keypair_file};
use solana_pubkey::Pubkey;
use solana_signer::Signer;

use crate::free_ports::free_ports;
use crate::launch_lines::line::{LaunchLine, LaunchProgram};

/// Placeholders of the table for addresses, and the byte that each address repeats.
const ADDRESSES: [(&str, u8); 4] = [("WALLET", 1), ("PROGRAM", 2), ("OTHER", 3), ("ACCOUNT", 4)];
/// Accounts that every ledger has.
const BUILT_IN: [&str; 3] = [
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
];
/// The ports of JSON-RPC, of WebSocket, of transactions over QUIC, of the faucet, and another one for WebSocket.
const PORTS: u16 = 5;
const RPC_PORT_DEFAULT: u16 = 8899;
/// The default of both programs is the home of the user.
const HOME: &str = "home";

/// A line that can be run in its directory.
pub(crate) struct Launch {
    dir: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) rpc: u16,
    pub(crate) pubsub: u16,
    /// Programs that the line adds, at genesis.
    pub(crate) programs: Vec<String>,
    /// An address that may get an airdrop.
    pub(crate) wallet: String,
}

impl Launch {
    /// Creates the files of the line in `dir`.
    pub(crate) fn prepare(
        line: &LaunchLine,
        dir: &Path,
        upstream: &str,
        elf: &Path,
    ) -> Result<Self> {
        let ports = free_ports(PORTS)?;
        keypair_file(&dir.join(HOME).join(".config/solana/id.json"))?;
        let mut launch = Self {
            dir: dir.to_owned(),
            args: Vec::new(),
            rpc: ports,
            pubsub: ports + 1,
            programs: Vec::new(),
            wallet: repeated_address(1),
        };
        let mut words = line.args.iter().map(|word| with_addresses(word)).peekable();
        let mut rpc_flag = None;
        let mut has_faucet = false;
        let mut line_port = RPC_PORT_DEFAULT;
        while let Some(word) = words.next() {
            // --flag=value is --flag value.
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            let mut value = |what: &str| match &attached {
                Some(value) => Ok(value.clone()),
                None => words.next().with_context(|| format!("{flag} without {what}")),
            };
            let values = match flag.as_str() {
                "--rpc-port" | "--port" => {
                    line_port = value("a port")?.parse().context("a port")?;
                    rpc_flag = Some(flag.clone());
                    vec![launch.rpc.to_string()]
                }
                "--ws-port" => {
                    let port: u16 = value("a port")?.parse().context("a port")?;
                    if port != line_port + 1 {
                        launch.pubsub = ports + PORTS - 1;
                    }
                    vec![launch.pubsub.to_string()]
                }
                "--faucet-port" => {
                    value("a port")?;
                    has_faucet = true;
                    vec![(ports + 3).to_string()]
                }
                "--url" | "-u" | "--rpc-url" => {
                    value("a URL")?;
                    vec![upstream.to_owned()]
                }
                "--bpf-program" => {
                    let program = launch.program(&value("an address")?)?;
                    vec![program, launch.copy(elf, &value("a file")?)?]
                }
                "--upgradeable-program" => {
                    let program = launch.program(&value("an address")?)?;
                    let file = launch.copy(elf, &value("a file")?)?;
                    let authority = value("an authority")?;
                    launch.keypair_if_file(&authority)?;
                    vec![program, file, authority]
                }
                "--account" => {
                    let address = value("an address")?;
                    let file = value("a file")?;
                    launch.write(&file, &account_json(&address))?;
                    vec![address, file]
                }
                "--account-dir" => {
                    let folder = value("a directory")?;
                    let address = repeated_address(9);
                    let file = Path::new(&folder).join(format!("{address}.json"));
                    launch.write(&file.to_string_lossy(), &account_json(&address))?;
                    vec![folder]
                }
                "-C" | "--config" => {
                    let file = value("a file")?;
                    let wallet = dir.join("wallet.json");
                    keypair_file(&wallet)?;
                    launch.write(&file, &format!("---\nkeypair_path: {}\n", wallet.display()))?;
                    vec![file]
                }
                "--anchor-test-config-path" => {
                    let file = value("a file")?;
                    launch.write(&file, "")?;
                    vec![file]
                }
                "--snapshot" => {
                    let file = value("a file")?;
                    let mut account = json!({ "lamports": 7, "owner": Pubkey::default().to_string(),
                                              "executable": false, "rentEpoch": 0 });
                    account["data"] = "".into();
                    launch.write(&file, &json!({ repeated_address(9): account }).to_string())?;
                    vec![file]
                }
                _ => attached.into_iter().collect(),
            };
            launch.args.push(flag);
            launch.args.extend(values);
        }
        let flag = match line.program {
            LaunchProgram::TestValidator => "--rpc-port",
            LaunchProgram::Surfpool => "--port",
        };
        if rpc_flag.is_none() {
            launch.args.extend([flag.to_owned(), launch.rpc.to_string()]);
        }
        if line.program == LaunchProgram::TestValidator && !has_faucet {
            launch.args.extend(["--faucet-port".to_owned(), (ports + 3).to_string()]);
        }
        Ok(launch)
    }

    /// The home of the user who runs it.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join(HOME)
    }

    /// The directory of its ledger.
    pub(crate) fn ledger(&self) -> Result<PathBuf> {
        let at = self.args.iter().position(|arg| arg == "--ledger" || arg == "-l");
        let ledger = match at {
            Some(at) => self.args.get(at + 1).context("a directory")?,
            None => "test-ledger",
        };
        Ok(self.dir.join(ledger))
    }

    /// The argument for the address of a program, which may be a keypair file.
    fn program(&mut self, address: &str) -> Result<String> {
        let known = self.keypair_if_file(address)?.unwrap_or_else(|| address.to_owned());
        self.programs.push(known);
        Ok(address.to_owned())
    }

    /// The address of a keypair file that is created, if the argument names a file.
    fn keypair_if_file(&self, argument: &str) -> Result<Option<String>> {
        let is_file = Path::new(argument).extension().is_some_and(|it| it == "json");
        is_file.then(|| keypair_file(&self.dir.join(argument))).transpose()
    }

    /// The argument for a file that is a copy of `from`.
    fn copy(&self, from: &Path, file: &str) -> Result<String> {
        let path = self.path(file)?;
        fs::copy(from, path).with_context(|| file.to_owned())?;
        Ok(inside(file))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.path(file)?, text).with_context(|| file.to_owned())
    }

    /// The path of a file of the line, whose directory exists.
    fn path(&self, file: &str) -> Result<PathBuf> {
        let path = self.dir.join(inside(file));
        fs::create_dir_all(path.parent().context("a directory")?)?;
        Ok(path)
    }
}

/// The path below the directory of the line: a script may name one above it.
fn inside(file: &str) -> String {
    file.trim_start_matches("../").to_owned()
}

/// The flags of a node that has all accounts that lines clone. Its files are below `dir`.
pub(crate) fn upstream_accounts(
    lines: &[LaunchLine],
    dir: &Path,
    elf: &Path,
) -> Result<Vec<String>> {
    let mut accounts = BTreeSet::new();
    let mut programs = BTreeSet::new();
    for line in lines {
        let mut words = line.args.iter().map(|word| with_addresses(word)).peekable();
        while let Some(word) = words.next() {
            let found = match word.as_str() {
                "--clone" | "-c" | "--maybe-clone" => &mut accounts,
                "--clone-upgradeable-program" => &mut programs,
                _ => continue,
            };
            while let Some(address) = words.next_if(|word| !word.starts_with('-')) {
                found.insert(address);
            }
        }
    }
    ensure!(!accounts.is_empty() && !programs.is_empty(), "no line clones");
    let folder = dir.join("accounts");
    fs::create_dir(&folder)?;
    let mut flags = vec!["--slot-ms".to_owned(), "0".to_owned()];
    flags.extend(["--account-dir".to_owned(), folder.display().to_string()]);
    let is_missing = |address: &&String| !BUILT_IN.contains(&address.as_str());
    for address in accounts.difference(&programs).filter(is_missing) {
        fs::write(folder.join(format!("{address}.json")), account_json(address))?;
    }
    for program in programs.iter().filter(is_missing) {
        flags.extend(
            ["--upgradeable-program", program, &elf.display().to_string(), "none"]
                .map(str::to_owned),
        );
    }
    Ok(flags)
}

/// Replaces the placeholders in a word of the table by addresses.
fn with_addresses(word: &str) -> String {
    ADDRESSES
        .iter()
        .fold(word.to_owned(), |word, (name, byte)| word.replace(name, &repeated_address(*byte)))
}

fn repeated_address(byte: u8) -> String {
    Pubkey::new_from_array([byte; 32]).to_string()
}

/// An account in the format of `solana account --output json`.
fn account_json(address: &str) -> String {
    let account: Value = json!({
        "pubkey": address,
        "account": {
            "lamports": 5_000_000,
            "data": ["AQID", "base64"],
            "owner": Pubkey::default().to_string(),
            "executable": false,
            "rentEpoch": u64::MAX,
            "space": 3,
        },
    });
    account.to_string()
}

/// Writes a new keypair, and returns its address.
fn keypair_file(path: &Path) -> Result<String> {
    let keypair = Keypair::new();
    fs::create_dir_all(path.parent().context("a directory")?)?;
    write_keypair_file(&keypair, path).map_err(|err| anyhow::anyhow!("{err}"))?;
    Ok(keypair.pubkey().to_string())
}

//! A cluster of three validators: its keys, its genesis, and the commands that start them.
//!
//! Shape: the stakes are 40, 35 and 25 %, so the first two make roots without the third, and no other two do. They are
//! in the genesis, and active from the first epoch on.
//! Not here: the processes (`processes`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use serde_json::json;

use crate::compare::keys::base58;
use crate::rig::build::program_dir;
use crate::rig::options::Options;
use crate::rig::ports::local;
use crate::rig::validator::{VERSION_0_REFUSED, Validator};
use crate::shell::Cmd;

const SOL: u64 = 1_000_000_000;
/// Stakes of the validators, in SOL.
const STAKES: [u64; 3] = [4_000_000, 3_500_000, 2_500_000];
/// Lamports of each identity, which pay for its votes.
const IDENTITY_LAMPORTS: u64 = 10_000 * SOL;
const FAUCET_LAMPORTS: u64 = 500_000_000 * SOL;
const UNPACKED_GENESIS_MAX: u64 = 1 << 30;
/// Slots between two full archives, and between two of any kind.
const FULL_ARCHIVE_SLOTS: u64 = 100;
const ARCHIVE_SLOTS: u64 = 25;
/// The loader of programs that cannot be upgraded.
const LOADER: &str = "BPFLoader2111111111111111111111111111111111";
/// Programs that the load calls. A test validator has them without being asked.
const PROGRAMS: [(&str, &str); 4] = [
    ("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "spl_token-3.5.0.so"),
    ("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb", "spl_token_2022-11.0.0.so"),
    ("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL", "spl_associated_token_account-1.1.1.so"),
    ("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", "spl_memo-4.0.0.so"),
];
/// The sources of a library that replaces functions of the C library in a validator. Their heads say why.
const PRELOADED: [(&str, &str); 2] = [
    ("open_files.c", include_str!("open_files.c")),
    ("deaf_socket.c", include_str!("deaf_socket.c")),
];

/// A genesis, and what its validators need.
pub(crate) struct Cluster {
    program: PathBuf,
    dir: PathBuf,
    /// Identities of the validators, as text.
    identities: Vec<String>,
    /// The library with these functions.
    preloaded: PathBuf,
}

/// A key of a cluster. It is the same in each run.
fn key(number: u8) -> SigningKey {
    SigningKey::from_bytes(&[number + 1; 32])
}

fn address(key: &SigningKey) -> String {
    base58(&key.verifying_key().to_bytes())
}

/// The keys of a validator: identity, vote account, stake account.
fn validator_keys(at: usize) -> Result<[SigningKey; 3]> {
    let first = 3 * u8::try_from(at)?;
    Ok([key(first), key(first + 1), key(first + 2)])
}

fn write_key(path: &Path, key: &SigningKey) -> Result<()> {
    let bytes = key.to_keypair_bytes().to_vec();
    fs::write(path, json!(bytes).to_string()).with_context(|| path.display().to_string())
}

impl Cluster {
    /// Writes the keys, and makes the genesis.
    pub(crate) fn new(
        program: &Path,
        genesis: &Path,
        options: &Options,
        dir: &Path,
    ) -> Result<Self> {
        let faucet = key(u8::MAX - 1);
        let mut identities = Vec::new();
        // The first one is named by options of solana-genesis, the others by a file of their stakes.
        let mut accounts = "validator_accounts:\n".to_owned();
        let mut bootstrap = Vec::new();
        for (at, stake) in STAKES.iter().enumerate() {
            let keys = validator_keys(at)?;
            for (key, name) in keys.iter().zip(["identity", "vote", "stake"]) {
                write_key(&dir.join(format!("{at}-{name}.json")), key)?;
            }
            let [identity, vote, stake_account] = keys.map(|key| address(&key));
            if at == 0 {
                bootstrap = vec![identity.clone(), vote, stake_account];
            } else {
                write!(
                    accounts,
                    "- balance_lamports: {IDENTITY_LAMPORTS}\n  stake_lamports: {}\n  \
                     identity_account: {identity}\n  vote_account: {vote}\n  \
                     stake_account: {stake_account}\n",
                    stake * SOL
                )?;
            }
            identities.push(identity);
        }
        let cluster = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            identities,
            preloaded: compile_preloaded(dir)?,
        };
        write_key(&cluster.faucet_key(), &faucet)?;
        let accounts_file = dir.join("validators.yaml");
        fs::write(&accounts_file, accounts)?;
        let mut cmd = Cmd::new(&genesis.to_string_lossy())
            .args(["--ledger", &cluster.genesis_dir().to_string_lossy(), "--bootstrap-validator"])
            .args(bootstrap)
            .args(["--bootstrap-validator-lamports", &IDENTITY_LAMPORTS.to_string()])
            .args(["--bootstrap-validator-stake-lamports", &(STAKES[0] * SOL).to_string()])
            .args(["--validator-accounts-file", &accounts_file.to_string_lossy()])
            .args(["--faucet-pubkey", &address(&faucet)])
            .args(["--faucet-lamports", &FAUCET_LAMPORTS.to_string()])
            .args(["--hashes-per-tick", "sleep", "--cluster-type", "development"])
            .args(["--ticks-per-slot", &options.ticks.to_string()])
            .args(["--slots-per-epoch", &options.slots_per_epoch.to_string()])
            .args(["--deactivate-feature", VERSION_0_REFUSED])
            .args(["--max-genesis-archive-unpacked-size", &UNPACKED_GENESIS_MAX.to_string()]);
        let programs = program_dir()?;
        for (address, file) in PROGRAMS {
            let file = programs.join(file);
            cmd = cmd.args(["--bpf-program", address, LOADER, &file.to_string_lossy()]);
        }
        fs::write(dir.join("genesis.log"), cmd.output()?)?;
        Ok(cluster)
    }

    fn genesis_dir(&self) -> PathBuf {
        self.dir.join("genesis")
    }

    pub(crate) fn faucet_key(&self) -> PathBuf {
        self.dir.join("faucet.json")
    }

    pub(crate) fn identity(&self, at: usize) -> &str {
        &self.identities[at]
    }

    /// Returns the file that makes a validator receive nothing while it exists.
    pub(crate) fn deaf_file(&self, at: usize) -> PathBuf {
        self.dir.join(format!("{at}-deaf"))
    }

    /// Returns the command that starts a validator, whose first start copies the genesis. It finds the cluster by the
    /// validator after it.
    pub(crate) fn command(&self, at: usize, all: &[Validator]) -> Result<Command> {
        let validator = &all[at];
        let ledger = self.dir.join(format!("{}-ledger", validator.name));
        if !ledger.exists() {
            let genesis = self.genesis_dir();
            let [from, to] = [&genesis, &ledger].map(|path| path.to_string_lossy());
            Cmd::new("cp").args(["-r", &from, &to]).run()?;
        }
        let key = |name: &str| self.dir.join(format!("{at}-{name}.json"));
        let mut command = Command::new(&self.program);
        command
            .arg("--ledger")
            .arg(ledger)
            .arg("--identity")
            .arg(key("identity"))
            .arg("--vote-account")
            .arg(key("vote"))
            .args(["--no-genesis-fetch", "--no-snapshot-fetch", "--bind-address", "127.0.0.1"])
            .args(["--rpc-port", &validator.rpc.port().to_string(), "--full-rpc-api"])
            .args(["--enable-rpc-transaction-history", "--enable-extended-tx-metadata-storage"])
            .args(["--gossip-port", &validator.gossip.to_string(), "--dynamic-port-range"])
            .arg(format!("{}-{}", validator.first_port, validator.last_port()))
            .args(["--no-os-network-limits-test", "--no-xdp", "--allow-private-addr"])
            .args(["--no-wait-for-vote-to-start-leader", "--accounts-index-limit", "unlimited"])
            .args(["--full-snapshot-interval-slots", &FULL_ARCHIVE_SLOTS.to_string()])
            .args(["--snapshot-interval-slots", &ARCHIVE_SLOTS.to_string()])
            .args(["--log", "-"])
            .env("LD_PRELOAD", &self.preloaded)
            .env("RIG_DEAF_FILE", self.deaf_file(at));
        // The first validator of a new cluster starts alone.
        let other = &all[(at + 1) % all.len()];
        let is_first_start = at == 0 && !self.dir.join(format!("{}.log", other.name)).exists();
        if !is_first_start {
            let entry = if at == 0 { other } else { &all[0] };
            command.args(["--entrypoint", &local(entry.gossip).to_string()]);
        }
        Ok(command)
    }
}

/// Compiles the preloaded library. Returns its file.
fn compile_preloaded(dir: &Path) -> Result<PathBuf> {
    let library = dir.join("preloaded.so");
    let mut command = Cmd::new("cc").args(["-shared", "-fPIC", "-o", &library.to_string_lossy()]);
    for (name, content) in PRELOADED {
        let source = dir.join(name);
        fs::write(&source, content)?;
        command = command.args([&source.to_string_lossy()]);
    }
    command.run()?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_validators_make_roots_only_if_they_are_the_first_two() {
        let total: u64 = STAKES.iter().sum();
        let makes_roots = |stake: u64| 3 * stake > 2 * total;
        assert!(makes_roots(STAKES[0] + STAKES[1]));
        assert!(!makes_roots(STAKES[0] + STAKES[2]));
        assert!(!makes_roots(STAKES[1] + STAKES[2]));
    }
}

//! `Anchor.toml` and `Test.toml`: the parts that Anchor leaves to the validator that it starts.
//!
//! In: the workspace's directory, and the paths of Test.toml files. Out: [`AnchorSetup`], in terms of the flags of
//! `dev`.
//! Shape: each file is read with those that it `extends`, whose entries it replaces by address; then the Test.toml
//! files are laid over Anchor.toml in the same way. A path is relative to the file that names it.
//! Bounds: [`FILE_BYTES_MAX`] for a file, [`FILES_MAX`] files. A file that extends itself is refused.
//! Not here: settings that Anchor applies itself (scripts, waits); the table `[surfpool]`, which it passes as flags.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use localnet::GenesisAccount;
use serde::Deserialize;
use solana::JsonU64;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;
use solana_sdk_ids::system_program;

use crate::accounts_file;

/// The file of an Anchor workspace.
pub(crate) const ANCHOR_FILE: &str = "Anchor.toml";
/// The file of a directory of tests.
const TEST_FILE: &str = "Test.toml";
/// Maximum bytes of either file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files that are read, those that others extend included.
const FILES_MAX: usize = 64;
/// Lamports of an account of `fund_accounts` that names none, as in Anchor.
const FUNDED_LAMPORTS: u64 = 1_000_000_000;

/// The settings of Anchor's files for the genesis of a ledger.
#[derive(Default)]
pub(crate) struct AnchorSetup {
    /// Values of `--bpf-program`: pairs of an address and a file.
    pub(crate) programs: Vec<String>,
    /// Values of `--upgradeable-program`.
    pub(crate) upgradeable_programs: Vec<String>,
    pub(crate) accounts: Vec<GenesisAccount>,
    pub(crate) account_dirs: Vec<PathBuf>,
    /// Accounts to clone, programs with their data.
    pub(crate) clone: Vec<String>,
    /// The URL of the cluster to clone from.
    pub(crate) url: Option<String>,
    pub(crate) deactivate_feature: Vec<String>,
    pub(crate) slots_per_epoch: Option<u64>,
    pub(crate) warp_slot: Option<u64>,
    pub(crate) faucet_sol: Option<f64>,
    pub(crate) faucet_port: Option<u16>,
    /// One line for each setting that has no effect, and for each program without a file.
    pub(crate) lines: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnchorFile {
    programs: BTreeMap<String, BTreeMap<String, ProgramEntry>>,
    provider: Provider,
    test: TestTable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Provider {
    wallet: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ProgramEntry {
    Address(String),
    Table { address: String },
}

/// A Test.toml, or an Anchor.toml that one extends.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TestFile {
    extends: Vec<String>,
    test: TestTable,
}

/// The table `[test]` of Anchor.toml and of Test.toml.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TestTable {
    genesis: Vec<GenesisEntry>,
    validator: ValidatorTable,
}

#[derive(Deserialize)]
struct GenesisEntry {
    address: String,
    program: PathBuf,
    #[serde(default)]
    upgradeable: bool,
}

/// The table `[test.validator]`: the supported keys, and all others, which are reported.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ValidatorTable {
    account: Vec<AccountEntry>,
    account_dir: Vec<AccountDirEntry>,
    clone: Vec<CloneEntry>,
    fund_accounts: Vec<FundedAccount>,
    url: Option<String>,
    deactivate_feature: Vec<String>,
    slots_per_epoch: Option<JsonU64>,
    warp_slot: Option<JsonU64>,
    faucet_sol: Option<Amount>,
    faucet_port: Option<u16>,
    #[serde(flatten)]
    others: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
struct AccountEntry {
    address: String,
    filename: PathBuf,
}

#[derive(Deserialize)]
struct AccountDirEntry {
    directory: PathBuf,
}

#[derive(Deserialize)]
struct CloneEntry {
    address: String,
}

#[derive(Deserialize)]
struct FundedAccount {
    address: String,
    lamports: Option<JsonU64>,
}

/// An amount of SOL: Anchor has it as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(f64),
    Whole(u32),
    Text(String),
}

impl Amount {
    fn sol(&self) -> Result<f64> {
        Ok(match self {
            Self::Number(sol) => *sol,
            Self::Whole(sol) => f64::from(*sol),
            Self::Text(text) => {
                text.parse().with_context(|| format!("faucet_sol {text:?} is not a number"))?
            }
        })
    }
}

/// Reads Anchor.toml of the workspace `dir`, if there is one, and the Test.toml files. `artifacts` is the directory of
/// the workspace's own programs.
pub(crate) fn read(dir: &Path, artifacts: &Path, test_files: &[PathBuf]) -> Result<AnchorSetup> {
    let mut reader = Reader { workspace: dir, files: 0, lines: Vec::new() };
    let mut setup = AnchorSetup::default();
    let path = dir.join(ANCHOR_FILE);
    let mut anchor = AnchorFile::default();
    let mut table = TestTable::default();
    if path.exists() {
        anchor = reader.parse(&path)?;
        table = reader.resolve(std::mem::take(&mut anchor.test), &path)?;
    }
    for test_file in test_files {
        let path = dir.join(test_file);
        let path = if path.is_dir() { path.join(TEST_FILE) } else { path };
        // Anchor passes this file for a workspace without a Test.toml.
        if path == dir.join(ANCHOR_FILE) && path.exists() {
            continue;
        }
        let read = reader.test_file(&path, &mut Vec::new());
        let flag = || format!("--anchor-test-config-path {}", test_file.display());
        table.merge(read.with_context(flag)?);
    }
    setup.lines = reader.lines;
    let authority = authority(dir, &anchor.provider);
    setup.add_own_programs(&anchor, dir, artifacts, &authority);
    setup.add(table, &authority)?;
    Ok(setup)
}

/// The upgrade authority of programs: the wallet, if it exists.
fn authority(dir: &Path, provider: &Provider) -> String {
    let wallet = provider.wallet.as_deref().map(|wallet| dir.join(expand_home(wallet)));
    let wallet = wallet.filter(|path| path.exists());
    wallet.map_or_else(|| "none".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A path whose `~` is the user's home.
fn expand_home(path: &str) -> String {
    match (path.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    }
}

/// Reads files, and counts them.
struct Reader<'a> {
    workspace: &'a Path,
    files: usize,
    lines: Vec<String>,
}

impl Reader<'_> {
    fn parse<T: for<'de> Deserialize<'de>>(&mut self, path: &Path) -> Result<T> {
        self.files += 1;
        ensure!(self.files <= FILES_MAX, "more than {FILES_MAX} files of Anchor");
        let text = String::from_utf8(input_file::read(path, FILE_BYTES_MAX)?);
        let text = text.with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// A Test.toml over the files that it extends, in their order. `parents` are the files that extend it.
    fn test_file(&mut self, path: &Path, parents: &mut Vec<PathBuf>) -> Result<TestTable> {
        let path = fs::canonicalize(path).with_context(|| path.display().to_string())?;
        if let Some(first) = parents.iter().position(|parent| *parent == path) {
            let chain = parents[first..].iter().chain([&path]);
            let chain: Vec<_> = chain.map(|path| path.display().to_string()).collect();
            anyhow::bail!("a file extends itself: {}", chain.join(" extends "));
        }
        let file: TestFile = self.parse(&path)?;
        let dir = path.parent().unwrap_or(&path).to_path_buf();
        let mut table = TestTable::default();
        parents.push(path.clone());
        for base in &file.extends {
            let read = self.test_file(&dir.join(base), parents);
            table.merge(read.with_context(|| format!("{}: extends {base:?}", path.display()))?);
        }
        parents.pop();
        table.merge(self.resolve(file.test, &path)?);
        Ok(table)
    }

    /// The table of a file with paths that do not depend on it. A path must exist.
    fn resolve(&mut self, mut table: TestTable, file: &Path) -> Result<TestTable> {
        let dir = file.parent().unwrap_or(file);
        for GenesisEntry { address, program, .. } in &mut table.genesis {
            let found = dir.join(&program);
            ensure!(
                found.exists(),
                "{}: [[test.genesis]] {address}: no program exists at {}",
                file.display(),
                found.display()
            );
            *program = found;
        }
        for AccountEntry { address, filename } in &mut table.validator.account {
            let found = accounts_file::find(&dir.join(&filename), filename);
            *filename = found.with_context(|| {
                format!(
                    "{}: [[test.validator.account]] {address}: no file exists at {}",
                    file.display(),
                    dir.join(&filename).display()
                )
            })?;
        }
        for AccountDirEntry { directory } in &mut table.validator.account_dir {
            // Anchor leaves it relative to the workspace.
            let found = [dir, self.workspace].map(|dir| dir.join(&directory));
            let found = found.into_iter().find(|path| path.is_dir());
            *directory = found.with_context(|| {
                format!(
                    "{}: [[test.validator.account_dir]]: no directory exists at {}",
                    file.display(),
                    dir.join(&directory).display()
                )
            })?;
        }
        for name in std::mem::take(&mut table.validator.others).into_keys() {
            let why = reason(&name);
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            self.lines.push(format!("test.validator.{name} of {file} is ignored: {why}"));
        }
        Ok(table)
    }
}

/// Why a setting of `[test.validator]` has no effect.
fn reason(name: &str) -> &'static str {
    match name {
        "bind_address" => "--host has the address",
        "rpc_port" => "--port has the port",
        "ledger" | "limit_ledger_size" => "the ledger is in memory",
        "ticks_per_slot" => "--slot-time is the time of a slot",
        "gossip_host" | "gossip_port" => "this ledger has one node and no gossip",
        "dynamic_port_range" => "Hydrant uses only --port, --ws-port and the port two after --port",
        "geyser_plugin_config" => {
            "Hydrant does not load plugins; it serves Yellowstone gRPC itself, at port 10000"
        }
        "mints" | "token_accounts" => "surfnet_setTokenAccount makes token accounts",
        _ => "it is not known",
    }
}

impl TestTable {
    /// Lays `other` over this table: of two entries with the same address that of `other` counts.
    fn merge(&mut self, other: Self) {
        let Self { genesis, validator } = other;
        replace(&mut self.genesis, genesis, |entry| entry.address.clone());
        let mine = &mut self.validator;
        replace(&mut mine.account, validator.account, |entry| entry.address.clone());
        replace(&mut mine.account_dir, validator.account_dir, |entry| entry.directory.clone());
        replace(&mut mine.clone, validator.clone, |entry| entry.address.clone());
        replace(&mut mine.fund_accounts, validator.fund_accounts, |entry| entry.address.clone());
        replace(&mut mine.deactivate_feature, validator.deactivate_feature, Clone::clone);
        mine.url = validator.url.or_else(|| mine.url.take());
        mine.slots_per_epoch = validator.slots_per_epoch.or(mine.slots_per_epoch);
        mine.warp_slot = validator.warp_slot.or(mine.warp_slot);
        mine.faucet_sol = validator.faucet_sol.or_else(|| mine.faucet_sol.take());
        mine.faucet_port = validator.faucet_port.or(mine.faucet_port);
    }
}

/// Appends entries. An entry replaces the first one with the same key. Cost: O(all entries).
fn replace<T, K: Eq + Hash>(into: &mut Vec<T>, entries: Vec<T>, key: impl Fn(&T) -> K) {
    if entries.is_empty() {
        return;
    }
    let mut indices = HashMap::with_capacity(into.len() + entries.len());
    for (index, entry) in into.iter().enumerate() {
        indices.entry(key(entry)).or_insert(index);
    }
    for entry in entries {
        match indices.entry(key(&entry)) {
            Entry::Occupied(index) => into[*index.get()] = entry,
            Entry::Vacant(index) => {
                index.insert(into.len());
                into.push(entry);
            }
        }
    }
}

impl AnchorSetup {
    /// Adds the programs of the workspace that have been built, as upgradeable ones.
    fn add_own_programs(
        &mut self,
        anchor: &AnchorFile,
        dir: &Path,
        artifacts: &Path,
        authority: &str,
    ) {
        for (name, program) in anchor.programs.get("localnet").into_iter().flatten() {
            let (ProgramEntry::Address(address) | ProgramEntry::Table { address }) = program;
            let path = dir.join(artifacts).join(format!("{}.so", name.replace('-', "_")));
            if !path.exists() {
                let path = path.display();
                self.lines.push(format!("program {name} is not deployed: {path} is not there"));
                continue;
            }
            let row = [address.clone(), path.to_string_lossy().into_owned(), authority.to_owned()];
            self.upgradeable_programs.extend(row);
        }
    }

    fn add(&mut self, table: TestTable, authority: &str) -> Result<()> {
        for GenesisEntry { address, program, upgradeable } in table.genesis {
            let program = program.to_string_lossy().into_owned();
            if upgradeable {
                self.upgradeable_programs.extend([address, program, authority.to_owned()]);
            } else {
                self.programs.extend([address, program]);
            }
        }
        let validator = table.validator;
        for FundedAccount { address, lamports } in validator.fund_accounts {
            let key: Pubkey = address
                .parse()
                .with_context(|| format!("[[test.validator.fund_accounts]] {address:?}"))?;
            let lamports = lamports.map_or(FUNDED_LAMPORTS, u64::from);
            let account = AccountSharedData::new(lamports, 0, &system_program::ID);
            self.accounts.push(GenesisAccount { address: key, account });
        }
        for AccountEntry { address, filename } in validator.account {
            let account = accounts_file::account(&address, &filename);
            self.accounts.push(account.context("[[test.validator.account]]")?);
        }
        let directories = validator.account_dir.into_iter();
        self.account_dirs = directories.map(|entry| entry.directory).collect();
        self.clone = validator.clone.into_iter().map(|entry| entry.address).collect();
        self.url = validator.url;
        self.deactivate_feature = validator.deactivate_feature;
        self.slots_per_epoch = validator.slots_per_epoch.map(u64::from);
        self.warp_slot = validator.warp_slot.map(u64::from);
        self.faucet_sol = validator.faucet_sol.map(|amount| amount.sol()).transpose()?;
        self.faucet_port = validator.faucet_port;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solana_account::ReadableAccount;
    use tempfile::TempDir;

    use super::*;

    const ONE: &str = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM";
    const TWO: &str = "2ojv9BAiHUrvsm9gxDe7fJSzbNZSJcxZvf8dqmWGHG8S";
    const THREE: &str = "Vote111111111111111111111111111111111111111";

    /// A workspace with these files.
    fn workspace(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("it is written");
        }
        dir
    }

    fn account(lamports: u64) -> String {
        format!(
            r#"{{"pubkey":"{ONE}","account":{{"lamports":{lamports},"data":["","base64"],
                "owner":"11111111111111111111111111111111","executable":false,
                "rentEpoch":18446744073709552000,"space":0}}}}"#
        )
    }

    fn setup(dir: &TempDir, test_files: &[&str]) -> Result<AnchorSetup> {
        let test_files: Vec<_> = test_files.iter().map(PathBuf::from).collect();
        read(dir.path(), Path::new("target/deploy"), &test_files)
    }

    fn refusal(dir: &TempDir, test_files: &[&str]) -> String {
        match setup(dir, test_files) {
            Ok(_) => panic!("it is accepted"),
            Err(err) => format!("{err:#}"),
        }
    }

    /// The addresses of accounts with their lamports.
    fn accounts(setup: &AnchorSetup) -> Vec<(String, u64)> {
        let row = |it: &GenesisAccount| (it.address.to_string(), it.account.lamports());
        setup.accounts.iter().map(row).collect()
    }

    #[test]
    fn genesis_has_what_anchor_toml_lists_for_its_validator() {
        let anchor = format!(
            r#"
            [provider]
            wallet = "./id.json"
            [[test.genesis]]
            address = "{ONE}"
            program = "./fix/one.so"
            [[test.genesis]]
            address = "{TWO}"
            program = "fix/two.so"
            upgradeable = true
            [test]
            startup_wait = 5000
            [test.validator]
            url = "devnet"
            slots_per_epoch = "64"
            warp_slot = 1000
            faucet_sol = "5"
            faucet_port = 0
            deactivate_feature = ["{THREE}"]
            [[test.validator.account]]
            address = "{TWO}"
            filename = "./fix/a.json"
            [[test.validator.account_dir]]
            directory = "./fix/dir"
            [[test.validator.clone]]
            address = "{THREE}"
            [[test.validator.fund_accounts]]
            address = "{THREE}"
            "#
        );
        let file = account(7);
        let dir = workspace(&[
            (ANCHOR_FILE, anchor.as_str()),
            ("id.json", "[]"),
            ("fix/one.so", "elf"),
            ("fix/two.so", "elf"),
            ("fix/a.json", file.as_str()),
            ("fix/dir/b.json", file.as_str()),
        ]);
        let setup = setup(&dir, &[]).expect("it is valid");
        let path = |path: &str| dir.path().join(path).to_string_lossy().into_owned();
        assert_eq!(setup.programs, [ONE.to_owned(), path("./fix/one.so")]);
        let upgradeable = [TWO.to_owned(), path("fix/two.so"), path("./id.json")];
        assert_eq!(setup.upgradeable_programs, upgradeable);
        let funded = (THREE.to_owned(), FUNDED_LAMPORTS);
        assert_eq!(accounts(&setup), [funded, (TWO.to_owned(), 7)]);
        assert_eq!(setup.account_dirs, [dir.path().join("./fix/dir")]);
        assert_eq!((setup.clone, setup.url.as_deref()), (vec![THREE.to_owned()], Some("devnet")));
        assert_eq!(setup.deactivate_feature, [THREE]);
        assert_eq!((setup.slots_per_epoch, setup.warp_slot), (Some(64), Some(1_000)));
        assert_eq!((setup.faucet_sol, setup.faucet_port), (Some(5.0), Some(0)));
        assert!(setup.lines.is_empty(), "{:?}", setup.lines);
    }

    #[test]
    fn a_test_toml_lies_over_anchor_toml_and_the_files_it_extends() {
        let entry = |address: &str, filename: &str| {
            format!(
                "[[test.validator.account]]\naddress = \"{address}\"\nfilename = \"{filename}\"\n"
            )
        };
        let anchor = entry(THREE, "fix/1.json");
        let base = entry(ONE, "../fix/1.json") + &entry(TWO, "../fix/2.json");
        let base = format!("{base}[test.validator]\nurl = \"devnet\"\nslots_per_epoch = 32\n");
        let middle = format!("extends = [\"../base/Base.toml\"]\n{}", entry(ONE, "../fix/3.json"));
        let other = entry(THREE, "4.json");
        let test = "extends = [\"../middle/Middle.toml\", \"../base/Other.toml\"]\n\
                    [scripts]\ntest = \"true\"\n[test.validator]\nurl = \"testnet\"\n";
        let files = [1, 2, 3, 4].map(account);
        let dir = workspace(&[
            (ANCHOR_FILE, anchor.as_str()),
            ("fix/1.json", files[0].as_str()),
            ("fix/2.json", files[1].as_str()),
            ("fix/3.json", files[2].as_str()),
            ("base/4.json", files[3].as_str()),
            ("base/Base.toml", base.as_str()),
            ("base/Other.toml", other.as_str()),
            ("middle/Middle.toml", middle.as_str()),
            ("tests/Test.toml", test),
        ]);
        let expected = [(THREE.to_owned(), 4), (ONE.to_owned(), 3), (TWO.to_owned(), 2)];
        for path in ["tests/Test.toml", "tests"] {
            let found = setup(&dir, &[path]).expect("they are valid");
            assert_eq!(accounts(&found), expected, "{path}");
            assert_eq!((found.url.as_deref(), found.slots_per_epoch), (Some("testnet"), Some(32)));
        }
        let two = setup(&dir, &["base/Other.toml", "base/Base.toml"]).expect("they are valid");
        assert_eq!(accounts(&two), [(THREE.into(), 4), (ONE.into(), 1), (TWO.into(), 2)]);
        // Anchor.toml may be extended as well, and without it there is nothing to lie over.
        let extending = "extends = [\"../Anchor.toml\"]\n";
        fs::write(dir.path().join("tests/Test.toml"), extending).expect("it is written");
        let found = setup(&dir, &["tests/Test.toml"]).expect("they are valid");
        assert_eq!(accounts(&found), [(THREE.to_owned(), 1)]);
        assert_eq!(accounts(&setup(&dir, &[ANCHOR_FILE]).expect("valid")), accounts(&found));
        fs::remove_file(dir.path().join(ANCHOR_FILE)).expect("it is removed");
        assert!(accounts(&setup(&dir, &[]).expect("no file")).is_empty());
        assert_eq!(accounts(&setup(&dir, &["base/Other.toml"]).expect("valid")).len(), 1);
    }

    #[test]
    fn merging_reads_the_key_of_each_entry_once() {
        const ENTRIES: usize = 1_000;
        let reads = std::cell::Cell::new(0);
        let key = |entry: &(usize, &str)| {
            reads.set(reads.get() + 1);
            entry.0
        };
        let mut merged: Vec<_> = (0..ENTRIES).map(|n| (n, "first")).collect();
        let others = (ENTRIES / 2..2 * ENTRIES).rev().map(|n| (n, "second")).collect();
        replace(&mut merged, others, key);
        assert_eq!(reads.get(), ENTRIES + 3 * ENTRIES / 2);
        let (replaced, added) = merged.split_at(ENTRIES);
        let expected = |n: usize| (n, if n < ENTRIES / 2 { "first" } else { "second" });
        assert!(replaced.iter().copied().eq((0..ENTRIES).map(expected)));
        assert!(added.iter().copied().eq((ENTRIES..2 * ENTRIES).rev().map(expected)));
    }

    #[test]
    fn a_file_that_extends_itself_is_refused_with_its_chain() {
        let dir = workspace(&[
            ("tests/Test.toml", "extends = [\"a/A.toml\"]"),
            ("tests/a/A.toml", "extends = [\"../Test.toml\"]"),
            ("own/Test.toml", "extends = [\"Test.toml\"]"),
            ("twice/Test.toml", "extends = [\"A.toml\", \"A.toml\"]"),
            ("twice/A.toml", ""),
        ]);
        let refused = refusal(&dir, &["tests/Test.toml"]);
        assert!(refused.contains("a file extends itself: "), "{refused}");
        assert!(refused.contains("a/A.toml extends "), "{refused}");
        assert!(refusal(&dir, &["own"]).contains("a file extends itself: "));
        assert!(setup(&dir, &["twice"]).is_ok(), "two files may extend the same one");
    }

    #[test]
    fn a_missing_file_is_refused_with_the_entry_that_names_it() {
        let validator = "[[test.validator.";
        for (text, expected) in [
            (
                format!("[[test.genesis]]\naddress = \"{ONE}\"\nprogram = \"no.so\""),
                format!("[[test.genesis]] {ONE}: no program exists at "),
            ),
            (
                format!("{validator}account]]\naddress = \"{ONE}\"\nfilename = \"no.json\""),
                format!("[[test.validator.account]] {ONE}: no file exists at "),
            ),
            (
                format!("{validator}account_dir]]\ndirectory = \"no\""),
                "[[test.validator.account_dir]]: no directory exists at ".to_owned(),
            ),
            (
                format!("{validator}fund_accounts]]\naddress = \"x\""),
                "[[test.validator.fund_accounts]] \"x\"".to_owned(),
            ),
            (
                "[test.validator]\nfaucet_sol = \"much\"".to_owned(),
                "faucet_sol \"much\"".to_owned(),
            ),
            ("[test.validator]\nwarp_slot = -1".to_owned(), "a whole number from 0".to_owned()),
            ("[[test.genesis]]\naddress = \"x\"".to_owned(), "missing field `program`".to_owned()),
        ] {
            for path in [ANCHOR_FILE, "tests/Test.toml"] {
                let dir = workspace(&[(path, text.as_str())]);
                let test_files = if path == ANCHOR_FILE { &[][..] } else { &[path] };
                let refused = refusal(&dir, test_files);
                assert!(refused.contains(&expected), "{refused}");
            }
        }
        let dir = workspace(&[("tests/Test.toml", "extends = [\"none.toml\"]")]);
        let refused = refusal(&dir, &["tests/Test.toml"]);
        assert!(refused.contains("extends \"none.toml\": "), "{refused}");
        let refused = refusal(&dir, &["no/Test.toml"]);
        assert!(refused.contains("--anchor-test-config-path no/Test.toml: "), "{refused}");
    }

    #[test]
    fn a_setting_without_effect_has_a_line_that_says_why() {
        let names = [
            "bind_address",
            "dynamic_port_range",
            "geyser_plugin_config",
            "gossip_host",
            "gossip_port",
            "ledger",
            "limit_ledger_size",
            "mints",
            "rpc_port",
            "ticks_per_slot",
            "token_accounts",
        ];
        let settings = names.map(|name| format!("{name} = \"x\"\n")).concat();
        let text = format!("[test.validator]\n{settings}odd_name = 1\n");
        let dir = workspace(&[(ANCHOR_FILE, text.as_str())]);
        let lines = setup(&dir, &[]).expect("it is valid").lines;
        assert_eq!(lines.len(), names.len() + 1, "{lines:?}");
        for name in names {
            let line = format!("test.validator.{name} of Anchor.toml is ignored: ");
            let found = lines.iter().find(|it| it.starts_with(&line)).expect(name);
            assert!(!found.ends_with("it is not known"), "{found}");
        }
        assert!(lines.iter().any(|line| line.ends_with("it is not known")));
    }
}

//! The directory of a ledger: its lock, and its reset.
//!
//! A directory may have any other content, which is not read: `lost+found` of a file system, a ledger of Agave, files
//! of an editor. `ledger.lock` is locked while a ledger is open, as by `solana-test-validator`, so that neither program
//! changes a directory that the other one uses.
//! Invariant: a reset removes nothing before it has the lock, and follows no link out of the directory.
//! Not here: the files of the store, and its own lock (`ledger_store`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ledger_store::LedgerStore;
use store::durable_file;

use crate::error::LocalnetError;
use crate::keypairs::NodeKeypairs;

/// The store's directory within a ledger directory.
pub(crate) const STORE_DIR: &str = "store";
/// Agave's lock of a ledger directory.
const LOCK_FILE: &str = "ledger.lock";
/// The lock of the store, which names the process that has it.
const STORE_LOCK_FILE: &str = "lock";
/// The state of a followed chain, which is not removed with a local ledger.
const FOLLOWED_DIR: &str = "followed";
/// A file that only a ledger of Agave has.
const AGAVE_GENESIS_FILE: &str = "genesis.bin";
/// The log that Anchor writes into the ledger directory before it starts a validator.
const ANCHOR_LOG_FILE: &str = "test-ledger-log.txt";
/// The directory that a file system has at its root.
const LOST_FOUND_DIR: &str = "lost+found";

/// A lock on a ledger directory, held until it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// An entry of a directory that a reset could not remove, and which does not prevent a new ledger.
#[derive(Debug)]
pub struct NotRemoved {
    /// The name of the entry that was not removed.
    pub name: OsString,
    /// The error of the system call.
    pub err: io::Error,
}

impl DirectoryLock {
    /// Locks a directory, which is created if needed. Fails if it has the state of a followed chain.
    pub(crate) fn acquire(dir: &Path) -> Result<Self, LocalnetError> {
        check_directory(dir)?;
        durable_file::create_dir_all(dir).map_err(dir_error(dir))?;
        let path = dir.join(LOCK_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(dir_error(dir))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                Err(LocalnetError::InUse { dir: dir.display().to_string(), user: user(dir) })
            }
            Err(TryLockError::Error(err)) => Err(dir_error(dir)(err)),
        }
    }
}

/// Refuses a directory that has the state of a followed chain. It may not exist yet.
pub fn check_directory(dir: &Path) -> Result<(), LocalnetError> {
    if dir.join(FOLLOWED_DIR).is_dir() {
        return Err(LocalnetError::Followed { dir: dir.display().to_string() });
    }
    Ok(())
}

/// Whether a directory has a ledger of Agave.
pub fn contains_agave_ledger(dir: &Path) -> bool {
    dir.join(AGAVE_GENESIS_FILE).exists()
}

/// Removes the store and the keypairs of a ledger directory. Other files stay, and so do the keypairs if they are those
/// of a ledger of Agave, too. Fails before it removes anything if a process has the directory open.
pub fn reset_directory(dir: &Path) -> Result<(), LocalnetError> {
    let Some(_lock) = lock_existing(dir)? else { return Ok(()) };
    <LedgerStore>::remove(&dir.join(STORE_DIR))?;
    if contains_agave_ledger(dir) { Ok(()) } else { Ok(NodeKeypairs::remove(dir)?) }
}

/// Removes everything in a ledger directory, as `solana-test-validator --reset` does, except its lock, `lost+found` and
/// Anchor's log. Returns the entries that could not be removed. Fails before it removes anything if a process has the
/// directory open, or if the directory contains the working directory or the user's home, and fails if a file of the
/// ledger itself cannot be removed.
pub fn empty_directory(dir: &Path) -> Result<Vec<NotRemoved>, LocalnetError> {
    check_may_be_emptied(dir)?;
    let Some(_lock) = lock_existing(dir)? else { return Ok(Vec::new()) };
    let store = dir.join(STORE_DIR);
    let is_directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir());
    if is_directory(&store) && <LedgerStore>::is_in(&store).unwrap_or_default() {
        // Its lock is that of a version without a lock on the directory.
        <LedgerStore>::remove(&store)?;
    }
    let entries: Vec<_> = fs::read_dir(dir).and_then(Iterator::collect).map_err(dir_error(dir))?;
    let mut not_removed = Vec::new();
    for entry in entries.into_iter().filter(|entry| !is_retained(&entry.file_name())) {
        let path = entry.path();
        let removed =
            if is_directory(&path) { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(err) if err.kind() != ErrorKind::NotFound => {
                not_removed.push(NotRemoved { name: entry.file_name(), err });
            }
            _ => {}
        }
    }
    let is_own = |it: &NotRemoved| it.name == STORE_DIR || NodeKeypairs::is_file(&it.name);
    match not_removed.iter().position(is_own) {
        Some(own) => Err(dir_error(dir)(not_removed.swap_remove(own).err)),
        None => Ok(not_removed),
    }
}

/// Refuses a directory that is hardly a ledger's own: an empty variable in a script must not cost a user's files.
fn check_may_be_emptied(dir: &Path) -> Result<(), LocalnetError> {
    let Ok(found) = fs::canonicalize(dir) else { return Ok(()) };
    let working = std::env::current_dir().ok();
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let mut others = working.into_iter().chain(home).filter_map(|path| fs::canonicalize(path).ok());
    if others.any(|path| path.starts_with(&found)) {
        let why = "it contains the working directory or the home directory, so it is not emptied";
        return Err(dir_error(dir)(io::Error::new(ErrorKind::InvalidInput, why)));
    }
    Ok(())
}

/// Locks a directory. `None` if it does not exist.
fn lock_existing(dir: &Path) -> Result<Option<DirectoryLock>, LocalnetError> {
    match dir.try_exists() {
        Ok(false) => Ok(None),
        _ => DirectoryLock::acquire(dir).map(Some),
    }
}

fn is_retained(name: &OsStr) -> bool {
    [LOCK_FILE, LOST_FOUND_DIR, ANCHOR_LOG_FILE].iter().any(|retained| name == *retained)
}

/// Returns the name of the process that has a directory open, if the store's lock has it.
fn user(dir: &Path) -> String {
    let unknown = || "another process".to_owned();
    let path = dir.join(STORE_DIR).join(STORE_LOCK_FILE);
    let Ok(file) = OpenOptions::new().read(true).open(&path) else { return unknown() };
    // The name in a lock that is free is that of an earlier process.
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => fs::read_to_string(&path).unwrap_or_else(|_| unknown()),
        _ => unknown(),
    }
}

fn dir_error(dir: &Path) -> impl FnOnce(io::Error) -> LocalnetError {
    let dir = dir.display().to_string();
    |err| LocalnetError::Dir { dir, err }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_working_directory_and_the_home_are_not_emptied() {
        let working = std::env::current_dir().expect("a working directory");
        for dir in [working.as_path(), Path::new("."), Path::new("/")] {
            assert!(check_may_be_emptied(dir).is_err(), "{}", dir.display());
        }
        let other = tempfile::tempdir().expect("a directory");
        assert!(check_may_be_emptied(other.path()).is_ok());
        assert!(check_may_be_emptied(&other.path().join("none")).is_ok());
    }

    /// A directory as Agave, file systems, editors and scripts leave it, and a directory outside of it.
    fn used_directory(root: &Path) -> (PathBuf, PathBuf) {
        let dir = root.join("test-ledger");
        let outside = root.join("outside");
        for below in ["rocksdb", "accounts/run", "snapshots", "program-logs", LOST_FOUND_DIR] {
            fs::create_dir_all(dir.join(below)).expect("a directory");
        }
        fs::create_dir(&outside).expect("a directory");
        let files = [
            AGAVE_GENESIS_FILE,
            "rocksdb/CURRENT",
            "validator-1.log",
            "validator-keypair.json",
            ".gitkeep",
            ".DS_Store",
            ANCHOR_LOG_FILE,
        ];
        for file in files.map(|file| dir.join(file)).into_iter().chain([outside.join("kept")]) {
            fs::write(&file, "theirs").expect("the file is written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).expect("permissions");
        }
        symlink(&outside, dir.join("link")).expect("a link");
        symlink(outside.join("kept"), dir.join("validator.log")).expect("a link");
        symlink(&outside, dir.join(STORE_DIR)).expect("a link");
        (dir, outside)
    }

    fn names(dir: &Path) -> Vec<String> {
        let names =
            fs::read_dir(dir).expect("a directory").map(|entry| entry.map(|it| it.file_name()));
        let mut names: Vec<_> =
            names.map(|name| name.expect("an entry").to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_emptied_directory_keeps_what_its_links_name() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (dir, outside) = used_directory(root.path());
        let linked = root.path().join("linked");
        symlink(&dir, &linked).expect("a link");
        let not_removed = empty_directory(&linked).expect("it is emptied");
        assert!(not_removed.is_empty(), "{not_removed:?}");
        assert_eq!(names(&dir), [LOCK_FILE, LOST_FOUND_DIR, ANCHOR_LOG_FILE]);
        assert_eq!(names(&outside), ["kept"]);
        assert!(linked.is_symlink());
    }

    #[test]
    fn a_reset_leaves_a_ledger_of_agave_and_its_keys() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (dir, _) = used_directory(root.path());
        fs::remove_file(dir.join(STORE_DIR)).expect("a link is removed");
        let before = names(&dir);
        reset_directory(&dir).expect("it is reset");
        let mut expected = before;
        expected.push(LOCK_FILE.to_owned());
        expected.sort();
        assert_eq!(names(&dir), expected);
        fs::remove_file(dir.join(AGAVE_GENESIS_FILE)).expect("it is removed");
        reset_directory(&dir).expect("it is reset");
        assert!(!dir.join("validator-keypair.json").exists());
    }

    #[test]
    fn a_directory_in_use_is_refused_before_anything_is_removed() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (dir, _) = used_directory(root.path());
        let lock = DirectoryLock::acquire(&dir).expect("nobody has it");
        let before = names(&dir);
        for err in [empty_directory(&dir).err(), reset_directory(&dir).err()] {
            let err = err.expect("it is locked").to_string();
            assert!(err.contains("is in use by another process"), "{err}");
        }
        assert_eq!(names(&dir), before);
        drop(lock);
        fs::create_dir(dir.join(FOLLOWED_DIR)).expect("a directory");
        let followed = empty_directory(&dir).expect_err("it is of another command").to_string();
        assert!(followed.contains("hydrant follow"), "{followed}");
        fs::remove_dir(dir.join(FOLLOWED_DIR)).expect("it is removed");
        empty_directory(&dir).expect("it is free");
    }

    #[test]
    fn a_reset_creates_no_directory() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let dir = root.path().join("none");
        assert!(empty_directory(&dir).expect("there is nothing").is_empty());
        reset_directory(&dir).expect("there is nothing");
        assert!(!dir.exists());
    }
}

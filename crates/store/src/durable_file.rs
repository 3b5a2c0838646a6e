//! Files and directories that survive a power failure: their content is synced, and then the directory that names them.
//!
//! Shape: [`replace`] and [`replace_with_secret`] write a whole file. [`rename`] publishes a file that the caller wrote
//! under another name. [`sync_entry`] is for a new file that is appended to, [`create_dir_all`] for directories.
//! Invariant: after a power failure a replaced file has its old or its new content, and never a part of either.
//! Cost: two syncs of the disk for a file, one for a directory.
//! Not here: the engine's files (`engine`), and files that each start writes again.
//!
//! These files are durable. `cargo xtask tidy` refuses `fs::rename` elsewhere in the crates of a node.
//!
//! | file                                  | crate             | function              |
//! |---------------------------------------|-------------------|-----------------------|
//! | keypairs of a ledger                  | `localnet`        | `replace_with_secret` |
//! | mark of a ledger, `hydrant-ledger`    | `store`           | `sync_entry`          |
//! | directory of a ledger or of a cache   | `store`           | `create_dir_all`      |
//! | cache of another cluster's accounts   | `upstream_fork`   | `sync_entry`          |
//! | damaged end of that cache             | `upstream_fork`   | `replace`             |
//! | requests of the day by API key        | `hydrant`         | `replace`             |
//! | addresses of a node, `endpoints-file` | `hydrant`         | `replace`             |
//! | downloaded snapshot archive           | `follow`          | `rename`              |
//! | written snapshot archive              | `snapshot_solana` | `rename`              |
//! | UTXO set of a Kaspa chain             | `follow_kaspa`    | `rename`              |
//! | objects of a directory                | `depot`           | `sync_entry`          |

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Permissions of a file before the process' mask.
const MODE: u32 = 0o666;
/// Permissions of a file that only its owner may read.
const SECRET_MODE: u32 = 0o600;
/// Suffix of the name under which a file is written first.
const UNFINISHED_SUFFIX: &str = ".new";

/// Replaces the content of a file, or creates it.
///
/// # Errors
///
/// Those of the content and of the disk. The old content stays, unless only the last sync of the directory failed.
pub fn replace(path: &Path, content: impl Read) -> io::Result<()> {
    replace_with_mode(path, content, MODE)
}

/// Replaces the content of a file that only its owner may read.
///
/// # Errors
///
/// Those of [`replace`].
pub fn replace_with_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(path, content, SECRET_MODE)
}

fn replace_with_mode(path: &Path, mut content: impl Read, mode: u32) -> io::Result<()> {
    let mut unfinished = OsString::from(path);
    unfinished.push(UNFINISHED_SUFFIX);
    let unfinished = PathBuf::from(unfinished);
    // A file or link of an earlier call, or of another user, may have other permissions. Without one there is nothing to
    // remove, and if it cannot be removed, the new file cannot be created.
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut file = options.open(&unfinished)?;
    let replaced = io::copy(&mut content, &mut file).and_then(|_| rename(&file, &unfinished, path));
    if replaced.is_err() {
        // If it cannot be removed, the next call removes it.
        let _ = fs::remove_file(&unfinished);
    }
    replaced
}

/// Syncs a complete file and renames it, replacing any file of the new name. `from` is its current name.
///
/// # Errors
///
/// Those of the disk.
pub fn rename(file: &File, from: &Path, to: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(from, to)?;
    sync_entry(to)
}

/// Syncs the directory that names a file or a directory. The caller syncs the content of the file.
///
/// # Errors
///
/// Those of the disk.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Creates a directory and its missing parents.
///
/// # Errors
///
/// Those of the disk.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(dir)?;
    missing.into_iter().try_for_each(sync_entry)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Content whose second half cannot be read.
    struct BrokenContent {
        is_at_end: bool,
    }

    impl Read for BrokenContent {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.is_at_end, true) {
                return Err(io::Error::other("broken"));
            }
            into[0] = b'x';
            Ok(1)
        }
    }

    fn names(dir: &Path) -> Vec<OsString> {
        fs::read_dir(dir).expect("a directory").flatten().map(|it| it.file_name()).collect()
    }

    #[test]
    fn a_file_has_its_old_content_or_its_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        replace(&path, &b"a long first content"[..]).expect("it is created");
        replace(&path, &b"second"[..]).expect("it is replaced");
        replace(&path, BrokenContent { is_at_end: false }).expect_err("it is broken");
        assert_eq!(fs::read(&path).expect("it exists"), b"second");
        assert_eq!(names(dir.path()), ["file"], "nothing unfinished stays");
        fs::create_dir(dir.path().join("file.new")).expect("it is created");
        replace(&path, &b"third"[..]).expect_err("the other name is a directory");
        assert_eq!(fs::read(&path).expect("it exists"), b"second");
    }

    #[test]
    fn only_its_owner_may_read_a_secret() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        let unfinished = dir.path().join("key.new");
        let check = |secret: &[u8]| {
            replace_with_secret(&path, secret).expect("it is replaced");
            let mode = fs::metadata(&path).expect("it exists").permissions().mode();
            assert_eq!(mode & 0o777, SECRET_MODE);
            assert_eq!(fs::read(&path).expect("its owner may read it"), secret);
            assert!(!unfinished.exists());
        };
        check(b"first");
        // An unfinished file that all may read, and a link to another file.
        fs::write(&unfinished, b"an earlier part").expect("it is created");
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o666)).expect("it is ours");
        check(b"second");
        let other = dir.path().join("other");
        fs::write(&other, b"other").expect("it is created");
        std::os::unix::fs::symlink(&other, &unfinished).expect("it is created");
        check(b"third");
        assert_eq!(fs::read(&other).expect("it exists"), b"other");
    }

    #[test]
    fn directories_are_created_with_their_parents_and_may_exist() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("a/b/c");
        for _ in 0..2 {
            create_dir_all(&inner).expect("it is created or exists");
        }
        replace(&inner.join("file"), &b"x"[..]).expect("it is created");
        create_dir_all(&inner.join("file/d")).expect_err("a file is not a directory");
    }
}

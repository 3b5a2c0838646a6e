//! The file of API keys (`--api-keys`), which is read at the start and again whenever it changes. The requests of the day
//! are stored in a second file ([`crate::api_key_usage`]).
//!
//! Invariant: a file that cannot be read or is not valid changes nothing. It is logged and counted.
//! Bounds: [`FILE_BYTES_MAX`]. The file's time, length and number are compared once a second.
//! Not here: the format of the file (`api_keys`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use api_keys::{ApiKeys, KeyFile, KeyNumber};
use tokio::time::MissedTickBehavior;

use crate::api_key_usage::UsageFile;

/// Bytes of a file: about 200 for each of 100,000 keys.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Interval of the checks of the file, and of the updates of the clock of daily quotas.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds between two writes of the requests of the day, if they have changed. A crash loses at most these.
const STORE_SECONDS: u64 = 10;

/// The file, and the keys that were read from it.
#[derive(Clone)]
pub(crate) struct ApiKeyFile {
    path: PathBuf,
    keys: Arc<ApiKeys>,
    read: Option<FileVersion>,
    usage: Option<Arc<UsageFile>>,
}

/// The metadata that differ if a file was written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    modified_ns: (i64, i64),
    len: u64,
    inode: u64,
}

impl ApiKeyFile {
    /// Opens the file, and reads the keys.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let version = file_version(path);
        let file = read(path)?;
        let keys = Arc::new(ApiKeys::new(file, unix_s()));
        Ok(Self { path: path.to_owned(), keys, read: version, usage: None })
    }

    /// Restores the requests of the day from the file in the ledger's directory, or else from the one next to the file of
    /// keys. Later requests are stored in the same file.
    pub(crate) fn restore_usage(&mut self, ledger: Option<&Path>) {
        let file = UsageFile::new(ledger, &self.path);
        file.restore(&self.keys);
        self.usage = Some(Arc::new(file));
    }

    /// Stores the requests of the day, before the process ends.
    pub(crate) fn store_usage(&self) {
        if let Some(usage) = &self.usage {
            usage.store(&self.keys);
        }
    }

    /// The keys, which every server shares.
    pub(crate) fn keys(&self) -> Arc<ApiKeys> {
        Arc::clone(&self.keys)
    }

    /// Reads the file again if it has changed. Returns the removed keys.
    pub(crate) fn reload_if_changed(&mut self) -> Vec<KeyNumber> {
        let version = file_version(&self.path);
        if version == self.read {
            return Vec::new();
        }
        self.read = version;
        match read(&self.path) {
            Ok(file) => {
                let reload = self.keys.reload(file);
                let keys = reload.keys;
                let removed = reload.removed.len();
                tracing::info!(keys, removed, "the API keys were read again");
                reload.removed
            }
            Err(err) => {
                self.keys.record_failed_reload();
                tracing::error!("the API keys are unchanged, their file is not valid: {err:#}");
                Vec::new()
            }
        }
    }

    /// Reads the file again whenever it changes, and never returns. `on_removed` closes the connections of removed keys.
    pub(crate) async fn watch(mut self, on_removed: impl Fn(&[KeyNumber])) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for second in 1_u64.. {
            poll.tick().await;
            self.keys.set_unix_time(unix_s());
            let mut file = self.clone();
            let is_stored = second % STORE_SECONDS == 0;
            // Some ten thousand keys take milliseconds.
            let reloaded = tokio::task::spawn_blocking(move || {
                if is_stored {
                    file.store_usage();
                }
                let removed = file.reload_if_changed();
                (file, removed)
            });
            match reloaded.await {
                Ok((file, removed)) => {
                    self = file;
                    if !removed.is_empty() {
                        on_removed(&removed);
                    }
                }
                Err(err) => tracing::error!(%err, "the API keys could not be read again"),
            }
        }
    }
}

fn read(path: &Path) -> Result<KeyFile> {
    let text = input_file::read(path, FILE_BYTES_MAX).context("--api-keys")?;
    let in_file = || format!("--api-keys {}", path.display());
    let text = String::from_utf8(text).ok().context("not UTF-8").with_context(in_file)?;
    KeyFile::parse(&text).with_context(in_file)
}

fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = fs::metadata(path).ok()?;
    let modified_ns = (metadata.mtime(), metadata.mtime_nsec());
    Some(FileVersion { modified_ns, len: metadata.len(), inode: metadata.ino() })
}

/// Returns the seconds since 1970, for daily quotas.
#[expect(clippy::disallowed_methods, reason = "only the program reads the clock")]
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use api_keys::{Credentials, KeyHash};

    use super::*;

    fn entry(key: &str) -> String {
        let hash = KeyHash::of_key(key.as_bytes());
        format!("[[keys]]\nname = \"{key}\"\nsha256 = \"{hash}\"\ntier = \"t\"\n")
    }

    fn is_valid(keys: &ApiKeys, key: &str) -> bool {
        let credentials = Credentials { key: Some(key.as_bytes()), ..Credentials::default() };
        keys.authenticate(&credentials, 1, Duration::ZERO).is_ok()
    }

    #[test]
    fn a_changed_file_is_read_again_and_one_that_is_not_valid_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("keys.toml");
        fs::write(&path, format!("[tiers.t]\n{}", entry("one"))).expect("it is written");
        let mut file = ApiKeyFile::open(&path).expect("it is valid");
        let keys = file.keys();
        assert!(file.reload_if_changed().is_empty());
        assert_eq!(keys.reloads(), (0, 0), "it has not changed");
        fs::write(&path, format!("[tiers.t]\n{}{}", entry("two"), entry("one"))).expect("written");
        assert!(file.reload_if_changed().is_empty());
        assert!(is_valid(&keys, "one") && is_valid(&keys, "two"));

        // Garbage, not UTF-8, a directory, and no file at all.
        fs::write(&path, "garbage").expect("it is written");
        assert!(file.reload_if_changed().is_empty());
        fs::write(&path, [0xff; 100]).expect("it is written");
        assert!(file.reload_if_changed().is_empty());
        fs::remove_file(&path).expect("it is removed");
        assert!(file.reload_if_changed().is_empty());
        fs::create_dir(&path).expect("it is created");
        assert!(file.reload_if_changed().is_empty());
        assert_eq!(keys.reloads(), (1, 4));
        assert!(is_valid(&keys, "one") && is_valid(&keys, "two"));

        fs::remove_dir(&path).expect("it is removed");
        fs::write(&path, format!("[tiers.t]\n{}", entry("two"))).expect("it is written");
        assert_eq!(file.reload_if_changed().len(), 1);
        assert!(!is_valid(&keys, "one") && is_valid(&keys, "two"));
    }

    #[test]
    fn a_file_that_is_not_valid_ends_the_start_with_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("keys.toml");
        let refusal = |path: &Path| match ApiKeyFile::open(path) {
            Ok(_) => panic!("it was read"),
            Err(err) => format!("{err:#}"),
        };
        assert!(
            refusal(&path).contains("--api-keys: ") && refusal(&path).contains("keys.toml: No")
        );
        assert!(refusal(dir.path()).contains("a directory, not a regular file"));
        fs::write(&path, "[[keys]]\nname = \"a\"\n").expect("it is written");
        assert!(refusal(&path).contains("keys.toml: line 1: missing field"), "{}", refusal(&path));
    }
}

//! The file with the requests of the day by API key, so that daily quotas survive a restart.
//!
//! Shape: replaced whole, as a durable file, if the requests have changed since.
//! Bounds: [`FILE_BYTES_MAX`]; 84 bytes for each key that was used today.
//! Invariant: a file that cannot be read, is not valid or cannot be written does not prevent the node from serving. The
//! loss is logged.
//! Not here: the format of the file (`api_keys`), the times of its writes (`api_key_file`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use api_keys::ApiKeys;
use store::durable_file;

/// Bytes of a file: those of 100,000 keys.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Its name in the directory of a ledger.
const IN_LEDGER: &str = "api-key-usage";
/// Suffix that is added to the name of the file of keys.
const USAGE_SUFFIX: &str = ".usage";

/// The file with the requests of the day.
pub(crate) struct UsageFile {
    path: PathBuf,
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    /// The end of the last text that was written: its checksum.
    checksum: String,
    /// The last attempt failed, and the log has said so.
    has_failed: bool,
}

impl UsageFile {
    /// Places the file in the directory of the ledger, or next to the file of keys if the ledger is in memory.
    pub(crate) fn new(ledger: Option<&Path>, keys: &Path) -> Self {
        let beside = || {
            let mut name = OsString::from(keys);
            name.push(USAGE_SUFFIX);
            PathBuf::from(name)
        };
        let path = ledger.map_or_else(beside, |dir| dir.join(IN_LEDGER));
        Self { path, state: Mutex::default() }
    }

    /// Restores the stored requests. Without a file, quotas start at zero.
    pub(crate) fn restore(&self, keys: &ApiKeys) {
        match self.read(keys) {
            Ok(None) => {}
            Ok(Some(restored)) => {
                tracing::info!(keys = restored, "the requests of the day were restored");
            }
            Err(err) => {
                tracing::warn!("the daily quotas of API keys start at zero: {err:#}");
            }
        }
    }

    fn read(&self, keys: &ApiKeys) -> Result<Option<usize>> {
        if !self.path.try_exists().with_context(|| self.path.display().to_string())? {
            return Ok(None);
        }
        let bytes = input_file::read(&self.path, FILE_BYTES_MAX)?;
        let text = String::from_utf8(bytes).ok().context("not UTF-8");
        let restored = text.and_then(|text| Ok(keys.restore_daily_usage(&text)?));
        restored.map(Some).with_context(|| self.path.display().to_string())
    }

    /// Stores the requests of the day, if they have changed.
    pub(crate) fn store(&self, keys: &ApiKeys) {
        // The text is made under the lock, so that a newer one is never replaced by an older one.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let text = keys.daily_usage();
        let checksum = text.lines().next_back().unwrap_or_default();
        if state.checksum == checksum {
            return;
        }
        match durable_file::replace(&self.path, text.as_bytes()) {
            Ok(()) => *state = StoreState { checksum: checksum.to_owned(), has_failed: false },
            Err(err) => {
                if !std::mem::replace(&mut state.has_failed, true) {
                    let path = self.path.display();
                    tracing::warn!(
                        "daily quotas of API keys would start at zero after a restart, because they cannot be stored: \
                         {path}: {err}"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use api_keys::{Caller, Charge, Credentials, KeyFile, KeyHash};

    use super::*;

    /// Noon of 2026-11-24.
    const NOON: u64 = 1_795_478_400 + 43_200;

    fn keys() -> ApiKeys {
        let hash = KeyHash::of_key(b"one");
        let text = format!(
            "[tiers.t]\nrequests_per_day = 3\n[[keys]]\nname = \"a\"\nsha256 = \"{hash}\"\ntier = \"t\"\n"
        );
        ApiKeys::new(KeyFile::parse(&text).expect("it is valid"), NOON)
    }

    /// Sends four requests, and returns the number of admitted ones.
    fn count_admitted(keys: &ApiKeys) -> usize {
        let credentials = Credentials { key: Some(b"one"), ..Credentials::default() };
        let number = keys.authenticate(&credentials, 1, Duration::ZERO).expect("it is valid");
        let caller = Caller::Key(number.expect("a key"));
        let charge = || keys.admit(caller, Charge::requests(1), std::iter::empty(), Duration::ZERO);
        (0..4).filter(|_| charge().is_ok()).count()
    }

    #[test]
    fn the_file_is_in_the_ledger_or_beside_the_keys() {
        let path = |ledger| UsageFile::new(ledger, Path::new("/etc/keys.toml")).path;
        assert_eq!(path(Some(Path::new("/ledger"))), Path::new("/ledger/api-key-usage"));
        assert_eq!(path(None), Path::new("/etc/keys.toml.usage"));
    }

    #[test]
    fn what_was_stored_is_restored_and_a_file_that_is_not_valid_restores_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = UsageFile::new(Some(dir.path()), Path::new("unused"));
        let before = keys();
        file.restore(&before);
        assert_eq!(count_admitted(&before), 3, "there is no file yet");
        file.store(&before);
        let stored = fs::read(&file.path).expect("it was stored");
        let after = keys();
        file.restore(&after);
        assert_eq!(count_admitted(&after), 0);

        let no_more = u64::try_from(stored.len()).expect("it is short");
        assert!(no_more < FILE_BYTES_MAX / 100_000 * 2, "{no_more} bytes for one key");
        for garbage in [&stored[..stored.len() / 2], &[0xff; 100], b"", &[b'x'; 17 << 20]] {
            fs::write(&file.path, garbage).expect("it is written");
            let after = keys();
            file.restore(&after);
            assert_eq!(count_admitted(&after), 3);
        }
        fs::remove_file(&file.path).expect("it is removed");
        fs::create_dir(&file.path).expect("it is created");
        let after = keys();
        file.restore(&after);
        assert_eq!(count_admitted(&after), 3);
        // It cannot be replaced by a file. The node serves all the same.
        let file = UsageFile::new(Some(dir.path()), Path::new("unused"));
        file.store(&after);
        assert!(file.state.lock().expect("not poisoned").has_failed);
    }

    #[test]
    fn only_a_change_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = UsageFile::new(Some(dir.path()), Path::new("unused"));
        let keys = keys();
        file.store(&keys);
        fs::remove_file(&file.path).expect("it was stored");
        file.store(&keys);
        assert!(!file.path.exists());
        count_admitted(&keys);
        file.store(&keys);
        assert!(file.path.exists());
    }
}

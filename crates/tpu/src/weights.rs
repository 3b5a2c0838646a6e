//! The file of identities and weights.
//!
//! Shape: a line is a public key and a weight from 1 to 1,000,000; a comment starts with `#`.
//! Bounds: 100,000 lines. A file that cannot be read or has a bad line changes nothing, and is logged.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use foldhash::quality::RandomState;
use input_file::InputFileError;
use solana_pubkey::Pubkey;

/// Bytes of a file of weights.
pub const WEIGHTS_BYTES_MAX: u64 = 64 << 20;
/// Maximum lines that are read.
const LINES_MAX: usize = 100_000;
/// The highest valid weight.
const WEIGHT_MAX: u32 = 1_000_000;

/// Weights of identities in the file.
pub(crate) type Weights = HashMap<Pubkey, u32, RandomState>;

/// Why a weights file is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file could not be read.
    #[error("quic.weights")]
    File(#[from] InputFileError),
    /// A line is not `PUBKEY WEIGHT`.
    #[error("{path}, line {line}: a public key and a weight from 1 to 1000000 are expected")]
    Line {
        /// Path of the weights file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// The file has too many lines.
    #[error("{path} has more than 100000 lines (quic.weights)")]
    TooLong {
        /// Path of the weights file.
        path: PathBuf,
    },
}

/// Reads and checks a weights file.
pub(crate) fn read(path: &Path) -> Result<Weights, WeightsError> {
    let text = input_file::read_text(path, WEIGHTS_BYTES_MAX)?;
    let mut weights = Weights::default();
    for (at, line) in text.lines().enumerate() {
        if at == LINES_MAX {
            return Err(WeightsError::TooLong { path: path.to_owned() });
        }
        let line_text = line.split('#').next().unwrap_or_default().trim();
        if line_text.is_empty() {
            continue;
        }
        let entry = parse(line_text)
            .ok_or_else(|| WeightsError::Line { path: path.to_owned(), line: at + 1 })?;
        weights.insert(entry.0, entry.1);
    }
    Ok(weights)
}

fn parse(line: &str) -> Option<(Pubkey, u32)> {
    let (pubkey, weight) = line.split_once(char::is_whitespace)?;
    let weight = weight.trim().parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight))?;
    Some((pubkey.parse().ok()?, weight))
}

/// A weights file that may change.
pub(crate) struct WeightsFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl WeightsFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        let seen = modified_at(&path);
        Self { path, seen }
    }

    /// Returns the weights if the file has changed since the last call.
    pub(crate) fn reload_if_changed(&mut self) -> Option<Weights> {
        let modified = modified_at(&self.path);
        if modified == self.seen {
            return None;
        }
        self.seen = modified;
        match read(&self.path) {
            Ok(weights) => {
                tracing::info!(identities = weights.len(), "weights read again");
                Some(weights)
            }
            Err(err) => {
                tracing::warn!(
                    err = &err as &dyn std::error::Error,
                    "the weights file is invalid; the weights are unchanged"
                );
                None
            }
        }
    }
}

fn modified_at(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_comments_are_read_and_a_bad_line_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weights");
        let key = Pubkey::new_from_array([5; 32]);
        fs::write(&path, format!("# ours\n\n{key}\t30 # thirty\n")).expect("written");
        assert_eq!(read(&path).expect("good").get(&key), Some(&30));
        for bad in ["x 1", &format!("{key}"), &format!("{key} 0"), &format!("{key} many")] {
            fs::write(&path, format!("\n{bad}\n")).expect("written");
            let err = read(&path).map(|_| ()).map_err(|err| err.to_string());
            assert!(err.is_err_and(|err| err.contains("line 2")), "{bad}");
        }
        assert!(matches!(read(&dir.path().join("none")), Err(WeightsError::File(_))));
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_bad_one_is_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weights");
        let key = Pubkey::new_from_array([5; 32]);
        fs::write(&path, format!("{key} 3")).expect("written");
        let mut file = WeightsFile::new(path.clone());
        assert!(file.reload_if_changed().is_none());
        fs::write(&path, format!("{key} 345")).expect("written");
        assert_eq!(file.reload_if_changed().expect("read").get(&key), Some(&345));
        fs::write(&path, "nonsense!").expect("written");
        assert!(file.reload_if_changed().is_none());
    }
}

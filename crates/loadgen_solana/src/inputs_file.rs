//! Inputs in a file, so that several endpoints get the same requests.
//!
//! Shape: one JSON object with the members of [`Inputs`]. An unknown or a missing member is an error; only
//! `program` may be absent. Otherwise a file that is not one of inputs would be read as empty.

use std::io;
use std::path::{Path, PathBuf};

use crate::Inputs;

/// Why a file of inputs cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputsFileError {
    /// The file cannot be read or written. Fix: name another path.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file has no inputs. Fix: write it with `hydrant bench --inputs-out`.
    #[error("{path}: not a file of inputs: {source}", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error with its line and column.
        source: serde_json::Error,
    },
    /// The file has empty lists only. Fix: discover from an endpoint that has data.
    #[error("{path}: no inputs", path = .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Inputs {
    /// Reads inputs that [`Inputs::write`] wrote.
    pub fn read(path: &Path) -> Result<Self, InputsFileError> {
        let text = std::fs::read(path)
            .map_err(|source| InputsFileError::File { path: path.to_owned(), source })?;
        let inputs: Self = serde_json::from_slice(&text)
            .map_err(|source| InputsFileError::Format { path: path.to_owned(), source })?;
        if inputs.is_empty() {
            return Err(InputsFileError::Empty { path: path.to_owned() });
        }
        Ok(inputs)
    }

    /// Writes the inputs to a file.
    pub fn write(&self, path: &Path) -> Result<(), InputsFileError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|source| InputsFileError::Format { path: path.to_owned(), source })?;
        std::fs::write(path, text)
            .map_err(|source| InputsFileError::File { path: path.to_owned(), source })
    }

    fn is_empty(&self) -> bool {
        let Self {
            accounts,
            owners,
            mints,
            delegates,
            blocks,
            slots,
            signatures,
            transactions,
            program,
        } = self;
        let lists = [accounts, owners, mints, delegates, signatures, transactions];
        let has_slots = !blocks.is_empty() || *slots != (0, 0);
        lists.into_iter().all(Vec::is_empty) && !has_slots && program.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch_file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hydrant-inputs-{}-{name}", std::process::id()))
    }

    fn error_for(name: &str, text: &str) -> String {
        let path = scratch_file(name);
        std::fs::write(&path, text).expect("a scratch file");
        let err = Inputs::read(&path).expect_err("it has no inputs").to_string();
        std::fs::remove_file(&path).expect("it exists");
        err
    }

    #[test]
    fn written_inputs_are_read_again() {
        let inputs = Inputs {
            accounts: vec!["A".to_owned()],
            owners: vec!["O".to_owned()],
            mints: vec!["M".to_owned()],
            delegates: vec!["D".to_owned()],
            blocks: vec![7],
            slots: (5, 9),
            signatures: vec!["S".to_owned()],
            transactions: vec!["T".to_owned()],
            program: Some("P".to_owned()),
        };
        let path = scratch_file("round-trip");
        inputs.write(&path).expect("a scratch file");
        assert_eq!(Inputs::read(&path).expect("inputs"), inputs);
        std::fs::remove_file(&path).expect("it exists");
    }

    #[test]
    fn a_file_without_inputs_is_refused_with_the_reason() {
        let missing = Inputs::read(Path::new("/no/such/file")).expect_err("no file").to_string();
        assert!(missing.starts_with("/no/such/file: No such file"), "{missing}");

        let text = error_for("text", "accounts");
        assert!(text.contains("not a file of inputs: expected value at line 1"), "{text}");
        let unknown = error_for("unknown", r#"{ "rows": [] }"#);
        assert!(unknown.contains("unknown field `rows`"), "{unknown}");
        let partial = error_for("partial", r#"{ "accounts": ["A"] }"#);
        assert!(partial.contains("missing field"), "{partial}");

        let empty = serde_json::to_string(&Inputs::default()).expect("JSON");
        let empty = error_for("empty", &empty);
        assert!(empty.ends_with("-empty: no inputs"), "{empty}");
    }
}

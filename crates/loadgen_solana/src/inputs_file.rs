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
    /// The file cannot be written. Fix: name another path.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        err: io::Error,
    },
    /// The text has no inputs. Fix: write the file with `hydrant bench --inputs-out`.
    #[error("not a file of inputs")]
    Format(#[source] serde_json::Error),
    /// The text has empty lists only. Fix: discover from an endpoint that has data.
    #[error("no inputs")]
    Empty,
}

impl Inputs {
    /// Parses the content of a file that [`Inputs::write`] wrote.
    pub fn parse(text: &[u8]) -> Result<Self, InputsFileError> {
        let inputs: Self = serde_json::from_slice(text).map_err(InputsFileError::Format)?;
        if inputs.is_empty() {
            return Err(InputsFileError::Empty);
        }
        Ok(inputs)
    }

    /// Writes the inputs to a file.
    pub fn write(&self, path: &Path) -> Result<(), InputsFileError> {
        let text = serde_json::to_string_pretty(self).map_err(InputsFileError::Format)?;
        std::fs::write(path, text)
            .map_err(|err| InputsFileError::File { path: path.to_owned(), err })
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

    /// The error with its causes, as a program prints it.
    fn error_for(text: &str) -> String {
        let err = Inputs::parse(text.as_bytes()).expect_err("it has no inputs");
        let cause = std::error::Error::source(&err).map(|cause| format!(": {cause}"));
        format!("{err}{}", cause.unwrap_or_default())
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
        let path = std::env::temp_dir().join(format!("hydrant-inputs-{}", std::process::id()));
        inputs.write(&path).expect("a scratch file");
        let text = std::fs::read(&path).expect("it was written");
        std::fs::remove_file(&path).expect("it exists");
        assert_eq!(Inputs::parse(&text).expect("inputs"), inputs);
        let err = inputs.write(Path::new("/no/such/file")).expect_err("no directory");
        assert_eq!(err.to_string(), "/no/such/file", "the reason is its source");
    }

    #[test]
    fn a_text_without_inputs_is_refused_with_the_reason() {
        let text = error_for("accounts");
        assert!(text.starts_with("not a file of inputs: expected value at line 1"), "{text}");
        let unknown = error_for(r#"{ "rows": [] }"#);
        assert!(unknown.contains("unknown field `rows`"), "{unknown}");
        let partial = error_for(r#"{ "accounts": ["A"] }"#);
        assert!(partial.contains("missing field"), "{partial}");
        let empty = serde_json::to_string(&Inputs::default()).expect("JSON");
        assert_eq!(error_for(&empty), "no inputs");
    }
}

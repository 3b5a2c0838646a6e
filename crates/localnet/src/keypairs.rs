//! The node's keypairs: generated at genesis, stored in the ledger directory under the file names of
//! `solana-test-validator`.

use std::fs;
use std::path::{Path, PathBuf};

use solana_keypair::Keypair;
use store::durable_file;

/// The node's keypairs.
pub struct NodeKeypairs {
    /// The leader of every slot. Signs and pays for votes.
    pub identity: Keypair,
    /// The validator's vote account.
    pub vote_account: Keypair,
    /// The stake that makes it a validator.
    pub stake_account: Keypair,
    /// Pays airdrops.
    pub faucet: Keypair,
}

/// An unreadable or invalid keypair file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It could not be read or written.
    #[error("keypair file {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        #[source]
        err: std::io::Error,
    },
    /// It is a directory, a device, a named pipe or a socket. None of them is read: a pipe may block forever.
    #[error("keypair file {path}: not a regular file")]
    NotRegular {
        /// Which file.
        path: PathBuf,
    },
    /// The file contains something else.
    #[error(
        "{path} is not a keypair file: {reason} (64 numbers from 0 to 255 in a JSON array are expected)"
    )]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// The reason, without the path.
        reason: String,
    },
    /// The numbers of the file are not those of one key.
    #[error("{path} is not a keypair file: its public half does not belong to its secret half")]
    Mismatched {
        /// Which file.
        path: PathBuf,
    },
}

/// Bytes of a keypair: 32 of the secret half, 32 of the public one.
const KEYPAIR_BYTES: usize = 64;

/// The keypair files of a ledger directory.
const FILES: [&str; 4] = [
    "validator-keypair.json",
    "vote-account-keypair.json",
    "stake-account-keypair.json",
    "faucet-keypair.json",
];

impl NodeKeypairs {
    /// Generates new keypairs.
    pub fn generate() -> Self {
        Self {
            identity: Keypair::new(),
            vote_account: Keypair::new(),
            stake_account: Keypair::new(),
            faucet: Keypair::new(),
        }
    }

    /// Returns the keypairs of a new ledger: the existing ones of its directory, and new ones. Nothing is written.
    pub(crate) fn for_new_ledger(dir: Option<&Path>) -> Result<Self, KeyError> {
        let mut keypairs = Self::generate();
        let Some(dir) = dir else { return Ok(keypairs) };
        for (path, keypair) in FILES.map(|file| dir.join(file)).iter().zip(keypairs.each_mut()) {
            if path.exists() {
                *keypair = read_keypair(path)?;
            }
        }
        Ok(keypairs)
    }

    /// Reads the keypairs of a ledger directory.
    pub fn read(dir: &Path) -> Result<Self, KeyError> {
        let [identity, vote_account, stake_account, faucet] =
            FILES.map(|file| read_keypair(&dir.join(file)));
        Ok(Self {
            identity: identity?,
            vote_account: vote_account?,
            stake_account: stake_account?,
            faucet: faucet?,
        })
    }

    /// Writes the keypairs to a ledger directory. A file that exists stays as it is.
    pub fn write(&self, dir: &Path) -> Result<(), KeyError> {
        let keypairs = [&self.identity, &self.vote_account, &self.stake_account, &self.faucet];
        let mut files = FILES.map(|file| dir.join(file)).into_iter().zip(keypairs);
        files.try_for_each(|(path, keypair)| match path.exists() {
            true => Ok(()),
            false => write_keypair(&path, keypair),
        })
    }

    /// Returns the keypairs in the order of [`FILES`].
    fn each_mut(&mut self) -> [&mut Keypair; 4] {
        [&mut self.identity, &mut self.vote_account, &mut self.stake_account, &mut self.faucet]
    }

    /// Whether a file name is that of one of the keypairs.
    pub(crate) fn is_file(name: &std::ffi::OsStr) -> bool {
        FILES.iter().any(|file| *file == name)
    }

    /// Removes the keypairs of a ledger directory, if there are any.
    pub(crate) fn remove(dir: &Path) -> Result<(), KeyError> {
        for path in FILES.map(|file| dir.join(file)) {
            match fs::remove_file(&path) {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                    return Err(KeyError::Io { path, err });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a keypair as `solana-keygen` writes it, and as Agave reads it: numbers may have leading zeros. Reads only a
/// regular file.
pub fn read_keypair(path: &Path) -> Result<Keypair, KeyError> {
    let path = path.to_path_buf();
    let text = match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => return Err(KeyError::NotRegular { path }),
        Ok(_) => fs::read(&path),
        Err(err) => Err(err),
    };
    let text = match text {
        Ok(text) => text,
        Err(err) => return Err(KeyError::Io { path, err }),
    };
    solana_keypair::read_keypair(&mut text.as_slice()).map_err(|err| {
        match parse_numbers(&text) {
            // Only the check of the key is left.
            Some(_) => KeyError::Mismatched { path },
            None => KeyError::Malformed { path, reason: err.to_string() },
        }
    })
}

/// The numbers of a keypair's file, whatever key they are.
fn parse_numbers(text: &[u8]) -> Option<[u8; KEYPAIR_BYTES]> {
    let list = std::str::from_utf8(text).ok()?.trim();
    let list = list.strip_prefix('[')?.strip_suffix(']')?;
    let numbers: Vec<u8> =
        list.split(',').map(|number| number.trim().parse()).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

fn write_keypair(path: &Path, keypair: &Keypair) -> Result<(), KeyError> {
    let text = serde_json::to_vec(&keypair.to_bytes().to_vec()).unwrap_or_default();
    durable_file::replace_with_secret(path, &text)
        .map_err(|err| KeyError::Io { path: path.to_path_buf(), err })
}

#[cfg(test)]
mod tests {
    use super::*;
    use solana_signer::Signer;

    #[test]
    fn keypairs_round_trip_and_only_their_owner_may_read_them() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keypairs = NodeKeypairs::generate();
        keypairs.write(dir.path()).expect("keypairs are written");
        let read = NodeKeypairs::read(dir.path()).expect("keypairs are read");
        assert_eq!(read.faucet.pubkey(), keypairs.faucet.pubkey());
        use std::os::unix::fs::PermissionsExt;
        let file = dir.path().join("faucet-keypair.json");
        let mode = fs::metadata(&file).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o077, 0);
        fs::write(&file, "[1,2,3]").expect("the file is overwritten");
        let err = NodeKeypairs::read(dir.path()).err().map(|err| err.to_string());
        assert!(err.is_some_and(|err| err.contains("is not a keypair file")));
    }

    #[test]
    fn a_new_ledger_takes_over_the_keys_that_its_directory_has() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let old = NodeKeypairs::generate();
        write_keypair(&dir.path().join(FILES[3]), &old.faucet).expect("it is written");
        let new = NodeKeypairs::for_new_ledger(Some(dir.path())).expect("they are read");
        assert_eq!(new.faucet.pubkey(), old.faucet.pubkey());
        new.write(dir.path()).expect("the others are written");
        let read = NodeKeypairs::read(dir.path()).expect("they are read");
        assert_eq!(read.identity.pubkey(), new.identity.pubkey());
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), FILES.len());
        fs::write(dir.path().join(FILES[0]), "theirs").expect("the file is overwritten");
        assert!(NodeKeypairs::for_new_ledger(Some(dir.path())).is_err(), "it is not replaced");
    }

    #[test]
    fn a_pipe_in_place_of_a_keypair_is_refused_without_a_read() {
        for file in FILES {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let pipe = dir.path().join(file);
            let status = std::process::Command::new("mkfifo").arg(&pipe).status();
            assert!(status.expect("mkfifo runs").success());
            let err = NodeKeypairs::for_new_ledger(Some(dir.path())).err();
            let message = err.expect("it is refused").to_string();
            assert!(message.ends_with(&format!("{file}: not a regular file")), "{message}");
        }
    }

    #[test]
    fn a_keypair_file_is_read_as_agave_reads_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("id.json");
        let key = Keypair::new();
        let bytes = key.to_bytes();
        let padded: Vec<String> = bytes.iter().map(|byte| format!("{byte:03}")).collect();
        fs::write(&path, format!("[{}]\n", padded.join(", "))).expect("it is written");
        assert_eq!(read_keypair(&path).expect("leading zeros").pubkey(), key.pubkey());
        let error = |text: &str| {
            fs::write(&path, text).expect("it is written");
            read_keypair(&path).expect_err("it is not a keypair").to_string()
        };
        let halves = [&bytes[..32], &Keypair::new().to_bytes()[32..]].concat();
        let mixed = error(&serde_json::to_string(&halves).expect("numbers"));
        assert!(mixed.ends_with("its public half does not belong to its secret half"), "{mixed}");
        for (text, reason) in [
            ("[1,2,3]", "Expected 64 elements, found 3"),
            ("{}", "Input must be a JSON array"),
            (&format!("[256{}]", ",1".repeat(63)), "number too large"),
        ] {
            let message = error(text);
            assert!(message.contains(reason) && message.contains("64 numbers"), "{message}");
        }
    }
}

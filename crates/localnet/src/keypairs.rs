//! The node's keypairs: generated at genesis, stored in the ledger directory under the file names of
//! `solana-test-validator`.

use std::fs;
use std::path::{Path, PathBuf};

use solana_keypair::Keypair;

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
    /// The file contains something else.
    #[error("{path} is not a keypair file: 64 numbers from 0 to 255 in a JSON array are expected")]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
}

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

    /// Writes the keypairs to a ledger directory.
    pub fn write(&self, dir: &Path) -> Result<(), KeyError> {
        let keypairs = [&self.identity, &self.vote_account, &self.stake_account, &self.faucet];
        FILES.iter().zip(keypairs).try_for_each(|(file, key)| write_keypair(&dir.join(file), key))
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

/// Reads a keypair as `solana-keygen` writes it.
pub fn read_keypair(path: &Path) -> Result<Keypair, KeyError> {
    let text = fs::read(path).map_err(|err| KeyError::Io { path: path.to_path_buf(), err })?;
    serde_json::from_slice::<Vec<u8>>(&text)
        .ok()
        .and_then(|bytes| Keypair::try_from(bytes.as_slice()).ok())
        .ok_or_else(|| KeyError::Malformed { path: path.to_path_buf() })
}

fn write_keypair(path: &Path, keypair: &Keypair) -> Result<(), KeyError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let text = serde_json::to_vec(&keypair.to_bytes().to_vec()).unwrap_or_default();
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
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
}

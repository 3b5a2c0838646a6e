//! The token that all clients share (`grpc.x_token_file`), which is read at the start and again whenever it changes.
//!
//! Invariant: a file that cannot be read or has no valid token changes nothing. It is logged.
//! Bounds: the file is read once a second.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::MissedTickBehavior;

use crate::start_error::{StartError, TOKEN_BYTES_MAX};

/// Maximum bytes of the file: the token, and white space after it.
const FILE_BYTES_MAX: u64 = 2 * TOKEN_BYTES_MAX as u64;
/// Interval of the reads of the file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The file and its token.
pub(crate) struct Token {
    path: PathBuf,
    token: RwLock<Vec<u8>>,
}

impl Token {
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        Ok(Self { path: path.to_owned(), token: RwLock::new(read(path)?) })
    }

    /// Whether this is the token.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        let token = self.token.read();
        // Takes the same time wherever they differ.
        let differences = token.iter().zip(given).fold(0, |all, (one, two)| all | (one ^ two));
        token.len() == given.len() && differences == 0
    }

    /// Reads the file again whenever it changes, and never returns. Open streams continue.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_valid = true;
        loop {
            poll.tick().await;
            let token = Arc::clone(&self);
            // The runtime has shut down.
            let Ok(read) = tokio::task::spawn_blocking(move || token.reload()).await else {
                return;
            };
            match read {
                Ok(false) => is_valid = true,
                Ok(true) => {
                    is_valid = true;
                    tracing::info!("the token of grpc.x_token_file was read again");
                }
                Err(err) if std::mem::take(&mut is_valid) => {
                    tracing::error!(
                        err = &err as &dyn std::error::Error,
                        "the token of gRPC is unchanged"
                    );
                }
                Err(_) => {}
            }
        }
    }

    /// Returns whether the file has another token.
    fn reload(&self) -> Result<bool, StartError> {
        let read = read(&self.path)?;
        if *self.token.read() == read {
            return Ok(false);
        }
        *self.token.write() = read;
        Ok(true)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    let text = input_file::read_text(path, FILE_BYTES_MAX)?;
    let token = text.trim_end();
    let is_valid = (1..=TOKEN_BYTES_MAX).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid { Ok(token.into()) } else { Err(StartError::Token { path: path.to_owned() }) }
}

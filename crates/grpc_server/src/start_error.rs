//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use input_file::InputFileError;

/// Maximum bytes of a token.
pub(crate) const TOKEN_BYTES_MAX: usize = 4_096;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file with the token could not be read.
    #[error("grpc.x_token_file")]
    TokenFile(#[from] InputFileError),
    /// The token cannot be in a header.
    #[error(
        "grpc.x_token_file {path:?}: a token has 1 to {TOKEN_BYTES_MAX} visible ASCII characters"
    )]
    Token {
        /// Path of the token file.
        path: PathBuf,
    },
    /// The listener or a thread failed.
    #[error("start the gRPC server")]
    Io(#[from] io::Error),
}

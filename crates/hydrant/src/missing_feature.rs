//! The refusal of commands and flags that need the feature `cluster`, in a build without it.
//!
//! Input: the name of a command or flag. Output: an error that names the build that has it.
//! Every build parses these commands and flags, so that one `--help` and one configuration file serve all builds.

use anyhow::{Error, Result, anyhow};

/// Fails in a build without the feature `cluster`. `subject` is the command or flag that needs it.
pub(crate) fn require_cluster(subject: &str) -> Result<()> {
    if cfg!(feature = "cluster") { Ok(()) } else { Err(missing_cluster_error(subject)) }
}

/// Returns the error for a command or flag that needs the feature `cluster`.
pub(crate) fn missing_cluster_error(subject: &str) -> Error {
    anyhow!(
        "{subject}: this program was built without the feature `cluster`; the packages have it, and so has \
         `cargo build --release --features cluster`"
    )
}

//! The limit of open files and sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files and sockets of this process to the maximum that the system allows. Returns the
/// resulting limit.
pub fn raise_open_files_max() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Only the resulting limit counts.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_maximum_afterwards() {
        let raised = raise_open_files_max();
        assert!(raised > 0);
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), raised);
        assert_eq!(raise_open_files_max(), raised);
    }
}

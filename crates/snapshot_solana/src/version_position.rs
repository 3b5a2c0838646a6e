//! The position of an account's version in the archives: which of two versions is newer.

/// Position of a version: a later file, or a higher offset in the same file, is newer. Never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionPosition(u64);

impl VersionPosition {
    /// `file` is the number of a file among all files of all archives, ordered by slot, from 1.
    /// Accounts start at multiples of 8, and no file is longer than 16 GiB.
    pub(crate) fn new(file: u32, offset: u64) -> Self {
        Self(u64::from(file) << 32 | offset >> 3)
    }
}

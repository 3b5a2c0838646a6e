//! The version of the format of snapshots.

/// The version of manifests and parts.
pub const SNAPSHOT_VERSION: u16 = 1;

//! The version of the format of manifests and parts.

/// The version of manifests and parts.
pub const SNAPSHOT_VERSION: u16 = 1;

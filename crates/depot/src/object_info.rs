//! An object in a list.

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key within the depot.
    pub key: String,
    /// Length of the body.
    pub bytes: u64,
}

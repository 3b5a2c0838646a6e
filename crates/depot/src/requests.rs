//! The arguments and results of one attempt of a request.

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key within the depot.
    pub key: String,
    /// Length of the body.
    pub bytes: u64,
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such object.
    NotFound,
    /// The object was not created because it exists, or because another request creates it.
    Exists,
    /// The object is longer than the caller allows.
    TooLong { bytes: u64, bytes_max: usize },
    /// The store has no space. Nothing was created.
    Full(String),
    /// Another attempt would fail too.
    Final(String),
    /// Another attempt may succeed. This one may have been applied.
    Temporary(String),
}

/// The body of an object, or a part of it, as far as it was received.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// Length of the whole body, once it is known.
    pub(crate) expected: Option<u64>,
}

impl Received {
    /// Whether everything was received.
    pub(crate) fn is_complete(&self) -> bool {
        self.expected == Some(self.bytes.len() as u64)
    }

    /// Sets the length of the whole body.
    ///
    /// # Errors
    ///
    /// It is longer than the caller allows, or is not the same as before.
    pub(crate) fn set_expected(&mut self, bytes: u64, bytes_max: usize) -> Result<(), Failure> {
        if usize::try_from(bytes).is_ok_and(|bytes| bytes <= bytes_max) {
            match self.expected.replace(bytes) {
                Some(before) if before != bytes => {
                    let reason = format!("had {before} bytes and has {bytes} bytes now");
                    Err(Failure::Final(reason))
                }
                _ => Ok(()),
            }
        } else {
            Err(Failure::TooLong { bytes, bytes_max })
        }
    }
}

/// The keys to list.
#[derive(Clone, Copy)]
pub(crate) struct Listing<'a> {
    /// The directory, without a slash at the end. It may be empty.
    pub(crate) prefix: &'a str,
    /// Only keys after this one. It may be empty.
    pub(crate) after: &'a str,
    /// Number of keys, the first in order.
    pub(crate) max: usize,
}

//! The client that a request counts for, and what the request costs.

use std::fmt;

/// The names of the classes of calls, in the order of `pool::Class::ALL`.
pub const CLASS_NAMES: [&str; 3] = ["light", "medium", "heavy"];

/// The number of a key in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyNumber(pub u32);

impl fmt::Display for KeyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The client that a request counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A key.
    Key(KeyNumber),
    /// A client without a key, by an id of the caller: its address.
    Anonymous(u128),
}

/// What a request costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Requests, which count against the rate of all classes and the daily quota.
    pub requests: u32,
    /// Calls by class, in the order of [`CLASS_NAMES`].
    pub classes: [u32; 3],
}

impl Charge {
    /// Requests that call no method.
    pub fn requests(requests: u32) -> Self {
        Self { requests, ..Self::default() }
    }

    /// A call of a class, by its index, whose request was charged before.
    pub fn call(class: usize) -> Self {
        let mut classes = [0; 3];
        if let Some(calls) = classes.get_mut(class) {
            *calls = 1;
        }
        Self { requests: 0, classes }
    }
}

//! The client that a request counts for, and the cost of the request.

use std::fmt;

/// The names of the classes of calls, in the order of `cpu_pool::Class::ALL`.
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
    /// A client with a key, by its number.
    Key(KeyNumber),
    /// A client without a key, by an id of the caller: its address.
    Anonymous(u128),
}

/// The cost of a request in its tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Requests, which count against the rate of all classes and the daily quota.
    pub requests: u32,
    /// Calls by class, in the order of [`CLASS_NAMES`].
    pub classes: [u32; 3],
}

impl Charge {
    /// Creates the charge of requests that call no method.
    pub fn requests(requests: u32) -> Self {
        Self { requests, ..Self::default() }
    }

    /// Creates the charge of a call of a class, by its index, after its request was charged.
    pub fn call(class: usize) -> Self {
        let mut classes = [0; 3];
        if let Some(calls) = classes.get_mut(class) {
            *calls = 1;
        }
        Self { requests: 0, classes }
    }
}

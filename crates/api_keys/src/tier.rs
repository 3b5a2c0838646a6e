//! A tier: the limits that its keys share by value. Each key has its own allowance of them.

use crate::atomic_bucket::Rate;

/// Limits of each key of a tier. `None`: no limit of this kind.
#[derive(Debug, Default)]
pub(crate) struct Tier {
    pub(crate) name: Box<str>,
    /// Requests, of all classes together.
    pub(crate) requests: Option<Rate>,
    /// Calls of each class a second.
    pub(crate) classes: [Option<Rate>; 3],
    /// Calls of a method, sorted by its name.
    pub(crate) methods: Box<[(Box<str>, Rate)]>,
    /// Bytes of responses per second.
    pub(crate) bytes_per_s: Option<u64>,
    /// Requests in a UTC day, a quota.
    pub(crate) requests_per_day: Option<u64>,
    /// WebSocket connections at once.
    pub(crate) websocket_connections: Option<u32>,
    /// Subscriptions of all its connections.
    pub(crate) subscriptions: Option<u32>,
    pub(crate) grpc_streams: Option<u32>,
    /// The methods that may be called; all without a list. Sorted.
    pub(crate) allow: Option<Box<[Box<str>]>>,
    /// The methods that may not be called. Sorted.
    pub(crate) deny: Box<[Box<str>]>,
    /// Whether `/metrics` may be read, which has the names of all keys.
    pub(crate) may_read_metrics: bool,
}

impl Tier {
    /// Returns whether a method may not be called.
    pub(crate) fn denies(&self, method: &str) -> bool {
        let contains =
            |list: &[Box<str>]| list.binary_search_by(|name| (**name).cmp(method)).is_ok();
        contains(&self.deny) || self.allow.as_deref().is_some_and(|allow| !contains(allow))
    }

    /// Returns the limit of a method: its index, and its rate.
    pub(crate) fn method_rate(&self, method: &str) -> Option<(usize, Rate)> {
        let at = self.methods.binary_search_by(|(name, _)| (**name).cmp(method)).ok()?;
        Some((at, self.methods[at].1))
    }

    /// Returns its heap size in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.allow.iter().chain([&self.deny]).flat_map(|list| list.iter());
        let lists: usize = lists.map(|name| size_of::<Box<str>>() + name.len()).sum();
        let methods =
            self.methods.iter().map(|(name, _)| size_of::<(Box<str>, Rate)>() + name.len());
        lists + methods.sum::<usize>() + self.name.len()
    }
}

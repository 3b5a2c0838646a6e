//! Counters of a depot's requests, retries, failures and bytes.

use metrics::{Collector, Counters, Exposition, MetricKind};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Put,
    List,
    Delete,
}

const OPERATIONS: [Operation; 4] =
    [Operation::Get, Operation::Put, Operation::List, Operation::Delete];

/// Positions of the counters: first one for each operation, three times; then the bytes.
const RETRIES: usize = OPERATIONS.len();
const FAILURES: usize = 2 * OPERATIONS.len();
const BYTES_READ: usize = 3 * OPERATIONS.len();
const BYTES_WRITTEN: usize = BYTES_READ + 1;

impl Operation {
    /// The value of the label, and the word in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// The counters of a depot.
pub(crate) struct DepotMetrics(Counters);

impl DepotMetrics {
    pub(crate) fn new() -> Self {
        Self(Counters::new(BYTES_WRITTEN + 1))
    }

    pub(crate) fn count_request(&self, operation: Operation) {
        self.0.add(operation as usize, 1);
    }

    pub(crate) fn count_retry(&self, operation: Operation) {
        self.0.add(RETRIES + operation as usize, 1);
    }

    pub(crate) fn count_failure(&self, operation: Operation) {
        self.0.add(FAILURES + operation as usize, 1);
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        self.0.add(BYTES_READ, bytes as u64);
    }

    pub(crate) fn count_written(&self, bytes: usize) {
        self.0.add(BYTES_WRITTEN, bytes as u64);
    }

    /// Number of retries of an operation so far.
    #[cfg(test)]
    pub(crate) fn retries(&self, operation: Operation) -> u64 {
        self.0.sum(RETRIES + operation as usize)
    }
}

impl Collector for DepotMetrics {
    fn write(&self, to: &mut Exposition) {
        let families = [
            ("hydrant_depot_requests_total", "Requests to the object store, each attempt.", 0),
            ("hydrant_depot_retries_total", "Attempts after a temporary failure.", RETRIES),
            ("hydrant_depot_failures_total", "Requests whose last attempt failed.", FAILURES),
        ];
        for (name, help, first) in families {
            let mut family = to.family(name, MetricKind::Counter, help);
            for operation in OPERATIONS {
                let sum = self.0.sum(first + operation as usize);
                family.put(&[("operation", operation.name())], sum);
            }
        }
        let help = "Bytes of objects that were read and written.";
        let mut family = to.family("hydrant_depot_bytes_total", MetricKind::Counter, help);
        family.put(&[("direction", "read")], self.0.sum(BYTES_READ));
        family.put(&[("direction", "written")], self.0.sum(BYTES_WRITTEN));
    }
}

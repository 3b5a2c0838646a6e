//! Metrics of the thread that executes the transactions of a local ledger.

use std::sync::Arc;

use localnet::{AccountBytes, ExecutorMetrics};
use metrics::{Collector, Exposition, MetricKind};

/// The time of the thread, for a scrape.
pub(crate) struct ExecutorTimes(pub(crate) Arc<ExecutorMetrics>);

impl Collector for ExecutorTimes {
    fn write(&self, out: &mut Exposition) {
        let help = "Time of the thread that executes transactions, by part.";
        let mut family = out.family("hydrant_executor_seconds_total", MetricKind::Counter, help);
        for (part, duration) in self.0.phases() {
            family.put(&[("part", part)], duration.as_secs_f64());
        }
        let code = self.0.code();
        let help = "Compiled programs of the thread that executes transactions.";
        out.single("hydrant_compiled_programs", MetricKind::Gauge, help, code.programs as u64);
        let help = "Bytes of their code before it was compiled, at most 64 MiB and that of one transaction.";
        let name = "hydrant_compiled_programs_code_bytes";
        out.single(name, MetricKind::Gauge, help, code.bytes as u64);
        let help = "Bytes of code that the thread compiled.";
        out.single(
            "hydrant_compiled_code_bytes_total",
            MetricKind::Counter,
            help,
            code.compiled_bytes,
        );
    }
}

/// The bytes of accounts, for a scrape.
pub(crate) struct AccountBytesMetrics(pub(crate) Arc<AccountBytes>);

impl Collector for AccountBytesMetrics {
    fn write(&self, out: &mut Exposition) {
        let help = "Bytes of accounts in memory.";
        out.single("hydrant_account_bytes", MetricKind::Gauge, help, self.0.bytes());
        let help = "The limit of the bytes of accounts (--account-bytes-max).";
        out.single("hydrant_account_bytes_max", MetricKind::Gauge, help, self.0.limit());
        let help = "Transactions and commands refused because accounts would have too many bytes.";
        let name = "hydrant_account_bytes_refused_total";
        out.single(name, MetricKind::Counter, help, self.0.refused_writes());
    }
}

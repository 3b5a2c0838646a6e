//! A build without replicated logs.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use chain_solana::EventSink;
use jsonrpc::Metrics;

use super::{ClusterLogConfig, LoggedChain};
use crate::missing_feature::missing_cluster_error;
use crate::node::composed::RunningLedger;

/// A log, which this build cannot open.
pub(crate) struct OpenedLog(Infallible);

/// An ingester, which this build does not have.
pub(crate) struct LedgerIngester(Infallible);

/// Refuses the log by name.
pub(crate) async fn open(_: &ClusterLogConfig) -> Result<OpenedLog> {
    Err(missing_cluster_error("--log-url"))
}

impl LedgerIngester {
    pub(crate) fn start(
        log: OpenedLog,
        _: LoggedChain,
        _: Duration,
    ) -> Result<(Self, Box<dyn EventSink>)> {
        match log.0 {}
    }

    pub(crate) fn add_metrics(&self, _: &Metrics) {
        match self.0 {}
    }

    pub(crate) fn attach(self, _: Box<dyn RunningLedger>) -> Box<dyn RunningLedger> {
        match self.0 {}
    }
}

//! A running node, whatever its chain: it serves, reports its health, and ends.
//!
//! Shape: [`RunningNode::start`] serves a composed node. [`RunningNode::run`] waits for the end and stops everything in
//! order: clients are notified, the parts drain, the ledger stops last.
//! Not here: which servers a node has (`solana`, `kaspa`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use jsonrpc::ServerContext;
use store::durable_file;
use tokio::signal::unix::Signal;

use crate::admin::{self, AdminApi, AdminServer};
use crate::api_key_file::ApiKeyFile;
use crate::console::now;
use crate::draining::{drain, serve_on};
use crate::node::composed::{ComposedNode, RunningLedger};
use crate::node::front_end::FrontEnd;
use crate::node::parts::{BoxFuture, HttpPart, Parts};
use crate::node::{NodeAddresses, NodeConfig};
use crate::process_memory::{self, MeasuredLedger, ProcessMemory};
use crate::service_manager::ServiceManager;
use crate::signals::EndSignals;
use crate::tls_setup::start_tls;

/// Interval at which the node reports its health, and checks that its ledger runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running node: its servers, its parts and its ledger.
pub(crate) struct RunningNode {
    context: Arc<ServerContext>,
    parts: Parts,
    ledger: Box<dyn RunningLedger>,
    /// They start when the node is reported ready.
    ledger_tasks: Vec<BoxFuture<'static, ()>>,
    front_end: Option<Box<dyn FrontEnd>>,
    admin: Option<AdminServer>,
    api_keys: Option<ApiKeyFile>,
    pub(crate) addresses: NodeAddresses,
}

impl RunningNode {
    /// Serves a composed node. If a server cannot start, all that has started is stopped, the ledger included.
    pub(crate) async fn start(
        composed: ComposedNode,
        config: &NodeConfig,
        signals: &mut EndSignals,
    ) -> Result<Self> {
        let ComposedNode {
            context,
            parts,
            ledger,
            ledger_tasks,
            measured_ledger,
            http_servers,
            front_end,
            api_keys,
            reports,
            addresses,
        } = composed;
        let admin = None;
        let mut node =
            Self { context, parts, ledger, ledger_tasks, front_end, admin, api_keys, addresses };
        let mut administration = AdminApi::new(Arc::clone(&node.context), signals.request());
        reports.into_iter().for_each(|report| administration.add_report(report.name, report.make));
        match node.start_serving(config, http_servers, administration).await {
            Ok(()) => {
                node.measure_memory(measured_ledger, signals.take_memory_request());
                Ok(node)
            }
            Err(err) => Err(node.abort_start(signals, err).await),
        }
    }

    /// Starts the servers of requests. The administration may end the node.
    async fn start_serving(
        &mut self,
        config: &NodeConfig,
        http_servers: Vec<BoxFuture<'static, ()>>,
        mut administration: AdminApi,
    ) -> Result<()> {
        if let Some(watch) = start_tls(&config.serving, &self.context, &mut administration) {
            self.parts.spawn(watch);
        }
        self.admin = Some(admin::start(&config.serving, administration).await?);
        http_servers.into_iter().for_each(|server| self.parts.add(HttpPart::start(server)));
        Ok(())
    }

    /// Starts to measure and to log the memory of the process.
    fn measure_memory(&mut self, ledger: Arc<dyn MeasuredLedger>, request: Option<Signal>) {
        let memory = ProcessMemory::at_start(Arc::clone(&self.context));
        self.context.metrics.add(memory.collector());
        self.parts.spawn(memory.measure_at_first_root(Arc::clone(&ledger)));
        self.parts.spawn(process_memory::log_periodically(ledger, request));
    }

    /// Stops all that has started, because the rest cannot start. Returns the reason for that.
    pub(crate) async fn abort_start(self, signals: &mut EndSignals, err: Error) -> Error {
        if let Err(stop_err) = self.stop(signals, Duration::ZERO).await {
            tracing::error!(err = %format_args!("{stop_err:#}"), "the node could not be stopped");
        }
        err
    }

    /// Stops the servers, whose requests have the time `within`, and then the ledger. Returns the error of the ledger, or
    /// else that of the servers.
    async fn stop(self, signals: &mut EndSignals, within: Duration) -> Result<()> {
        let Self { context, parts, ledger, admin, api_keys, .. } = self;
        parts.abort_tasks();
        let drained = drain(signals, &context.http.drain, within, parts.stop()).await;
        drop(admin);
        api_keys.iter().for_each(ApiKeyFile::store_usage);
        let stopped = tokio::task::spawn_blocking(|| ledger.stop()).await;
        stopped
            .map_err(|_| anyhow!("the ledger panicked"))?
            .context("the ledger")
            .inspect_err(|_| {
                if let Err(err) = &drained {
                    tracing::error!(err = %format_args!("{err:#}"), "a server could not be stopped");
                }
            })?;
        drained
    }

    /// Shows that the node is ready, and writes its addresses to the file of `--endpoints-file`.
    pub(crate) fn report_ready(&mut self, config: &NodeConfig) -> Result<()> {
        if let Some(front_end) = &mut self.front_end {
            front_end.show_ready(&self.addresses)?;
        }
        let Some(path) = &config.endpoints_file else { return Ok(()) };
        let addresses = self.addresses.to_json().to_string();
        durable_file::replace(path, addresses.as_bytes())
            .with_context(|| format!("--endpoints-file {}", path.display()))
    }

    /// Serves until a signal or a request ends the node, or its ledger fails. Then stops everything, the ledger last, and
    /// returns the first error.
    pub(crate) async fn run(
        mut self,
        config: &NodeConfig,
        mut signals: EndSignals,
        service_manager: &mut ServiceManager,
    ) -> Result<()> {
        self.ledger_tasks.drain(..).for_each(|task| self.parts.spawn(task));
        let has_ended = self.wait_for_end(&mut signals, service_manager).await;
        service_manager.notify_stopping();
        let drain_delay = if has_ended { Duration::ZERO } else { config.serving.drain_delay };
        self.parts.announce_end().await;
        let is_cut = serve_on(&mut signals, drain_delay, || self.ledger.is_finished()).await;
        self.front_end.iter_mut().for_each(|front_end| front_end.stop());
        let within = if is_cut { Duration::ZERO } else { config.serving.drain };
        let stopped = self.stop(&mut signals, within).await;
        if signals.has_come() {
            // As text: the node ends as requested, and no error may start the program again.
            return stopped.map_err(|err| anyhow!("{err:#}"));
        }
        stopped?;
        if has_ended {
            bail!("the ledger's thread ended unexpectedly");
        }
        Ok(())
    }

    /// Reports the health until a signal comes or the ledger ends; true if it ended.
    async fn wait_for_end(
        &mut self,
        signals: &mut EndSignals,
        service_manager: &mut ServiceManager,
    ) -> bool {
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                () = signals.next() => return false,
                _ = poll.tick() => {
                    let is_alive = self.ledger.poll_health(&self.context.health);
                    if self.ledger.is_finished() {
                        return true;
                    }
                    service_manager.notify_alive(is_alive, now());
                }
            }
        }
    }
}

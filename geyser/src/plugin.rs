//! The plugin: its life, and the validator's callbacks.

use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{error, fmt, io};

use agave_geyser_plugin_interface::geyser_plugin_interface::{
    GeyserPlugin, GeyserPluginError, ReplicaAccountInfoVersions, ReplicaBlockInfoVersions,
    ReplicaContactInfoVersions, ReplicaEntryInfoVersions, ReplicaTransactionInfoVersions,
    Result as PluginResult, SlotStatus,
};
use grpc::{GossipTable, GrpcEventSink, GrpcNode, LedgerReader, NewestBlock, Server};
use ledger::{Commitment, Slot};
use solana_hash::Hash;

use crate::chain_tips::ChainTips;
use crate::config::Config;
use crate::counters::Event;
use crate::metrics_server::MetricsServer;
use crate::replica::{self, GeyserUpdate, ReplicaError};
use crate::sequencer::Sequencer;
use crate::update_queue::{Taken, UpdateQueue};

/// The name without one in the configuration.
const NAME: &str = "hydrant-geyser";

/// The plugin. It serves between `on_load` and `on_unload`.
#[derive(Debug, Default)]
pub struct HydrantGeyser {
    running: Option<Running>,
}

struct Running {
    queue: Arc<UpdateQueue>,
    sequencer: JoinHandle<()>,
    server: Server,
    metrics: Option<MetricsServer>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.server.address()).finish_non_exhaustive()
    }
}

/// Why the plugin does not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("it is loaded already")]
    Loaded,
    #[error("listen on {address}: {err}")]
    Listen { address: SocketAddr, err: io::Error },
    #[error("start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl HydrantGeyser {
    /// The address of gRPC, while the plugin serves.
    pub fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(|running| running.server.address())
    }

    fn start(&mut self, config: Config) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        if self.running.is_some() {
            return Err(Box::new(StartError::Loaded));
        }
        let listener = listen(config.address)?;
        let metrics_listener = config.metrics_address.map(listen).transpose()?;
        let tips = Arc::new(ChainTips::default());
        let node = GrpcNode {
            reader: Box::new(SharedTips(Arc::clone(&tips))),
            cluster: None,
            program: (NAME, env!("CARGO_PKG_VERSION")),
            stored_blocks: Vec::new(),
        };
        let (server, sender) = Server::start(config.grpc, node, listener)?;
        let queue = Arc::new(UpdateQueue::new(config.queue_bytes_max, config.queue_updates_max));
        let own = Arc::clone(&queue);
        let sequencer = std::thread::Builder::new()
            .name("geyser-sequencer".to_owned())
            .spawn(move || sequence(&own, &tips, sender))
            .map_err(StartError::Thread)?;
        tracing::info!(address = %server.address(), "hydrant-geyser serves Yellowstone gRPC");
        let collectors: [Box<dyn metrics::Collector>; 2] =
            [Box::new(SharedQueue(Arc::clone(&queue))), Box::new(server.metrics())];
        let running = self.running.insert(Running { queue, sequencer, server, metrics: None });
        let metrics =
            metrics_listener.map(|listener| MetricsServer::start(listener, collectors.into()));
        match metrics.transpose() {
            Ok(metrics) => running.metrics = metrics,
            Err(err) => {
                // The validator unmaps a library that does not load: its threads must have ended.
                self.on_unload();
                return Err(Box::new(StartError::Thread(err)));
            }
        }
        Ok(())
    }

    /// Queues an update. An error does not stop the validator.
    fn push(
        &self,
        kind: Event,
        convert: impl FnOnce() -> Result<Option<GeyserUpdate>, ReplicaError>,
    ) -> Result<(), String> {
        let Some(Running { queue, .. }) = &self.running else { return Ok(()) };
        queue.counters.record(kind);
        match catch_unwind(AssertUnwindSafe(convert)) {
            Ok(Ok(update)) => {
                if let Some(update) = update {
                    queue.push(update);
                }
                Ok(())
            }
            Ok(Err(err)) => {
                queue.counters.record(Event::Refused);
                queue.lose();
                Err(err.to_string())
            }
            Err(_) => {
                queue.lose();
                Err("the plugin panicked".to_owned())
            }
        }
    }
}

impl HydrantGeyser {
    /// Changes the table of the cluster's nodes. The table is not part of a bank, so an error loses nothing else.
    fn change_nodes(
        &self,
        change: impl FnOnce(&GossipTable) -> Result<(), ReplicaError>,
    ) -> PluginResult<()> {
        let Some(Running { queue, server, .. }) = &self.running else { return Ok(()) };
        queue.counters.record(Event::ContactInfo);
        let msg = match catch_unwind(AssertUnwindSafe(|| change(server.gossip()))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(err)) => {
                queue.counters.record(Event::Refused);
                err.to_string()
            }
            Err(_) => "the plugin panicked".to_owned(),
        };
        Err(GeyserPluginError::Custom(msg.into()))
    }
}

impl GeyserPlugin for HydrantGeyser {
    fn setup_logger(
        &self,
        logger: &'static dyn log::Log,
        level: log::LevelFilter,
    ) -> PluginResult<()> {
        log::set_max_level(level);
        // After a reload the library may still be mapped, and has the logger already.
        let _ = log::set_logger(logger);
        Ok(())
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn on_load(&mut self, config_file: &str, _is_reload: bool) -> PluginResult<()> {
        let config = Config::read(Path::new(config_file))
            .map_err(|err| GeyserPluginError::ConfigFileReadError { msg: chain(&err) })?;
        self.start(config).map_err(GeyserPluginError::Custom)
    }

    fn on_unload(&mut self) {
        let Some(Running { queue, sequencer, server, metrics }) = self.running.take() else {
            return;
        };
        let stop = move || {
            queue.close();
            // A panic of the thread was logged.
            let _ = sequencer.join();
            server.shut_down();
            if let Some(metrics) = metrics {
                metrics.shut_down();
            }
        };
        // The caller's thread may be one of an async runtime, which must not wait for the end of another.
        std::thread::scope(|scope| {
            let _ = scope.spawn(stop).join();
        });
    }

    fn update_account(
        &self,
        account: ReplicaAccountInfoVersions<'_>,
        slot: Slot,
        is_startup: bool,
    ) -> PluginResult<()> {
        if is_startup {
            return Ok(());
        }
        self.push(Event::Account, || replica::account(&account, slot).map(Some))
            .map_err(|msg| GeyserPluginError::AccountsUpdateError { msg })
    }

    fn update_slot_status(
        &self,
        slot: Slot,
        parent: Option<Slot>,
        status: &SlotStatus,
    ) -> PluginResult<()> {
        self.push(Event::Slot, || Ok(replica::slot_status(slot, parent, status)))
            .map_err(|msg| GeyserPluginError::SlotStatusUpdateError { msg })
    }

    fn notify_transaction(
        &self,
        transaction: ReplicaTransactionInfoVersions<'_>,
        slot: Slot,
    ) -> PluginResult<()> {
        self.push(Event::Transaction, || replica::transaction(&transaction, slot).map(Some))
            .map_err(|msg| GeyserPluginError::TransactionUpdateError { msg })
    }

    fn notify_block_metadata(&self, block: ReplicaBlockInfoVersions<'_>) -> PluginResult<()> {
        self.push(Event::BlockMeta, || replica::block_meta(&block).map(Some))
            .map_err(|msg| GeyserPluginError::Custom(msg.into()))
    }

    fn notify_entry(&self, entry: ReplicaEntryInfoVersions<'_>) -> PluginResult<()> {
        self.push(Event::Entry, || replica::entry(&entry).map(Some))
            .map_err(|msg| GeyserPluginError::Custom(msg.into()))
    }

    fn notify_contact_info(
        &self,
        info: ReplicaContactInfoVersions<'_>,
        _is_startup: bool,
    ) -> PluginResult<()> {
        self.change_nodes(|nodes| {
            nodes.insert(replica::contact_info(&info)?);
            Ok(())
        })
    }

    fn notify_contact_info_removed(&self, pubkey: &[u8]) -> PluginResult<()> {
        self.change_nodes(|nodes| {
            nodes.remove(&replica::identity(pubkey)?);
            Ok(())
        })
    }

    fn account_data_snapshot_notifications_enabled(&self) -> bool {
        false
    }

    fn transaction_notifications_enabled(&self) -> bool {
        true
    }

    fn entry_notifications_enabled(&self) -> bool {
        true
    }

    fn contact_info_notifications_enabled(&self) -> bool {
        true
    }
}

/// The plugin's thread: from the queue to the server, until the queue is closed.
fn sequence(queue: &UpdateQueue, tips: &ChainTips, sender: GrpcEventSink) {
    let mut sequencer = Sequencer::new();
    let lose = |sequencer: &mut Sequencer| {
        queue.counters.record(Event::Loss);
        sequencer.reset();
        tips.clear();
        sender.report_loss();
    };
    loop {
        let updates = match queue.take() {
            Taken::Updates(updates) => updates,
            Taken::Lost => {
                tracing::error!("updates were lost (queue_bytes_max, queue_updates_max)");
                lose(&mut sequencer);
                continue;
            }
            Taken::Closed => break,
        };
        let now_ms = now_ms();
        let handled = catch_unwind(AssertUnwindSafe(|| {
            updates.into_iter().try_for_each(|it| sequencer.handle(it, now_ms, &queue.counters))
        }));
        match handled {
            Ok(Ok(())) => {}
            Ok(Err(overflow)) => {
                tracing::error!("all clients are closed: {overflow}");
                lose(&mut sequencer);
            }
            Err(_) => {
                tracing::error!("the plugin's thread panicked: all clients are closed");
                lose(&mut sequencer);
            }
        }
        for event in sequencer.take_events() {
            tips.record(&event);
            sender.send_and_wait(event);
        }
    }
    sender.close();
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|err| StartError::Listen { address, err })
}

fn chain(err: &dyn error::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        text = format!("{text}: {err}");
        source = err.source();
    }
    text
}

/// Milliseconds since 1970; 0 before.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

struct SharedTips(Arc<ChainTips>);

impl LedgerReader for SharedTips {
    fn newest(&self, commitment: Commitment) -> Option<NewestBlock> {
        self.0.newest(commitment)
    }

    fn is_blockhash_valid(&self, blockhash: &Hash, commitment: Commitment) -> Option<(Slot, bool)> {
        self.0.is_blockhash_valid(blockhash, commitment)
    }
}

struct SharedQueue(Arc<UpdateQueue>);

impl metrics::Collector for SharedQueue {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        self.0.memory()
    }

    fn write(&self, out: &mut metrics::Exposition) {
        self.0.write(out);
    }
}

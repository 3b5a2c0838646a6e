//! A node, whatever fills its ledger: its settings, its servers, its start and its end.
//!
//! Shape: [`Node::builder`] takes a producer, [`NodeBuilder::serve`] opens its ledger and serves it on threads of its own,
//! [`NodeHandle`] ends it. The servers of each chain are composed at one place (`solana`, `kaspa`); everything else of a
//! node is the same for both. `hydrant dev`, `hydrant follow`, `hydrant replica` and `hydrant follow-kaspa` are this with
//! flags, signals and output.

mod addresses;
pub(crate) mod composed;
pub(crate) mod config;
pub(crate) mod flags;
pub(crate) mod front_end;
mod handle;
mod history;
pub(crate) mod kaspa;
mod merge;
pub(crate) mod parts;
mod process;
pub(crate) mod producer;
mod running;
pub(crate) mod server_resources;
pub(crate) mod solana;

use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, Result, bail};

pub use addresses::{KaspaAddresses, NodeAddresses};
pub use config::NodeConfig;
pub(crate) use config::ProducerDefaults;
pub(crate) use flags::NodeFlags;
use handle::NodeThread;
pub(crate) use handle::STACK_BYTES;
pub use handle::{NodeError, NodeHandle};
pub(crate) use merge::{Merge, merge_by_field};
pub(crate) use process::{NodeProcess, prepare_process};

use crate::node::producer::{NodeProducer, OpenContext};
use crate::node::running::RunningNode;
use crate::process_setup::ignore_file_size_signal;
use crate::service_manager::ServiceManager;
use crate::signals::{EndRequest, EndSignals};
use crate::start_signals::StartSignals;

/// A read node for a ledger. [`Node::builder`] starts one.
pub struct Node;

impl Node {
    /// A node whose ledger is that of a [`LocalProducer`](crate::LocalProducer), a
    /// [`FollowProducer`](crate::FollowProducer), a `ReplicaProducer` or a [`KaspaProducer`](crate::KaspaProducer).
    pub fn builder(producer: impl Into<Producer>) -> NodeBuilder {
        NodeBuilder { producer: producer.into().0, process: None }
    }
}

/// A source of a node's ledger: a [`LocalProducer`](crate::LocalProducer), a
/// [`FollowProducer`](crate::FollowProducer), a `ReplicaProducer` or a [`KaspaProducer`](crate::KaspaProducer).
pub struct Producer(pub(crate) Box<dyn NodeProducer>);

/// A node that has not started.
pub struct NodeBuilder {
    producer: Box<dyn NodeProducer>,
    /// `None`: the node is embedded in a program that has its own signals and output.
    process: Option<NodeProcess>,
}

impl NodeBuilder {
    /// Lets signals end the node, and shows it on the output.
    pub(crate) fn with_process(self, process: NodeProcess) -> Self {
        Self { process: Some(process), ..self }
    }

    /// Binds the ports, opens the ledger, and serves it. Blocks until the node is ready, which takes minutes if an archive
    /// is loaded. May be called within an async runtime: the node has threads of its own.
    ///
    /// # Errors
    ///
    /// A port is in use, the ledger cannot be opened, or a server cannot start.
    pub fn serve(self, mut config: NodeConfig) -> Result<NodeHandle, NodeError> {
        config.rpc.body_bytes_max =
            config.rpc.body_bytes_max.or_else(|| self.producer.body_bytes_max());
        let (ready, is_ready) = sync_channel(1);
        let thread = NodeThread::start(move |end| self.run(&config, end, &ready));
        let thread = thread.map_err(NodeError::new)?;
        match is_ready.recv() {
            Ok(addresses) => Ok(NodeHandle::new(addresses, thread)),
            // The thread has ended with an error.
            Err(_) => {
                let result = thread.join().and_then(|()| bail!("the node ended at once"));
                result.map_err(NodeError::new)
            }
        }
    }

    /// Runs the node until it ends.
    fn run(
        self,
        config: &NodeConfig,
        end: EndRequest,
        ready: &SyncSender<NodeAddresses>,
    ) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.io_threads)
            .thread_name("io")
            .enable_all()
            .build()
            .context("start the I/O threads")?;
        let Self { producer, process } = self;
        let (start_signals, process) = match process {
            Some(NodeProcess { signals, ignorable, started }) => {
                let _runtime = runtime.enter();
                ignore_file_size_signal()?;
                (signals, Some((ignorable, started)))
            }
            None => (StartSignals::default(), None),
        };
        let has_output = process.is_some();
        let context =
            OpenContext { config, runtime: &runtime, signals: &start_signals, has_output };
        let opened = producer.open(&context)?;
        runtime.block_on(async {
            // Before the node is reported ready: afterwards each signal has its documented meaning.
            let mut signals = match process {
                Some((ignorable, _)) => start_signals.into_end_signals(ignorable, end)?,
                None => EndSignals::none(end),
            };
            let composed = opened.compose(config, process.map(|(_, started)| started))?;
            let mut node = RunningNode::start(composed, config, &mut signals).await?;
            if let Err(err) = node.report_ready(config) {
                return Err(node.abort_start(&mut signals, err).await);
            }
            let mut service_manager = match process {
                Some(_) => ServiceManager::from_environment(),
                None => ServiceManager::none(),
            };
            service_manager.notify_ready(&node.addresses.status());
            // An error means that the caller of `serve` has panicked.
            let _ = ready.send(node.addresses.clone());
            node.run(config, signals, &mut service_manager).await
        })
    }
}

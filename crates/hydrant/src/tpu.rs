//! The TPU, which accepts transactions over QUIC, wired to a ledger and to the forwarder.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::tpu::{Counters, FairQueue, Forwarder, Server, SigVerifyStage, TlsIdentity};
use anyhow::{Context, Result};
use chain_solana::{History, Reader, TransactionSender};
use jsonrpc::Metrics;
use ledger::Commitment;

use crate::api_key_file::ApiKeyFile;
use crate::node::NodeConfig;
use crate::node::parts::{BoxFuture, Part};
use crate::tpu_metrics::TpuMetrics;

/// Interval of the log lines about transactions.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A running TPU. Fields are dropped in this order: the server stops before the stages behind it.
pub(crate) struct Tpu {
    server: Server,
    _sigverify: SigVerifyStage,
    forwarder: Option<Arc<Forwarder>>,
}

/// The handles of the ledger that a TPU needs.
pub(crate) struct TpuLedger {
    /// The identity that the port's certificate has.
    pub(crate) identity: TlsIdentity,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    /// Gets the transactions that arrive.
    pub(crate) transaction_sender: Arc<dyn TransactionSender>,
}

impl Tpu {
    /// Starts the TPU of a ledger on a UDP port.
    pub(crate) fn start(config: &NodeConfig, port: u16, ledger: TpuLedger) -> Result<Self> {
        let TpuLedger { identity, reader, history, transaction_sender } = ledger;
        let quic = Arc::new(config.quic.clone());
        let forwarder = start_forwarder(config, &identity, reader)?;
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(quic.queue_max, Arc::clone(&counters)));
        let sigverify = SigVerifyStage::start(
            Arc::clone(&quic),
            Arc::clone(&queue),
            Arc::clone(&counters),
            transaction_sender,
            Some(history),
            forwarder.clone(),
        )
        .context("start the threads that check signatures")?;
        let address = SocketAddr::new(config.bind_address, port);
        let keys = config.api_keys.as_ref().map(ApiKeyFile::keys);
        let server = Server::start_with_keys(quic, address, &identity, queue, counters, keys)
            .context("serve transactions over QUIC (--bind-address, --tpu-port)")?;
        Ok(Self { server, _sigverify: sigverify, forwarder })
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Logs changed counters periodically, until the task is aborted.
    pub(crate) fn log_periodically(&self) -> impl Future<Output = ()> + Send + use<> {
        let counters = Arc::clone(self.server.counters());
        let forwarder = self.forwarder.clone();
        async move {
            let mut interval = tokio::time::interval(REPORT_INTERVAL);
            let mut logged = counters.snapshot();
            loop {
                interval.tick().await;
                let snapshot = counters.snapshot();
                if snapshot == logged {
                    continue;
                }
                tracing::info!("transactions over QUIC: {snapshot}");
                for (address, counts) in forwarder.iter().flat_map(|it| it.destinations()) {
                    tracing::info!(%address, "forwarded: {counts}");
                }
                logged = snapshot;
            }
        }
    }
}

impl Part for Tpu {
    fn add_metrics(&self, metrics: &Metrics) {
        let counters = Arc::clone(self.server.counters());
        let forwarder = self.forwarder.as_ref().map(Arc::downgrade);
        metrics.add(Arc::new(TpuMetrics { counters, forwarder }));
    }

    /// It joins its threads: no transactions arrive by QUIC after this.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        let stopped = tokio::task::spawn_blocking(move || drop(self));
        Box::pin(async move { stopped.await.context("stop the TPU") })
    }
}

fn start_forwarder(
    config: &NodeConfig,
    identity: &TlsIdentity,
    reader: Reader,
) -> Result<Option<Arc<Forwarder>>> {
    if config.forward.is_empty() {
        return Ok(None);
    }
    let is_valid: ::tpu::BlockhashCheck = Box::new(move |blockhash| {
        reader.view(Commitment::Processed).meta().blockhashes.is_valid(blockhash)
    });
    let forwarder = Forwarder::start(&config.forward, identity, config.quic.forward_max, is_valid)
        .context("start the forwarder (--forward)")?;
    Ok(Some(Arc::new(forwarder)))
}

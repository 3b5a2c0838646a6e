//! The TPU, which accepts transactions over QUIC, wired to a ledger and to the forwarder.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::tpu::{Counters, FairQueue, Forwarder, Server, SigVerifyStage, TlsIdentity};
use anyhow::{Context, Result};
use chain_solana::{Reader, TransactionSender};
use ledger::Commitment;
use localnet::{ExecutorMetrics, Localnet};
use solana_signer::Signer;

use crate::api_key_file::ApiKeyFile;
use crate::config::NodeConfig;
use crate::tpu_metrics::TpuMetrics;

/// Interval of the log lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A running TPU. Fields are dropped in this order: the server stops before the stages behind it.
pub(crate) struct Tpu {
    server: Server,
    _sigverify: SigVerifyStage,
    forwarder: Option<Arc<Forwarder>>,
    executor_metrics: Arc<ExecutorMetrics>,
}

impl Tpu {
    /// Starts the TPU of `localnet`, which gets its transactions by `sender`.
    pub(crate) fn start(
        config: &NodeConfig,
        localnet: &Localnet,
        sender: Arc<dyn TransactionSender>,
    ) -> Result<Self> {
        let keypair = localnet.identity();
        let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
        let quic = Arc::new(config.quic.clone());
        let forwarder = start_forwarder(config, &identity, localnet.reader().clone())?;
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(quic.queue_max, Arc::clone(&counters)));
        let sigverify = SigVerifyStage::start(
            Arc::clone(&quic),
            Arc::clone(&queue),
            Arc::clone(&counters),
            sender,
            Some(Arc::clone(localnet.history())),
            forwarder.clone(),
        )
        .context("start the threads that check signatures")?;
        let address = SocketAddr::new(config.bind_address, config.tpu_port);
        let keys = config.api_keys.as_ref().map(ApiKeyFile::keys);
        let server = Server::start_with_keys(quic, address, &identity, queue, counters, keys)
            .context("serve transactions over QUIC (--bind-address, --tpu-port)")?;
        Ok(Self {
            server,
            _sigverify: sigverify,
            forwarder,
            executor_metrics: Arc::clone(localnet.executor_metrics()),
        })
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its metrics.
    pub(crate) fn metrics(&self) -> TpuMetrics {
        let counters = Arc::clone(self.server.counters());
        let forwarder = self.forwarder.as_ref().map(Arc::downgrade);
        TpuMetrics { counters, executor_metrics: Arc::clone(&self.executor_metrics), forwarder }
    }

    /// Logs changed counters periodically, until the task is aborted.
    pub(crate) fn log_periodically(&self) -> impl Future<Output = ()> + Send + 'static {
        let (counters, forwarder) = (Arc::clone(self.server.counters()), self.forwarder.clone());
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

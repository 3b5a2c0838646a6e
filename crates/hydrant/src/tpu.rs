//! The door for transactions over QUIC, wired to a ledger, and the relay behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::tpu::{Counters, FairQueue, Forwarder, Server, SigVerifyStage, TlsIdentity};
use anyhow::{Context, Result};
use chain_solana::Reader;
use ledger::Commitment;
use localnet::{ExecutorMetrics, Localnet};
use solana_signer::Signer;

use crate::config::NodeConfig;
use crate::tpu_metrics::TpuMetrics;

/// Between two lines in the log.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A running door. Fields are dropped in this order: nothing comes in while what is behind ends.
pub(crate) struct Tpu {
    server: Server,
    _sigverify: SigVerifyStage,
    forwarder: Option<Arc<Forwarder>>,
    executor_metrics: Arc<ExecutorMetrics>,
}

impl Tpu {
    /// Opens the door of `localnet`.
    pub(crate) fn start(options: &NodeConfig, localnet: &Localnet) -> Result<Self> {
        let keypair = localnet.identity();
        let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
        let config = Arc::new(options.quic.clone());
        let relay = start_forwarder(options, &identity, localnet.reader().clone())?;
        let counters = Arc::<Counters>::default();
        let queue = Arc::new(FairQueue::new(config.queue_max, Arc::clone(&counters)));
        let stages = SigVerifyStage::start(
            Arc::clone(&config),
            Arc::clone(&queue),
            Arc::clone(&counters),
            localnet.transaction_service(),
            Some(Arc::clone(localnet.history())),
            relay.clone(),
        )
        .context("start the threads that check signatures")?;
        let address = SocketAddr::new(options.bind_address, options.tpu_port);
        let server = Server::start(config, address, &identity, queue, counters)
            .context("serve transactions over QUIC (--bind-address, --tpu-port)")?;
        Ok(Self {
            server,
            _sigverify: stages,
            forwarder: relay,
            executor_metrics: Arc::clone(localnet.executor_metrics()),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What it has counted, for whoever watches.
    pub(crate) fn metrics(&self) -> TpuMetrics {
        let counters = Arc::clone(self.server.counters());
        let relay = self.forwarder.as_ref().map(Arc::downgrade);
        TpuMetrics {
            counters,
            executor_metrics: Arc::clone(&self.executor_metrics),
            forwarder: relay,
        }
    }

    /// Logs what was counted, now and then, for as long as the task lives.
    pub(crate) fn log_periodically(&self) -> impl Future<Output = ()> + Send + 'static {
        let (counters, relay) = (Arc::clone(self.server.counters()), self.forwarder.clone());
        async move {
            let mut every = tokio::time::interval(REPORT_INTERVAL);
            let mut told = counters.snapshot();
            loop {
                every.tick().await;
                let figures = counters.snapshot();
                if figures == told {
                    continue;
                }
                tracing::info!("transactions over QUIC: {figures}");
                for (address, counts) in relay.iter().flat_map(|relay| relay.destinations()) {
                    tracing::info!(%address, "forwarded: {counts}");
                }
                told = figures;
            }
        }
    }
}

fn start_forwarder(
    options: &NodeConfig,
    identity: &TlsIdentity,
    reader: Reader,
) -> Result<Option<Arc<Forwarder>>> {
    if options.forward.is_empty() {
        return Ok(None);
    }
    let is_valid: ::tpu::BlockhashCheck = Box::new(move |blockhash| {
        reader.view(Commitment::Processed).meta().blockhashes.is_valid(blockhash)
    });
    let relay = Forwarder::start(&options.forward, identity, options.quic.forward_max, is_valid)
        .context("start the relay (--forward)")?;
    Ok(Some(Arc::new(relay)))
}

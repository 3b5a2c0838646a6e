//! The door for transactions over QUIC, wired to a ledger, and the relay behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chain::Reader;
use ledger::Commitment;
use localnet::{ExecutorMetrics, Localnet};
use quic::{Counters, FairQueue, Forwarder, Server, SigVerifyStage, TlsIdentity};
use solana_signer::Signer;

use crate::options::Options;
use crate::tpu_figures::TpuFigures;

/// Between two lines in the log.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// A running door. Fields are dropped in this order: nothing comes in while what is behind ends.
pub(crate) struct Tpu {
    server: Server,
    _stages: SigVerifyStage,
    relay: Option<Arc<Forwarder>>,
    work: Arc<ExecutorMetrics>,
}

impl Tpu {
    /// Opens the door of `localnet`.
    pub(crate) fn start(options: &Options, localnet: &Localnet) -> Result<Self> {
        let keypair = localnet.identity();
        let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
        let config = Arc::new(options.quic.clone());
        let relay = relay(options, &identity, localnet.reader().clone())?;
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
        Ok(Self { server, _stages: stages, relay, work: Arc::clone(localnet.executor_metrics()) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What it has counted, for whoever watches.
    pub(crate) fn figures(&self) -> TpuFigures {
        let counters = Arc::clone(self.server.counters());
        let relay = self.relay.as_ref().map(Arc::downgrade);
        TpuFigures { counters, work: Arc::clone(&self.work), relay }
    }

    /// Logs what was counted, now and then, for as long as the task lives.
    pub(crate) fn report(&self) -> impl Future<Output = ()> + Send + 'static {
        let (counters, relay) = (Arc::clone(self.server.counters()), self.relay.clone());
        async move {
            let mut every = tokio::time::interval(REPORT_EVERY);
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

fn relay(
    options: &Options,
    identity: &TlsIdentity,
    reader: Reader,
) -> Result<Option<Arc<Forwarder>>> {
    if options.forward.is_empty() {
        return Ok(None);
    }
    let is_valid: quic::BlockhashCheck = Box::new(move |blockhash| {
        reader.view(Commitment::Processed).meta().blockhashes.is_valid(blockhash)
    });
    let relay = Forwarder::start(&options.forward, identity, options.quic.forward_max, is_valid)
        .context("start the relay (--forward)")?;
    Ok(Some(Arc::new(relay)))
}

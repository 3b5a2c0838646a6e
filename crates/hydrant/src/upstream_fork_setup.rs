//! The fork of another cluster (`--fork-url`): from the flags to the running fork.
//!
//! Not here: fetching accounts (`upstream_fork`).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use chain_solana::{Reader, RemoteAccounts, StartPoint, TransactionSender};
use http_client::Server;
use localnet::Localnet;
use solana_hash::Hash;
use upstream_fork::{Config, ConnectedFork, ForkedSender, UpstreamFork};

use crate::clone::cluster_url;
use crate::console::{print_line, print_stderr};
use crate::local::flags::DevFlags;

/// Largest difference between the clocks of the system and a cluster that finality and votes for the time explain.
const CLUSTER_DELAY_SECS_MAX: u64 = 120;

/// The settings of a fork of another cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct ForkSettings {
    pub(crate) upstream: Config,
    /// Whether the fork starts at slot 0, or at the slot of `--warp-slot`.
    from_genesis: bool,
    /// The length of its epochs, if it is not that of the upstream.
    slots_per_epoch: Option<u64>,
}

/// The settings of the fork; `None` without `--fork-url`.
pub(crate) fn from_flags(flags: &DevFlags) -> Result<Option<ForkSettings>> {
    let Some(url) = &flags.fork_url else {
        for (is_set, name) in [
            (flags.fork_slot.is_some(), "--fork-slot"),
            (flags.fork_cache.is_some(), "--fork-cache"),
            (flags.fork_genesis.is_some(), "--fork-genesis"),
            (flags.fork_bytes_max.is_some(), "--fork-bytes-max"),
            (flags.fork_requests_max.is_some(), "--fork-requests-max"),
            (flags.fork_client_calls_per_s.is_some(), "--fork-client-calls-per-s"),
            (flags.fork_timeout_ms.is_some(), "--fork-timeout-ms"),
            (flags.fork_from_genesis, "--fork-from-genesis"),
        ] {
            ensure!(!is_set, "{name} requires --fork-url, the cluster to fork");
        }
        return Ok(None);
    };
    if let Some(dir) = &flags.node.ledger.ledger {
        bail!(
            "--fork-url excludes --ledger {}: the ledger of a fork is in memory, and --fork-cache stores what was \
             fetched",
            dir.display()
        );
    }
    let url = cluster_url(url);
    ensure!(
        ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
            && Server::from_url(&url).is_valid(),
        "--fork-url {}: the form is http[s]://HOST[:PORT][/PATH][?QUERY]",
        Server::from_url(&url)
    );
    let genesis = flags.fork_genesis.as_deref().map(|text| {
        text.parse::<Hash>().with_context(|| format!("--fork-genesis {text:?}: not a hash"))
    });
    let upstream = Config {
        genesis: genesis.transpose()?,
        slot: flags.fork_slot,
        cache_dir: flags.fork_cache.clone(),
        bytes_max: flags.fork_bytes_max.unwrap_or(Config::BYTES_MAX_DEFAULT),
        requests_max: flags.fork_requests_max.unwrap_or(Config::REQUESTS_MAX_DEFAULT),
        client_calls_per_s: flags
            .fork_client_calls_per_s
            .unwrap_or(Config::CLIENT_CALLS_PER_S_DEFAULT),
        timeout_ms: flags.fork_timeout_ms.unwrap_or(Config::TIMEOUT_MS_DEFAULT),
        ..Config::new(url)
    };
    let from_genesis = flags.fork_from_genesis || flags.warp_slot.flatten().is_some();
    Ok(Some(ForkSettings { upstream, from_genesis, slots_per_epoch: flags.slots_per_epoch }))
}

impl ForkSettings {
    /// Returns the start of the ledger; `None` for slot 0, also if the upstream does not report its slot.
    pub(crate) fn start_point(&self, connected: &ConnectedFork) -> Option<Arc<StartPoint>> {
        if self.from_genesis {
            return None;
        }
        let mut start = match connected.start_point() {
            Ok(start) => start.clone(),
            Err(err) => {
                let upstream = connected.upstream();
                print_stderr(&format!(
                    "hydrant: the slot of {upstream} is not known, so the fork starts at slot 0: {err}"
                ));
                return None;
            }
        };
        let now = system_unix_timestamp();
        if now.abs_diff(start.unix_timestamp) <= CLUSTER_DELAY_SECS_MAX {
            start.unix_timestamp = now;
        }
        Some(Arc::new(match self.slots_per_epoch {
            Some(slots) => start.with_slots_per_epoch(slots),
            None => start,
        }))
    }
}

/// Checks which cluster the upstream is. It blocks.
pub(crate) fn connect(settings: &ForkSettings, is_quiet: bool) -> Result<ConnectedFork> {
    let connected = UpstreamFork::connect(settings.upstream.clone()).context("--fork-url")?;
    let upstream = connected.upstream();
    let genesis = connected.genesis();
    if let Some(failure) = connected.failure() {
        let cached = connected.cached_accounts();
        print_stderr(&format!(
            "hydrant: {failure}; the fork has the {cached} accounts of its cache until it does"
        ));
    }
    if !is_quiet {
        let slot = connected.slot();
        print_line(&format!("Forks {upstream} (genesis {genesis}) as of slot {slot} or later"));
    }
    Ok(connected)
}

#[expect(clippy::disallowed_methods, reason = "the start of a ledger's clock")]
fn system_unix_timestamp() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The handles of a ledger that the node uses, whether it is a fork or not.
pub(crate) struct ForkedLedger {
    pub(crate) fork: Option<Arc<UpstreamFork>>,
    pub(crate) reader: Reader,
    pub(crate) transaction_sender: Arc<dyn TransactionSender>,
}

impl ForkedLedger {
    /// Starts the fork of a ledger, if it is one.
    pub(crate) fn start(localnet: &Localnet, connected: Option<ConnectedFork>) -> Result<Self> {
        let reader = localnet.reader().clone();
        let sender = localnet.transaction_sender();
        let Some(connected) = connected else {
            return Ok(Self { fork: None, reader, transaction_sender: sender });
        };
        let fork = connected.start(reader, localnet.control()).context("--fork-url")?;
        let sender = ForkedSender::new(Arc::clone(&fork), sender);
        Ok(Self {
            reader: fork.reader().clone(),
            transaction_sender: Arc::new(sender),
            fork: Some(fork),
        })
    }

    /// The upstream for the methods.
    pub(crate) fn upstream(&self) -> Option<Arc<dyn RemoteAccounts>> {
        self.fork.clone().map(|fork| fork as Arc<dyn RemoteAccounts>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flags: &DevFlags) -> String {
        format!("{:#}", from_flags(flags).expect_err("it is refused"))
    }

    #[test]
    fn flags_of_a_fork_require_its_cluster_and_a_ledger_in_memory() {
        assert_eq!(from_flags(&DevFlags::default()).expect("no fork"), None);
        let slot = DevFlags { fork_slot: Some(5), ..DevFlags::default() };
        assert!(refusal(&slot).contains("--fork-slot requires --fork-url"));
        let url = || DevFlags { fork_url: Some("d".to_owned()), ..DevFlags::default() };
        let mut stored = url();
        stored.node.ledger.ledger = Some("x".into());
        assert!(refusal(&stored).contains("--fork-url excludes --ledger x"));
        let genesis = DevFlags { fork_genesis: Some("0".to_owned()), ..url() };
        assert!(refusal(&genesis).contains("--fork-genesis \"0\": not a hash"));
        let scheme = DevFlags { fork_url: Some("ftp://x".to_owned()), ..DevFlags::default() };
        assert!(refusal(&scheme).contains("the form is http[s]://"));
        let port = DevFlags { fork_url: Some("http://h:99999".to_owned()), ..DevFlags::default() };
        assert!(refusal(&port).contains("the form is http[s]://"));
        let config = from_flags(&DevFlags { fork_slot: Some(5), ..url() });
        let config = config.expect("valid flags").expect("a fork");
        assert!(!config.from_genesis);
        let config = config.upstream;
        assert_eq!(config.url, "https://api.devnet.solana.com");
        assert_eq!((config.slot, config.requests_max), (Some(5), Config::REQUESTS_MAX_DEFAULT));
        for flags in [
            DevFlags { fork_from_genesis: true, ..url() },
            DevFlags { warp_slot: Some(Some(7)), ..url() },
        ] {
            let config = from_flags(&flags).expect("valid flags").expect("a fork");
            assert!(config.from_genesis);
        }
        // Without a value it is the slot of the fork's own cluster.
        let warped = DevFlags { warp_slot: Some(None), ..url() };
        assert!(!from_flags(&warped).expect("valid flags").expect("a fork").from_genesis);
    }
}

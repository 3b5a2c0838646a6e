//! The settings of `hydrant follow`: flags and configuration file, merged, checked, and with all files that they name
//! read.
//!
//! Not here: the settings that every node has (`node::config`).

use std::path::{Path, PathBuf};

use ::follow::{
    AgreementConfig, ArchiveSource, DownloadLimits, ExecutionConfig, LedgerDirectory, OnMismatch,
    SourceConfig, TrustedBank, VerifyMode,
};
use anyhow::{Context, Result, bail, ensure};
use http_client::{Endpoint, Server};
use solana_hash::Hash;

use crate::bounds;
use crate::config_file;
use crate::follow::flags::{FollowFlags, FollowerFlags, SendTo};
use crate::node::config::cores;
use crate::node::{Merge, NodeConfig, NodeError, ProducerDefaults};
use crate::snapshot_file::SnapshotFile;

/// Slots behind from which on Agave's nodes are unhealthy.
const SLOTS_BEHIND_MAX_DEFAULT: u64 = 128;
/// The form of a valid URL, for refusals.
const SOURCE_FORM: &str = "the form is http[s]://HOST:PORT";

/// The settings of `hydrant follow`.
pub(crate) struct FollowSettings {
    pub(crate) node: NodeConfig,
    pub(crate) chain: FollowConfig,
}

/// The settings of a followed chain.
pub struct FollowConfig {
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) agreement: AgreementConfig,
    /// The RPC port of a node of the chain.
    pub(crate) upstream: Option<Endpoint>,
    /// The state to start from. `None`: the stored one.
    pub(crate) snapshot: Option<SnapshotSource>,
    /// An archive on top of the snapshot file.
    pub(crate) incremental_snapshot: Option<PathBuf>,
    /// The directory of downloaded archives.
    pub(crate) archive_dir: PathBuf,
    pub(crate) download_limits: DownloadLimits,
    pub(crate) send: SendTo,
    pub(crate) verify: VerifyMode,
    /// Bank hashes that the chain must have.
    pub(crate) trusted_banks: Vec<TrustedBank>,
    /// The genesis hash that the chain must have.
    pub(crate) genesis_hash: Option<Hash>,
    pub(crate) verify_entries: bool,
    /// The transactions that are executed again.
    pub(crate) execution: Option<ExecutionConfig>,
    pub(crate) on_mismatch: OnMismatch,
    /// Slots behind the source above which the node is unhealthy.
    pub(crate) slots_behind_max: u64,
    /// Threads that read an archive.
    pub(crate) load_threads: usize,
}

/// The location of a full snapshot archive.
pub(crate) enum SnapshotSource {
    File(PathBuf),
    /// The RPC port of a node that serves one.
    Node(Endpoint),
}

/// The flags merged with the file: a flag overrides the file, lists are concatenated.
pub(crate) fn with_file(flags: FollowFlags) -> Result<FollowFlags> {
    let Some(path) = flags.config.config.clone() else { return Ok(flags) };
    let file = config_file::read_toml(config_file::FLAG, &path, FollowFlags::from_toml)?;
    Ok(flags.merge(file))
}

impl FollowSettings {
    /// Settings from flags. Reads every file that they name except archives, and checks every number.
    pub(crate) fn from_flags(flags: &FollowFlags) -> Result<Self> {
        bounds::check(&bounds::follow(&flags.follower))?;
        let node = NodeConfig::from_flags(&flags.node, &ProducerDefaults::FOLLOWED)?;
        ensure!(!node.reset || node.ledger_dir.is_some(), "--reset requires --ledger");
        let has_start = flags.follower.snapshot.is_some() || node.ledger_dir.is_some();
        ensure!(has_start, "--snapshot or --ledger is required: the state to start from");
        node.check_ports(None)?;
        ensure!(
            node.cluster_log.is_none() || flags.follower.verify != Some(VerifyMode::Off),
            "--verify off: its banks have no hash, and no replica takes them from --log-url; leave out --verify off, or \
             --log-url"
        );
        Ok(Self { node, chain: FollowConfig::from_flags(&flags.follower)? })
    }
}

impl FollowConfig {
    /// Follows the chain of Yellowstone gRPC servers (`http[s]://HOST:PORT`), the first healthy one of them, from the
    /// archive of the node whose RPC port is `snapshot` (`http[s]://HOST:PORT`). The archive is stored in `archive_dir`.
    ///
    /// # Errors
    ///
    /// A URL is not valid.
    pub fn new(sources: &[&str], snapshot: &str, archive_dir: &Path) -> Result<Self, NodeError> {
        let flags = FollowerFlags {
            source: sources.iter().map(|&url| url.to_owned()).collect(),
            snapshot: Some(snapshot.to_owned()),
            snapshot_dir: Some(archive_dir.to_owned()),
            ..FollowerFlags::default()
        };
        Self::from_flags(&flags).map_err(NodeError::new)
    }

    fn from_flags(flags: &FollowerFlags) -> Result<Self> {
        let upstream = upstream(flags)?;
        let send = flags.send.unwrap_or_default();
        ensure!(send != SendTo::Upstream || upstream.is_some(), "--send upstream needs --upstream");
        ensure!(
            !flags.verify_entries || flags.verify != Some(VerifyMode::Off),
            "--verify-entries needs another --verify than off"
        );
        let snapshot = flags.snapshot.as_deref().map(|snapshot| snapshot_source(flags, snapshot));
        let download_limits = DownloadLimits::default();
        Ok(Self {
            sources: sources(flags)?,
            agreement: agreement(flags)?,
            upstream,
            snapshot: snapshot.transpose()?,
            incremental_snapshot: flags.incremental_snapshot.clone(),
            archive_dir: flags.snapshot_dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            download_limits: DownloadLimits {
                bytes_max: flags.snapshot_bytes_max.unwrap_or(download_limits.bytes_max),
                ..download_limits
            },
            send,
            verify: flags.verify.unwrap_or_default(),
            trusted_banks: trusted_banks(flags)?,
            genesis_hash: genesis_hash(flags)?,
            verify_entries: flags.verify_entries,
            execution: execution(flags)?,
            on_mismatch: flags.on_mismatch.unwrap_or_default(),
            slots_behind_max: flags.slots_behind_max.unwrap_or(SLOTS_BEHIND_MAX_DEFAULT),
            load_threads: cores(),
        })
    }

    /// Checks that the archives of the flags start as archives do, unless there may be a stored state, with which they are
    /// not read. The rest of them is not checked, because that may take minutes.
    pub(crate) fn check(&self, node: &NodeConfig) -> Result<()> {
        let directory = node.ledger_dir.as_deref().map(LedgerDirectory::new).transpose();
        let directory = directory.context("--ledger")?;
        if directory.is_some_and(|directory| !node.reset && directory.may_have_state()) {
            return Ok(());
        }
        self.first_snapshot()?;
        self.snapshot_file().map_or(Ok(()), |file| file.check())
    }

    /// The snapshot to start from, and a node of its chain, without which no chain can be followed for the first time.
    pub(crate) fn first_snapshot(&self) -> Result<(&SnapshotSource, &Endpoint)> {
        let snapshot = self.snapshot.as_ref();
        let snapshot =
            snapshot.context("--ledger has no state yet: name a snapshot with --snapshot")?;
        let upstream = self.upstream.as_ref();
        let upstream =
            upstream.context("--snapshot is a file: name a node of the chain with --upstream")?;
        Ok((snapshot, upstream))
    }

    /// Fails if the chain has another genesis hash than that of the flags.
    pub(crate) fn check_genesis(&self, found: &Hash) -> Result<()> {
        let Some(expected) = &self.genesis_hash else { return Ok(()) };
        ensure!(
            found == expected,
            "the chain has the genesis hash {found}, and --genesis-hash is {expected}"
        );
        Ok(())
    }

    /// The archives of the flags. `None` if there are none, or a node has them.
    fn snapshot_file(&self) -> Option<SnapshotFile> {
        let Some(SnapshotSource::File(full)) = &self.snapshot else { return None };
        let incremental = self.incremental_snapshot.clone();
        Some(SnapshotFile { full: full.clone(), incremental, threads: self.load_threads })
    }

    /// The archives that close gaps: of the node that the snapshot came from, or of the upstream. `None` without either.
    pub(crate) fn archive_source(&self) -> Option<ArchiveSource> {
        let endpoint = match &self.snapshot {
            Some(SnapshotSource::Node(endpoint)) => endpoint.clone(),
            _ => self.upstream.clone()?,
        };
        let source = ArchiveSource::new(endpoint, self.archive_dir.clone(), self.load_threads);
        Some(ArchiveSource { limits: self.download_limits, ..source })
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn snapshot_source(flags: &FollowerFlags, snapshot: &str) -> Result<SnapshotSource> {
    if !is_url(snapshot) {
        ensure!(
            !snapshot.contains("://"),
            "--snapshot {}: {SOURCE_FORM}, or a file",
            Server::from_url(snapshot)
        );
        return Ok(SnapshotSource::File(PathBuf::from(snapshot)));
    }
    ensure!(
        flags.incremental_snapshot.is_none(),
        "--incremental-snapshot needs a file as --snapshot"
    );
    let endpoint = http_endpoint(flags, snapshot).context("--snapshot")?;
    Ok(SnapshotSource::Node(endpoint))
}

fn upstream(flags: &FollowerFlags) -> Result<Option<Endpoint>> {
    let of_snapshot =
        || flags.snapshot.as_deref().filter(|it| is_url(it)).map(|url| ("--snapshot", url));
    let url = flags.upstream.as_deref().map(|url| ("--upstream", url)).or_else(of_snapshot);
    ensure!(
        flags.upstream_key.is_none() || url.is_some(),
        "--upstream-key needs --upstream, or a URL as --snapshot"
    );
    url.map(|(flag, url)| http_endpoint(flags, url).context(flag)).transpose()
}

/// A node's RPC port, with the key of `--upstream-key`.
fn http_endpoint(flags: &FollowerFlags, url: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::parse(url)?;
    let Some(path) = &flags.upstream_key else { return Ok(endpoint) };
    let key = input_file::read_secret(path).context("--upstream-key")?;
    endpoint.with_api_key(&key).with_context(|| format!("--upstream-key {}", path.display()))
}

fn sources(flags: &FollowerFlags) -> Result<Vec<SourceConfig>> {
    ensure!(!flags.source.is_empty(), "--source is required: the URL of a server to follow");
    let read = |path: &Path| input_file::read_secret(path).context("--x-token");
    let token = flags.x_token.as_deref().map(read).transpose()?;
    let source = |url: &String| source_config("--source", url, token.clone());
    flags.source.iter().map(source).collect()
}

/// The independent sources. The n-th token is that of the n-th source.
fn agreement(flags: &FollowerFlags) -> Result<AgreementConfig> {
    let urls = &flags.verify_source;
    let tokens = &flags.verify_x_token;
    ensure!(tokens.len() <= urls.len(), "there are more --verify-x-token than --verify-source");
    let is_agreement = matches!(flags.verify, Some(VerifyMode::Agree));
    ensure!(
        is_agreement != urls.is_empty(),
        "--verify agree needs --verify-source, and nothing else does"
    );
    ensure!(
        flags.verify_sources_min.is_none() || !urls.is_empty(),
        "--verify-sources-min needs --verify-source"
    );
    let required = flags.verify_sources_min.unwrap_or(urls.len());
    ensure!(
        !is_agreement || (1..=urls.len()).contains(&required),
        "--verify-sources-min {required}: there are {} --verify-source",
        urls.len()
    );
    let source = |(number, url): (usize, &String)| {
        let read = |path: &PathBuf| input_file::read_secret(path).context("--verify-x-token");
        source_config("--verify-source", url, tokens.get(number).map(read).transpose()?)
    };
    let sources: Vec<SourceConfig> = urls.iter().enumerate().map(source).collect::<Result<_>>()?;
    check_independence(&sources, &flags.source)?;
    Ok(AgreementConfig { sources, required })
}

/// Refuses an independent source that is the same server as another one, or as a followed one: it would agree with
/// itself.
fn check_independence(independent: &[SourceConfig], followed: &[String]) -> Result<()> {
    let followed: Vec<_> = followed.iter().map(|url| ("--source", Server::from_url(url))).collect();
    for (number, source) in independent.iter().enumerate() {
        let server = source.server();
        let earlier = independent[..number].iter().map(|it| ("--verify-source", it.server()));
        let mut others = followed.iter().cloned().chain(earlier);
        if let Some((flag, other)) = others.find(|(_, other)| other.is_same(&server)) {
            bail!(
                "--verify-source {server} is the same server as {flag} {other}, and a server counts once: name an \
                 independent one"
            );
        }
    }
    Ok(())
}

/// Returns the transactions that are executed again. The mode `execution` is that of all.
fn execution(flags: &FollowerFlags) -> Result<Option<ExecutionConfig>> {
    let transactions_per_s = flags.verify_execution_per_s;
    let is_mode = flags.verify == Some(VerifyMode::Execution);
    let is_on = is_mode || flags.verify_execution || transactions_per_s.is_some();
    ensure!(
        !is_on || flags.verify != Some(VerifyMode::Off),
        "--verify-execution needs another --verify than off"
    );
    let config = ExecutionConfig { transactions_per_s, ..ExecutionConfig::default() };
    Ok(is_on.then_some(config))
}

fn trusted_banks(flags: &FollowerFlags) -> Result<Vec<TrustedBank>> {
    let is_off = flags.verify == Some(VerifyMode::Off);
    ensure!(!is_off || flags.trust.is_empty(), "--trust needs another --verify than off");
    let parse =
        |text: &String| text.parse::<TrustedBank>().with_context(|| format!("--trust {text}"));
    flags.trust.iter().map(parse).collect()
}

fn genesis_hash(flags: &FollowerFlags) -> Result<Option<Hash>> {
    let text = flags.genesis_hash.as_deref();
    let parse = |text: &str| text.parse::<Hash>().context("--genesis-hash: not a hash in base58");
    text.map(parse).transpose()
}

fn source_config(flag: &str, url: &str, x_token: Option<String>) -> Result<SourceConfig> {
    let source = SourceConfig { url: url.to_owned(), x_token };
    ensure!(source.has_valid_url(), "{flag} {}: {SOURCE_FORM}", source.server());
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeFlags;
    use crate::node::flags::ClusterLogFlags;

    fn refusal(sources: &[&str], verify_sources: &[&str]) -> Option<String> {
        let owned = |urls: &[&str]| urls.iter().map(|&url| url.to_owned()).collect();
        let flags = FollowerFlags {
            source: owned(sources),
            verify: Some(VerifyMode::Agree),
            verify_source: owned(verify_sources),
            ..FollowerFlags::default()
        };
        FollowConfig::from_flags(&flags).err().map(|err| format!("{err:#}"))
    }

    #[test]
    fn a_verify_source_counts_once_and_is_not_the_followed_source() {
        assert_eq!(refusal(&["http://a:1"], &["http://b:1", "http://b:2", "https://c"]), None);
        for (source, verify_sources, names) in [
            (
                "http://a:1",
                ["http://b:1/", "http://B:1/KEY?token=KEY"],
                "--verify-source http://b:1",
            ),
            ("http://a:1", ["http://b", "http://u:KEY@b:80"], "--verify-source http://b"),
            ("http://a:1/KEY", ["http://b:1", "http://a:1"], "--source http://a:1"),
            ("https://a:1", ["http://a.:1", "http://b:1"], "--source https://a:1"),
            (
                "http://localhost:1",
                ["http://127.0.0.1:1", "http://b:1"],
                "--source http://localhost:1",
            ),
        ] {
            let text = refusal(&[source], &verify_sources).expect("it is refused");
            let expected = format!("is the same server as {names}, and a server counts once");
            assert!(text.starts_with("--verify-source http://"), "{text}");
            assert!(text.contains(&expected) && !text.contains("KEY"), "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let with_source =
            || FollowerFlags { source: vec!["http://a:1".to_owned()], ..FollowerFlags::default() };
        let nowhere = PathBuf::from("/nowhere");
        for (flags, expected) in [
            (
                FollowerFlags { x_token: Some(nowhere.clone()), ..with_source() },
                "--x-token: /nowhere: ",
            ),
            (
                FollowerFlags {
                    verify: Some(VerifyMode::Agree),
                    verify_source: vec!["http://b:1".to_owned()],
                    verify_x_token: vec![nowhere],
                    ..with_source()
                },
                "--verify-x-token: /nowhere: ",
            ),
            (
                FollowerFlags { verify_sources_min: Some(1), ..with_source() },
                "--verify-sources-min needs --verify-source",
            ),
            (
                FollowerFlags {
                    verify: Some(VerifyMode::Off),
                    verify_execution_per_s: Some(10),
                    ..with_source()
                },
                "--verify-execution needs another --verify than off",
            ),
        ] {
            let err = FollowConfig::from_flags(&flags).err().expect("it is refused");
            assert!(format!("{err:#}").starts_with(expected), "{err:#}");
        }
    }

    #[test]
    fn banks_without_a_hash_are_not_logged() {
        let flags = |verify| FollowFlags {
            follower: FollowerFlags {
                source: vec!["http://a:1".to_owned()],
                snapshot: Some("http://127.0.0.1:2".to_owned()),
                verify,
                ..FollowerFlags::default()
            },
            node: NodeFlags {
                cluster_log: ClusterLogFlags {
                    log_url: Some("file:///log".to_owned()),
                    depot: Some("file:///depot".to_owned()),
                    ..ClusterLogFlags::default()
                },
                ..NodeFlags::default()
            },
            ..FollowFlags::default()
        };
        let refused = FollowSettings::from_flags(&flags(Some(VerifyMode::Off))).err();
        let text = refused.expect("it is refused").to_string();
        assert!(text.starts_with("--verify off: ") && text.contains("--log-url"), "{text}");
        let refusal = |flags: &FollowFlags| {
            FollowSettings::from_flags(flags).err().map(|err| format!("{err:#}"))
        };
        for verify in [None, Some(VerifyMode::Sequence)] {
            assert_eq!(refusal(&flags(verify)), None);
        }
        let mut unlogged = flags(Some(VerifyMode::Off));
        unlogged.node.cluster_log = ClusterLogFlags::default();
        assert_eq!(refusal(&unlogged), None);
    }

    #[test]
    fn each_flag_of_the_execution_turns_it_on() {
        let with_source =
            || FollowerFlags { source: vec!["http://a:1".to_owned()], ..FollowerFlags::default() };
        let mode = Some(VerifyMode::Execution);
        for (flags, expected) in [
            (with_source(), None),
            (FollowerFlags { verify_execution: true, ..with_source() }, Some(None)),
            (FollowerFlags { verify: mode, ..with_source() }, Some(None)),
            (FollowerFlags { verify_execution_per_s: Some(10), ..with_source() }, Some(Some(10))),
        ] {
            let config = FollowConfig::from_flags(&flags).expect("valid flags");
            let limit = config.execution.map(|execution| execution.transactions_per_s);
            assert_eq!(limit, expected);
        }
    }

    #[test]
    fn the_refusal_of_a_url_has_nothing_of_it_but_the_server() {
        for (source, verify_source) in
            [("ws://u:KEY@a:1/KEY?KEY", "http://b:1"), ("http://a:1", "ws://u:KEY@b:1/KEY?KEY")]
        {
            let text = refusal(&[source], &[verify_source]).expect("it is refused");
            assert!(text.contains(":1: the form is http[s]") && !text.contains("KEY"), "{text}");
        }
        for url in
            ["http://", "http://[::1", "http://a b", "http://127.0.0.1:99999", "http://h/KEY KEY"]
        {
            for (sources, verify_sources, flag) in [
                ([url], ["http://b:1"], "--source http://"),
                (["http://a:1"], [url], "--verify-source http://"),
            ] {
                let text = refusal(&sources, &verify_sources).expect("it is refused");
                assert!(text.starts_with(flag) && text.contains(SOURCE_FORM), "{text}");
                assert!(!text.contains("KEY"), "{text}");
            }
        }
        for (upstream, snapshot, expected) in [
            (None, Some("ftp://u:KEY@a"), "--snapshot ftp://a: the form is"),
            (None, Some("http://u:KEY@127.0.0.1/KEY"), "--snapshot: http://127.0.0.1: "),
            (Some("http://u:KEY@127.0.0.1"), None, "--upstream: http://127.0.0.1: "),
            (Some("ws://a/KEY"), None, "--upstream: ws://a: "),
        ] {
            let flags = FollowerFlags {
                source: vec!["http://a:1".to_owned()],
                upstream: upstream.map(str::to_owned),
                snapshot: snapshot.map(str::to_owned),
                ..FollowerFlags::default()
            };
            let err = FollowConfig::from_flags(&flags).err().expect("it is refused");
            let text = format!("{err:#}");
            assert!(text.starts_with(expected) && !text.contains("KEY"), "{text}");
        }
    }
}

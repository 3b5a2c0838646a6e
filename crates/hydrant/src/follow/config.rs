//! The settings of `hydrant follow`: flags and configuration file, merged, checked, and with all files that they name
//! read.
//!
//! Not here: the settings that every node has (`node::config`).

use std::path::{Path, PathBuf};

use ::follow::{
    AgreementConfig, ArchiveSource, DownloadLimits, OnMismatch, SourceConfig, VerifyMode,
};
use anyhow::{Context, Result, ensure};
use http_client::Endpoint;

use crate::bounds;
use crate::config_file;
use crate::follow::flags::{FollowFlags, FollowerFlags, SendTo};
use crate::input_file;
use crate::node::config::cores;
use crate::node::{Merge, NodeConfig, ProducerDefaults};
use crate::snapshot_file::SnapshotFile;

/// Slots behind from which on Agave's nodes are unhealthy.
const SLOTS_BEHIND_MAX_DEFAULT: u64 = 128;
/// Slots in gRPC's log: those that are not final, and one minute of 400 ms for followers that reconnect.
const REPLAY_SLOTS_MIN: u64 = 150;

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
    pub(crate) verify_entries: bool,
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
    let file = config_file::read_toml(&path, FollowFlags::from_toml)?;
    Ok(flags.merge(file))
}

impl FollowSettings {
    /// Settings from flags. Reads every file that they name except archives, and checks every number.
    pub(crate) fn from_flags(flags: &FollowFlags) -> Result<Self> {
        bounds::check(&bounds::follow(&flags.follower))?;
        let defaults = ProducerDefaults { has_tpu: false, replay_slots_min: REPLAY_SLOTS_MIN };
        let node = NodeConfig::from_flags(&flags.node, &defaults)?;
        ensure!(!node.reset || node.ledger_dir.is_some(), "--reset requires --ledger");
        let has_start = flags.follower.snapshot.is_some() || node.ledger_dir.is_some();
        ensure!(has_start, "--snapshot or --ledger is required: the state to start from");
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
    pub fn new(sources: &[&str], snapshot: &str, archive_dir: &Path) -> Result<Self> {
        let flags = FollowerFlags {
            source: sources.iter().map(|&url| url.to_owned()).collect(),
            snapshot: Some(snapshot.to_owned()),
            snapshot_dir: Some(archive_dir.to_owned()),
            ..FollowerFlags::default()
        };
        Self::from_flags(&flags)
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
            verify_entries: flags.verify_entries,
            on_mismatch: flags.on_mismatch.unwrap_or_default(),
            slots_behind_max: flags.slots_behind_max.unwrap_or(SLOTS_BEHIND_MAX_DEFAULT),
            load_threads: cores(),
        })
    }

    /// Checks that the archives of the flags start as archives do, unless there may be a stored state, with which they are
    /// not read. The rest of them is not checked, because that may take minutes.
    pub(crate) fn check(&self, node: &NodeConfig) -> Result<()> {
        let may_have_state =
            node.ledger_dir.as_deref().is_some_and(|dir| !node.reset && dir.exists());
        let file = self.snapshot_file().filter(|_| !may_have_state);
        file.map_or(Ok(()), |file| file.check())
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
    let of_snapshot = || flags.snapshot.as_deref().filter(|it| is_url(it));
    let url = flags.upstream.as_deref().or_else(of_snapshot);
    ensure!(
        flags.upstream_key.is_none() || url.is_some(),
        "--upstream-key needs --upstream, or a URL as --snapshot"
    );
    url.map(|url| http_endpoint(flags, url)).transpose().context("--upstream")
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
    let token = flags.x_token.as_deref().map(read_token).transpose()?;
    let source = |url: &String| {
        ensure!(is_url(url), "--source {url}: the form is http[s]://HOST:PORT");
        Ok(SourceConfig { url: url.clone(), x_token: token.clone() })
    };
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
    let required = flags.verify_sources_min.unwrap_or(urls.len());
    ensure!(
        !is_agreement || (1..=urls.len()).contains(&required),
        "--verify-sources-min {required}: there are {} --verify-source",
        urls.len()
    );
    let source = |(number, url): (usize, &String)| {
        ensure!(is_url(url), "--verify-source {url}: the form is http[s]://HOST:PORT");
        let x_token = tokens.get(number).map(|path| read_token(path)).transpose()?;
        Ok(SourceConfig { url: url.clone(), x_token })
    };
    let sources = urls.iter().enumerate().map(source).collect::<Result<_>>()?;
    Ok(AgreementConfig { sources, required })
}

fn read_token(path: &Path) -> Result<String> {
    input_file::read_secret(path).context("--x-token")
}

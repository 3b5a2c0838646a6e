//! Closes gaps that no source can fill: takes the state of a newer archive, and lets the ledger jump to it.
//!
//! In: a stream that waits above a gap (`FollowStatus::joinable_from`), and the archives of an upstream. Out: a
//! [`Jump`] for the writer.
//! Shape: an incremental archive with a base that is not above the ledger is enough, because it has everything that was
//! written after its base. Otherwise a full one is downloaded, and compared with the ledger, with the incremental one
//! on top if there is one. An archive is taken only if the stream that waits reaches it.
//! Bounds: one archive of each kind at a time, with the limits of a download; of its accounts, those that differ from
//! the ledger's, `changes_bytes_max`. An archive that was refused is not downloaded again.
//! Invariant: before anything of an archive is shown, it is verified whole against its own hashes, on top of the
//! ledger's state, and its sysvars show that it descends from the confirmed bank. It is shown as processed until the
//! banks above it prove it (`writer::jump`). The ledger continues to follow during the load, and the archive is
//! discarded if the stream catches up first.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chain_solana::Reader;
use http_client::{Endpoint, describe_error};
use lattice::LtHash;
use ledger::{BlockId, Slot};
use snapshot_solana::{ArchiveName, BankFields, LoadedState, Progress, Snapshot, SnapshotError};
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use tokio::sync::mpsc::WeakSender;
use tokio::sync::oneshot;

use crate::ancestry::{AncestorSysvars, AncestryError, ChainFacts, ConfirmedBank, check_ancestry};
use crate::archive_changes::{AccountAfter, ArchiveChanges, TooManyChanges};
use crate::download::{
    ArchiveKind, DownloadError, DownloadLimits, DownloadProgress, download, newest_archive,
};
use crate::jump::{ConfirmedState, Jump, JumpRefusal};
use crate::status::FollowStatus;
use crate::stream::Message;
use crate::trust::{NamedBanks, TrustError, TrustedBanks};

/// Interval between log lines about the progress of a download or a load.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Archives that are remembered as refused.
const REFUSED_MAX: usize = 16;

/// The source of the archives that close gaps.
#[derive(Clone, Debug)]
pub struct ArchiveSource {
    /// The RPC port of a node that serves archives.
    pub upstream: Endpoint,
    /// The directory that they are downloaded to. Each is removed after its use.
    pub dir: PathBuf,
    /// Limits of the downloads of archives.
    pub limits: DownloadLimits,
    /// Bytes of accounts that a jump changes, at most; they are in memory at once. Default: 4 GiB.
    pub changes_bytes_max: usize,
    /// Threads that read an archive.
    pub threads: usize,
    /// Interval between requests for the upstream's newest archive while a gap is open. Default: 5 s.
    pub poll_interval: Duration,
    /// Maximum time until the block of an archive is proven. A larger value serves an archive that cannot be proven for
    /// longer. The banks that prove it have already arrived, so it takes a second or two. Default: 60 s.
    pub proof_wait_max: Duration,
}

impl ArchiveSource {
    /// The archives of an upstream, with the default bounds.
    pub fn new(upstream: Endpoint, dir: PathBuf, threads: usize) -> Self {
        Self {
            upstream,
            dir,
            limits: DownloadLimits::default(),
            changes_bytes_max: 4 << 30,
            threads,
            poll_interval: Duration::from_secs(5),
            proof_wait_max: Duration::from_secs(60),
        }
    }
}

/// Why an archive closed no gap.
#[derive(Debug, thiserror::Error)]
enum CloseError {
    #[error("no archive was downloaded")]
    Download(#[from] DownloadError),
    #[error("the archive was refused")]
    Archive(#[from] SnapshotError),
    #[error("the archive was refused")]
    Ancestry(#[from] AncestryError),
    #[error("the archive was refused")]
    Trust(#[from] TrustError),
    #[error("the archive is too different from the ledger")]
    Changes(#[from] TooManyChanges),
    #[error("the ledger did not jump")]
    Refused(#[from] JumpRefusal),
    #[error(
        "the newest incremental archive is on top of slot {base}, above the ledger's slot {confirmed}; the newest \
         full one is of slot {full}"
    )]
    OtherBase { base: Slot, confirmed: Slot, full: Slot },
    #[error("start a thread")]
    Thread(#[source] std::io::Error),
    #[error("the loading thread panicked")]
    Panicked,
    #[error("the follower has ended")]
    Ended,
}

impl CloseError {
    /// Whether the same archive would fail again.
    fn is_archive_at_fault(&self) -> bool {
        match self {
            Self::Archive(_) | Self::Ancestry(_) | Self::Trust(_) | Self::Changes(_) => true,
            Self::Refused(refusal) => refusal.is_archive_at_fault(),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The newest incremental one, on top of the ledger.
    Incremental,
    /// The newest full one, and the newest incremental one if it is on top of that.
    Full { with_incremental: bool },
}

/// The facts of the chain that an archive must not contradict.
#[derive(Clone, Debug)]
pub(crate) struct KnownChain {
    pub(crate) facts: ChainFacts,
    /// The trusted banks above the start.
    pub(crate) trusted: TrustedBanks,
}

/// Closes gaps until the follower ends.
pub(crate) struct GapCloser {
    source: ArchiveSource,
    reader: Reader,
    status: Arc<FollowStatus>,
    messages: WeakSender<Message>,
    known: KnownChain,
    /// Names of archives that were refused.
    refused: VecDeque<String>,
}

impl GapCloser {
    pub(crate) fn new(
        source: ArchiveSource,
        reader: Reader,
        status: Arc<FollowStatus>,
        messages: WeakSender<Message>,
        known: KnownChain,
    ) -> Self {
        Self { source, reader, status, messages, known, refused: VecDeque::new() }
    }

    /// Runs until the follower ends.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(self.source.poll_interval).await;
            let joinable_from = self.status.joinable_from.load(Ordering::Relaxed);
            if joinable_from == 0 {
                continue;
            }
            match self.close(joinable_from).await {
                Ok(()) => {}
                Err(CloseError::Ended) => return,
                Err(err) => self.report(&err),
            }
        }
    }

    fn report(&self, err: &CloseError) {
        let text = describe_error(err);
        if err.is_archive_at_fault() {
            self.status.proof.set_refusal(Some(format!("an archive closes no gap: {text}")));
        }
        let before = self.status.last_archive_error.lock().replace(text.clone());
        if before.as_ref() != Some(&text) {
            tracing::warn!("the gap is still open: {text}");
        }
    }

    /// Closes the gap below `joinable_from`, if there is an archive for it.
    async fn close(&mut self, joinable_from: Slot) -> Result<(), CloseError> {
        let Some(choice) = self.choose(joinable_from).await? else { return Ok(()) };
        tracing::info!(?choice, joinable_from, "an archive closes the gap");
        let (full, incremental) = match choice {
            Choice::Incremental => (None, Some(self.download(ArchiveKind::Incremental).await?)),
            Choice::Full { with_incremental } => {
                let full = self.download(ArchiveKind::Full).await?;
                // It is newer now than it was before the long download.
                let incremental = match with_incremental {
                    true => self.download(ArchiveKind::Incremental).await.ok(),
                    false => None,
                };
                let slot = parse_archive_name(&full).map(|name| name.slot);
                let is_on_top =
                    |path: &PathBuf| parse_archive_name(path).is_some_and(|it| it.base == slot);
                let (on_top, other) = match incremental {
                    Some(path) if is_on_top(&path) => (Some(path), None),
                    other => (None, other),
                };
                other.iter().for_each(|path| remove(path));
                (Some(full), on_top)
            }
        };
        let loaded = self.load(full.clone(), incremental.clone()).await;
        // Before the jump: the node may end at any time after it.
        full.iter().chain(&incremental).for_each(|path| remove(path));
        let closed = match loaded {
            Ok(loaded) => self.jump(loaded).await,
            Err(err) => Err(err),
        };
        if closed.as_ref().is_err_and(CloseError::is_archive_at_fault) {
            full.iter().chain(&incremental).for_each(|path| self.refuse(path));
        }
        closed
    }

    /// Returns the archives to load, or `None` if none closes the gap yet.
    async fn choose(&self, joinable_from: Slot) -> Result<Option<Choice>, CloseError> {
        let confirmed = self.status.confirmed.load(Ordering::Relaxed);
        let upstream = &self.source.upstream;
        let limits = &self.source.limits;
        let is_new = |name: &ArchiveName| !self.refused.contains(&name.hash);
        let incremental = newest_archive(upstream, ArchiveKind::Incremental, limits).await;
        let incremental = incremental.ok().filter(is_new);
        let reaches = |name: &ArchiveName| name.slot >= joinable_from && name.slot > confirmed;
        let base = incremental.as_ref().and_then(|name| name.base);
        let is_applicable = base.is_some_and(|base| base <= confirmed);
        if is_applicable && incremental.as_ref().is_some_and(reaches) {
            return Ok(Some(Choice::Incremental));
        }
        let full = match newest_archive(upstream, ArchiveKind::Full, limits).await {
            Ok(full) => full,
            // The next incremental one may reach.
            Err(_) if is_applicable => return Ok(None),
            Err(err) => return Err(err.into()),
        };
        let is_on_top = base == Some(full.slot);
        if is_new(&full) && full.slot > confirmed {
            let is_enough =
                reaches(&full) || (is_on_top && incremental.as_ref().is_some_and(reaches));
            return Ok(is_enough.then_some(Choice::Full { with_incremental: is_on_top }));
        }
        match base {
            Some(base) if !is_applicable => {
                Err(CloseError::OtherBase { base, confirmed, full: full.slot })
            }
            _ => Ok(None),
        }
    }

    async fn download(&self, kind: ArchiveKind) -> Result<PathBuf, DownloadError> {
        let ArchiveSource { upstream, dir, limits, .. } = &self.source;
        let progress = DownloadProgress::default();
        let downloaded = download(upstream, kind, dir, limits, &progress);
        tokio::pin!(downloaded);
        let mut seconds = 0;
        loop {
            match tokio::time::timeout(LOG_INTERVAL, &mut downloaded).await {
                Ok(path) => return path,
                Err(_) => {
                    seconds += LOG_INTERVAL.as_secs();
                    let bytes = progress.bytes();
                    let total = progress.bytes_total();
                    let rate = (bytes / seconds).max(1);
                    let left_s = total.saturating_sub(bytes) / rate;
                    tracing::info!(?kind, bytes, total, rate, left_s, "downloading an archive");
                }
            }
        }
    }

    /// Compares archives with the confirmed state.
    async fn load(
        &self,
        full: Option<PathBuf>,
        incremental: Option<PathBuf>,
    ) -> Result<Loaded, CloseError> {
        let (sender, state) = oneshot::channel();
        self.send(Message::State(sender)).await?;
        let state = state.await.map_err(|_| CloseError::Ended)?;
        let from = state.view.block();
        let load = Load {
            state,
            reader: self.reader.clone(),
            full,
            incremental,
            bytes_max: self.source.changes_bytes_max,
            status: Arc::clone(&self.status),
            threads: self.source.threads,
            known: self.known.clone(),
            progress: Arc::default(),
        };
        let progress = Arc::clone(&load.progress);
        let (sender, mut loaded) = oneshot::channel();
        // A thread of its own, not the runtime's: a long load must not delay the node's end.
        let thread = std::thread::Builder::new().name("archive".into());
        thread.spawn(move || drop(sender.send(load.run()))).map_err(CloseError::Thread)?;
        let (snapshot, changes) = loop {
            match tokio::time::timeout(LOG_INTERVAL, &mut loaded).await {
                Ok(loaded) => break loaded.map_err(|_| CloseError::Panicked)??,
                Err(_) => {
                    let bytes = progress.archive_bytes();
                    let total = progress.archive_bytes_total();
                    let accounts = progress.accounts();
                    tracing::info!(bytes, total, accounts, "loading an archive");
                }
            }
        };
        Ok(Loaded { from, snapshot, changes })
    }

    async fn jump(&self, loaded: Loaded) -> Result<(), CloseError> {
        let Loaded { from, snapshot: Snapshot { bank: fields, lamports, .. }, changes } = loaded;
        let (done, is_done) = oneshot::channel();
        let proof_wait_max = self.source.proof_wait_max;
        let jump = Jump { from, fields, lamports, changes, proof_wait_max, done };
        self.send(Message::Jump(Box::new(jump))).await?;
        Ok(is_done.await.map_err(|_| CloseError::Ended)??)
    }

    async fn send(&self, message: Message) -> Result<(), CloseError> {
        let messages = self.messages.upgrade().ok_or(CloseError::Ended)?;
        messages.send(message).await.map_err(|_| CloseError::Ended)
    }

    fn refuse(&mut self, path: &Path) {
        if let Some(name) = parse_archive_name(path) {
            self.refused.push_back(name.hash);
        }
        while self.refused.len() > REFUSED_MAX {
            self.refused.pop_front();
        }
    }
}

struct Loaded {
    /// The confirmed block that they were compared with.
    from: BlockId,
    snapshot: Snapshot,
    changes: Vec<AccountAfter>,
}

/// A load of archives, for a thread.
struct Load {
    state: ConfirmedState,
    reader: Reader,
    full: Option<PathBuf>,
    incremental: Option<PathBuf>,
    bytes_max: usize,
    status: Arc<FollowStatus>,
    threads: usize,
    known: KnownChain,
    progress: Arc<Progress>,
}

impl Load {
    fn run(self) -> Result<(Snapshot, Vec<AccountAfter>), CloseError> {
        let Self { state, reader, full, incremental, bytes_max, status, threads, progress, .. } =
            self;
        let ConfirmedState { view, lt_hash } = state;
        let info = Arc::clone(view.meta());
        let slot = view.block().slot;
        let accounts_len = view.len();
        let lamports = view.meta().capitalization;
        let is_full = full.is_some();
        let base = (!is_full).then(|| lt_hash.unwrap_or_else(|| sum_accounts(&view)));
        let bytes = Arc::clone(&status.archive_bytes);
        let mut changes = ArchiveChanges::new(view, reader, is_full, bytes_max, bytes);
        let incremental = incremental.as_deref();
        let snapshot = match (full, incremental, base) {
            (Some(full), on_top, _) => {
                snapshot_solana::load(&full, on_top, threads, &progress, &mut changes)?
            }
            (None, Some(path), Some(lt_hash)) => {
                let state = LoadedState { slot, lt_hash, accounts_len, lamports };
                snapshot_solana::load_on_top(path, state, threads, &progress, &mut changes)?
            }
            (None, ..) => unreachable!("there is an archive"),
        };
        let changes = changes.into_changes()?;
        let confirmed = ConfirmedBank {
            slot,
            block_height: info.block_height,
            blockhash: info.last_blockhash(),
            bank_hash: Some(info.bank_hash).filter(|hash| *hash != Hash::default()),
        };
        let sysvars = AncestorSysvars {
            slot_hashes: written_data(&changes, &sysvar::slot_hashes::ID),
            slot_history: written_data(&changes, &sysvar::slot_history::ID),
        };
        check_ancestry(&confirmed, &self.known.facts, &snapshot.bank, sysvars)?;
        let BankFields { slot: archive, bank_hash, .. } = snapshot.bank;
        let slot_hashes = sysvars.slot_hashes;
        let named = NamedBanks { slot: archive, bank_hash, slot_hashes };
        self.known.trusted.check_archive(slot, &named)?;
        Ok((snapshot, changes))
    }
}

/// The data of an account that an archive changes; every bank writes the sysvars. `changes` are sorted.
fn written_data<'a>(changes: &'a [AccountAfter], pubkey: &Pubkey) -> &'a [u8] {
    let found = changes.binary_search_by_key(pubkey, |(changed, _)| *changed);
    let account = found.ok().and_then(|at| changes[at].1.as_ref());
    account.map_or(&[], |account| account.data())
}

/// The lattice hash over all accounts. Cost: about a microsecond for each.
fn sum_accounts(view: &chain_solana::View) -> LtHash {
    let mut sum = LtHash::EMPTY;
    for (address, account) in view.all() {
        if let Some(pubkey) = address.to_array::<32>() {
            sum.mix_in(&solana::lt_hash(&Pubkey::new_from_array(pubkey), &account.0));
        }
    }
    sum
}

fn parse_archive_name(path: &Path) -> Option<ArchiveName> {
    ArchiveName::parse(path.file_name()?.to_str()?)
}

fn remove(path: &Path) {
    if let Err(err) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %err, "an archive that was used is not removed");
    }
}

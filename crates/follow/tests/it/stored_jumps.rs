//! A follower with a directory jumps to the block of an archive, and ends at any moment after it. It comes back with
//! the state and the blocks of a bank of the chain, verified, and reports every later bank once.
//! Kills: 4 of each of 3 chains, or as many of each as `HYDRANT_KILLS` says.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use follow::{ArchiveSource, FollowerConfig, SourceConfig, VerifyMode};
use lattice::HardFork;
use ledger::Commitment;
use testkit::archive_server::ArchiveServer;
use testkit::clock::now;
use testkit::eventually::eventually;
use testkit::geyser_source::Source;
use tokio::runtime::Runtime;
use yellowstone_grpc_proto::geyser::SubscribeUpdate;

use crate::archives::State;
use crate::proofs;
use crate::snapshot;
use crate::stored::{DELAY, PROCESS_STARTS, RandomChain, Rig, accounts};

const KILLS: &str = "HYDRANT_KILLS";
const KILLS_DEFAULT: usize = 4;
/// Timeout after which a child process exits if nothing kills it.
const CHILD_TIMEOUT: Duration = Duration::from_secs(120);
/// The child's environment variable: the directory, the source and the upstream.
const CHILD: &str = "HYDRANT_TEST_FOLLOW_CHILD";
/// The child is this test, too.
const THIS_TEST: &str = "stored_jumps::a_follower_that_is_killed_after_a_jump_comes_back_verified_and_reports_each_bank_once";

/// A source, and an upstream with its archives.
struct Upstream {
    source: Source,
    source_url: String,
    archives: ArchiveServer,
    archives_address: SocketAddr,
    /// The directory of its archives.
    dir: tempfile::TempDir,
}

impl Upstream {
    async fn start() -> Self {
        let source = Source::new(None);
        let archives = ArchiveServer::default();
        let source_url = format!("http://{}", source.serve().await);
        let archives_address = archives.start();
        let dir = tempfile::tempdir().expect("a directory");
        Self { source, source_url, archives, archives_address, dir }
    }

    fn config(&self, verify: VerifyMode, dir: &Path) -> FollowerConfig {
        config(&self.source_url, self.archives_address, verify, dir)
    }

    /// Cuts the follower's stream, and waits for one that starts at this slot or later. Later updates are not sent
    /// in the stream before.
    async fn cut(&self, first_available: u64) {
        let before = self.source.requests().len();
        self.source.limit_replay(first_available);
        self.source.cut();
        let has_another = || self.source.requests().len() != before;
        eventually(has_another, || "another stream".to_owned()).await;
    }

    /// Serves an archive of a bank: a full one, or one on top of the snapshot.
    fn serve(&self, bank: &Archived, is_full: bool) {
        if is_full {
            self.archives.set(Some(&bank.state.write_full(self.dir.path())), None);
        } else {
            let dir = self.dir.path();
            let closed = &bank.closed;
            let path = bank.state.write_incremental(dir, snapshot::SLOT, closed);
            self.archives.set(None, Some(&path));
        }
    }
}

fn config(source: &str, archives: SocketAddr, verify: VerifyMode, dir: &Path) -> FollowerConfig {
    let source = SourceConfig { url: source.to_owned(), x_token: None };
    let downloads = dir.join("archives");
    std::fs::create_dir_all(&downloads).expect("a directory");
    let archives = ArchiveSource::new(archives.into(), downloads, 1);
    let poll_interval = Duration::from_millis(5);
    let archives = Some(ArchiveSource { poll_interval, ..archives });
    FollowerConfig { archives, ..proofs::config(vec![source], verify) }
}

/// A bank with archives.
struct Archived {
    state: State,
    closed: Vec<[u8; 32]>,
}

impl Archived {
    fn from_chain(chain: &RandomChain) -> Self {
        Self { state: chain.proven.state(), closed: chain.proven.closed_accounts() }
    }

    fn slot(&self) -> u64 {
        self.state.slot
    }
}

/// The chain above the snapshot.
async fn random_chain(seed: u64, upstream: &Upstream) -> RandomChain {
    let dir = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(upstream.config(VerifyMode::Sequence, dir.path()), dir.path());
    let chain = RandomChain::new(seed, &rig);
    rig.stop().await;
    chain
}

/// A start from a directory after a jump.
struct Restart<'a> {
    upstream: &'a Upstream,
    verify: VerifyMode,
    dir: &'a Path,
    chain: &'a RandomChain,
    jumped: u64,
    what: String,
}

impl Restart<'_> {
    /// Follows to the newest bank. Checks the first state and the reports. Returns the slot that it starts from.
    async fn check(self) -> u64 {
        let Self { upstream, verify, dir, chain, jumped, what } = &self;
        let rig = Rig::start(upstream.config(*verify, dir), dir);
        let started = rig.fields.slot;
        let hash = chain.hashes[&started];
        assert_eq!(rig.fields.bank_hash, hash, "{what}: the hash of slot {started}");
        assert!(rig.base == chain.states[&started], "{what}: the accounts of slot {started}");
        self.check_blocks(&rig, *jumped, started);
        let newest = chain.below(0);
        rig.wait("the newest bank", |it| it.processed() >= newest).await;
        if *verify != VerifyMode::Off {
            let verified = chain.below(1);
            rig.wait("it is verified again", |it| it.verified() >= verified).await;
        }
        assert_eq!(rig.status.mismatch(), None, "{what}");
        let found = accounts(&rig.reader, Commitment::Processed);
        assert!(found == chain.states[&newest], "{what}: the accounts of slot {newest}");
        // Events follow their publication.
        let is_sent = || rig.words.0.lock().contains(&format!("tip {newest}"));
        eventually(is_sent, || format!("{what}: {:?}", rig.words.0.lock())).await;
        // A subscriber that comes back gets every bank once, in order.
        let words = rig.words.0.lock().clone();
        assert!(!words.iter().any(|word| word.starts_with("reverted ")), "{what}: {words:?}");
        let jump = words.iter().rposition(|word| word.starts_with("jumped "));
        let jumped_again = jump.map(|at| words[at].split(' ').nth(1).expect("a slot"));
        let from = jumped_again.map_or(started, |slot| slot.parse().expect("a slot"));
        let banks: Vec<u64> = chain.hashes.range(from..).map(|(slot, _)| *slot).collect();
        let expected = banks.windows(2).map(|pair| format!("created {} on {}", pair[1], pair[0]));
        let reported = words.iter().skip(jump.unwrap_or(0)).filter(|it| it.starts_with("created "));
        assert!(reported.cloned().eq(expected), "{what}, from slot {from}: {words:?}");
        self.check_blocks(&rig, from.max(*jumped), newest);
        rig.stop().await;
        started
    }

    /// The blocks after a slot are there. All that are shown are those of the chain. The archive's block is not shown:
    /// its transactions are unknown.
    fn check_blocks(&self, rig: &Rig, after: u64, newest: u64) {
        let Self { verify, chain, what, .. } = self;
        let history = rig.history.snapshot();
        let above = chain.hashes.range(..=newest).filter(|(slot, _)| **slot > snapshot::SLOT);
        for (slot, hash) in above {
            let block = history.block(*slot, Commitment::Processed);
            assert!(block.is_some() || *slot <= after, "{what}: no block {slot}");
            let Some(block) = block else { continue };
            assert_eq!(block.transactions.len(), 1, "{what}: block {slot}");
            assert!(*verify == VerifyMode::Off || block.bank_hash == *hash, "{what}: block {slot}");
        }
    }
}

/// Banks that the source no longer has, the last of them with an archive, and banks after it. Returns the
/// updates, the archive, and the first slot that the source still has.
fn gap(chain: &mut RandomChain, before: u64, after: u64) -> (Vec<SubscribeUpdate>, Archived, u64) {
    let from = chain.below(0);
    let mut updates = chain.banks(before, 2);
    let archived = Archived::from_chain(chain);
    let slots: Vec<u64> = chain.hashes.range(from + 1..).map(|(slot, _)| *slot).collect();
    // From a bank without its parent on, up to the archive's.
    let first_available = slots[chain.random.usize(slots.len().min(2) - 1..slots.len())];
    updates.extend(chain.banks(after, 2));
    (updates, archived, first_available)
}

#[expect(clippy::print_stdout, reason = "its parent reads how far it is")]
async fn follow_until_killed(paths: &str) {
    let [dir, source, archives] = paths.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{CHILD} has three lines");
    };
    let dir = Path::new(dir);
    let archives = archives.parse().expect("an address");
    let rig = Rig::start(config(source, archives, VerifyMode::Sequence, dir), dir);
    let started = now();
    let mut last = None;
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    while now() - started < CHILD_TIMEOUT {
        let at = [rig.status.root(), rig.status.verified(), rig.status.stored()];
        if last.replace(at) != Some(at) {
            println!("\nat {} {} {}", at[0], at[1], at[2]);
        }
        looks.tick().await;
    }
}

/// A follower in a process of its own.
struct Following {
    child: Child,
    lines: Box<dyn Iterator<Item = [u64; 3]>>,
}

impl Following {
    fn start(upstream: &Upstream, dir: &Path) -> Self {
        let paths = [
            dir.to_str().expect("a plain path").to_owned(),
            upstream.source_url.clone(),
            upstream.archives_address.to_string(),
        ];
        let starting = PROCESS_STARTS.lock();
        let mut child = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(CHILD, paths.join("\n"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        drop(starting);
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let at = |line: String| {
            let numbers = line.strip_prefix("at ")?.split(' ').map(str::parse::<u64>);
            let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
            numbers.try_into().ok()
        };
        Self { child, lines: Box::new(lines.map_while(Result::ok).filter_map(at)) }
    }

    /// Waits for a root, a verified and a stored slot.
    fn wait_for(&mut self, what: &str, slots: [u64; 3]) {
        let is_there = |at: &[u64; 3]| at.iter().zip(slots).all(|(at, slot)| *at >= slot);
        assert!(self.lines.any(|at| is_there(&at)), "it ended before {what}");
    }

    fn kill(mut self) {
        self.child.kill().expect("kill");
        let ended = self.child.wait().expect("wait");
        assert_eq!(ended.signal(), Some(9), "it ended by itself: {ended}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a run reports where it started")]
fn a_follower_that_is_killed_after_a_jump_comes_back_verified_and_reports_each_bank_once() {
    let runtime = Runtime::new().expect("a runtime");
    if let Ok(paths) = env::var(CHILD) {
        return runtime.block_on(follow_until_killed(&paths));
    }
    let kills = env::var(KILLS).map_or(KILLS_DEFAULT, |kills| kills.parse().expect("a number"));
    let mut starts = [0; 2];
    for seed in 0..3 {
        let upstream = runtime.block_on(Upstream::start());
        let mut chain = runtime.block_on(random_chain(seed, &upstream));
        let dir = tempfile::tempdir().expect("a directory");
        let mut random = Rng::with_seed(seed);
        for kill in 0..kills {
            let what = format!("seed {seed}, kill {kill}");
            chain.send(&upstream.source, random.u64(2..30), 2);
            // It is cut off while it follows, or it starts behind the gap.
            let mut follower = random.bool().then(|| Following::start(&upstream, dir.path()));
            if let Some(follower) = &mut follower {
                follower.wait_for("the gap", [0, chain.below(1), 0]);
            }
            // The first bank after the archive's is verified by the second one.
            let (updates, archived, first) = gap(&mut chain, random.u64(2..20), random.u64(2..60));
            upstream.serve(&archived, random.bool());
            match follower {
                Some(_) => runtime.block_on(upstream.cut(first)),
                None => upstream.source.limit_replay(first),
            }
            upstream.source.send(updates);
            let mut follower = follower.unwrap_or_else(|| Following::start(&upstream, dir.path()));
            let jumped = archived.slot();
            let is_stored = chain.below(2 + DELAY as usize) >= jumped;
            // At once, after the next banks, or about when the jump is stored, if it is.
            match random.u8(0..3) {
                0 => follower.wait_for("the jump", [jumped, 0, 0]),
                1 => follower.wait_for("the last bank", [jumped, chain.below(1), 0]),
                _ => {
                    follower.wait_for("its commit", [jumped, 0, if is_stored { jumped } else { 0 }])
                }
            }
            for _ in 0..random.u32(0..3_000_000) {
                std::hint::spin_loop();
            }
            follower.kill();
            let upstream = &upstream;
            let chain = &chain;
            let dir = dir.path();
            let verify = VerifyMode::Sequence;
            let restart = Restart { upstream, verify, dir, chain, jumped, what };
            starts[usize::from(runtime.block_on(restart.check()) >= jumped)] += 1;
        }
    }
    println!("starts before a jump and after it: {starts:?}");
}

/// The follower jumps over a hard fork, and has stored exactly the block that it jumped to. `is_last` is whether that
/// block is the first one after the fork.
async fn restart_after_hard_fork(verify: VerifyMode, is_last: bool) {
    let what = format!("{verify:?}, the archive's bank is the first after the fork: {is_last}");
    let upstream = Upstream::start().await;
    let mut chain = random_chain(3, &upstream).await;
    let dir = tempfile::tempdir().expect("a directory");
    chain.send(&upstream.source, 10, 2);
    let rig = Rig::start(upstream.config(verify, dir.path()), dir.path());
    let newest = chain.below(0);
    rig.wait("the bank before the gap", |it| it.processed() >= newest).await;
    let mut updates = chain.banks(if is_last { 9 } else { 4 }, 2);
    chain.proven.hard_forks.push(HardFork { slot: chain.proven.slot + 1, count: 1 });
    let (rest, archived, first) = gap(&mut chain, if is_last { 1 } else { 6 }, 2 + DELAY);
    updates.extend(rest);
    upstream.serve(&archived, is_last);
    upstream.cut(first).await;
    upstream.source.send(updates);
    let jumped = archived.slot();
    rig.wait("the jump is stored", |it| it.stored() >= jumped).await;
    assert_eq!(rig.status.stored(), jumped, "{what}");
    rig.stop().await;
    let upstream = &upstream;
    let chain = &chain;
    let dir = dir.path();
    let started = Restart { upstream, verify, dir, chain, jumped, what }.check().await;
    assert_eq!(started, jumped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_a_jump_over_a_hard_fork_is_verified() {
    restart_after_hard_fork(VerifyMode::Sequence, false).await;
    restart_after_hard_fork(VerifyMode::Sequence, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_a_jump_that_was_followed_without_verification_is_not_refused() {
    restart_after_hard_fork(VerifyMode::Off, false).await;
    restart_after_hard_fork(VerifyMode::Off, true).await;
}

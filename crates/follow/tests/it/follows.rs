//! A followed chain is served as its source made it: whole banks, forks, roots; through cuts, holes and bad sources.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{EventSink, History, HistoryLimits, LedgerEvent, Reader};
use feed::FeedConfig;
use follow::{
    AgreementConfig, Base, FollowHandle, FollowStatus, FollowedCluster, Follower, FollowerConfig,
    OnMismatch, SourceConfig, StreamConfig, VerifyMode,
};
use ledger::{Address, Commitment};
use parking_lot::Mutex;
use query::LedgerConfig;
use snapshot_solana::Progress;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use tempfile::TempDir;
use testkit::eventually::eventually;
use testkit::geyser_source::{Source, slot_of};
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdatePing};

use crate::script::{Bank, account, blockhash, chain, message, signature, status};
use crate::snapshot::{self, LAMPORTS, SLOT, WALLET};

/// A sink that stores a word for each event.
#[derive(Clone, Default)]
pub(crate) struct Words(pub(crate) Arc<Mutex<Vec<String>>>);

impl EventSink for Words {
    fn send(&mut self, event: &LedgerEvent) {
        let word = match event {
            LedgerEvent::BankCreated { block, parent, .. } => {
                format!("created {} on {}", block.slot, parent.slot)
            }
            LedgerEvent::Executed(all) => format!("executed {}", all[0].slot),
            LedgerEvent::BlockFooter { block, .. } => format!("footer {}", block.slot),
            LedgerEvent::Frozen { block, .. } => format!("frozen {}", block.id.slot),
            LedgerEvent::TipMoved { block } => format!("tip {}", block.slot),
            LedgerEvent::Confirmed { block, .. } => format!("confirmed {}", block.id.slot),
            LedgerEvent::Rooted { block, .. } => format!("rooted {}", block.id.slot),
            LedgerEvent::Reverted { block, .. } => format!("reverted {}", block.id.slot),
            LedgerEvent::AccountsWritten { block, .. } => format!("written {}", block.slot),
            LedgerEvent::Jumped { block, .. } => {
                format!("jumped {} on {}", block.id.slot, block.parent.slot)
            }
            LedgerEvent::Voted(_) => "voted".to_owned(),
        };
        self.0.lock().push(word);
    }
}

pub(crate) struct Rig {
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) cluster: Arc<FollowedCluster>,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) words: Words,
    handle: FollowHandle,
    _dir: TempDir,
}

pub(crate) fn config(urls: Vec<SourceConfig>) -> FollowerConfig {
    FollowerConfig {
        sources: urls,
        stream: StreamConfig {
            reconnect_delay_min: Duration::from_millis(1),
            ..StreamConfig::default()
        },
        feed: FeedConfig {
            incomplete_timeout: Duration::from_millis(300),
            ..FeedConfig::default()
        },
        history: HistoryLimits { blocks_max: 1_000, bytes_max: 1 << 30 },
        // The script's banks have no hashes.
        verify: VerifyMode::Off,
        verify_entries: false,
        execution: None,
        agreement: AgreementConfig::default(),
        epoch_stakes: Vec::new(),
        trusted_banks: Vec::new(),
        on_mismatch: OnMismatch::Stop,
        upstream: None,
        archives: None,
    }
}

pub(crate) async fn source_config(source: &Source) -> SourceConfig {
    SourceConfig { url: format!("http://{}", source.serve().await), x_token: None }
}

impl Rig {
    pub(crate) fn start(config: FollowerConfig) -> Self {
        Self::start_with(config, Vec::new())
    }

    pub(crate) fn start_with(config: FollowerConfig, sinks: Vec<Box<dyn EventSink>>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let archive = snapshot::write(dir.path());
        Self::start_from(config, sinks, dir, &archive)
    }

    pub(crate) fn start_from(
        config: FollowerConfig,
        mut sinks: Vec<Box<dyn EventSink>>,
        dir: TempDir,
        archive: &Path,
    ) -> Self {
        let limits = LedgerConfig::new(100_000);
        let loaded =
            snapshot_ledger::load_snapshot(&limits, archive, None, 1, &Progress::default())
                .expect("the archive loads");
        let base = Base::from_snapshot(loaded).expect("a base");
        let follower = Follower::new(config, base).expect("a follower");
        let reader = follower.reader().clone();
        let history = Arc::clone(follower.history());
        let cluster = follower.cluster();
        let status = Arc::clone(follower.status());
        let words = Words::default();
        sinks.push(Box::new(words.clone()));
        let handle = follower.start(sinks).expect("it starts");
        Self { reader, history, cluster, status, words, handle, _dir: dir }
    }

    pub(crate) async fn wait(&self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let describe = || {
            let words = self.words.0.lock().clone();
            let gap = self.status.last_gap();
            format!("{what}: {:?}, {gap:?}, {words:?}", self.slots())
        };
        eventually(|| is_done(self), describe).await;
    }

    /// Slots at processed, confirmed and finalized.
    pub(crate) fn slots(&self) -> [u64; 3] {
        Commitment::ALL.map(|commitment| self.reader.view(commitment).block().slot)
    }

    pub(crate) async fn wait_for_slots(&self, slots: [u64; 3]) {
        self.wait(&format!("{slots:?}"), |rig| rig.slots() == slots).await;
    }

    pub(crate) fn lamports(&self, commitment: Commitment) -> u64 {
        let account = self.reader.view(commitment).record(&Address::from(WALLET));
        account.map_or(0, |account| account.0.lamports())
    }

    pub(crate) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(|| self.handle.stop()).await;
        stopped.expect("it ends").expect("without an error");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn banks_are_served_by_commitment_with_their_transactions() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    assert_eq!(rig.lamports(Commitment::Processed), LAMPORTS);
    source.send(chain(101..=103));
    source.send(Bank::new(104, 103, 1_040).frozen());
    source.send([status(101, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([104, 103, 101]).await;
    let lamports = Commitment::ALL.map(|commitment| rig.lamports(commitment));
    assert_eq!(lamports, [1_040, 1_030, 1_010]);
    let view = rig.reader.view(Commitment::Processed);
    let info = view.meta();
    assert_eq!((info.block_height, info.transaction_count), (104, 77 + 4));
    assert_eq!(info.last_blockhash(), blockhash(104, 0));
    assert!(info.blockhashes.is_valid(&Hash::new_from_array(snapshot::BLOCKHASH)));
    let total: u64 = view.all().map(|(_, account)| account.0.lamports()).sum();
    assert_eq!(info.capitalization, total);
    let history = rig.history.snapshot();
    let found = history.transaction(&signature(104, 0).into(), Commitment::Processed);
    assert_eq!(found.map(|it| (it.slot, it.block_time)), Some((104, 1_700_000_104)));
    let request = &source.requests()[0];
    assert_eq!((request.from_slot, request.accounts.len()), (Some(SLOT + 1), 1));
    let words = rig.words.0.lock().clone();
    let first = ["created 101 on 100", "frozen 101", "executed 101", "tip 101", "confirmed 101"];
    assert_eq!(words[..5], first);
    assert_eq!(words.last().map(String::as_str), Some("rooted 101"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_open_bank_is_shown() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    source.send(chain(101..=101));
    let mut content = Bank::new(102, 101, 77).content();
    let meta = content.pop();
    source.send(content);
    source.send([account(103, WALLET, 99, Vec::new())]);
    rig.wait("the updates arrive", |rig| {
        let open = render_metrics(&rig.status);
        open.contains("hydrant_follow_open_banks 2")
    })
    .await;
    assert_eq!((rig.slots()[0], rig.lamports(Commitment::Processed)), (101, 1_010));
    source.send(meta);
    rig.wait_for_slots([102, 101, 100]).await;
    assert_eq!(rig.lamports(Commitment::Processed), 77);
    rig.stop().await;
}

pub(crate) fn render_metrics(status: &FollowStatus) -> String {
    let mut out = metrics::Exposition::default();
    metrics::Collector::write(status, &mut out);
    out.into_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_left_fork_is_undone_before_the_other_is_entered() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    source.send(chain(101..=101));
    source.send(Bank::new(102, 101, 1).frozen());
    rig.wait_for_slots([102, 101, 100]).await;
    source.send(Bank::new(103, 101, 2).frozen());
    source.send([status(103, SlotStatus::SlotConfirmed)]);
    rig.wait_for_slots([103, 103, 100]).await;
    assert_eq!(rig.lamports(Commitment::Processed), 2);
    source.send([status(101, SlotStatus::SlotFinalized), status(103, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([103, 103, 103]).await;
    let words = rig.words.0.lock().clone();
    let at = |word: &str| words.iter().position(|it| it == word).expect(word);
    assert!(at("reverted 102") < at("rooted 103"), "{words:?}");
    assert!(
        rig.history
            .snapshot()
            .transaction(&signature(102, 0).into(), Commitment::Processed)
            .is_none()
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_resumes_after_the_root() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    source.send(chain(101..=110));
    source.send([status(105, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([110, 110, 105]).await;
    source.cut();
    rig.wait("a second session", |rig| rig.status.sessions() == 2).await;
    source.send(chain(111..=115));
    rig.wait_for_slots([115, 115, 105]).await;
    let requests = source.requests();
    assert_eq!(requests.last().map(|request| request.from_slot), Some(Some(106)));
    let words = rig.words.0.lock().clone();
    let frozen: Vec<&String> = words.iter().filter(|word| word.starts_with("frozen")).collect();
    assert_eq!(frozen.len(), 15, "nothing lost, nothing doubled: {frozen:?}");
    assert_eq!(rig.status.gaps(), 0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_source_takes_over_where_one_has_a_hole() {
    let lossy = Source::new(None);
    let whole = Source::new(None);
    let sources = vec![source_config(&lossy).await, source_config(&whole).await];
    for source in [&lossy, &whole] {
        source.send(chain(101..=105));
    }
    let is_transaction = |update: &yellowstone_grpc_proto::geyser::SubscribeUpdate| {
        matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)))
    };
    lossy.forget(|update| slot_of(update) == 103 && is_transaction(update));
    let rig = Rig::start(config(sources));
    rig.wait_for_slots([105, 105, 100]).await;
    assert!(rig.status.gaps() > 0);
    let gap = rig.status.last_gap().unwrap_or_default();
    assert!(gap.contains("slot 103") && gap.contains("1 transactions"), "{gap}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_refuses_or_sends_nonsense_is_left() {
    let closed = Source::new(Some("secret"));
    let strange = Source::new(None);
    let good = Source::new(None);
    let unreachable = SourceConfig { url: "http://127.0.0.1:1".into(), x_token: None };
    let sources = vec![
        unreachable,
        source_config(&closed).await,
        source_config(&strange).await,
        source_config(&good).await,
    ];
    let mut nonsense = Bank::new(101, 100, 1).content();
    if let Some(UpdateOneof::Account(account)) = &mut nonsense[1].update_oneof {
        account.account.as_mut().expect("an account").owner = vec![1, 2, 3];
    }
    strange.send(nonsense);
    good.send(chain(101..=102));
    let rig = Rig::start(config(sources));
    rig.wait_for_slots([102, 102, 100]).await;
    assert!(closed.requests().is_empty());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_and_a_ping_is_answered_without_new_filters() {
    let source = Source::new(Some("secret"));
    let url = source_config(&source).await;
    let rig = Rig::start(config(vec![SourceConfig { x_token: Some("secret".into()), ..url }]));
    source.send([message(UpdateOneof::Ping(SubscribeUpdatePing {}))]);
    rig.wait("an answer", |_| source.requests().len() == 2).await;
    let pong = &source.requests()[1];
    assert!(pong.ping.is_some() && pong.accounts.is_empty() && pong.slots.is_empty());
    source.set_newest(150);
    source.send(chain(101..=101));
    rig.wait("slots behind", |rig| rig.status.slots_behind() == Some(49)).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_bound_ends_the_stream_and_not_the_follower() {
    let huge = Source::new(None);
    let good = Source::new(None);
    huge.send([account(101, WALLET, 1, vec![0; 200_000])]);
    good.send(chain(101..=102));
    let mut config = config(vec![source_config(&huge).await, source_config(&good).await]);
    config.stream.message_bytes_max = 100_000;
    config.stream.queue_bytes_max = 10;
    let rig = Rig::start(config);
    rig.wait_for_slots([102, 102, 100]).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_is_not_as_its_child_says_is_never_confirmed() {
    let source = Source::new(None);
    let sources = vec![source_config(&source).await];
    let config = FollowerConfig { verify: VerifyMode::Sequence, ..config(sources) };
    let rig = Rig::start(config);
    source.send(chain(101..=103));
    source.send([status(101, SlotStatus::SlotFinalized)]);
    rig.wait("a mismatch", |rig| rig.status.mismatch().is_some()).await;
    assert_eq!(rig.slots()[1..], [100, 100]);
    let words = rig.words.0.lock().clone();
    let is_final = |word: &String| word.starts_with("confirmed") || word.starts_with("rooted");
    assert!(!words.iter().any(is_final), "{words:?}");
    rig.stop().await;
}

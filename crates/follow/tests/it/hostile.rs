//! Sources that stall, lag, mix or contradict: each is left with a reason, and the next one serves without a loss.

use std::time::Duration;

use follow::{FollowerConfig, StreamConfig};
use ledger::{Address, Commitment};
use solana_hash::Hash;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate, SubscribeUpdatePing};

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, account, chain, message, status};
use crate::snapshot::WALLET;

const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A bad source before a good one, with a short time for stalls. The good one pings.
async fn both(bad: &Source, good: &Source) -> FollowerConfig {
    let mut config = config(vec![source_config(bad).await, source_config(good).await]);
    config.stream.stall_timeout = STALL_TIMEOUT;
    repeat(good, message(UpdateOneof::Ping(SubscribeUpdatePing {})));
    config
}

/// Waits until the good source's banks are there, and returns why the first stream ended.
async fn until_the_other_serves(rig: &Rig, slot: u64) -> String {
    rig.wait("the other source", |rig| rig.slots()[0] == slot).await;
    let frozen = |rig: &Rig| {
        let words = rig.words.0.lock();
        words.iter().filter(|word| word.starts_with("frozen")).count() as u64
    };
    // The event of a bank comes after its publication.
    rig.wait("all events", |rig| frozen(rig) >= slot - 100).await;
    assert_eq!(frozen(rig), slot - 100, "nothing doubled");
    rig.status.last_gap().or_else(|| rig.status.last_stream_end()).unwrap_or_default()
}

/// Returns the updates after a change.
fn change_all(
    updates: Vec<SubscribeUpdate>,
    change: impl Fn(&mut UpdateOneof),
) -> Vec<SubscribeUpdate> {
    let mut updates = updates;
    updates.iter_mut().filter_map(|update| update.update_oneof.as_mut()).for_each(change);
    updates
}

/// Sends an update again and again.
fn repeat(source: &Source, update: SubscribeUpdate) -> tokio::task::JoinHandle<()> {
    let source = source.clone();
    tokio::spawn(async move {
        let mut times = tokio::time::interval(Duration::from_millis(10));
        loop {
            times.tick().await;
            source.send([update.clone()]);
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_another_cluster_is_left_with_both_hashes() {
    let other = Source::new(None);
    let good = Source::new(None);
    let foreign = |update: &mut UpdateOneof| {
        if let UpdateOneof::BlockMeta(meta) = update {
            for hash in [&mut meta.blockhash, &mut meta.parent_blockhash] {
                *hash = other_hash(hash);
            }
        }
    };
    other.send(change_all(chain(101..=103), foreign));
    good.send(chain(101..=105));
    let rig = Rig::start(both(&other, &good).await);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("the rooted block has the hash"), "{reason}");
    rig.stop().await;
}

fn other_hash(hash: &str) -> String {
    let mut bytes = hash.parse::<Hash>().expect("a hash").to_bytes();
    bytes[31] ^= 1;
    Hash::new_from_array(bytes).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_votes_or_failed_transactions_is_left_and_says_what_must_be_sent() {
    let filtered = Source::new(None);
    let good = Source::new(None);
    let count = |update: &mut UpdateOneof| {
        if let UpdateOneof::BlockMeta(meta) = update {
            meta.executed_transaction_count = 3;
        }
    };
    filtered.send(change_all(chain(101..=103), count));
    good.send(chain(101..=105));
    let rig = Rig::start(both(&filtered, &good).await);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("2 transactions (a source must send votes and failed"), "{reason}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_an_older_proto_that_replays_a_slot_does_not_mix_its_banks() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    source.send(chain(101..=101));
    // The first bank of slot 102 writes an account that the second one does not.
    let mut first = Bank::new(102, 101, 1).content();
    first.truncate(3);
    first.push(account(102, [9; 32], 555, Vec::new()));
    source.send(first);
    source.send(Bank { version: 1, ..Bank::new(102, 101, 2) }.frozen());
    rig.wait_for_slots([102, 101, 100]).await;
    let replaced = rig.reader.view(Commitment::Processed).record(&Address::from([9; 32]));
    assert!(replaced.is_none(), "a write of the replaced bank");
    assert_eq!(rig.lamports(Commitment::Processed), 2);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_banks_of_a_slot_with_ids_are_not_mixed_when_their_updates_are() {
    let source = Source::new(None);
    let rig = Rig::start(config(vec![source_config(&source).await]));
    let with_id = |updates, id: u64| {
        change_all(updates, |update| match update {
            UpdateOneof::Account(it) => it.bank_id = Some(id),
            UpdateOneof::Transaction(it) => it.bank_id = id,
            UpdateOneof::BlockMeta(it) => it.bank_id = id,
            UpdateOneof::Slot(it) => it.bank_id = Some(id),
            _ => {}
        })
    };
    let first = with_id(Bank::new(101, 100, 1).content(), 7);
    let second = with_id(Bank { version: 1, ..Bank::new(101, 100, 2) }.frozen(), 8);
    let [head, tail] = [&first[..first.len() - 1], &first[first.len() - 1..]];
    source.send(head.iter().zip(&second).flat_map(|(one, two)| [one.clone(), two.clone()]));
    source.send(second[head.len()..].to_vec());
    source.send(tail.to_vec());
    source.send(with_id(vec![status(101, SlotStatus::SlotConfirmed)], 8));
    rig.wait_for_slots([101, 101, 100]).await;
    assert_eq!(rig.lamports(Commitment::Confirmed), 2);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_sends_nothing_is_left() {
    let silent = Source::new(None);
    let good = Source::new(None);
    good.send(chain(101..=105));
    let rig = Rig::start(both(&silent, &good).await);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("nothing was received for 1s"), "{reason}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_only_pings_is_left_if_there_is_a_newer_slot() {
    let hung = Source::new(None);
    let good = Source::new(None);
    hung.set_newest(200);
    let pings = repeat(&hung, message(UpdateOneof::Ping(SubscribeUpdatePing {})));
    good.send(chain(101..=105));
    let rig = Rig::start(both(&hung, &good).await);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("no whole bank was received for 1s"), "{reason}");
    pings.abort();
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_archives_a_source_that_refuses_hides_no_other() {
    let hung = Source::new(None);
    let lacking = Source::new(None);
    for source in [&hung, &lacking] {
        source.set_newest(200);
    }
    lacking.limit_replay(1_000);
    let rig = Rig::start(both(&hung, &lacking).await);
    rig.wait("the first source is tried again", |_| hung.requests().len() >= 3).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_sends_updates_but_no_whole_bank_is_left() {
    let junk = [
        status(u64::MAX, SlotStatus::SlotCreatedBank),
        account(u64::MAX, WALLET, 1, Vec::new()),
        status(101, SlotStatus::SlotProcessed),
        account(102, WALLET, 1, Vec::new()),
    ];
    for junk in junk {
        let hung = Source::new(None);
        let good = Source::new(None);
        let updates = repeat(&hung, junk);
        good.set_newest(120);
        good.send(chain(101..=105));
        let rig = Rig::start(both(&hung, &good).await);
        let reason = until_the_other_serves(&rig, 105).await;
        assert!(reason.contains("no whole bank was received for 1s"), "{reason}");
        updates.abort();
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_names_a_slot_far_above_its_own_is_left_at_once() {
    let liar = Source::new(None);
    let good = Source::new(None);
    liar.set_newest(105);
    good.set_newest(105);
    let updates = repeat(&liar, status(105 + 10_001, SlotStatus::SlotCreatedBank));
    good.send(chain(101..=105));
    let mut config = both(&liar, &good).await;
    config.stream.stall_timeout = StreamConfig::default().stall_timeout;
    let rig = Rig::start(config);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("slot 10106") && reason.contains("says is 105"), "{reason}");
    updates.abort();
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_once_says_a_far_slot_does_not_make_the_node_late_forever() {
    let source = Source::new(None);
    source.set_newest(u64::MAX);
    source.send(chain(101..=105));
    let rig = Rig::start(config(vec![source_config(&source).await]));
    rig.wait("the slot is said", |rig| rig.status.slots_behind() > Some(1 << 60)).await;
    source.set_newest(107);
    rig.wait("the next slot is said", |rig| rig.status.slots_behind() == Some(2)).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_below_the_root_does_not_look_up_to_date() {
    let source = Source::new(None);
    source.set_newest(105);
    source.send(chain(101..=105));
    let rig = Rig::start(config(vec![source_config(&source).await]));
    rig.wait("all is followed", |rig| rig.status.slots_behind() == Some(0)).await;
    // The snapshot's slot is 100: the source began a chain of its own.
    source.set_newest(99);
    rig.wait("the lag is unknown", |rig| rig.status.slots_behind().is_none()).await;
    source.set_newest(105);
    rig.wait("the lag is known", |rig| rig.status.slots_behind() == Some(0)).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_lags_behind_another_is_left() {
    let late = Source::new(None);
    let good = Source::new(None);
    good.send(chain(101..=300));
    let mut config = both(&late, &good).await;
    // The node requests the slots of the sources every two seconds.
    config.stream.stall_timeout = Duration::from_secs(3);
    config.stream.lag_slots_max = 10;
    // It brings one bank while the chain makes three.
    let banks = tokio::spawn(async move {
        let mut times = tokio::time::interval(Duration::from_millis(100));
        for slot in 101..=299 {
            times.tick().await;
            good.set_newest(150 + 3 * (slot - 101));
            late.send(chain(slot..=slot));
        }
    });
    let rig = Rig::start(config);
    let reason = until_the_other_serves(&rig, 300).await;
    assert!(reason.contains("slots behind") && reason.contains("at most 10"), "{reason}");
    banks.abort();
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fills_open_banks_is_left_at_the_bound() {
    let flood = Source::new(None);
    let good = Source::new(None);
    flood.send((101..200_u64).map(|slot| account(slot, WALLET, 1, vec![0; 10_000])));
    good.send(chain(101..=105));
    let mut config = both(&flood, &good).await;
    config.feed.bytes_max = 100_000;
    let rig = Rig::start(config);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("at most 100000 (feed.bytes_max)"), "{reason}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_opens_slots_without_end_is_left_at_the_bound() {
    let flood = Source::new(None);
    let good = Source::new(None);
    flood.send((101..400_u64).map(|slot| status(slot, SlotStatus::SlotCreatedBank)));
    good.send(chain(101..=105));
    let mut config = both(&flood, &good).await;
    config.feed.slots_max = 50;
    let rig = Rig::start(config);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("at most 50 (feed.slots_max)"), "{reason}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_contradicts_itself_is_left() {
    let liar = Source::new(None);
    let good = Source::new(None);
    liar.send(chain(101..=101));
    // Two metas of one bank, and a transaction beyond the count.
    let mut bank = Bank::new(102, 101, 1).content();
    let meta = bank.pop().expect("a meta");
    bank.retain(|update| !matches!(update.update_oneof, Some(UpdateOneof::Transaction(_))));
    bank.push(meta);
    bank.extend(Bank { version: 5, ..Bank::new(102, 101, 1) }.content().pop());
    liar.send(bank);
    good.send(chain(101..=105));
    let rig = Rig::start(both(&liar, &good).await);
    let reason = until_the_other_serves(&rig, 105).await;
    assert!(reason.contains("the bank has the hash"), "{reason}");
    rig.stop().await;
}

//! A source without bank ids, such as Triton's plugin of Yellowstone 12.6: a slot that the validator replays, a bank
//! that dies, forks with open banks that write the same accounts, and a stream that is cut. Each bank is verified.

use follow::VerifyMode;
use ledger::Commitment;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::proofs::{Rig, config, source_config};
use crate::proven::Proven;
use crate::script::{account, status, transaction};
use crate::snapshot::WALLET;

/// An account that only banks without a future write.
const LOST: [u8; 32] = [91; 32];

async fn start(source: &Source) -> (Rig, Proven) {
    // This server has no call for its replay window, and refuses filters that its proto does not have.
    source.refuse_entries();
    Rig::start(config(vec![source_config(source).await], VerifyMode::Sequence))
}

/// A bank of the script, with an account of its own, up to its block meta.
fn bank(chain: &mut Proven, slot: u64, own: [u8; 32]) -> Vec<SubscribeUpdate> {
    let writes = vec![
        account(slot, WALLET, 10 * slot + u64::from(own[0]), Vec::new()),
        account(slot, own, slot, Vec::new()),
    ];
    let updates = chain.bank_with(slot, writes, vec![transaction(slot, 0)]);
    assert!(updates.iter().all(has_no_bank_id));
    updates
}

/// Whether an update is as that proto has it: the field is absent, or is 0.
fn has_no_bank_id(update: &SubscribeUpdate) -> bool {
    match update.update_oneof.as_ref().expect("an update") {
        UpdateOneof::Account(it) => it.bank_id.is_none(),
        UpdateOneof::Transaction(it) => it.bank_id == 0,
        UpdateOneof::BlockMeta(it) => it.bank_id == 0,
        UpdateOneof::Slot(it) => it.bank_id.is_none(),
        _ => true,
    }
}

fn frozen(slot: u64) -> Vec<SubscribeUpdate> {
    [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed].map(|it| status(slot, it)).into()
}

fn has_lost(rig: &Rig) -> bool {
    let lost = ledger::Address::from(LOST);
    Commitment::ALL.iter().any(|at| rig.reader.view(*at).record(&lost).is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_are_replayed_are_verified_without_bank_ids() {
    let source = Source::new(None);
    let (rig, mut chain) = start(&source).await;
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    // A first bank of the slot is replaced while it is open, and a second one dies.
    let mut lost = bank(&mut chain.clone(), 102, LOST);
    lost.truncate(lost.len() - 2);
    source.send(lost.clone());
    source.send(lost);
    source.send([status(102, SlotStatus::SlotDead)]);
    let third = bank(&mut chain, 102, [92; 32]);
    source.send(third.clone());
    source.send(frozen(102));
    rig.wait_for_slots([102, 101, 100]).await;
    // The validator replays the slot once more after it was frozen.
    source.send(third);
    source.send(frozen(102));
    source.send(chain.chain(103..=104));
    rig.wait_for_slots([104, 103, 100]).await;
    rig.wait("all hashes are right", |rig| rig.status.verified() == 103).await;
    assert_eq!((rig.status.gaps(), rig.status.mismatch(), has_lost(&rig)), (0, None, false));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_and_cuts_are_verified_without_bank_ids() {
    let source = Source::new(None);
    let (rig, mut chain) = start(&source).await;
    source.send(chain.chain(101..=101));
    rig.wait_for_slots([101, 100, 100]).await;
    // Two forks, mixed; both banks write the wallet.
    let mut fork = chain.clone();
    let left = bank(&mut fork, 102, LOST);
    let right = bank(&mut chain, 103, [93; 32]);
    let mut right = right.into_iter();
    for update in left {
        source.send([update]);
        source.send(right.next());
    }
    source.send(right);
    source.send([status(102, SlotStatus::SlotProcessed)]);
    source.send(frozen(103));
    source.send(chain.chain(104..=104));
    rig.wait_for_slots([104, 103, 100]).await;
    // The stream is cut inside a bank. The next one starts after the root, with all of that bank.
    let last = bank(&mut chain, 105, [94; 32]);
    let (head, tail) = last.split_at(6);
    source.send(head.to_vec());
    rig.wait("the bank is open", |rig| rig.status.verified() == 104).await;
    source.cut();
    source.send(tail.to_vec());
    source.send(frozen(105));
    source.send(chain.chain(106..=106));
    rig.wait_for_slots([106, 105, 100]).await;
    source.send([status(105, SlotStatus::SlotFinalized)]);
    rig.wait_for_slots([106, 105, 105]).await;
    rig.wait("all hashes are right", |rig| rig.status.verified() == 105).await;
    assert_eq!((rig.status.gaps(), rig.status.mismatch(), has_lost(&rig)), (0, None, false));
    let requests = source.requests();
    let from: Vec<_> = requests.iter().map(|request| request.from_slot).collect();
    assert_eq!(from, [Some(101), Some(101)]);
    assert!(requests.iter().all(|it| it.entry.is_empty() && it.block_footer.is_empty()));
    rig.stop().await;
}

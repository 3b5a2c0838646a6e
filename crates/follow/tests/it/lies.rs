//! Lies by seed, each sent to a follower of its own: it is refused, or `docs/verify.md` says that no level, or not this
//! one, proves it.
//!
//! `HYDRANT_LIES=1000` sends that many.

use fastrand::Rng;
use follow::VerifyMode;
use ledger::{Address, Commitment};
use solana::VerificationLevel;
use solana_keypair::Keypair;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::corruptions::harm;
use crate::liars;
use crate::mode_rig::ModeRig;
use crate::proofs::Rig;
use crate::proven::Proven;
use crate::proven_jumps::{ARCHIVED, World};
use crate::script::{account, status};
use crate::snapshot::WALLET;
use crate::votes::{self, Validators};

const LIES_DEFAULT: u64 = 60;
const MODES: [VerifyMode; 3] = [VerifyMode::Sequence, VerifyMode::Agree, VerifyMode::Votes];
/// The bank with the lie.
const FORGED: u64 = 102;
/// The source's statuses of a bank.
const CONFIRMED: [SlotStatus; 2] = [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed];

/// A source whose forged bank is confirmed by its own children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum League {
    /// The other sources and the validators are honest.
    Alone,
    /// The independent source lists the hash of the forged bank.
    WithSource,
    /// The votes for the forged bank are not those of two thirds of the stake.
    WithVotes,
}

/// Starts a follower, which gets the bank before the lie.
async fn start_liar(mode: VerifyMode) -> ModeRig {
    let mut liar = ModeRig::start(mode, false).await;
    liar.source.send(liar.chain.chain(101..=101));
    liar
}

/// The source sends a bank with a lie, and says that it is confirmed.
fn send_forged(liar: &ModeRig, mut bank: Vec<SubscribeUpdate>) {
    bank.extend(CONFIRMED.map(|word| status(FORGED, word)));
    liar.source.send(bank);
}

/// Sends an honest child of the newest bank, which proves it.
fn prove(liar: &mut ModeRig, honest: &Proven, votes: Vec<SubscribeUpdate>) {
    liar.independent.send([honest.child_slot_hashes()]);
    liar.source.send(votes::bank(&mut liar.chain, FORGED + 1, votes));
}

/// Waits until the bank is confirmed, or was refused twice. Returns the level of a confirmed one.
async fn judge(liar: ModeRig, text: &str) -> Option<VerificationLevel> {
    // The first stream, that of the repair, and one more after a bank that cannot be read.
    let is_refused = |rig: &Rig| rig.status.mismatch().is_some() || rig.status.sessions() > 3;
    liar.rig.wait(text, |rig| rig.slots()[1] >= FORGED || is_refused(rig)).await;
    let is_confirmed = liar.rig.slots()[1] >= FORGED;
    let level = liar.rig.level(FORGED).filter(|_| is_confirmed);
    liar.rig.stop().await;
    level
}

/// A bank is altered, and what proves it is honest.
async fn damage(mode: VerifyMode, rng: &mut Rng, text: &str) {
    let mut liar = start_liar(mode).await;
    let wallet = account(FORGED, WALLET, rng.u64(1..1 << 50), Vec::new());
    let mut bank = liar.chain.bank_with(FORGED, vec![wallet], Vec::new());
    let word = harm(&mut bank, rng);
    send_forged(&liar, bank);
    let honest = liar.chain.clone();
    let votes = liar.validators.votes(FORGED + 1, (FORGED, honest.hash));
    prove(&mut liar, &honest, votes);
    assert_eq!(judge(liar, text).await, None, "{text}: {word}");
}

/// A bank is altered together with what its children say of it.
async fn forge(mode: VerifyMode, league: League, rng: &mut Rng, text: &str) {
    let mut liar = start_liar(mode).await;
    let mut honest = liar.chain.clone();
    let balance = rng.u64(1..1 << 50);
    let wallet = |lamports| vec![account(FORGED, WALLET, lamports, Vec::new())];
    drop(honest.bank_with(FORGED, wallet(balance), Vec::new()));
    let bank = liar.chain.bank_with(FORGED, wallet(balance + 1), Vec::new());
    send_forged(&liar, bank);
    let forged = (FORGED, liar.chain.hash);
    let listed = if league == League::WithSource { liar.chain.clone() } else { honest.clone() };
    if league == League::WithVotes {
        let at = |index: u64| (FORGED + 1, index);
        let n = rng.usize(..3);
        // One voter votes for it, a second one twice under other accounts, and an unknown key.
        let one = liar.validators.vote(n, at(0), forged);
        let others = [
            votes::vote(&Keypair::new(), (n + 1) % 3, at(1), forged),
            votes::vote(&liar.validators.0[n], (n + 2) % 3, at(2), forged),
        ];
        prove(&mut liar, &listed, [vec![one], others.to_vec()].concat());
        liar.rig.wait(text, |rig| rig.slots()[0] == FORGED + 1).await;
        assert_eq!(liar.rig.slots()[1], 100, "{text}");
        return liar.rig.stop().await;
    }
    let votes = liar.validators.votes(FORGED + 1, (FORGED, honest.hash));
    prove(&mut liar, &listed, votes);
    let expected = match (mode, league) {
        (VerifyMode::Sequence, _) => Some(VerificationLevel::Sequence),
        (VerifyMode::Agree, League::WithSource) => Some(VerificationLevel::Agreed),
        _ => None,
    };
    assert_eq!(judge(liar, text).await, expected, "{text}");
}

/// An archive closes a gap with an altered account, and its own sums are right.
async fn forge_archive(mode: VerifyMode, rng: &mut Rng, text: &str) {
    let mut world = World::cut_off(mode).await;
    let archived = world.bank(ARCHIVED);
    world.source.send(archived);
    let victim: [u8; 32] = std::array::from_fn(|_| rng.u8(1..));
    world.serve(&world.chain.state().with(victim, rng.u64(1..1 << 50)));
    world.prove(ARCHIVED + 1);
    world.wait_for_refusal(&format!("the bank hash of slot {ARCHIVED} is")).await;
    let confirmed = world.confirmed_slot();
    world.wait_for_slots([confirmed, confirmed, 100]).await;
    let is_shown =
        |commitment| world.rig.reader.view(commitment).record(&Address::from(victim)).is_some();
    assert!(!Commitment::ALL.into_iter().any(is_shown), "{text}");
    world.rig.stop().await;
}

/// An archive closes a gap with an altered account and stakes of the liar, and the source is in league with it.
async fn forge_stakes(rng: &mut Rng, text: &str) {
    let mut world = World::cut_off(VerifyMode::Votes).await;
    let archived = world.bank(ARCHIVED);
    world.source.send(archived);
    let victim: [u8; 32] = std::array::from_fn(|_| rng.u8(1..));
    world.chain.add_account(victim, rng.u64(1..1 << 50));
    let liars = Validators::new();
    let stakes = std::array::from_fn(|_| rng.u64(1..1 << 50));
    world.serve(&world.chain.state().with_stakes(0, liars.archived_voters(stakes)));
    let last = ARCHIVED + rng.u64(2..8);
    let send = |world: &mut World, slot| {
        let voted = (world.chain.slot, world.chain.hash);
        let votes = liars.votes(slot, voted);
        let bank = votes::bank(&mut world.chain, slot, votes);
        world.source.send(bank);
    };
    (ARCHIVED + 1..=last).for_each(|slot| send(&mut world, slot));
    let confirmed = world.confirmed_slot();
    world.wait_for_slots([last, confirmed, 100]).await;
    send(&mut world, last + 1);
    world.wait_for_votes(last + 1).await;
    world.wait_for_slots([last + 1, confirmed, 100]).await;
    assert_eq!(world.rig.status.unproven_jump(), Some(ARCHIVED), "{text}");
    for commitment in [Commitment::Confirmed, Commitment::Finalized] {
        let view = world.rig.reader.view(commitment);
        assert!(view.record(&Address::from(victim)).is_none(), "{text}");
    }
    world.rig.stop().await;
}

async fn check_lie(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mode = MODES[rng.usize(..MODES.len())];
    let kind = rng.u8(..11);
    let text = format!("seed {seed}, {mode:?}, kind {kind}");
    match kind {
        0..4 => damage(mode, &mut rng, &text).await,
        4 => forge(mode, League::Alone, &mut rng, &text).await,
        5 => forge(mode, League::WithSource, &mut rng, &text).await,
        6 => forge(VerifyMode::Votes, League::WithVotes, &mut rng, &text).await,
        7 => forge_archive(mode, &mut rng, &text).await,
        8 => forge_stakes(&mut rng, &text).await,
        _ => {
            let has_entries = rng.bool();
            let lie = liars::LIES[rng.usize(..liars::LIES.len())];
            let refused_by = liars::find_refusal(mode, has_entries, lie).await;
            assert_eq!(refused_by, lie.refused_by(has_entries), "{text}: {lie:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lie_is_refused_or_named_as_not_provable() {
    let lies = std::env::var("HYDRANT_LIES").ok().and_then(|text| text.parse().ok());
    for seed in 0..lies.unwrap_or(LIES_DEFAULT) {
        check_lie(seed).await;
    }
}

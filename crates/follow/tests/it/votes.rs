//! Votes as the proof of a bank, as the choice of the tip, and as the bound of the root.

use chain_solana::Verification;
use follow::{FollowerConfig, VerifyMode};
use solana::{EpochVoter, HashReporter, VerificationLevel};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_vote_interface::instruction::tower_sync;
use solana_vote_interface::state::{Lockout, TowerSync, VoteStateV4, VoteStateVersions};
use verify::StakedVoters;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::proofs::{Rig, config, source_config};
use crate::proven::Proven;
use crate::script::{account, new_update, status};
use crate::snapshot::WALLET;
use testkit::archive::ArchivedVoter;
use testkit::geyser_source::Source;

/// Three validators with a third of the stake each.
pub(crate) struct Validators(pub(crate) [Keypair; 3]);

impl Validators {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Keypair::new()))
    }

    pub(crate) fn vote_account(n: usize) -> Pubkey {
        Pubkey::new_from_array([200 + n as u8; 32])
    }

    /// Their stakes, which count up to a slot.
    pub(crate) fn stakes(&self, last_slot: u64) -> StakedVoters {
        let voters = self.0.iter().enumerate().map(|(n, key)| EpochVoter {
            vote_account: Self::vote_account(n),
            node: key.pubkey(),
            authorized_voter: Some(key.pubkey()),
            stake: 100,
        });
        StakedVoters::new(0..=last_slot, voters.collect())
    }

    /// Their stakes as an archive states them.
    pub(crate) fn archived_voters(&self, stakes: [u64; 3]) -> Vec<ArchivedVoter> {
        let voter = |n: usize| ArchivedVoter {
            vote_account: Self::vote_account(n).to_bytes(),
            node: self.0[n].pubkey().to_bytes(),
            authorized_voter: self.0[n].pubkey().to_bytes(),
            stake: stakes[n],
        };
        (0..stakes.len()).map(voter).collect()
    }

    /// The vote of the n-th validator that is the transaction with this index of a bank.
    pub(crate) fn vote(
        &self,
        n: usize,
        (slot, index): (u64, u64),
        voted: (u64, Hash),
    ) -> SubscribeUpdate {
        vote(&self.0[n], n, (slot, index), voted)
    }

    pub(crate) fn votes(&self, slot: u64, voted: (u64, Hash)) -> Vec<SubscribeUpdate> {
        (0..3).map(|n| self.vote(n, (slot, n as u64), voted)).collect()
    }
}

/// A vote for the n-th vote account, signed by `key`.
pub(crate) fn vote(
    key: &Keypair,
    n: usize,
    at: (u64, u64),
    (voted, hash): (u64, Hash),
) -> SubscribeUpdate {
    let mut sync = TowerSync::from(vec![(voted, 1)]);
    sync.hash = hash;
    let instruction = tower_sync(&Validators::vote_account(n), &key.pubkey(), sync);
    let message_of = Message::new(&[instruction], Some(&key.pubkey()));
    let transaction = VersionedTransaction::try_new(VersionedMessage::Legacy(message_of), &[key])
        .expect("the voter signs");
    let mut update = new_update(&transaction, at);
    if let Some(UpdateOneof::Transaction(update)) = &mut update.update_oneof
        && let Some(info) = &mut update.transaction
    {
        info.is_vote = true;
    }
    update
}

/// The next bank, frozen and confirmed, with these votes.
pub(crate) fn bank(
    chain: &mut Proven,
    slot: u64,
    votes: Vec<SubscribeUpdate>,
) -> Vec<SubscribeUpdate> {
    let wallet = account(slot, WALLET, slot * 10, Vec::new());
    let mut all = chain.bank_with(slot, vec![wallet], votes);
    let statuses = [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed];
    all.extend(statuses.map(|it| status(slot, it)));
    all
}

async fn start(verify: VerifyMode, last_slot: u64) -> (Source, Rig, Proven, Validators) {
    let source = Source::new(None);
    let validators = Validators::new();
    let config = config(vec![source_config(&source).await], verify);
    let epoch_stakes = vec![validators.stakes(last_slot)];
    let (rig, chain) = Rig::start(FollowerConfig { epoch_stakes, ..config });
    (source, rig, chain, validators)
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_two_thirds_of_the_stake_verify_a_bank_and_its_ancestors() {
    let (source, rig, mut chain, validators) = start(VerifyMode::Votes, 1_000).await;
    source.send(bank(&mut chain, 101, Vec::new()));
    let first = (101, chain.hash);
    source.send(bank(&mut chain, 102, Vec::new()));
    let second = (102, chain.hash);
    // Two of three, and one that another key signed.
    let forged = vote(&Keypair::new(), 2, (103, 2), second);
    let votes = [0, 1].map(|n| validators.vote(n, (103, n as u64), second));
    source.send(bank(&mut chain, 103, votes.into_iter().chain([forged]).collect()));
    source.send(bank(&mut chain, 104, validators.votes(104, first)));
    rig.wait_for_slots([104, 101, 100]).await;
    // The votes of slot 103 were counted before those of 104.
    assert_eq!(rig.level(102), Some(VerificationLevel::Sequence));
    assert_eq!(rig.status.verified(), 101);
    let last = validators.vote(2, (105, 0), second);
    source.send(bank(&mut chain, 105, vec![last]));
    rig.wait_for_slots([105, 102, 100]).await;
    let votes = rig.votes(102).expect("they are known");
    assert_eq!((votes.slot, votes.voted, votes.total), (102, 300, 300));
    // Votes for a descendant are enough.
    let third = (105, chain.hash);
    source.send(bank(&mut chain, 106, validators.votes(106, third)));
    rig.wait_for_slots([106, 105, 100]).await;
    assert_eq!(rig.votes(103).map(|votes| votes.slot), Some(105));
    assert_eq!(rig.status.proof().limitation(), None);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_without_votes_leaves_the_tip_ahead_of_the_proof() {
    let (source, rig, mut chain, validators) = start(VerifyMode::Votes, 1_000).await;
    for slot in 101..=140 {
        source.send(bank(&mut chain, slot, Vec::new()));
    }
    rig.wait_for_slots([140, 100, 100]).await;
    assert_eq!((rig.status.verified(), rig.status.slots_unverified()), (0, 40));
    let voted = (140, chain.hash);
    source.send(bank(&mut chain, 141, validators.votes(141, voted)));
    rig.wait_for_slots([141, 140, 100]).await;
    assert_eq!((rig.status.verified(), rig.status.slots_unverified()), (140, 1));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn votes_for_another_hash_are_a_mismatch_after_one_repair() {
    let (source, rig, mut chain, validators) = start(VerifyMode::Votes, 1_000).await;
    source.send(bank(&mut chain, 101, Vec::new()));
    let mut other = chain.clone();
    source.send(bank(&mut chain, 102, Vec::new()));
    let right = chain.hash;
    other.bank(102, 77);
    source.send(bank(&mut chain, 103, validators.votes(103, (102, other.hash))));
    rig.wait("a mismatch", |rig| rig.status.mismatch().is_some()).await;
    let summary = rig.status.proof().summary();
    let mismatch = summary.first_mismatch.expect("it is there");
    assert_eq!((mismatch.slot, mismatch.reporter, summary.repairs), (102, HashReporter::Votes, 1));
    assert_eq!((mismatch.computed, mismatch.reported), (right, other.hash));
    assert_eq!(rig.slots()[1..], [100, 100]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_without_stakes_is_never_claimed_as_voted() {
    let (source, rig, mut chain, validators) = start(VerifyMode::Votes, 102).await;
    source.send(bank(&mut chain, 101, Vec::new()));
    source.send(bank(&mut chain, 102, Vec::new()));
    let voted = (102, chain.hash);
    source.send(bank(&mut chain, 103, validators.votes(103, voted)));
    let voted = (103, chain.hash);
    source.send(bank(&mut chain, 104, validators.votes(104, voted)));
    rig.wait_for_slots([104, 102, 100]).await;
    rig.wait("the limitation", |rig| rig.status.proof().limitation().is_some()).await;
    let text = rig.status.proof().summary().limitation.unwrap_or_default();
    assert!(text.contains("stakes") && text.contains("slot 10"), "{text}");
    assert_eq!(rig.level(103), Some(VerificationLevel::Sequence));
    rig.stop().await;
}

/// A vote account after a vote.
fn vote_account(slot: u64, n: usize, (voted, root): (u64, u64)) -> SubscribeUpdate {
    let mut state = VoteStateV4 { root_slot: Some(root), ..VoteStateV4::default() };
    state.votes.push_back(Lockout::new(voted).into());
    let data = bincode::serialize(&VoteStateVersions::new_v4(state)).expect("a state");
    let pubkey = Validators::vote_account(n).to_bytes();
    let mut update = account(slot, pubkey, 1, data);
    if let Some(UpdateOneof::Account(update)) = &mut update.update_oneof
        && let Some(account) = &mut update.account
    {
        account.owner = solana_sdk_ids::vote::ID.to_bytes().to_vec();
    }
    update
}

fn vote_accounts(slot: u64, tower: (u64, u64)) -> Vec<SubscribeUpdate> {
    (0..3).map(|n| vote_account(slot, n, tower)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn final_is_the_root_of_more_than_two_thirds_of_the_stake() {
    let (source, rig, mut chain, _) = start(VerifyMode::Sequence, 1_000).await;
    source.send(chain.chain(101..=105));
    source.send(chain.bank_with(106, vote_accounts(106, (105, 102)), Vec::new()));
    source.send([106].map(|slot| status(slot, SlotStatus::SlotConfirmed)));
    // The source's own root is further.
    source.send([101, 102, 103, 104].map(|slot| status(slot, SlotStatus::SlotFinalized)));
    source.send(chain.chain(107..=107));
    rig.wait_for_slots([107, 106, 102]).await;
    source.send(chain.bank_with(108, vote_accounts(108, (107, 106)), Vec::new()));
    // No more than the source's root.
    rig.wait_for_slots([108, 107, 104]).await;
    assert_eq!((rig.status.gaps(), rig.status.sessions()), (0, 1));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tip_is_on_the_fork_with_the_most_stake() {
    let (source, rig, mut chain, _) = start(VerifyMode::Sequence, 1_000).await;
    source.send(chain.chain(101..=101));
    let mut fork = chain.clone();
    source.send(chain.bank(102, 1));
    source.send(chain.bank_with(103, vote_accounts(103, (102, 100)), Vec::new()));
    rig.wait("the voted fork", |rig| rig.slots()[0] == 103).await;
    // It is higher, and no vote is for it.
    source.send(fork.bank(105, 2));
    source.send(fork.bank(106, 2));
    rig.wait("both forks", |rig| rig.banks() == 5).await;
    assert_eq!(rig.slots()[0], 103);
    rig.stop().await;
}

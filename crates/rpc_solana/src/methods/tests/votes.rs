//! Vote accounts, their stake, and the stake behind a block.

use std::collections::VecDeque;
use std::sync::Arc;

use chain_solana::{Cluster, ClusterNode, InflationSchedule, LeaderSchedule, View, VoteStakes};
use serde_json::{Value, json};
use solana_account::AccountSharedData;
use solana_address_lookup_table_interface::program as lookup_table_program;
use solana_address_lookup_table_interface::state::{AddressLookupTable, LookupTableMeta};
use solana_clock::Epoch;
use solana_feature_set::FeatureSet;
use solana_nonce::state::{Data, DurableNonce, State};
use solana_nonce::versions::Versions;
use solana_pubkey::{Pubkey, pubkey};
use solana_sdk_ids::{stake, system_program, vote};
use solana_signer::Signer;
use solana_stake_interface::stake_flags::StakeFlags;
use solana_stake_interface::state::{Authorized, Delegation, Meta, Stake, StakeStateV2};
use solana_vote_interface::state::{LandedVote, Lockout, VoteStateV4, VoteStateVersions};

use super::world::{World, account, hash, keypair, table};

/// A withdrawer whose stake does not circulate.
const WITHDRAWER: Pubkey = pubkey!("3FFaheyqtyAXZSYxDzsr5CVKvJuvZD1WE1VEsBtDbRqB");

/// Vote account 2 votes and is staked, 40 voted once and is staked, 41 has neither; 21 is a nonce account of 10 with
/// the nonce of blockhash 77. The lookup table is among them, too.
pub(super) fn accounts() -> Vec<(Pubkey, AccountSharedData)> {
    let key = |number| keypair(number).pubkey();
    let table = table();
    let meta = LookupTableMeta { deactivation_slot: u64::MAX, ..Default::default() };
    let data = AddressLookupTable { meta, addresses: table.addresses.into() };
    let data = data.serialize_for_tests().expect("a table has a size");
    let nonce = Data::new(key(10), DurableNonce::from_blockhash(&hash(77)), 5_000);
    let nonce = bincode::serialize(&Versions::new(State::Initialized(nonce)));
    vec![
        (key(2), vote_account(1, &[70, 78], 7)),
        (key(40), vote_account(42, &[1], 0)),
        (key(41), vote_account(43, &[], 0)),
        (key(44), account(&vote::ID, &[0; 3762])),
        (key(50), stake_account(2, 500, u64::MAX, Pubkey::default())),
        (key(51), stake_account(2, 300, u64::MAX, Pubkey::default())),
        (key(52), stake_account(40, 50, u64::MAX, Pubkey::default())),
        // A delegation that warms up in a future epoch. Agave's source names its withdrawer.
        (key(53), stake_account(2, 1_000, 7, WITHDRAWER)),
        (table.key, account(&lookup_table_program::ID, &data)),
        (key(21), account(&system_program::ID, &nonce.expect("a nonce has a size"))),
    ]
}

fn vote_account(api: u8, votes: &[u64], epochs: u64) -> AccountSharedData {
    let landed = |slot: &u64| LandedVote { latency: 1, lockout: Lockout::new(*slot) };
    let state = VoteStateV4 {
        node_pubkey: keypair(api).pubkey(),
        inflation_rewards_commission_bps: 1_050,
        votes: votes.iter().map(landed).collect::<VecDeque<_>>(),
        root_slot: votes.first().map(|slot| slot - 1),
        epoch_credits: (0..epochs).map(|epoch| (epoch, epoch * 10 + 10, epoch * 10)).collect(),
        ..Default::default()
    };
    let mut data = vec![0; VoteStateV4::size_of()];
    bincode::serialize_into(&mut data[..], &VoteStateVersions::new_v4(state)).expect("it fits");
    account(&vote::ID, &data)
}

fn stake_account(
    voter: u8,
    lamports: u64,
    activation_epoch: u64,
    withdrawer: Pubkey,
) -> AccountSharedData {
    let voter = keypair(voter).pubkey();
    let delegation = Delegation::new(&voter, lamports, activation_epoch);
    let stake = Stake { delegation, credits_observed: 0 };
    let authorized = Authorized { withdrawer, ..Authorized::default() };
    let meta = Meta { authorized, ..Meta::default() };
    let state = StakeStateV2::Stake(meta, stake, StakeFlags::empty());
    account(&stake::ID, &bincode::serialize(&state).expect("a stake has a size"))
}

#[test]
fn vote_accounts_with_their_stake() {
    let world = World::new();
    let accounts = world.ok("getVoteAccounts", json!([]));
    let ours = json!({
        "votePubkey": keypair(2).pubkey().to_string(), "nodePubkey": keypair(1).pubkey().to_string(),
        "activatedStake": 800, "commission": 11, "inflationRewardsCommissionBps": 1050,
        "epochVoteAccount": true, "lastVote": 78, "rootSlot": 69,
        "epochCredits": [[2, 30, 20], [3, 40, 30], [4, 50, 40], [5, 60, 50], [6, 70, 60]],
    });
    assert_eq!(accounts["current"][0], ours);
    assert_eq!(accounts["current"].as_array().map(Vec::len), Some(2));
    assert_eq!(accounts["current"][1]["activatedStake"], 50);
    assert_eq!(accounts["delinquent"], json!([]));
}

#[test]
fn a_validator_that_has_not_voted_for_long_is_delinquent() {
    let world = World::new();
    let last_votes = |config: Value| -> [Vec<u64>; 2] {
        let accounts = world.ok("getVoteAccounts", json!([config]));
        ["current", "delinquent"].map(|which| {
            let infos = accounts[which].as_array().expect("a list");
            infos.iter().filter_map(|info| info["lastVote"].as_u64()).collect()
        })
    };
    let near = |unstaked| {
        json!({"commitment": "processed", "delinquentSlotDistance": 10,
               "keepUnstakedDelinquents": unstaked})
    };
    assert_eq!(last_votes(near(false)), [vec![78], vec![1]]);
    assert_eq!(last_votes(near(true)), [vec![78], vec![1, 0]]);
    let one = json!({"votePubkey": keypair(40).pubkey().to_string()});
    assert_eq!(last_votes(one), [vec![1], vec![]]);
    let unknown = json!({"votePubkey": keypair(1).pubkey().to_string()});
    assert_eq!(last_votes(unknown), [vec![0; 0], vec![]]);
    let message = "Invalid param: WrongSize";
    world.check_refusal("getVoteAccounts", json!([{"votePubkey": "x"}]), -32602, message);
}

#[test]
fn all_stake_stands_behind_every_block() {
    let world = World::new();
    let commitment = |slot: u64| world.ok("getBlockCommitment", json!([slot]));
    let at = |depth: usize| {
        let mut stakes = [0; 32];
        stakes[depth] = 850;
        json!({"commitment": stakes, "totalStake": 850})
    };
    assert_eq!(commitment(79), at(0));
    assert_eq!(commitment(78), at(1));
    assert_eq!(commitment(63), at(15));
    assert_eq!(commitment(48), at(31));
    assert_eq!(commitment(40), at(31));
    for without in [39, 64, 80, 1_000] {
        assert_eq!(
            commitment(without),
            json!({"commitment": null, "totalStake": 850}),
            "{without}"
        );
    }
    let message = "Invalid params: invalid type: string \"1\", expected u64.";
    world.check_refusal("getBlockCommitment", json!(["1"]), -32602, message);
}

/// A cluster whose leaders were determined by other stakes than the current ones.
struct OtherVoters(Arc<dyn Cluster>);

impl Cluster for OtherVoters {
    fn leaders(&self, epoch: Epoch) -> Option<Arc<LeaderSchedule>> {
        self.0.leaders(epoch)
    }

    fn stakes(&self, view: &View) -> Option<Arc<VoteStakes>> {
        self.0.stakes(view)
    }

    fn voters(&self, _: Epoch) -> Option<Arc<VoteStakes>> {
        Some(Arc::new(VoteStakes([(keypair(2).pubkey(), 7)].into())))
    }

    fn nodes(&self) -> Option<Arc<[ClusterNode]>> {
        self.0.nodes()
    }

    fn inflation(&self) -> Option<Arc<InflationSchedule>> {
        self.0.inflation()
    }

    fn features(&self) -> Arc<FeatureSet> {
        self.0.features()
    }

    fn slot_ms(&self) -> u64 {
        self.0.slot_ms()
    }
}

#[test]
fn block_commitment_counts_current_stakes() {
    let mut world = World::new();
    world.api.cluster = Arc::new(OtherVoters(Arc::clone(&world.api.cluster)));
    let mut stakes = [0; 32];
    // Vote account 2 votes for 70 and 78, and 40 for neither.
    stakes[0] = 800;
    let expected = json!({"commitment": stakes, "totalStake": 850});
    assert_eq!(world.ok("getBlockCommitment", json!([70])), expected);
}

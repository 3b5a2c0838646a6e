//! Random damage to a stream: a change of the state is found within a slot, and any other change is not reported.
//!
//! `HYDRANT_CORRUPTIONS=1000` tries that many seeds.

use chain_solana::Verification;
use fastrand::Rng;
use follow::VerifyMode;
use solana_hash::Hash;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeUpdate, SubscribeUpdateAccountInfo, SubscribeUpdateBlockMeta,
};

use crate::proofs::{Rig, config, source_config};
use crate::script::{account, status};
use crate::snapshot::WALLET;
use testkit::geyser_source::Source;

const ROUNDS_DEFAULT: u64 = 200;

fn account_mut(update: &mut SubscribeUpdate) -> Option<&mut SubscribeUpdateAccountInfo> {
    match &mut update.update_oneof {
        Some(UpdateOneof::Account(update)) => update.account.as_mut(),
        _ => None,
    }
}

fn meta_mut(update: &mut SubscribeUpdate) -> Option<&mut SubscribeUpdateBlockMeta> {
    match &mut update.update_oneof {
        Some(UpdateOneof::BlockMeta(meta)) => Some(meta),
        _ => None,
    }
}

/// The position of a random update for which `is_meant` holds.
fn random(
    bank: &mut [SubscribeUpdate],
    rng: &mut Rng,
    mut is_meant: impl FnMut(&mut SubscribeUpdate) -> bool,
) -> usize {
    let all: Vec<usize> = (0..bank.len()).filter(|at| is_meant(&mut bank[*at])).collect();
    all[rng.usize(..all.len())]
}

fn is_wallet(update: &mut SubscribeUpdate) -> bool {
    account_mut(update).is_some_and(|account| account.pubkey == WALLET)
}

fn flip(bytes: &mut [u8], rng: &mut Rng) {
    bytes[rng.usize(..bytes.len())] ^= 1 << rng.u8(..8);
}

/// Damages a bank. Returns a word for the damage.
pub(crate) fn harm(bank: &mut Vec<SubscribeUpdate>, rng: &mut Rng) -> &'static str {
    let wallet = random(bank, rng, is_wallet);
    let any = random(bank, rng, |update| account_mut(update).is_some());
    let with_data = random(bank, rng, |update| {
        account_mut(update).is_some_and(|account| !account.data.is_empty())
    });
    let meta = random(bank, rng, |update| meta_mut(update).is_some());
    let kind = rng.u8(..9);
    if kind == 0 {
        bank.remove(wallet);
        return "a lost write";
    }
    if let (7.., Some(meta)) = (kind, meta_mut(&mut bank[meta])) {
        return if kind == 7 {
            let hash: Hash = meta.blockhash.parse().expect("a hash");
            let mut bytes = hash.to_bytes();
            flip(&mut bytes, rng);
            meta.blockhash = Hash::new_from_array(bytes).to_string();
            "another blockhash"
        } else {
            meta.executed_transaction_count -= 1;
            "a transaction too many"
        };
    }
    let at = match kind {
        1 | 2 => any,
        3 => with_data,
        _ => wallet,
    };
    let account = account_mut(&mut bank[at]).expect("an account");
    match kind {
        1 => {
            account.lamports ^= 1 << rng.u8(..40);
            "lamports"
        }
        2 => {
            account.executable = !account.executable;
            "executable"
        }
        3 => {
            let mut data = account.data.to_vec();
            flip(&mut data, rng);
            account.data = data.into();
            "data"
        }
        4 => {
            flip(&mut account.owner, rng);
            "owner"
        }
        5 => {
            flip(&mut account.pubkey, rng);
            "pubkey"
        }
        _ => {
            let mut data = account.data.to_vec();
            data.push(rng.u8(..));
            account.data = data.into();
            "longer data"
        }
    }
}

/// Changes a bank's stream so that its state stays the same. Returns a word for the change.
fn disturb(bank: &mut Vec<SubscribeUpdate>, rng: &mut Rng) -> &'static str {
    let at = rng.usize(..bank.len());
    match rng.u8(..5) {
        0 => {
            let again = bank[at].clone();
            bank.insert(at, again);
            "doubled"
        }
        1 => {
            let writes = random(bank, rng, |update| account_mut(update).is_some());
            let other = random(bank, rng, |update| account_mut(update).is_some());
            bank.swap(writes, other);
            "reordered"
        }
        2 => {
            let at = random(bank, rng, |update| account_mut(update).is_some());
            account_mut(&mut bank[at]).expect("an account").rent_epoch = rng.u64(..);
            "rent epoch"
        }
        3 => {
            let wallet = random(bank, rng, is_wallet);
            let mut stale = bank[wallet].clone();
            let account = account_mut(&mut stale).expect("an account");
            (account.lamports, account.write_version) = (account.lamports + 1, 0);
            bank.insert(wallet + 1, stale);
            "an older write"
        }
        _ => {
            let is_transaction = |update: &mut SubscribeUpdate| {
                matches!(update.update_oneof, Some(UpdateOneof::Transaction(_)))
            };
            let at = random(bank, rng, is_transaction);
            let transaction = bank.remove(at);
            bank.push(transaction);
            "a late transaction"
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_changes_the_state_is_found_within_a_slot_and_no_other() {
    let rounds = std::env::var("HYDRANT_CORRUPTIONS").ok().and_then(|text| text.parse().ok());
    let source = Source::new(None);
    let config = config(vec![source_config(&source).await], VerifyMode::Sequence);
    let (rig, mut chain) = Rig::start(config);
    source.send(chain.chain(101..=101));
    rig.wait("the first bank", |rig| rig.slots()[0] == 101).await;
    for seed in 0..rounds.unwrap_or(ROUNDS_DEFAULT) {
        let mut rng = Rng::with_seed(seed);
        let slot = chain.slot + 1;
        let writes = vec![account(slot, WALLET, slot * 1_000 + rng.u64(..1_000), Vec::new())];
        let right = chain.bank_with(slot, writes, Vec::new());
        let mut sent = right.clone();
        let is_harmful = rng.bool();
        let what =
            if is_harmful { harm(&mut sent, &mut rng) } else { disturb(&mut sent, &mut rng) };
        let text = format!("seed {seed}, slot {slot}: {what}");
        let before = (rig.status.sessions(), rig.status.proof().summary());
        // This session gets the one, and those after it get the other.
        source.send_damaged(sent, right);
        source.send(chain.bank(slot + 1, slot));
        source.send([slot, slot + 1].map(|slot| status(slot, SlotStatus::SlotProcessed)));
        source.send([status(slot, SlotStatus::SlotConfirmed)]);
        // Nothing after the child is sent before the bank is right.
        rig.wait(&text, |rig| rig.slots() == [slot + 1, slot, rig.slots()[2]]).await;
        let found = rig.status.sessions() - before.0;
        assert!((found > 0) == is_harmful, "{text}: {found} new sessions");
        let summary = rig.status.proof().summary();
        assert_eq!(summary.mismatched_banks, 0, "{text}");
        assert!(is_harmful || summary.repairs == before.1.repairs, "{text}");
        source.send([status(slot, SlotStatus::SlotFinalized)]);
        rig.wait("the root", |rig| rig.slots()[2] == slot).await;
        source.forget_below(slot);
    }
    rig.stop().await;
}

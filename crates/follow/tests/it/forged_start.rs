//! A forged snapshot whose source, independent source and voters are the liar's: no level detects it, and a trusted
//! bank does.

use follow::{AgreementConfig, Follower, FollowerConfig, TrustedBank, VerifyMode};
use ledger::{Address, Commitment};
use solana::VerificationLevel;
use testkit::geyser_source::Source;

use crate::archives::{BASE_SLOT, State};
use crate::proofs::{Rig, config, load_base, source_config};
use crate::votes::{self, Validators};

/// An account that only the forged snapshot has.
const FORGED: [u8; 32] = [77; 32];

/// Writes a snapshot whose hashes are right for its accounts, and whose stakes are those of the liars.
fn forge(liars: &Validators, dir: &std::path::Path) -> std::path::PathBuf {
    let state = State::at(BASE_SLOT).with(FORGED, 123);
    state.with_stakes(0, liars.archived_voters([100; 3])).write_full(dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_snapshot_with_its_own_source_and_voters_has_every_level() {
    for (mode, level) in [
        (VerifyMode::Sequence, VerificationLevel::Sequence),
        (VerifyMode::Agree, VerificationLevel::Agreed),
        (VerifyMode::Votes, VerificationLevel::Voted),
    ] {
        let liars = Validators::new();
        let source = Source::new(None);
        let other = Source::new(None);
        let mut settings = config(vec![source_config(&source).await], mode);
        if mode == VerifyMode::Agree {
            let sources = vec![source_config(&other).await];
            settings.agreement = AgreementConfig { sources, required: 1 };
        }
        let dir = tempfile::tempdir().expect("a directory");
        let archive = forge(&liars, dir.path());
        let (rig, mut chain) = Rig::start_from(settings, &archive, dir);
        source.send(votes::bank(&mut chain, 101, Vec::new()));
        let voted = (101, chain.hash);
        other.send([chain.child_slot_hashes()]);
        source.send(votes::bank(&mut chain, 102, liars.votes(102, voted)));
        rig.wait(&format!("{mode:?}"), |rig| rig.slots()[1] >= 101).await;
        assert_eq!(rig.level(101), Some(level), "{mode:?}");
        let view = rig.reader.view(Commitment::Confirmed);
        assert!(view.record(&Address::from(FORGED)).is_some(), "{mode:?}");
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_snapshot_is_refused_by_a_trusted_bank() {
    let dir = tempfile::tempdir().expect("a directory");
    let archive = forge(&Validators::new(), dir.path());
    let bank_hash = State::at(BASE_SLOT).bank_hash();
    let source = Source::new(None);
    for mode in [VerifyMode::Sequence, VerifyMode::Votes] {
        let trusted_banks = vec![TrustedBank { slot: BASE_SLOT, bank_hash }];
        let sources = vec![source_config(&source).await];
        let config = FollowerConfig { trusted_banks, ..config(sources, mode) };
        let refused = Follower::new(config, load_base(&archive)).err().expect("it is refused");
        let cause = std::error::Error::source(&refused).map(ToString::to_string);
        let text = format!("{refused}: {cause:?}");
        assert!(text.contains(&format!("slot {BASE_SLOT} has the bank hash")), "{text}");
    }
}

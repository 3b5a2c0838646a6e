//! A follower in a mode of verification, its source, and what proves banks in that mode.

use follow::{AgreementConfig, VerifyMode};
use testkit::geyser_source::Source;

use crate::proofs::{Rig, config, source_config};
use crate::proven::Proven;
use crate::votes::Validators;

pub(crate) struct ModeRig {
    pub(crate) source: Source,
    /// The other source of mode `agree`.
    pub(crate) independent: Source,
    /// The voters of the epoch.
    pub(crate) validators: Validators,
    pub(crate) rig: Rig,
    /// The chain above the snapshot.
    pub(crate) chain: Proven,
}

impl ModeRig {
    /// Starts a follower. With entries, they are sent and verified.
    pub(crate) async fn start(mode: VerifyMode, has_entries: bool) -> Self {
        let source = Source::new(None);
        let independent = Source::new(None);
        let validators = Validators::new();
        let mut settings = config(vec![source_config(&source).await], mode);
        settings.verify_entries = has_entries;
        settings.epoch_stakes = vec![validators.stakes(1_000)];
        if mode == VerifyMode::Agree {
            let sources = vec![source_config(&independent).await];
            settings.agreement = AgreementConfig { sources, required: 1 };
        }
        let (rig, mut chain) = Rig::start(settings);
        chain.has_entries = has_entries;
        Self { source, independent, validators, rig, chain }
    }
}

//! A subscription to a set, or an addition to one, that is registered and not live yet.
//!
//! Not here: what makes it live (`snapshot`).

use chain_solana::View;
use ledger::{Commitment, KeyKind};
use solana::Encoding;
use subscriptions::{Activation, AddedIds, ResumeFrom, SubscriptionId};

/// The parameters of a subscription to a set, without the set.
#[derive(Clone, Copy)]
pub(super) struct SetParams {
    pub(super) key_kind: KeyKind,
    pub(super) commitment: Commitment,
    pub(super) encoding: Encoding,
}

/// A subscription, or an addition to one, that is not live yet.
pub(super) struct SetActivation {
    pub(super) activation: Activation,
    pub(super) params: SetParams,
    /// The addresses that are new; all of the set if `None`.
    pub(super) added: Option<AddedIds>,
    pub(super) from: ResumeFrom,
    /// The view to send as a snapshot, if one was requested.
    pub(super) snapshot: Option<View>,
}

impl SetActivation {
    pub(super) fn subscription(&self) -> SubscriptionId {
        self.activation.subscription
    }
}

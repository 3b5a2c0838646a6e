//! From the reply to the live stream: the snapshot of a set, and the blocks that its subscription missed.
//!
//! In: a [`SetActivation`]. Out: notifications, in steps of about [`STEP_BYTES`].
//! Bounds: `Config::snapshot_accounts_max` accounts; the blocks to catch up with are those that
//! `Config::resume_blocks` and `Config::resume_bytes` retain. Past a bound the connection is closed with a reason.

use std::sync::Arc;

use chain_solana::{Block, View};
use cpu_pool::Class;
use ledger::{Address, AddressId};
use solana::Account;
use subscriptions::{BlockStep, CatchUp, ResumeFrom};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::SessionOutput;

use super::set_activation::{SetActivation, SetParams};
use crate::pubsub::address_notification::{self, ItemRef, MessageBuilder, NotificationKind};
use crate::pubsub::block_items::BlockItems;
use crate::pubsub::key_kind;
use crate::pubsub::solana_subscriptions::{SolanaPubSub, SolanaSession};

/// Bytes of notifications after which a step ends. It may exceed them by one account.
pub(super) const STEP_BYTES: usize = 256 * 1024;
/// Addresses that a step of a snapshot visits.
const SNAPSHOT_ADDRESSES: usize = 4_096;
/// Blocks that a step of catching up encodes.
const CATCH_UP_STEPS: usize = 16;

/// What is left to do until an activation is live.
pub(super) enum ActivationTask {
    /// The snapshot, if one was requested.
    Start(SetActivation),
    /// The rest of the snapshot.
    Snapshot(Box<Snapshot>),
    /// The blocks that the subscription missed.
    CatchUp(SetActivation),
}

type ActivationStep = (Vec<SessionOutput<BlockItems>>, Option<ActivationTask>);

pub(super) struct Snapshot {
    activation: SetActivation,
    view: View,
    ids: std::vec::IntoIter<AddressId>,
    /// The accounts under the current id, for key kinds under which there may be many.
    accounts: std::vec::IntoIter<(Address, Arc<Account>)>,
}

impl ActivationTask {
    /// The pool class of the next step.
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Snapshot(_) => Class::Heavy,
            Self::Start(_) | Self::CatchUp(_) => Class::Medium,
        }
    }

    /// Runs one step. Returns what to write now, and what is left after that.
    pub(super) fn step(self, pubsub: &SolanaPubSub, session: &SolanaSession) -> ActivationStep {
        match self {
            Self::Start(activation) => start_activation(pubsub, session, activation),
            Self::Snapshot(snapshot) => snapshot.step(pubsub),
            Self::CatchUp(activation) => catch_up(pubsub, session, activation),
        }
    }
}

/// Runs after the reply: starts the snapshot if one was requested, else catches up.
fn start_activation(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    mut activation: SetActivation,
) -> ActivationStep {
    let Some(view) = activation.snapshot.take() else {
        return catch_up(pubsub, session, activation);
    };
    let SetParams { key_kind, commitment, .. } = activation.params;
    let mut before = Vec::new();
    if activation.added.is_some() {
        let Some(step) = session.delivered_step(commitment, view.block()) else {
            activation.snapshot = Some(view);
            return (vec![SessionOutput::Backoff], Some(ActivationTask::Start(activation)));
        };
        before.push(SessionOutput::QueuedUntil(activation.subscription(), step));
    }
    let ids: Vec<AddressId> = match &activation.added {
        Some(added) => added.ids().collect(),
        None => match session.set(activation.subscription()) {
            Ok(set) => {
                let ids = set.ids().collect();
                session.drop_set(set);
                ids
            }
            Err(_) => Vec::new(),
        },
    };
    let limit = pubsub.api.config.snapshot_accounts_max;
    if key_kind != key_kind::ITSELF {
        let addresses = ids.iter().filter_map(|id| pubsub.api.reader.addresses().address(*id));
        let mut count = 0;
        for address in addresses {
            count += view.records_by_key_len(key_kind, &address);
            if count > limit {
                let reason = format!(
                    "a snapshot of more than {limit} accounts (pubsub.snapshot_accounts_max)"
                );
                return (vec![SessionOutput::Close(CloseCode::Policy, reason)], None);
            }
        }
    }
    let ids = ids.into_iter();
    let accounts = Vec::new().into_iter();
    let snapshot = Snapshot { activation, view, ids, accounts };
    (before, Some(ActivationTask::Snapshot(Box::new(snapshot))))
}

impl Snapshot {
    fn step(mut self: Box<Self>, pubsub: &SolanaPubSub) -> ActivationStep {
        let SetParams { key_kind, encoding, .. } = self.activation.params;
        let block = self.view.meta().last_blockhash().to_string();
        let mut messages =
            MessageBuilder::new(pubsub, NotificationKind::Snapshot, self.view.block().slot, block);
        let mut visited = 0;
        let has_more = loop {
            if messages.bytes() >= STEP_BYTES || visited >= SNAPSHOT_ADDRESSES {
                break true;
            }
            visited += 1;
            if let Some((address, account)) = self.accounts.next() {
                messages.add_account(&address, &account, encoding, &self.view);
                continue;
            }
            let Some(id) = self.ids.next() else { break false };
            // Found: the subscription retains its ids.
            let Some(address) = pubsub.api.reader.addresses().address(id) else { continue };
            if key_kind == key_kind::ITSELF {
                if let Some(account) = self.view.record(&address) {
                    messages.add_account(&address, &account, encoding, &self.view);
                }
            } else {
                let accounts: Vec<_> = self.view.records_by_key(key_kind, &address).collect();
                self.accounts = accounts.into_iter();
            }
        };
        let id = self.activation.subscription();
        let is_empty = messages.bytes() == 0;
        let next = if has_more {
            ActivationTask::Snapshot(self)
        } else {
            ActivationTask::CatchUp(self.activation)
        };
        if has_more && is_empty {
            return (Vec::new(), Some(next)); // many addresses, none with an account
        }
        let texts = messages.finish(has_more);
        (texts.into_iter().map(|text| SessionOutput::Prefix(id, text)).collect(), Some(next))
    }
}

/// Encodes the next blocks between the one that the activation starts after and the newest. After the last the
/// activation is live. Each step fetches the blocks again, so a client that reads slowly retains none of them.
fn catch_up(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    mut activation: SetActivation,
) -> ActivationStep {
    let id = activation.subscription();
    let SetParams { key_kind, commitment, encoding } = activation.params;
    let steps: Vec<BlockStep<Block>> =
        match session.catch_up(activation.activation, commitment, activation.from) {
            CatchUp::Live => return (Vec::new(), None),
            CatchUp::Steps(steps) => steps,
            CatchUp::Expired => {
                let reason = "the block to start from is too long ago (pubsub.resume_blocks, \
                              pubsub.resume_bytes)";
                return (vec![SessionOutput::Close(CloseCode::Policy, reason.to_owned())], None);
            }
        };
    if steps.is_empty() {
        return (Vec::new(), None);
    }
    let set = session.set(id).ok();
    let contains = |id: u32| match (&activation.added, &set) {
        (Some(added), _) => added.contains(AddressId(id)),
        (None, Some(set)) => set.contains(AddressId(id)),
        (None, None) => false,
    };
    let mut out = Vec::new();
    let mut bytes = 0;
    for step in steps.iter().take(CATCH_UP_STEPS) {
        if bytes >= STEP_BYTES {
            break;
        }
        activation.from = ResumeFrom::Step(step.number);
        let items = address_notification::block_items(pubsub, &step.body, key_kind).into_iter();
        let refs = items.filter(|(id, _)| contains(*id)).map(|(_, item)| item);
        let refs = ItemRef::merge_refs(refs);
        if !refs.is_empty() {
            let payloads =
                address_notification::encode_step(pubsub, step, key_kind, encoding, refs);
            bytes += payloads.iter().map(|payload| payload.prefix.len()).sum::<usize>();
            out.push(SessionOutput::QueuedUntil(id, step.number));
            out.extend(payloads.into_iter().map(|payload| SessionOutput::Split(id, payload)));
        }
    }
    if let Some(set) = set {
        session.drop_set(set);
    }
    (out, Some(ActivationTask::CatchUp(activation)))
}

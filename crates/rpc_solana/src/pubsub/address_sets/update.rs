//! `addressesUpdate`: its parameters, and the change of the subscription's set.
//!
//! In: one of add, remove, replace and clear. Out: the reply, and a [`SetActivation`] if addresses were added.
//! Not here: reading and registering the addresses (the parent), the binary form (`binary`).

use chain_solana::Block;
use jsonrpc::MethodOutput;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::subscribe_error;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use subscriptions::{
    AddressSet, ResumeFrom, SetChange, SetChangeResult, SetUpdate, SubscribeError, SubscriptionId,
};
use websocket::{Payload, SessionOutput};

use super::pending_reply::PendingReply;
use super::set_activation::{SetActivation, SetParams};
use super::subscribe::check_snapshot;
use crate::pubsub::address_stream::AddressList;
use crate::pubsub::block_items::BlockItems;
use crate::pubsub::solana_subscriptions::{SolanaPubSub, SolanaSession};
use crate::pubsub::subscription::Subscription;

/// A change to make with the addresses of a message.
pub(super) struct UpdateRequest {
    subscription: SubscriptionId,
    make_change: fn(AddressSet) -> SetChange,
    params: SetParams,
    snapshot: bool,
}

/// A change of a set in progress.
pub(super) struct SetUpdateTask {
    pub(super) pending_reply: PendingReply,
    update: SetUpdate<Subscription, Payload<BlockItems>, Block>,
    params: SetParams,
    snapshot: bool,
}

/// What a step of a change led to.
pub(super) enum UpdateStep {
    /// More to change.
    More(Box<SetUpdateTask>),
    /// The reply, and what is to become live if addresses were added.
    Done(Vec<SessionOutput<BlockItems>>, Option<SetActivation>),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct UpdateParams {
    add: Option<Box<RawValue>>,
    remove: Option<Box<RawValue>>,
    replace: Option<Box<RawValue>>,
    clear: bool,
    snapshot: bool,
}

/// The addresses and the change of a call.
pub(super) fn parse_update(
    session: &SolanaSession,
    params: Params<'_>,
) -> Result<(AddressList, UpdateRequest), RpcError> {
    let (id, params): (u64, UpdateParams) = params.parse(2)?;
    let (make_change, addresses): (fn(AddressSet) -> SetChange, _) =
        match (params.add, params.remove, params.replace, params.clear) {
            (Some(add), None, None, false) => (SetChange::Add, AddressList::from_json(add)),
            (None, Some(remove), None, false) => {
                (SetChange::Remove, AddressList::from_json(remove))
            }
            (None, None, Some(replace), false) => {
                (SetChange::Replace, AddressList::from_json(replace))
            }
            (None, None, None, true) => (SetChange::Replace, AddressList::empty()),
            _ => {
                let message = "Invalid params: give one of add, remove, replace and clear";
                return Err(RpcError::invalid_params(message));
            }
        };
    let request = UpdateRequest::new(session, SubscriptionId(id), make_change, params.snapshot)?;
    Ok((addresses, request))
}

impl UpdateRequest {
    /// The change of an existing set.
    pub(super) fn new(
        session: &SolanaSession,
        subscription: SubscriptionId,
        make_change: fn(AddressSet) -> SetChange,
        snapshot: bool,
    ) -> Result<Self, RpcError> {
        let unknown = || subscribe_error(&SubscribeError::Unknown);
        let identity = session.identity(subscription).ok_or_else(unknown)?;
        let Subscription::Addresses { key_kind, commitment, encoding } = *identity else {
            return Err(unknown());
        };
        check_snapshot(snapshot, key_kind)?;
        let params = SetParams { key_kind, commitment, encoding };
        Ok(Self { subscription, make_change, params, snapshot })
    }
}

impl SetUpdateTask {
    /// Starts the change of a set with the addresses of a message.
    pub(super) fn start(
        session: &SolanaSession,
        pending_reply: PendingReply,
        set: AddressSet,
        request: UpdateRequest,
    ) -> Result<Self, RpcError> {
        let UpdateRequest { subscription, make_change, params, snapshot } = request;
        let update = session.start_set_update(subscription, make_change(set));
        let update = update.map_err(|err| subscribe_error(&err))?;
        Ok(Self { pending_reply, update, params, snapshot })
    }

    /// Changes the next part of the set.
    pub(super) fn step(
        mut self: Box<Self>,
        pubsub: &SolanaPubSub,
        session: &SolanaSession,
    ) -> Result<UpdateStep, RpcError> {
        match self.update.step().map_err(|err| subscribe_error(&err))? {
            None => Ok(UpdateStep::More(self)),
            Some(result) => Ok(self.finish(pubsub, session, result)),
        }
    }

    fn finish(
        self: Box<Self>,
        pubsub: &SolanaPubSub,
        session: &SolanaSession,
        change: SetChangeResult,
    ) -> UpdateStep {
        // What was written of the subscription before this is of no later block than the view below.
        session.pause_delivery(change.activation.map(|activation| activation.subscription));
        let view = pubsub.api.complete_view(self.params.commitment);
        let block = view.block();
        let result = json!({
            "addresses": change.len,
            "added": change.added.len(),
            "removed": change.removed,
            "slot": block.slot,
            "block": view.meta().last_blockhash().to_string(),
        });
        let activation = change.activation.map(|activation| SetActivation {
            activation,
            params: self.params,
            added: Some(change.added),
            from: ResumeFrom::Block(block),
            snapshot: self.snapshot.then_some(view),
        });
        UpdateStep::Done(self.pending_reply.reply(pubsub, MethodOutput::json(&result)), activation)
    }
}

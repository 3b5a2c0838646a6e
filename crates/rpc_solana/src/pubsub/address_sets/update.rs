//! `addressesUpdate`: its parameters, and the change of the subscription's set.
//!
//! In: one of add, remove, replace and clear. Out: the reply, and a [`SetActivation`] if addresses were added.
//! Not here: reading and registering the addresses (the parent), the binary form (`binary`).

use std::sync::Arc;

use chain_solana::Block;
use jsonrpc::MethodOutput;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use subscriptions::{
    AddressSet, ResumeFrom, SetChange, SetChangeResult, SetUpdate, SubscribeError, SubscriptionId,
};

use super::subscribe::check_snapshot;
use super::{PendingReply, SetActivation, SetParams, SetRequest, SetTaskState, StepOutput};
use crate::pubsub::address_stream::AddressList;
use crate::pubsub::payload::Payload;
use crate::pubsub::session::Session;
use crate::pubsub::subscription::Subscription;
use crate::pubsub::{PubSub, methods};

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
    update: SetUpdate<Subscription, Payload, Block>,
    params: SetParams,
    snapshot: bool,
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

pub(super) fn parse_update(
    _: &Arc<PubSub>,
    session: &Arc<Session>,
    params: Params<'_>,
) -> Result<(AddressList, SetRequest), RpcError> {
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
    let request = update_request(session, SubscriptionId(id), make_change, params.snapshot)?;
    Ok((addresses, request))
}

pub(super) fn update_request(
    session: &Session,
    subscription: SubscriptionId,
    make_change: fn(AddressSet) -> SetChange,
    snapshot: bool,
) -> Result<SetRequest, RpcError> {
    let unknown = || methods::subscribe_error(&SubscribeError::Unknown);
    let identity = session.identity(subscription).ok_or_else(unknown)?;
    let Subscription::Addresses { key_kind, commitment, encoding } = *identity else {
        return Err(unknown());
    };
    check_snapshot(snapshot, key_kind)?;
    let params = SetParams { key_kind, commitment, encoding };
    Ok(SetRequest::Update(UpdateRequest { subscription, make_change, params, snapshot }))
}

/// Starts the change of a set with the addresses of a message.
pub(super) fn start_update(
    session: &Arc<Session>,
    pending_reply: PendingReply,
    set: AddressSet,
    request: UpdateRequest,
) -> Result<StepOutput, RpcError> {
    let UpdateRequest { subscription, make_change, params, snapshot } = request;
    let update = session.start_set_update(subscription, make_change(set));
    let update = update.map_err(|err| methods::subscribe_error(&err))?;
    let task = SetUpdateTask { pending_reply, update, params, snapshot };
    Ok((Vec::new(), Some(SetTaskState::Update(Box::new(task)))))
}

impl SetUpdateTask {
    pub(super) fn step(
        mut self: Box<Self>,
        pubsub: &PubSub,
        session: &Arc<Session>,
    ) -> Result<StepOutput, RpcError> {
        match self.update.step().map_err(|err| methods::subscribe_error(&err))? {
            None => Ok((Vec::new(), Some(SetTaskState::Update(self)))),
            Some(result) => Ok(self.finish(pubsub, session, result)),
        }
    }

    fn finish(
        self: Box<Self>,
        pubsub: &PubSub,
        session: &Arc<Session>,
        change: SetChangeResult,
    ) -> StepOutput {
        // What was written of the subscription before this is of no later block than the view below.
        session.pause_delivery(change.activation.map(|activation| activation.subscription));
        let view = pubsub.complete_view(self.params.commitment);
        let block = view.block();
        let result = json!({
            "addresses": change.len,
            "added": change.added.len(),
            "removed": change.removed,
            "slot": block.slot,
            "block": view.meta().last_blockhash().to_string(),
        });
        let next = change.activation.map(|activation| {
            SetTaskState::Start(SetActivation {
                activation,
                params: self.params,
                added: Some(change.added),
                from: ResumeFrom::Block(block),
                snapshot: self.snapshot.then_some(view),
            })
        });
        (self.pending_reply.reply(pubsub, MethodOutput::json(&result)), next)
    }
}

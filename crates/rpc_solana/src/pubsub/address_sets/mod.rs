//! Subscriptions to sets of addresses: `addressesSubscribe` and `addressesUpdate`, as JSON and as
//! binary messages.
//!
//! Shape: a [`SetTask`] does the work of one client message, in steps on the CPU pool ([`SessionTask`]). The output of a
//! step is written before the next step runs, so a snapshot of a million accounts waits in no queue. The JSON of a
//! message with tens of thousands of addresses is scanned in one step of a millisecond or two. Its addresses are read,
//! registered and indexed in many steps of a tenth of one (`address_stream`, [`subscriptions::SetUpdate`]).
//! Unsubscribing takes such steps too.
//! Order on the wire: the reply, the snapshot if requested, the blocks since the one that the subscription starts
//! after, then the live stream. Addresses that are added to a set go the same way. Meanwhile the notifications for
//! the rest of the set are paused, and are written between those of the addition, block by block: the blocks of a
//! subscription never go back.
//! Bounds: `Config::addresses_message_bytes_max` for a message, `Config::set_tasks_max` tasks at once, one task
//! for each connection. The registry checks the limits of sets: all or nothing, and its errors name the setting.
//! What users see: docs/subscriptions.md.

mod binary;
mod pending_reply;
mod set_activation;
mod snapshot;
mod subscribe;
mod update;

use std::sync::Arc;
use std::time::Duration;

use chain_solana::Block;
use cpu_pool::Class;
use jsonrpc::MethodOutput;
use jsonrpc::envelope::{self, Call, Request};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::{handle_message, subscribe_error};
use ledger::Commitment;
use solana::Encoding;
use subscriptions::{AddressSet, Conflated, SubscribeError, SubscriptionId, UnsubscribeTask};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};
use websocket::{Payload, SessionOutput, SessionTask};

use super::address_notification::ConflatedEncoder;
use super::address_stream::AddressList;
use super::block_items::{BlockItems, ConflatedState};
use super::solana_subscriptions::{SolanaPubSub, SolanaSession};
use super::subscription::Subscription;
use binary::BinaryUpdate;
use pending_reply::{PendingReply, text_output};
use set_activation::SetActivation;
use snapshot::ActivationTask;
use subscribe::SubscribeRequest;
use update::{SetUpdateTask, UpdateRequest, UpdateStep};

pub(super) use binary::BINARY;

/// Addresses that a step reads and registers.
const REGISTER_ADDRESSES: usize = 512;

/// The work of one message about a set, in steps.
pub struct SetTask {
    pubsub: Arc<SolanaPubSub>,
    session: Arc<SolanaSession>,
    /// When the message was complete.
    received_at: Duration,
    state: SetTaskState,
}

enum SetTaskState {
    Text(Utf8Bytes),
    Binary(Bytes),
    Register(Box<RegisterAddresses>),
    Update(Box<SetUpdateTask>),
    Activation(ActivationTask),
    Conflated(SubscriptionId, Box<ConflatedEncoder>, Encoding, Commitment),
    StartUnsubscribe(SubscriptionId, PendingReply),
    Unsubscribe(Box<UnsubscribeTask<Subscription, Payload<BlockItems>, Block>>, PendingReply),
}

/// The addresses of a message while they are read and registered.
struct RegisterAddresses {
    pending_reply: PendingReply,
    addresses: AddressList,
    /// Addresses that have been read.
    read: usize,
    set: AddressSet,
    request: SetRequest,
}

/// What the registered addresses are for.
enum SetRequest {
    Subscribe(SubscribeRequest),
    Update(UpdateRequest),
}

impl SetTask {
    /// A text message that may be about a set.
    pub(super) fn from_text(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        text: Utf8Bytes,
    ) -> Self {
        Self::new(pubsub, session, SetTaskState::Text(text))
    }

    /// A binary message about a set.
    pub(super) fn from_binary(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        message: Bytes,
    ) -> Self {
        Self::new(pubsub, session, SetTaskState::Binary(message))
    }

    /// The conflated notifications of a slow client.
    pub(super) fn from_conflated(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        conflated: Conflated<ConflatedState>,
    ) -> Option<Self> {
        let identity = session.identity(conflated.subscription)?;
        let Subscription::Addresses { commitment, encoding, .. } = *identity else { return None };
        let encoder = Box::new(ConflatedEncoder::new(conflated.state)?);
        let state = SetTaskState::Conflated(conflated.subscription, encoder, encoding, commitment);
        Some(Self::new(pubsub, session, state))
    }

    fn new(pubsub: &Arc<SolanaPubSub>, session: &Arc<SolanaSession>, state: SetTaskState) -> Self {
        let received_at = pubsub.pool.now();
        Self { pubsub: Arc::clone(pubsub), session: Arc::clone(session), received_at, state }
    }

    /// Whether a text is for [`Self::from_text`]: it is long, or a call of one of the methods here.
    pub(super) fn is_set_message(text: &str, message_bytes_max: usize) -> bool {
        const METHODS: [&str; 3] =
            ["addressesSubscribe", "addressesUpdate", "addressesUnsubscribe"];
        let is_set_method = |method: &str| METHODS.contains(&method);
        text.len() > message_bytes_max
            || matches!(
                envelope::read(text),
                Ok(Request::Single(Call::Method { method, .. })) if is_set_method(&method)
            )
    }
}

impl SessionTask for SetTask {
    type Items = BlockItems;

    fn class(&self) -> Class {
        match &self.state {
            SetTaskState::Activation(activation) => activation.class(),
            _ => Class::Medium,
        }
    }

    fn step(self) -> (Vec<SessionOutput<BlockItems>>, Option<Self>) {
        let Self { pubsub, session, received_at, state } = self;
        let (out, next) = match state {
            SetTaskState::Text(text) => read_text(&pubsub, &session, received_at, &text),
            SetTaskState::Binary(message) => read_binary(&pubsub, &session, received_at, message),
            SetTaskState::Register(register) => {
                let pending_reply = register.pending_reply.clone();
                pending_reply.run_step(&pubsub, || {
                    pubsub.check_state()?;
                    register.step(&pubsub, &session)
                })
            }
            SetTaskState::Update(update) => {
                let pending_reply = update.pending_reply.clone();
                pending_reply.run_step(&pubsub, || {
                    Ok(match update.step(&pubsub, &session)? {
                        UpdateStep::More(update) => {
                            (Vec::new(), Some(SetTaskState::Update(update)))
                        }
                        UpdateStep::Done(out, activation) => {
                            (out, activation.map(SetTaskState::start))
                        }
                    })
                })
            }
            SetTaskState::StartUnsubscribe(id, pending_reply) => {
                match session.start_unsubscribe(id) {
                    Some(task) => {
                        let state = SetTaskState::Unsubscribe(Box::new(task), pending_reply);
                        (Vec::new(), Some(state))
                    }
                    None => {
                        let err = subscribe_error(&SubscribeError::Unknown);
                        (pending_reply.reply(&pubsub, Err(err)), None)
                    }
                }
            }
            SetTaskState::Unsubscribe(mut task, pending_reply) => {
                if task.step() {
                    (Vec::new(), Some(SetTaskState::Unsubscribe(task, pending_reply)))
                } else {
                    (pending_reply.reply(&pubsub, MethodOutput::json(&true)), None)
                }
            }
            SetTaskState::Activation(activation) => {
                let (out, next) = activation.step(&pubsub, &session);
                (out, next.map(SetTaskState::Activation))
            }
            SetTaskState::Conflated(id, encoder, encoding, commitment) => {
                let view = pubsub.api.reader.view(commitment);
                let (texts, rest) = encoder.step(&pubsub, encoding, &view, snapshot::STEP_BYTES);
                let next = rest.map(|encoder| {
                    SetTaskState::Conflated(id, Box::new(encoder), encoding, commitment)
                });
                (texts.into_iter().map(|text| SessionOutput::Prefix(id, text)).collect(), next)
            }
        };
        (out, next.map(|state| Self { pubsub, session, received_at, state }))
    }
}

type StepOutput = (Vec<SessionOutput<BlockItems>>, Option<SetTaskState>);

fn read_text(
    pubsub: &Arc<SolanaPubSub>,
    session: &Arc<SolanaSession>,
    received_at: Duration,
    message: &str,
) -> StepOutput {
    let call = match envelope::read(message) {
        Ok(Request::Single(Call::Method { id, method, params })) => Some((id, method, params)),
        _ => None,
    };
    type ParseParams = fn(
        &SolanaPubSub,
        &SolanaSession,
        Params<'_>,
    ) -> Result<(AddressList, SetRequest), RpcError>;
    let parser: Option<(&'static str, ParseParams)> =
        match call.as_ref().map(|(_, method, _)| &**method) {
            Some("addressesSubscribe") => Some(("addressesSubscribe", SetRequest::parse_subscribe)),
            Some("addressesUpdate") => Some(("addressesUpdate", SetRequest::parse_update)),
            _ => None,
        };
    match (call, parser) {
        (Some((id, _, params)), Some((method, parse_params))) => {
            let pending_reply = PendingReply { id, method, received_at };
            pending_reply.run_step(pubsub, || {
                session.admit(1)?;
                session.admit_method(method)?;
                if method == "addressesSubscribe" {
                    session.admit_subscription()?;
                }
                let (addresses, request) = parse_params(pubsub, session, params)?;
                Ok(start_registration(pubsub, pending_reply.clone(), addresses, request))
            })
        }
        (Some((id, method, params)), _) if method == "addressesUnsubscribe" => {
            let pending_reply = PendingReply { id, method: "addressesUnsubscribe", received_at };
            session.count_calls(1);
            match params.parse::<(u64,)>(1) {
                Ok((id,)) => {
                    let id = SubscriptionId(id);
                    (Vec::new(), Some(SetTaskState::StartUnsubscribe(id, pending_reply)))
                }
                Err(err) => (pending_reply.reply(pubsub, Err(err)), None),
            }
        }
        (Some((_, method, _)), _)
            if method == "transactionSubscribe"
                || message.len() <= pubsub.api.config.message_bytes_max =>
        {
            let reply = handle_message(pubsub, session, message);
            (reply.map(text_output).unwrap_or_default(), None)
        }
        (None, _) if message.len() <= pubsub.api.config.message_bytes_max => {
            let reply = handle_message(pubsub, session, message);
            (reply.map(text_output).unwrap_or_default(), None)
        }
        _ => {
            let limit = pubsub.api.config.message_bytes_max;
            let reason = format!("a message over {limit} bytes (pubsub.message_bytes_max)");
            (vec![SessionOutput::Close(CloseCode::Size, reason)], None)
        }
    }
}

fn read_binary(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    received_at: Duration,
    message: Bytes,
) -> StepOutput {
    let (id, update) = binary::parse_update(message);
    let pending_reply = PendingReply { id, method: "addressesUpdate", received_at };
    pending_reply.run_step(pubsub, || {
        session.admit(1)?;
        session.admit_method("addressesUpdate")?;
        let BinaryUpdate { subscription, make_change, snapshot, addresses } = update?;
        let request = UpdateRequest::new(session, subscription, make_change, snapshot)?;
        let request = SetRequest::Update(request);
        Ok(start_registration(pubsub, pending_reply.clone(), addresses, request))
    })
}

fn start_registration(
    pubsub: &SolanaPubSub,
    pending_reply: PendingReply,
    addresses: AddressList,
    request: SetRequest,
) -> StepOutput {
    let set = AddressSet::empty(pubsub.api.reader.addresses());
    let register = RegisterAddresses { pending_reply, addresses, read: 0, set, request };
    (Vec::new(), Some(SetTaskState::Register(Box::new(register))))
}

impl SetRequest {
    fn parse_subscribe(
        pubsub: &SolanaPubSub,
        session: &SolanaSession,
        params: Params<'_>,
    ) -> Result<(AddressList, Self), RpcError> {
        let (addresses, request) = subscribe::parse_subscribe(pubsub, session, params)?;
        Ok((addresses, Self::Subscribe(request)))
    }

    fn parse_update(
        _: &SolanaPubSub,
        session: &SolanaSession,
        params: Params<'_>,
    ) -> Result<(AddressList, Self), RpcError> {
        let (addresses, request) = update::parse_update(session, params)?;
        Ok((addresses, Self::Update(request)))
    }
}

impl SetTaskState {
    /// Makes an activation live, from its snapshot on.
    fn start(activation: SetActivation) -> Self {
        Self::Activation(ActivationTask::Start(activation))
    }
}

impl RegisterAddresses {
    /// Registers the next addresses. Starts the request after the last.
    fn step(
        mut self: Box<Self>,
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
    ) -> Result<StepOutput, RpcError> {
        let addresses = self.addresses.next_addresses(REGISTER_ADDRESSES)?;
        if addresses.is_empty() {
            return self.start_request(pubsub, session);
        }
        self.read += addresses.len();
        let limit = pubsub.api.config.tracked_addresses_per_connection_max;
        let tracked = session.tracked_addresses() + self.read;
        if tracked > limit.saturating_mul(2) {
            // Too many even if half of them were in the set already.
            return Err(subscribe_error(&SubscribeError::ListenerAddressesFull {
                addresses: tracked,
                limit,
            }));
        }
        self.set.add(addresses).map_err(|full| subscribe_error(&full.into()))?;
        Ok((Vec::new(), Some(SetTaskState::Register(self))))
    }

    fn start_request(
        self,
        pubsub: &SolanaPubSub,
        session: &Arc<SolanaSession>,
    ) -> Result<StepOutput, RpcError> {
        let Self { pending_reply, set, request, .. } = self;
        match request {
            SetRequest::Subscribe(request) => {
                let (reply, activation) =
                    subscribe::subscribe_set(pubsub, session, &pending_reply, set, request)?;
                Ok((reply, Some(SetTaskState::start(activation))))
            }
            SetRequest::Update(request) => {
                let update = SetUpdateTask::start(session, pending_reply, set, request)?;
                Ok((Vec::new(), Some(SetTaskState::Update(Box::new(update)))))
            }
        }
    }
}

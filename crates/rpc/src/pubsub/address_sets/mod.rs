//! Subscriptions to sets of addresses: `addressesSubscribe` and `addressesUpdate`, as JSON and as
//! binary messages.
//!
//! Shape: a [`SetTask`] is what one message of a client is worth, done in steps on the CPU pool (`turns`);
//! what a step gives is written before the next one is made, so that a snapshot of a million accounts
//! waits in no queue. A message of tens of thousands of addresses is found out in one step of a
//! millisecond or two (its JSON), and read, registered and entered in many of a tenth of one (`given`,
//! [`subscriptions::SetUpdate`]); a set ends in such steps too. The order on the wire: the reply, the snapshot if
//! asked for, what was told since the block that the subscription starts after, then the stream. What
//! is added to a set goes the same way while what the rest of the set is told of is held back, and put
//! between it block by block: the blocks of a subscription never go back.
//! Bounds: `Config::addresses_message_bytes_max` a message, `Config::sets_at_once` at once, one task
//! for each connection. Those of the sets are the engine's: all or nothing, naming the knob.
//! What users see: docs/subscriptions.md.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{Block, View};
use ledger::{Address, AddressId, BlockId, Commitment, KeyKind, Slot};
use pool::Class;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use solana::{Account, Encoding};
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::CommitmentLevel;
use solana_hash::Hash;
use subscriptions::{
    Activation, AddedIds, AddressSet, BlockStep, CatchUp, Conflated, ResumeFrom, SetChange,
    SetChangeResult, SetSubscription, SetUpdate, SlowConsumerPolicy, SubscriptionId,
    UnsubscribeTask,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::PubSub;
use super::address_notification::{
    self, ConflatedEncoder, ItemRef, MessageBuilder, NotificationKind,
};
use super::address_stream::AddressList;
use super::methods;
use super::payload::{ConflatedState, Payload, SplitPayload};
use super::session::Session;
use super::shared_text::SharedText;
use super::subscription::{Subscription, SubscriptionKind, key_kind};
use crate::envelope::{self, Call, Id, Request};
use crate::error::RpcError;
use crate::methods::MethodOutput;
use crate::params::Params;

/// The first byte of a binary message about a set. No text begins with it.
pub(super) const BINARY: u8 = 0xad;
/// Bytes of a binary message before its addresses.
const BINARY_HEADER: usize = 16;
/// What a step makes, and one account more.
const STEP_BYTES: usize = 256 * 1024;
/// Addresses that a step of a snapshot looks at.
const SNAPSHOT_ADDRESSES: usize = 4_096;
/// Blocks that a step of catching up encodes.
const CATCH_UP_STEPS: usize = 16;
/// Addresses that a step reads and registers.
const REGISTER_ADDRESSES: usize = 512;

/// What is to be written.
pub(super) enum SessionOutput {
    /// As it is.
    Text(String),
    /// A notification, with the listener's numbers.
    Split(SubscriptionId, SplitPayload),
    /// A notification whose beginning is this.
    Prefix(SubscriptionId, SharedText),
    /// What waits of a subscription, up to a step.
    QueuedUntil(SubscriptionId, u64),
    /// Nothing for a moment.
    Backoff,
    /// The end of the connection.
    Close(CloseCode, String),
}

/// Work on a set, in steps.
pub(super) struct SetTask {
    pubsub: Arc<PubSub>,
    session: Arc<Session>,
    /// When the message was there.
    received_at: Duration,
    state: SetTaskState,
}

enum SetTaskState {
    Text(Utf8Bytes),
    Binary(Bytes),
    Register(Box<RegisterAddresses>),
    Update(Box<SetUpdateTask>),
    Start(SetActivation),
    Snapshot(Box<Snapshot>),
    CatchUp(SetActivation),
    Conflated(SubscriptionId, Box<ConflatedEncoder>, Encoding, Commitment),
    StartUnsubscribe(SubscriptionId, PendingReply),
    Unsubscribe(Box<UnsubscribeTask<Subscription, Payload, Block>>, PendingReply),
}

/// Whose reply is still to come.
#[derive(Clone)]
struct PendingReply {
    id: Id,
    method: &'static str,
    /// When its message was there.
    received_at: Duration,
}

/// The addresses of a message on their way into a set.
struct RegisterAddresses {
    pending_reply: PendingReply,
    addresses: AddressList,
    /// How many have been read.
    read: usize,
    set: AddressSet,
    request: SetRequest,
}

/// What is to be done with them.
enum SetRequest {
    Subscribe(SubscribeRequest),
    Update {
        subscription: SubscriptionId,
        make: fn(AddressSet) -> SetChange,
        params: SetParams,
        snapshot: bool,
    },
}

/// What a subscription to a set is to be.
struct SubscribeRequest {
    params: SetParams,
    from: Option<BlockId>,
    snapshot: bool,
    slow_consumer_policy: SlowConsumerPolicy,
}

/// What a subscription to a set is, but for the set.
#[derive(Clone, Copy)]
struct SetParams {
    key_kind: KeyKind,
    commitment: Commitment,
    encoding: Encoding,
}

/// A change of a set under way.
struct SetUpdateTask {
    pending_reply: PendingReply,
    update: SetUpdate<Subscription, Payload, Block>,
    params: SetParams,
    snapshot: bool,
}

/// A subscription, or an addition to one, that is on its way to be live.
struct SetActivation {
    activation: Activation,
    key_kind: KeyKind,
    commitment: Commitment,
    encoding: Encoding,
    /// The addresses that are new; all of the set if `None`.
    added: Option<AddedIds>,
    from: ResumeFrom,
    snapshot: Option<View>,
}

struct Snapshot {
    activation: SetActivation,
    view: View,
    ids: std::vec::IntoIter<AddressId>,
    /// What stands under the newest of the ids, where that may be many.
    accounts: std::vec::IntoIter<(Address, Arc<Account>)>,
}

impl SetTask {
    /// A message of text that may be about a set.
    pub(super) fn from_text(pubsub: &Arc<PubSub>, client: &Arc<Session>, text: Utf8Bytes) -> Self {
        Self::new(pubsub, client, SetTaskState::Text(text))
    }

    /// A binary message about a set.
    pub(super) fn from_binary(pubsub: &Arc<PubSub>, client: &Arc<Session>, message: Bytes) -> Self {
        Self::new(pubsub, client, SetTaskState::Binary(message))
    }

    /// What a slow client did not take.
    pub(super) fn from_conflated(
        pubsub: &Arc<PubSub>,
        client: &Arc<Session>,
        conflated: Conflated<ConflatedState>,
    ) -> Option<Self> {
        let identity = client.identity(conflated.subscription)?;
        let Subscription::Addresses { commitment, encoding, .. } = *identity else { return None };
        let conflating = Box::new(ConflatedEncoder::new(conflated.state)?);
        let work =
            SetTaskState::Conflated(conflated.subscription, conflating, encoding, commitment);
        Some(Self::new(pubsub, client, work))
    }

    fn new(pubsub: &Arc<PubSub>, client: &Arc<Session>, state: SetTaskState) -> Self {
        let received_at = pubsub.pool.now();
        Self { pubsub: Arc::clone(pubsub), session: Arc::clone(client), received_at, state }
    }

    /// Whether a text is one for [`Self::from_text`]: a long one, or one that names the methods here.
    pub(super) fn is_set_message(text: &str, message_bytes_max: usize) -> bool {
        text.len() > message_bytes_max
            || text.contains("addressesSubscribe")
            || text.contains("addressesU")
    }

    /// What its next step costs.
    pub(super) fn class(&self) -> Class {
        match self.state {
            SetTaskState::Snapshot(_) => Class::Heavy,
            _ => Class::Medium,
        }
    }

    /// Does a step of the work: what to write now, and what is left to do after it.
    pub(super) fn step(self) -> (Vec<SessionOutput>, Option<Self>) {
        let Self { pubsub, session: client, received_at: began, state: work } = self;
        let node = (&pubsub, &client);
        let (out, next) = match work {
            SetTaskState::Text(text) => read_text(&pubsub, &client, began, &text),
            SetTaskState::Binary(message) => read_binary(&pubsub, &client, began, message),
            SetTaskState::Register(registering) => {
                let ask = registering.pending_reply.clone();
                ask.run_step(&pubsub, || registering.step(&pubsub, &client))
            }
            SetTaskState::Update(updating) => {
                let ask = updating.pending_reply.clone();
                ask.run_step(&pubsub, || updating.step(&pubsub, &client))
            }
            SetTaskState::StartUnsubscribe(id, ask) => match client.start_unsubscribe(id) {
                Some(ending) => {
                    (Vec::new(), Some(SetTaskState::Unsubscribe(Box::new(ending), ask)))
                }
                None => {
                    let err = RpcError::invalid_params("Invalid subscription id.");
                    (ask.reply(&pubsub, Err(err)), None)
                }
            },
            SetTaskState::Unsubscribe(mut ending, ask) => {
                if ending.step() {
                    (Vec::new(), Some(SetTaskState::Unsubscribe(ending, ask)))
                } else {
                    (ask.reply(&pubsub, MethodOutput::json(&true)), None)
                }
            }
            SetTaskState::Start(begun) => start_activation(node.0, node.1, begun),
            SetTaskState::Snapshot(snapshot) => snapshot.step(&pubsub),
            SetTaskState::CatchUp(begun) => catch_up(&pubsub, &client, begun),
            SetTaskState::Conflated(id, conflating, encoding, commitment) => {
                let view = pubsub.reader.view(commitment);
                let (texts, left) = conflating.step(&pubsub, encoding, &view, STEP_BYTES);
                let left = left
                    .map(|left| SetTaskState::Conflated(id, Box::new(left), encoding, commitment));
                (texts.into_iter().map(|text| SessionOutput::Prefix(id, text)).collect(), left)
            }
        };
        (out, next.map(|work| Self { pubsub, session: client, received_at: began, state: work }))
    }
}

type StepOutput = (Vec<SessionOutput>, Option<SetTaskState>);

/// What a set's methods answer within a batch.
pub(super) fn not_in_a_batch() -> RpcError {
    RpcError::invalid_request("addressesSubscribe and addressesUpdate cannot be in a batch")
}

impl PendingReply {
    /// Its reply, which is counted.
    fn reply(&self, pubsub: &PubSub, answer: Result<MethodOutput, RpcError>) -> Vec<SessionOutput> {
        methods::record_call(pubsub, Some(self.method), self.received_at, answer.as_ref());
        let reply = answer.and_then(|answer| answer.into_response(&self.id));
        text(reply.unwrap_or_else(|err| envelope::error_response(&err, &self.id, true)))
    }

    /// A step of what it is worth; an error, or a panic, is its answer.
    fn run_step(
        &self,
        pubsub: &PubSub,
        step: impl FnOnce() -> Result<StepOutput, RpcError>,
    ) -> StepOutput {
        let stepped = catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            tracing::error!(method = self.method, "work on a set panicked; its request got -32603");
            Err(RpcError::internal())
        });
        stepped.unwrap_or_else(|err| (self.reply(pubsub, Err(err)), None))
    }
}

fn text(bytes: Vec<u8>) -> Vec<SessionOutput> {
    let Ok(text) = String::from_utf8(bytes) else { unreachable!("replies are written as JSON") };
    vec![SessionOutput::Text(text)]
}

fn read_text(
    pubsub: &Arc<PubSub>,
    client: &Arc<Session>,
    began: Duration,
    message: &str,
) -> StepOutput {
    let call = match envelope::read(message) {
        Ok(Request::Single(Call::Method { id, method, params })) => Some((id, method, params)),
        _ => None,
    };
    type Read =
        fn(&Arc<PubSub>, &Arc<Session>, Params<'_>) -> Result<(AddressList, SetRequest), RpcError>;
    let read: Option<(&'static str, Read)> = match call.as_ref().map(|(_, method, _)| &**method) {
        Some("addressesSubscribe") => Some(("addressesSubscribe", parse_subscribe)),
        Some("addressesUpdate") => Some(("addressesUpdate", parse_update)),
        _ => None,
    };
    match (call, read) {
        (Some((id, _, params)), Some((method, read))) => {
            let ask = PendingReply { id, method, received_at: began };
            ask.run_step(pubsub, || {
                client.admit(pubsub, 1)?;
                let (given, asked) = read(pubsub, client, params)?;
                Ok(start_registration(pubsub, ask.clone(), given, asked))
            })
        }
        (Some((id, method, params)), _) if method == "addressesUnsubscribe" => {
            let ask = PendingReply { id, method: "addressesUnsubscribe", received_at: began };
            client.count_calls(pubsub, 1);
            match params.parse::<(u64,)>(1) {
                Ok((of,)) => {
                    (Vec::new(), Some(SetTaskState::StartUnsubscribe(SubscriptionId(of), ask)))
                }
                Err(err) => (ask.reply(pubsub, Err(err)), None),
            }
        }
        (Some((_, method, _)), _)
            if method == "transactionSubscribe"
                || message.len() <= pubsub.config.message_bytes_max =>
        {
            (methods::handle_message(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        (None, _) if message.len() <= pubsub.config.message_bytes_max => {
            (methods::handle_message(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        _ => {
            let limit = pubsub.config.message_bytes_max;
            let reason = format!("a message over {limit} bytes (pubsub.message_bytes_max)");
            (vec![SessionOutput::Close(CloseCode::Size, reason)], None)
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeyKindParam {
    #[default]
    Account,
    Program,
    TokenOwner,
    TokenMint,
    TokenDelegate,
    Mentions,
}

impl KeyKindParam {
    fn key_kind(self) -> KeyKind {
        match self {
            Self::Account => key_kind::ITSELF,
            Self::Program => key_kind::PROGRAM,
            Self::TokenOwner => solana::key_kind::OWNER,
            Self::TokenMint => solana::key_kind::MINT,
            Self::TokenDelegate => solana::key_kind::DELEGATE,
            Self::Mentions => key_kind::MENTIONED,
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SlowConsumerParam {
    #[default]
    Close,
    Conflate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    facet: KeyKindParam,
    commitment: Option<CommitmentLevel>,
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    snapshot: bool,
    resume: Option<Resume>,
    when_slow: SlowConsumerParam,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    slot: Slot,
    block: String,
}

fn start_registration(
    pubsub: &PubSub,
    ask: PendingReply,
    given: AddressList,
    asked: SetRequest,
) -> StepOutput {
    let set = AddressSet::empty(pubsub.reader.addresses());
    let registering =
        RegisterAddresses { pending_reply: ask, addresses: given, read: 0, set, request: asked };
    (Vec::new(), Some(SetTaskState::Register(Box::new(registering))))
}

impl RegisterAddresses {
    /// Registers the next addresses; if there are none, begins what they are for.
    fn step(
        mut self: Box<Self>,
        pubsub: &Arc<PubSub>,
        client: &Arc<Session>,
    ) -> Result<StepOutput, RpcError> {
        let addresses = self.addresses.next_addresses(REGISTER_ADDRESSES)?;
        if addresses.is_empty() {
            return self.start_request(pubsub, client);
        }
        self.read += addresses.len();
        let limit = pubsub.config.tracked_addresses_per_connection_max;
        if client.tracked_addresses() + self.read > limit.saturating_mul(2) {
            // Not even if half of them were known: no need to look.
            return Err(methods::subscribe_error(
                &subscriptions::SubscribeError::ListenerAddressesFull { limit },
            ));
        }
        self.set.add(addresses).map_err(|full| methods::subscribe_error(&full.into()))?;
        Ok((Vec::new(), Some(SetTaskState::Register(self))))
    }

    fn start_request(self, pubsub: &PubSub, client: &Arc<Session>) -> Result<StepOutput, RpcError> {
        let Self { pending_reply: ask, set, request: asked, .. } = self;
        match asked {
            SetRequest::Subscribe(wanted) => subscribe_set(pubsub, client, &ask, set, wanted),
            SetRequest::Update { subscription: of, make, params: tracked, snapshot } => {
                let changing = client.start_set_update(of, make(set));
                let changing = changing.map_err(|err| methods::subscribe_error(&err))?;
                let updating = SetUpdateTask {
                    pending_reply: ask,
                    update: changing,
                    params: tracked,
                    snapshot,
                };
                Ok((Vec::new(), Some(SetTaskState::Update(Box::new(updating)))))
            }
        }
    }
}

fn parse_subscribe(
    pubsub: &Arc<PubSub>,
    client: &Arc<Session>,
    params: Params<'_>,
) -> Result<(AddressList, SetRequest), RpcError> {
    let (given, options): (Box<RawValue>, Option<Options>) = params.parse(1)?;
    let options = options.unwrap_or_default();
    let facet = options.facet.key_kind();
    let commitment = match options.commitment.unwrap_or(CommitmentLevel::Finalized) {
        CommitmentLevel::Processed => Commitment::Processed,
        CommitmentLevel::Confirmed => Commitment::Confirmed,
        CommitmentLevel::Finalized => Commitment::Finalized,
    };
    let encoding = Encoding {
        form: options.encoding.unwrap_or(UiAccountEncoding::Base64),
        slice: options.data_slice,
    };
    check_snapshot(options.snapshot, facet)?;
    let from =
        options.resume.map(|at| find_resume_block(pubsub, client, commitment, &at)).transpose()?;
    let wanted = SubscribeRequest {
        params: SetParams { key_kind: facet, commitment, encoding },
        from,
        snapshot: options.snapshot,
        slow_consumer_policy: match options.when_slow {
            SlowConsumerParam::Close => SlowConsumerPolicy::Close,
            SlowConsumerParam::Conflate => SlowConsumerPolicy::Conflate,
        },
    };
    Ok((AddressList::from_json(given), SetRequest::Subscribe(wanted)))
}

fn check_snapshot(is_wanted: bool, facet: KeyKind) -> Result<(), RpcError> {
    if is_wanted && facet == key_kind::MENTIONED {
        let message = "Invalid params: snapshot: what mentions an address has no present state";
        return Err(RpcError::invalid_params(message));
    }
    Ok(())
}

/// Subscribes to a set that is registered. Cost: the message's addresses, in one step.
fn subscribe_set(
    pubsub: &PubSub,
    client: &Arc<Session>,
    ask: &PendingReply,
    set: AddressSet,
    wanted: SubscribeRequest,
) -> Result<StepOutput, RpcError> {
    let SubscribeRequest {
        params: SetParams { key_kind: facet, commitment, encoding },
        from,
        snapshot,
        slow_consumer_policy: when_slow,
    } = wanted;
    let wish = SetSubscription {
        identity: Subscription::Addresses { key_kind: facet, commitment, encoding },
        topic: SubscriptionKind::Addresses.at(commitment),
        key_kind: facet,
        set,
        slow_consumer_policy: when_slow,
    };
    let count = wish.set.len();
    let part = client.subscribe_set(wish).map_err(|err| methods::subscribe_error(&err))?;
    let view = pubsub.complete_view(commitment);
    let present = view.block();
    let answer = json!({
        "subscription": part.subscription.0,
        "addresses": count,
        "slot": present.slot,
        "block": view.meta().last_blockhash().to_string(),
    });
    let begun = SetActivation {
        activation: part,
        key_kind: facet,
        commitment,
        encoding,
        added: None,
        from: ResumeFrom::Block(from.unwrap_or(present)),
        snapshot: snapshot.then_some(view),
    };
    Ok((ask.reply(pubsub, MethodOutput::json(&answer)), Some(SetTaskState::Start(begun))))
}

fn find_resume_block(
    pubsub: &PubSub,
    client: &Session,
    commitment: Commitment,
    at: &Resume,
) -> Result<BlockId, RpcError> {
    let hash = at.block.parse::<Hash>();
    let hash = hash.map_err(|_| RpcError::invalid_params("Invalid params: resume.block"))?;
    let known = pubsub.recent_blocks.lock().find(&hash);
    let known = known.filter(|block| block.slot == at.slot && client.reaches(commitment, *block));
    known.ok_or_else(|| {
        RpcError::invalid_params(format!(
            "Cannot resume: block {} of slot {} is not among the last {} (pubsub.resume_blocks), \
             of at most {} bytes (pubsub.resume_bytes); subscribe with a snapshot",
            at.block, at.slot, pubsub.config.resume_blocks, pubsub.config.resume_bytes
        ))
    })
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

fn parse_update(
    _: &Arc<PubSub>,
    client: &Arc<Session>,
    params: Params<'_>,
) -> Result<(AddressList, SetRequest), RpcError> {
    let (id, given): (u64, UpdateParams) = params.parse(2)?;
    let (make, addresses): (fn(AddressSet) -> SetChange, _) =
        match (given.add, given.remove, given.replace, given.clear) {
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
    Ok((addresses, update_request(client, SubscriptionId(id), make, given.snapshot)?))
}

fn update_request(
    client: &Session,
    of: SubscriptionId,
    make: fn(AddressSet) -> SetChange,
    snapshot: bool,
) -> Result<SetRequest, RpcError> {
    let unknown = || methods::subscribe_error(&subscriptions::SubscribeError::Unknown);
    let identity = client.identity(of).ok_or_else(unknown)?;
    let Subscription::Addresses { key_kind: facet, commitment, encoding } = *identity else {
        return Err(unknown());
    };
    check_snapshot(snapshot, facet)?;
    let tracked = SetParams { key_kind: facet, commitment, encoding };
    Ok(SetRequest::Update { subscription: of, make, params: tracked, snapshot })
}

impl SetUpdateTask {
    fn step(
        mut self: Box<Self>,
        pubsub: &PubSub,
        client: &Arc<Session>,
    ) -> Result<StepOutput, RpcError> {
        match self.update.step().map_err(|err| methods::subscribe_error(&err))? {
            None => Ok((Vec::new(), Some(SetTaskState::Update(self)))),
            Some(changed) => Ok(self.finish(pubsub, client, changed)),
        }
    }

    fn finish(
        self: Box<Self>,
        pubsub: &PubSub,
        client: &Arc<Session>,
        changed: SetChangeResult,
    ) -> StepOutput {
        let SetParams { key_kind: facet, commitment, encoding } = self.params;
        // Whatever was written of it before is of no later block than the one that is present now.
        client.pause_delivery(changed.activation.map(|part| part.subscription));
        let view = pubsub.complete_view(commitment);
        let present = view.block();
        let added = changed.added.len();
        let answer = json!({
            "addresses": changed.len,
            "added": added,
            "removed": changed.removed,
            "slot": present.slot,
            "block": view.meta().last_blockhash().to_string(),
        });
        let next = changed.activation.map(|part| {
            SetTaskState::Start(SetActivation {
                activation: part,
                key_kind: facet,
                commitment,
                encoding,
                added: Some(changed.added),
                from: ResumeFrom::Block(present),
                snapshot: self.snapshot.then_some(view),
            })
        });
        (self.pending_reply.reply(pubsub, MethodOutput::json(&answer)), next)
    }
}

/// `0xad`, what to do (1 add, 2 remove, 3 replace), flags (1: snapshot), 0; the number of the request
/// and that of the subscription, both little-endian; then 32 bytes for each address.
fn read_binary(
    pubsub: &Arc<PubSub>,
    client: &Arc<Session>,
    began: Duration,
    mut message: Bytes,
) -> StepOutput {
    let ask = |id: Id| PendingReply { id, method: "addressesUpdate", received_at: began };
    let invalid = |request: Id, why: &str| {
        let invalid = || RpcError::invalid_params(format!("Invalid binary message: {why}"));
        let err = client.admit(pubsub, 1).err().unwrap_or_else(invalid);
        (ask(request).reply(pubsub, Err(err)), None)
    };
    if message.len() < BINARY_HEADER {
        return invalid(Id::Null, "no header");
    }
    let header = message.split_to(BINARY_HEADER);
    let mut words = header
        .chunks_exact(4)
        .map(|word| word.iter().rev().fold(0, |number: u32, byte| number << 8 | u32::from(*byte)));
    let mut word = || words.next().unwrap_or_default(); // the header has four
    let (_, request, low, high) = (word(), word(), word(), word());
    let request = Id::Number(u64::from(request));
    let id = SubscriptionId(u64::from(high) << 32 | u64::from(low));
    let make: fn(AddressSet) -> SetChange = match header[1] {
        1 => SetChange::Add,
        2 => SetChange::Remove,
        3 => SetChange::Replace,
        _ => return invalid(request, "not 1 (add), 2 (remove) or 3 (replace)"),
    };
    let Some(given) = AddressList::from_binary(message) else {
        return invalid(request, "addresses have 32 bytes each");
    };
    let ask = ask(request);
    ask.run_step(pubsub, || {
        client.admit(pubsub, 1)?;
        let asked = update_request(client, id, make, header[2] & 1 == 1)?;
        Ok(start_registration(pubsub, ask.clone(), given, asked))
    })
}

/// After the reply: the snapshot, if there is to be one.
fn start_activation(
    pubsub: &Arc<PubSub>,
    client: &Arc<Session>,
    mut begun: SetActivation,
) -> StepOutput {
    let Some(view) = begun.snapshot.take() else {
        return catch_up(pubsub, client, begun);
    };
    let mut before = Vec::new();
    if begun.added.is_some() {
        let Some(step) = client.delivered_step(begun.commitment, view.block()) else {
            begun.snapshot = Some(view);
            return (vec![SessionOutput::Backoff], Some(SetTaskState::Start(begun)));
        };
        before.push(SessionOutput::QueuedUntil(begun.activation.subscription, step));
    }
    let ids: Vec<AddressId> = match &begun.added {
        Some(added) => added.ids().collect(),
        None => match client.set(begun.activation.subscription) {
            Ok(set) => {
                let ids = set.ids().collect();
                client.drop_set(set);
                ids
            }
            Err(_) => Vec::new(),
        },
    };
    let limit = pubsub.config.snapshot_accounts_max;
    if begun.key_kind != key_kind::ITSELF {
        let addresses = ids.iter().filter_map(|id| pubsub.reader.addresses().address(*id));
        let mut count = 0;
        for address in addresses {
            count += view.records_by_key_len(begun.key_kind, &address);
            if count > limit {
                let reason = format!(
                    "a snapshot of more than {limit} accounts (pubsub.snapshot_accounts_max)"
                );
                return (vec![SessionOutput::Close(CloseCode::Policy, reason)], None);
            }
        }
    }
    let (ids, accounts) = (ids.into_iter(), Vec::new().into_iter());
    (
        before,
        Some(SetTaskState::Snapshot(Box::new(Snapshot { activation: begun, view, ids, accounts }))),
    )
}

impl Snapshot {
    fn step(mut self: Box<Self>, pubsub: &PubSub) -> StepOutput {
        let block = self.view.meta().last_blockhash().to_string();
        let mut messages =
            MessageBuilder::new(pubsub, NotificationKind::Snapshot, self.view.block().slot, block);
        let mut looked_at = 0;
        let has_more = loop {
            if messages.bytes() >= STEP_BYTES || looked_at >= SNAPSHOT_ADDRESSES {
                break true;
            }
            looked_at += 1;
            if let Some((address, account)) = self.accounts.next() {
                messages.add_account(&address, &account, self.activation.encoding, &self.view);
                continue;
            }
            let Some(id) = self.ids.next() else { break false };
            // The subscription holds it.
            let Some(address) = pubsub.reader.addresses().address(id) else { continue };
            if self.activation.key_kind == key_kind::ITSELF {
                if let Some(account) = self.view.record(&address) {
                    messages.add_account(&address, &account, self.activation.encoding, &self.view);
                }
            } else {
                let accounts: Vec<_> =
                    self.view.records_by_key(self.activation.key_kind, &address).collect();
                self.accounts = accounts.into_iter();
            }
        };
        let id = self.activation.activation.subscription;
        let is_empty = messages.bytes() == 0;
        let next = if has_more {
            SetTaskState::Snapshot(self)
        } else {
            SetTaskState::CatchUp(self.activation)
        };
        if has_more && is_empty {
            return (Vec::new(), Some(next)); // many addresses, none with an account
        }
        let texts = messages.finish(has_more);
        (texts.into_iter().map(|text| SessionOutput::Prefix(id, text)).collect(), Some(next))
    }
}

/// The next blocks between the one that a part starts after and now; then the part is live. The blocks are fetched
/// anew for each step, so a client that reads slowly holds none of them.
fn catch_up(pubsub: &Arc<PubSub>, client: &Arc<Session>, mut begun: SetActivation) -> StepOutput {
    let id = begun.activation.subscription;
    let steps: Vec<BlockStep<Block>> =
        match client.catch_up(begun.activation, begun.commitment, begun.from) {
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
    let set = client.set(id).ok();
    let contains = |id: u32| match (&begun.added, &set) {
        (Some(added), _) => added.contains(AddressId(id)),
        (None, Some(set)) => set.contains(AddressId(id)),
        (None, None) => false,
    };
    let (mut out, mut bytes) = (Vec::new(), 0);
    for step in steps.iter().take(CATCH_UP_STEPS) {
        if bytes >= STEP_BYTES {
            break;
        }
        begun.from = ResumeFrom::Step(step.number);
        let things =
            address_notification::block_items(pubsub, &step.body, begun.key_kind).into_iter();
        let places =
            ItemRef::merge_refs(things.filter(|(id, _)| contains(*id)).map(|(_, place)| place));
        if !places.is_empty() {
            let placed = address_notification::encode_step(
                pubsub,
                step,
                begun.key_kind,
                begun.encoding,
                places,
            );
            bytes += placed.iter().map(|placed| placed.prefix.len()).sum::<usize>();
            out.push(SessionOutput::QueuedUntil(id, step.number));
            out.extend(placed.into_iter().map(|placed| SessionOutput::Split(id, placed)));
        }
    }
    if let Some(set) = set {
        client.drop_set(set);
    }
    (out, Some(SetTaskState::CatchUp(begun)))
}

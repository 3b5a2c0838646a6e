//! subscribe and unsubscribe, as kaspad runs them.
//!
//! Rules: a client has at most one subscription to each event. That to changes of UTXOs is to all of them, or to a set of
//! addresses: an empty list starts all, or stops whatever there is; a list adds to the set, or removes from it. A list
//! that is added to all narrows the subscription to the list. Removing from all has no effect.
//! While a subscription is replaced, the client is notified of each change at least once, and if all is narrowed to a
//! list, exactly once.
//! Shape: the addresses are read, registered and indexed in steps of some tens of microseconds. The reply comes last, and
//! every publication after it is delivered.
//! Errors: those of the limits. The subscription is unchanged then. kaspad has no errors of unsubscribe.
//! Bounds: `subscriptions::Limits`.
//! Not here: the reading and registering of addresses (`registration`).

use std::sync::Arc;

use chain_kaspa::LedgerBlock;
use kaspa::{
    Event, KaspaAddress, Operation, ProtobufReply, Scope, ServerError, encode_borsh_subscribed,
    encode_borsh_unsubscribed, encode_json_subscribed, encode_json_unsubscribed,
    encode_protobuf_acknowledgement,
};
use ledger::{Address, Commitment};
use subscriptions::{
    Activation, AddressSet, CatchUp, Position, ResumeFrom, SetChange, SetChangeResult,
    SetSubscription, SetUpdate, SlowConsumerPolicy, SubscribeError, SubscriptionId,
    UnsubscribeTask,
};
use websocket::{Payload, SessionOutput};

use crate::call::{Call, StepOutput};
use crate::client_subscriptions::UtxoSubscription;
use crate::kaspa_rpc::NoItems;
use crate::message_format::ReplyFormat;
use crate::registration::{ONE_STEP_ADDRESSES_MAX, Registration};
use crate::subscription::{SCRIPTS, Subscription};

/// Bytes of a message whose scope has no addresses, with more spaces than any client writes.
const EVENT_BYTES_MAX: usize = 4_096;
/// From the next publication on: greater than the number of any step.
const FROM_NOW: ResumeFrom = ResumeFrom::Step(u64::MAX);
/// Attempts to replace all by a list between two publications. Each takes the time in which the client reads what waits.
const NARROW_ATTEMPTS_MAX: u32 = 32;
/// The error of kaspad's address tracker.
const TRACKER_FULL: &str = "the address store reached the maximum capacity";

type Update = SetUpdate<Subscription, Payload<NoItems>, LedgerBlock>;
type Removal = UnsubscribeTask<Subscription, Payload<NoItems>, LedgerBlock>;

/// A call of subscribe or unsubscribe.
pub(crate) struct ScopeTask {
    call: Call,
    phase: Phase,
}

enum Phase {
    Start,
    Register(Box<Registration>),
    /// Adds addresses to a set.
    Add(Box<Update>, SetOwner),
    /// Removes addresses from a set.
    Remove(Box<Update>, SubscriptionId),
    /// Replaces the subscription to all by that to a set.
    Narrow(Box<Narrowing>),
    /// Ends a subscription that another one replaces, once its queued notifications are written.
    Replaced(SubscriptionId),
    /// Cleans up a set that has ended. Then comes the reply.
    End(Box<Removal>),
}

/// The subscription whose set is changed.
#[derive(Clone, Copy)]
enum SetOwner {
    /// The subscription that the client has.
    Current,
    /// A new one, which becomes the client's if all addresses have room.
    New(SubscriptionId),
}

/// The replacement of the subscription to all by that to a set. Up to a step the client is notified by the first, after it
/// by the second.
struct Narrowing {
    all: SubscriptionId,
    /// The start of the set. It is not live yet.
    activation: Activation,
    attempts: u32,
    /// The step up to which the notifications of all were written, if they were.
    written_until: Option<u64>,
}

impl ScopeTask {
    pub(crate) fn new(call: Call) -> Self {
        Self { call, phase: Phase::Start }
    }

    pub(crate) fn step(self) -> StepOutput<Self> {
        let Self { call, phase } = self;
        match phase {
            Phase::Start => start(call),
            Phase::Register(registration) => register(call, registration),
            Phase::Add(mut update, owner) => match update.step() {
                Ok(None) => more(call, Phase::Add(update, owner)),
                Ok(Some(result)) => finish_addition(call, owner, &result),
                Err(error) => {
                    if let SetOwner::New(id) = owner {
                        call.session.unsubscribe(id);
                    }
                    fail(&call, &error)
                }
            },
            Phase::Remove(mut update, id) => match update.step() {
                Ok(None) => more(call, Phase::Remove(update, id)),
                Ok(Some(result)) if result.len == 0 => {
                    call.session.state.subscriptions.lock().utxos = UtxoSubscription::None;
                    end(call, id)
                }
                Ok(Some(_)) | Err(_) => acknowledge(&call),
            },
            Phase::Narrow(narrowing) => narrow(call, narrowing),
            Phase::Replaced(id) => end(call, id),
            Phase::End(mut removal) => {
                if removal.step() {
                    return more(call, Phase::End(removal));
                }
                acknowledge(&call)
            }
        }
    }
}

fn more(call: Call, phase: Phase) -> StepOutput<ScopeTask> {
    (Vec::new(), Some(Box::new(ScopeTask { call, phase })))
}

fn is_subscribe(call: &Call) -> bool {
    call.request.operation == Operation::Subscribe
}

/// The reply to a call that succeeded.
fn acknowledge(call: &Call) -> StepOutput<ScopeTask> {
    let listener =
        *call.session.state.listener_number.get_or_init(|| call.server.allocate_listener());
    call.reply(match (call.request.reply, is_subscribe(call)) {
        (ReplyFormat::Borsh, true) => encode_borsh_subscribed(call.id, listener),
        (ReplyFormat::Borsh, false) => encode_borsh_unsubscribed(call.id),
        (ReplyFormat::Json, true) => encode_json_subscribed(call.id, listener),
        (ReplyFormat::Json, false) => encode_json_unsubscribed(call.id),
        (ReplyFormat::Protobuf { field }, _) => {
            encode_protobuf_acknowledgement(ProtobufReply { id: call.id, field })
        }
    })
}

fn fail(call: &Call, error: &SubscribeError) -> StepOutput<ScopeTask> {
    if !is_subscribe(call) {
        return acknowledge(call);
    }
    call.fail(match error {
        SubscribeError::AddressesFull { .. } => TRACKER_FULL.to_owned(),
        error => error.to_string(),
    })
}

fn start(call: Call) -> StepOutput<ScopeTask> {
    let mut registration = match Registration::start(&call) {
        Ok(registration) => Box::new(registration),
        // Its addresses would be read at once.
        Err(error) if call.request.len() > EVENT_BYTES_MAX => return call.reject(&error),
        Err(_) => return start_event(call),
    };
    match registration.read(&call) {
        Err(error) => call.reject(&error),
        Ok(addresses) if addresses.is_empty() => change_all(call),
        Ok(addresses) => match register_addresses(&call, &mut registration, &addresses) {
            Ok(()) => more(call, Phase::Register(registration)),
            Err(error) => fail(&call, &error),
        },
    }
}

/// Handles a scope without addresses. It is short.
fn start_event(call: Call) -> StepOutput<ScopeTask> {
    let format = call.format();
    match call.request.scope() {
        Ok(Scope::VirtualChainChanged { include_accepted_transaction_ids: has_accepted_ids }) => {
            let subscription = Subscription::ChainChanges { format, has_accepted_ids };
            change_event(call, Event::VirtualChainChanged, subscription)
        }
        Ok(Scope::Other(event)) => change_event(call, event, Subscription::Event(format, event)),
        // It has addresses, so it is not valid.
        Ok(Scope::UtxosChanged { .. }) => call.reject(&ServerError::InvalidParams),
        Err(error) => call.reject(&error),
    }
}

/// Starts or stops an event that has no addresses.
fn change_event(call: Call, event: Event, subscription: Subscription) -> StepOutput<ScopeTask> {
    let session = &call.session;
    let id = if is_subscribe(&call) {
        match session.subscribe(subscription, subscription.interests(), Position(0)) {
            Ok(id) => Some(id),
            Err(error) => return fail(&call, &error),
        }
    } else {
        None
    };
    let before = session.state.subscriptions.lock().replace(event, id);
    end_before(call, before)
}

/// Starts all changes of UTXOs, or stops those that were started.
fn change_all(call: Call) -> StepOutput<ScopeTask> {
    let session = &call.session;
    let utxos = if is_subscribe(&call) {
        let subscription = Subscription::AllUtxos(call.format());
        match session.subscribe(subscription, subscription.interests(), Position(0)) {
            Ok(id) => UtxoSubscription::All(id),
            Err(error) => return fail(&call, &error),
        }
    } else {
        UtxoSubscription::None
    };
    replace_utxos(call, utxos)
}

/// Records the client's subscription to changes of UTXOs, and ends the one before.
fn replace_utxos(call: Call, utxos: UtxoSubscription) -> StepOutput<ScopeTask> {
    let before = std::mem::replace(&mut call.session.state.subscriptions.lock().utxos, utxos);
    let before = if before == utxos { None } else { before.id() };
    end_before(call, before)
}

/// Ends the subscription before. If another one replaces it, its queued notifications are written first: the client is
/// notified of each change at least once.
fn end_before(call: Call, before: Option<SubscriptionId>) -> StepOutput<ScopeTask> {
    match before {
        None => acknowledge(&call),
        Some(id) if is_subscribe(&call) => {
            let rest = ScopeTask { call, phase: Phase::Replaced(id) };
            (vec![SessionOutput::QueuedUntil(id, u64::MAX)], Some(Box::new(rest)))
        }
        Some(id) => end(call, id),
    }
}

/// Ends a subscription, and cleans up in steps.
fn end(call: Call, id: SubscriptionId) -> StepOutput<ScopeTask> {
    match call.session.start_unsubscribe(id) {
        Some(removal) => more(call, Phase::End(Box::new(removal))),
        None => acknowledge(&call),
    }
}

/// Registers addresses. To be removed, only those that have an id can be in a set.
fn register_addresses(
    call: &Call,
    registration: &mut Registration,
    addresses: &[KaspaAddress],
) -> Result<(), SubscribeError> {
    if is_subscribe(call) {
        return registration.add(call, addresses);
    }
    let UtxoSubscription::Set(_) = call.session.state.subscriptions.lock().utxos else {
        return Ok(());
    };
    let table = call.server.chain.utxos.addresses();
    let scripts = addresses.iter().map(|address| address.payload.ledger_address());
    let known: Vec<Address> = scripts.filter(|script| table.lookup(script).is_some()).collect();
    Ok(registration.set.add(known)?)
}

fn register(call: Call, mut registration: Box<Registration>) -> StepOutput<ScopeTask> {
    match registration.read(&call) {
        Err(error) => call.reject(&error),
        Ok(addresses) if addresses.is_empty() => {
            let set = registration.set;
            if is_subscribe(&call) { add_set(call, set) } else { remove_set(call, set) }
        }
        Ok(addresses) => match register_addresses(&call, &mut registration, &addresses) {
            Ok(()) => more(call, Phase::Register(registration)),
            Err(error) => fail(&call, &error),
        },
    }
}

/// Adds addresses to the client's set, or subscribes to them.
fn add_set(call: Call, set: AddressSet) -> StepOutput<ScopeTask> {
    let utxos = call.session.state.subscriptions.lock().utxos;
    if let UtxoSubscription::Set(id) = utxos {
        return match call.session.start_set_update(id, SetChange::Add(set)) {
            Ok(update) => more(call, Phase::Add(Box::new(update), SetOwner::Current)),
            Err(error) => fail(&call, &error),
        };
    }
    let is_large = set.len() > ONE_STEP_ADDRESSES_MAX;
    let empty = AddressSet::empty(call.server.chain.utxos.addresses());
    let (first, rest) = if is_large { (empty, Some(set)) } else { (set, None) };
    let subscription = Subscription::Utxos(call.format());
    let subscribed = call.session.subscribe_set(SetSubscription {
        identity: subscription,
        topic: subscription.topic(),
        key_kind: SCRIPTS,
        set: first,
        slow_consumer_policy: SlowConsumerPolicy::Close,
    });
    let activation = match subscribed {
        Ok(activation) => activation,
        Err(error) => return fail(&call, &error),
    };
    let id = activation.subscription;
    let Some(rest) = rest else { return start_set(call, activation) };
    go_live(&call, activation);
    match call.session.start_set_update(id, SetChange::Add(rest)) {
        Ok(update) => more(call, Phase::Add(Box::new(update), SetOwner::New(id))),
        Err(error) => {
            call.session.unsubscribe(id);
            fail(&call, &error)
        }
    }
}

fn finish_addition(call: Call, owner: SetOwner, result: &SetChangeResult) -> StepOutput<ScopeTask> {
    match (owner, result.activation) {
        (SetOwner::New(_), Some(activation)) => start_set(call, activation),
        (SetOwner::New(id), None) => replace_utxos(call, UtxoSubscription::Set(id)),
        (SetOwner::Current, activation) => {
            if let Some(activation) = activation {
                go_live(&call, activation);
            }
            acknowledge(&call)
        }
    }
}

/// Starts a set, which becomes the client's subscription.
fn start_set(call: Call, activation: Activation) -> StepOutput<ScopeTask> {
    let before = call.session.state.subscriptions.lock().utxos;
    let UtxoSubscription::All(all) = before else {
        go_live(&call, activation);
        return replace_utxos(call, UtxoSubscription::Set(activation.subscription));
    };
    // From here on only this task takes notifications of all from the queue.
    call.session.pause_delivery(Some(all));
    let narrowing = Narrowing { all, activation, attempts: 0, written_until: None };
    more(call, Phase::Narrow(Box::new(narrowing)))
}

/// Starts the set if nothing was published since the notifications of all were written, and otherwise writes the new ones.
fn narrow(call: Call, mut narrowing: Box<Narrowing>) -> StepOutput<ScopeTask> {
    let Narrowing { all, activation, .. } = *narrowing;
    let session = Arc::clone(&call.session);
    if let Some(step) = narrowing.written_until {
        let from = ResumeFrom::Step(step);
        let caught_up = session.catch_up(activation, Commitment::Processed, from);
        if matches!(caught_up, CatchUp::Live) {
            let set = UtxoSubscription::Set(activation.subscription);
            session.state.subscriptions.lock().utxos = set;
            // Its later notifications are those of the set.
            let output = end(call, all);
            session.pause_delivery(None);
            return output;
        }
    }
    let tip = call.server.subscriptions.tip(Commitment::Processed);
    let step = tip.and_then(|tip| session.delivered_step(Commitment::Processed, tip));
    let Some(step) = step.filter(|_| narrowing.attempts < NARROW_ATTEMPTS_MAX) else {
        // Some are sent twice.
        go_live(&call, activation);
        session.pause_delivery(None);
        return replace_utxos(call, UtxoSubscription::Set(activation.subscription));
    };
    narrowing.attempts += 1;
    narrowing.written_until = Some(step);
    let rest = ScopeTask { call, phase: Phase::Narrow(narrowing) };
    (vec![SessionOutput::QueuedUntil(all, step)], Some(Box::new(rest)))
}

/// Starts the notifications of addresses. The client has no reply yet, so it does not miss earlier ones.
fn go_live(call: &Call, activation: Activation) {
    let caught_up = call.session.catch_up(activation, Commitment::Processed, FROM_NOW);
    debug_assert!(matches!(caught_up, CatchUp::Live), "no step is later than all");
}

/// Removes addresses from the client's set. The subscription ends with the last of them.
fn remove_set(call: Call, set: AddressSet) -> StepOutput<ScopeTask> {
    let utxos = call.session.state.subscriptions.lock().utxos;
    let UtxoSubscription::Set(id) = utxos else { return acknowledge(&call) };
    match call.session.start_set_update(id, SetChange::Remove(set)) {
        Ok(update) => more(call, Phase::Remove(Box::new(update), id)),
        Err(error) => fail(&call, &error),
    }
}

//! `addressesSubscribe`: a set of addresses, from the newest chain block on, or from one that the client has.
//!
//! Shape: the addresses are read, registered and indexed in steps of some tens of microseconds. Then comes the reply, with
//! the position that the subscription starts after; then the UTXOs at it, if the request has `snapshot`; then the blocks
//! that were published meanwhile, or that the client has missed; then the live ones.
//! Invariant: the addresses are registered before the first block is chosen, and live notifications are paused until all
//! earlier ones are written. So no change is missed, none is sent twice, and they are in the order of the chain.
//! Errors: those of the limits, of parameters, of a block that the node cannot resume from, and of a publisher that is
//! late for ten seconds. Nothing has changed then.

use chain_kaspa::{LedgerBlock, View};
use kaspa::{ChainPosition, encode_json_addresses_subscribed};
use ledger::Commitment;
use subscriptions::{
    Activation, AddressSet, CatchUp, ResumeFrom, SetChange, SetSubscription, SetUpdate,
    SlowConsumerPolicy, SubscribeError, SubscriptionId,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::{Payload, SessionOutput};

use super::catch_up::{CatchUpStep, PendingStart, catch_up};
use super::params::{ResumePosition, SubscribeParams, read_params};
use super::snapshot::{Snapshot, SnapshotStep};
use crate::call::{Call, StepOutput};
use crate::kaspa_rpc::NoItems;
use crate::recent_blocks::{RecentBlock, to_position};
use crate::registration::{ONE_STEP_ADDRESSES_MAX, Registration};
use crate::subscription::{SCRIPTS, Subscription};

/// The error after [`WAITS_MAX`].
const LATE: &str =
    "the newest block has not been published for ten seconds: the node is busy; try again later";

/// The most waits for the publisher, of 2 ms each: some ten seconds.
const WAITS_MAX: u32 = 5_000;

type Update = SetUpdate<Subscription, Payload<NoItems>, LedgerBlock>;
type Removal = subscriptions::UnsubscribeTask<Subscription, Payload<NoItems>, LedgerBlock>;

/// A call of `addressesSubscribe`.
pub(crate) struct SubscribeTask {
    call: Call,
    phase: Phase,
    /// The waits of this phase so far.
    waits: u32,
}

enum Phase {
    Start,
    /// Finds the block to start after.
    FindFirstBlock(SubscribeParams),
    /// Reads and registers the addresses.
    Register(Box<Registration>, FirstBlock),
    /// Adds the addresses of a large set.
    Add(Box<Update>, NewSubscription),
    /// Waits until the newest block has been published, and replies. The view is that of the block.
    ChooseFirstBlock(Activation, NewSubscription, Option<View>),
    /// Writes the UTXOs at the first block. If the subscription is not live yet, it catches up afterwards.
    Snapshot(Box<Snapshot>, SubscriptionId, Option<PendingStart>),
    /// Writes the blocks that the client has missed.
    CatchUp(PendingStart),
    /// Ends the subscription, and then replies with this error.
    Refuse(Box<Removal>, String),
}

/// The block that a subscription starts after.
#[derive(Clone, Copy)]
enum FirstBlock {
    /// The newest one, with or without its UTXOs.
    Newest { has_snapshot: bool },
    /// One whose state the client has.
    Known(RecentBlock),
}

/// A subscription that is registered, and has no reply yet.
#[derive(Clone, Copy)]
struct NewSubscription {
    id: SubscriptionId,
    addresses: usize,
    first: FirstBlock,
}

impl SubscribeTask {
    pub(crate) fn new(call: Call) -> Self {
        Self { call, phase: Phase::Start, waits: 0 }
    }

    pub(crate) fn step(self) -> StepOutput<Self> {
        let Self { call, phase, waits } = self;
        match phase {
            Phase::Start => match read_params(&call) {
                Ok(params) => more(call, Phase::FindFirstBlock(params)),
                Err(text) => call.fail(text),
            },
            Phase::FindFirstBlock(params) => start(call, params, waits),
            Phase::Register(registration, first) => register(call, registration, first),
            Phase::Add(mut update, new) => match update.step() {
                Ok(None) => more(call, Phase::Add(update, new)),
                Ok(Some(result)) => match result.activation {
                    Some(activation) => more(call, Phase::ChooseFirstBlock(activation, new, None)),
                    None => refuse(call, new.id, SubscribeError::Unknown.to_string()),
                },
                Err(error) => refuse(call, new.id, error.to_string()),
            },
            Phase::ChooseFirstBlock(activation, new, view) => {
                choose_first_block(call, activation, new, view, waits)
            }
            Phase::Snapshot(mut snapshot, id, pending) => {
                let SnapshotStep { output, has_more } = snapshot.step(&call, id);
                let rest = match pending {
                    _ if has_more => Some(Phase::Snapshot(snapshot, id, pending)),
                    Some(start) => Some(Phase::CatchUp(start)),
                    None => None,
                };
                with_rest(call, output, rest)
            }
            Phase::CatchUp(start) => {
                let CatchUpStep { output, rest } = catch_up(&call, start);
                with_rest(call, output, rest.map(Phase::CatchUp))
            }
            Phase::Refuse(mut removal, text) => {
                if removal.step() {
                    return more(call, Phase::Refuse(removal, text));
                }
                call.fail(text)
            }
        }
    }
}

fn more(call: Call, phase: Phase) -> StepOutput<SubscribeTask> {
    with_rest(call, Vec::new(), Some(phase))
}

fn with_rest(
    call: Call,
    output: Vec<SessionOutput<NoItems>>,
    rest: Option<Phase>,
) -> StepOutput<SubscribeTask> {
    (output, rest.map(|phase| Box::new(SubscribeTask { call, phase, waits: 0 })))
}

/// Runs a phase again after some milliseconds: the publisher is late.
fn wait(call: Call, phase: Phase, waits: u32) -> StepOutput<SubscribeTask> {
    let task = SubscribeTask { call, phase, waits: waits + 1 };
    (vec![SessionOutput::Backoff], Some(Box::new(task)))
}

/// Ends a subscription whose call fails, in steps, and replies with the error.
fn refuse(call: Call, id: SubscriptionId, text: String) -> StepOutput<SubscribeTask> {
    match call.session.start_unsubscribe(id) {
        Some(removal) => more(call, Phase::Refuse(Box::new(removal), text)),
        None => call.fail(text),
    }
}

fn start(call: Call, params: SubscribeParams, waits: u32) -> StepOutput<SubscribeTask> {
    let first = match find_first_block(&call, &params) {
        Ok(first) => first,
        // After a restart many blocks are added at once, and readers see them before they are published.
        Err(_) if waits < WAITS_MAX && is_publisher_late(&call) => {
            return wait(call, Phase::FindFirstBlock(params), waits);
        }
        Err(text) => return call.fail(text),
    };
    match Registration::start(&call) {
        Ok(registration) => more(call, Phase::Register(Box::new(registration), first)),
        Err(_) => call.fail("Invalid params: addresses: not a list of addresses".to_owned()),
    }
}

fn find_first_block(call: &Call, params: &SubscribeParams) -> Result<FirstBlock, String> {
    match &params.resume {
        None => Ok(FirstBlock::Newest { has_snapshot: params.snapshot }),
        Some(_) if params.snapshot => {
            let text = "Invalid params: snapshot and resume exclude each other: without resume the \
                        subscription starts with a snapshot of the newest block";
            Err(text.to_owned())
        }
        Some(resume) => {
            let found = call.server.recent_blocks.lock().find(&resume.chain_block);
            let is_same = |block: &RecentBlock| block.position.daa_score == resume.daa_score;
            let found = found.filter(is_same).filter(|block| is_retained(call, *block));
            found.map(FirstBlock::Known).ok_or_else(|| describe_unknown(call, resume))
        }
    }
}

/// Returns whether readers see a sink that has not been added to the log of blocks yet.
fn is_publisher_late(call: &Call) -> bool {
    let sink = call.server.chain.status().sink.hash;
    call.server.recent_blocks.lock().find(&sink).is_none()
}

fn is_retained(call: &Call, block: RecentBlock) -> bool {
    call.session.reaches(Commitment::Confirmed, block.id)
}

/// Describes a block that the node cannot resume from, and how the client can continue.
fn describe_unknown(call: &Call, resume: &ResumePosition) -> String {
    let ResumePosition { chain_block, daa_score } = resume;
    let sink = call.server.chain.status().sink.daa_score;
    if *daa_score > sink {
        return format!(
            "Cannot resume: chain block {chain_block} with DAA score {daa_score} is above the sink \
             of this node, which has DAA score {sink}: the node is behind, or the block has left \
             the chain; try again later, or subscribe with a snapshot"
        );
    }
    let limits = &call.server.config().limits;
    format!(
        "Cannot resume: chain block {chain_block} with DAA score {daa_score} is too old, or is not \
         of the chain of this node: it is not among the last {} steps of the chain \
         (pubsub.resume_blocks), of at most {} bytes (pubsub.resume_bytes); subscribe with a \
         snapshot",
        limits.retained_steps, limits.retained_bytes
    )
}

fn register(
    call: Call,
    mut registration: Box<Registration>,
    first: FirstBlock,
) -> StepOutput<SubscribeTask> {
    match registration.read(&call) {
        Err(_) => call.fail("Invalid params: addresses: not a list of addresses".to_owned()),
        Ok(addresses) if addresses.is_empty() => subscribe(call, registration.set, first),
        Ok(addresses) => match registration.add(&call, &addresses) {
            Ok(()) => more(call, Phase::Register(registration, first)),
            Err(error) => call.fail(error.to_string()),
        },
    }
}

/// Subscribes to the registered addresses. Nothing is delivered for them yet.
fn subscribe(call: Call, mut set: AddressSet, first: FirstBlock) -> StepOutput<SubscribeTask> {
    let addresses = set.len();
    if addresses == 0 {
        return call.fail("Invalid params: addresses: the list is empty".to_owned());
    }
    let empty = AddressSet::empty(call.server.chain.utxos.addresses());
    let rest = (addresses > ONE_STEP_ADDRESSES_MAX).then(|| std::mem::replace(&mut set, empty));
    let session = &call.session;
    let subscribed = session.subscribe_set(SetSubscription {
        identity: Subscription::Addresses,
        topic: Subscription::Addresses.topic(),
        key_kind: SCRIPTS,
        set,
        slow_consumer_policy: SlowConsumerPolicy::Close,
    });
    let activation = match subscribed {
        Ok(activation) => activation,
        Err(error) => return call.fail(error.to_string()),
    };
    let id = activation.subscription;
    // Until this task ends, only its outputs have changes of the set.
    session.pause_delivery(Some(id));
    let new = NewSubscription { id, addresses, first };
    let Some(rest) = rest else {
        return more(call, Phase::ChooseFirstBlock(activation, new, None));
    };
    // The empty set matches nothing, so it does not matter when it starts.
    let from = ResumeFrom::Step(u64::MAX);
    let caught_up = session.catch_up(activation, Commitment::Confirmed, from);
    debug_assert!(matches!(caught_up, CatchUp::Live), "no step is later than all");
    match session.start_set_update(id, SetChange::Add(rest)) {
        Ok(update) => more(call, Phase::Add(Box::new(update), new)),
        Err(error) => refuse(call, id, error.to_string()),
    }
}

/// Chooses the first block, and replies.
fn choose_first_block(
    call: Call,
    activation: Activation,
    new: NewSubscription,
    view: Option<View>,
    waits: u32,
) -> StepOutput<SubscribeTask> {
    let has_snapshot = match new.first {
        FirstBlock::Newest { has_snapshot } => has_snapshot,
        FirstBlock::Known(block) => {
            let is_published =
                call.session.delivered_step(Commitment::Confirmed, block.id).is_some();
            // It was added, and is published soon, unless the chain has moved to a branch with a lower score.
            if !is_published && waits < WAITS_MAX && is_retained(&call, block) {
                return wait(call, Phase::ChooseFirstBlock(activation, new, None), waits);
            }
            // It was retained when the call began.
            if !is_published || !is_retained(&call, block) {
                let ChainPosition { chain_block, daa_score, .. } = block.position;
                let text = describe_unknown(&call, &ResumePosition { chain_block, daa_score });
                return refuse(call, new.id, text);
            }
            let start = PendingStart { activation, from: ResumeFrom::Block(block.id) };
            let reply = encode_reply(&call, new, &block.position);
            return with_rest(call, reply, Some(Phase::CatchUp(start)));
        }
    };
    let session = &call.session;
    let view = view.unwrap_or_else(|| call.server.chain.utxos.view(Commitment::Confirmed));
    let step = session.delivered_step(Commitment::Confirmed, view.block());
    let is_reached = session.reaches(Commitment::Confirmed, view.block());
    let Some(step) = step.filter(|_| is_reached) else {
        if waits >= WAITS_MAX {
            return refuse(call, new.id, LATE.to_owned());
        }
        // The publisher is late. A newer block would be, too, unless this one is no longer retained.
        let view = Some(view).filter(|_| is_reached);
        return wait(call, Phase::ChooseFirstBlock(activation, new, view), waits);
    };
    let from = ResumeFrom::Step(step);
    // Usually nothing was published since then. So the subscription is live before the client reads a long snapshot, and
    // the log need not reach back that far.
    let pending = match session.catch_up(activation, Commitment::Confirmed, from) {
        CatchUp::Live => None,
        CatchUp::Steps(_) => Some(PendingStart { activation, from }),
        CatchUp::Expired => {
            let reason = "the node published blocks faster than they are retained \
                          (pubsub.resume_blocks, pubsub.resume_bytes)";
            let close = SessionOutput::Close(CloseCode::Policy, reason.to_owned());
            return with_rest(call, vec![close], None);
        }
    };
    let reply = encode_reply(&call, new, &to_position(view.meta()));
    if has_snapshot {
        let snapshot = Box::new(Snapshot::new(&call, new.id, view));
        return with_rest(call, reply, Some(Phase::Snapshot(snapshot, new.id, pending)));
    }
    with_rest(call, reply, pending.map(Phase::CatchUp))
}

fn encode_reply(
    call: &Call,
    new: NewSubscription,
    position: &ChainPosition,
) -> Vec<SessionOutput<NoItems>> {
    let NewSubscription { id, addresses, .. } = new;
    let reply = encode_json_addresses_subscribed(call.id, addresses, position, id.0);
    let (output, _) = call.reply::<SubscribeTask>(reply);
    output
}

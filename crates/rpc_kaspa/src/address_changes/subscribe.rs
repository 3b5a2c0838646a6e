//! `addressesSubscribe`: a set of addresses, from the newest chain block on, or from one that the client has.
//!
//! Shape: the addresses are read, registered and indexed in steps of some tens of microseconds. Then comes the reply, with
//! the position that the subscription starts after; then the UTXOs at it, if the request has `snapshot`; then the blocks
//! that were published meanwhile, or that the client has missed; then the live ones.
//! Invariant: the addresses are registered before the first block is chosen, and live notifications are paused until all
//! earlier ones are written. So no change is missed, none is sent twice, and they are in the order of the chain.
//! Errors: those of the limits, of parameters, and of a block that the node cannot resume from. Nothing has changed then.

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

type Update = SetUpdate<Subscription, Payload<NoItems>, LedgerBlock>;

/// A call of `addressesSubscribe`.
pub(crate) struct SubscribeTask {
    call: Call,
    phase: Phase,
}

enum Phase {
    Start,
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
        Self { call, phase: Phase::Start }
    }

    pub(crate) fn step(self) -> StepOutput<Self> {
        let Self { call, phase } = self;
        match phase {
            Phase::Start => start(call),
            Phase::Register(registration, first) => register(call, registration, first),
            Phase::Add(mut update, new) => match update.step() {
                Ok(None) => more(call, Phase::Add(update, new)),
                Ok(Some(result)) => match result.activation {
                    Some(activation) => more(call, Phase::ChooseFirstBlock(activation, new, None)),
                    None => refuse(&call, new.id, &SubscribeError::Unknown.to_string()),
                },
                Err(error) => refuse(&call, new.id, &error.to_string()),
            },
            Phase::ChooseFirstBlock(activation, new, view) => {
                choose_first_block(call, activation, new, view)
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
    (output, rest.map(|phase| Box::new(SubscribeTask { call, phase })))
}

/// Ends a subscription whose call fails, and replies with the error.
fn refuse(call: &Call, id: SubscriptionId, text: &str) -> StepOutput<SubscribeTask> {
    call.session.unsubscribe(id);
    call.fail(text.to_owned())
}

fn start(call: Call) -> StepOutput<SubscribeTask> {
    let params: SubscribeParams = match read_params(&call) {
        Ok(params) => params,
        Err(text) => return call.fail(text),
    };
    let first = match find_first_block(&call, &params) {
        Ok(first) => first,
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
        Err(error) => refuse(&call, id, &error.to_string()),
    }
}

/// Chooses the first block, and replies.
fn choose_first_block(
    call: Call,
    activation: Activation,
    new: NewSubscription,
    view: Option<View>,
) -> StepOutput<SubscribeTask> {
    let has_snapshot = match new.first {
        FirstBlock::Newest { has_snapshot } => has_snapshot,
        // It was retained when the call began.
        FirstBlock::Known(block) if !is_retained(&call, block) => {
            let RecentBlock { position: ChainPosition { chain_block, daa_score, .. }, .. } = block;
            let resume = ResumePosition { chain_block, daa_score };
            return refuse(&call, new.id, &describe_unknown(&call, &resume));
        }
        FirstBlock::Known(block)
            if call.session.delivered_step(Commitment::Confirmed, block.id).is_none() =>
        {
            // It was added, and is published soon.
            let rest = Phase::ChooseFirstBlock(activation, new, None);
            return with_rest(call, vec![SessionOutput::Backoff], Some(rest));
        }
        FirstBlock::Known(block) => {
            let start = PendingStart { activation, from: ResumeFrom::Block(block.id) };
            let reply = encode_reply(&call, new, &block.position);
            return with_rest(call, reply, Some(Phase::CatchUp(start)));
        }
    };
    let session = &call.session;
    let view = view.unwrap_or_else(|| call.server.chain.utxos.view(Commitment::Confirmed));
    let Some(step) = session.delivered_step(Commitment::Confirmed, view.block()) else {
        // The publisher is late. A newer block would be, too.
        let rest = Phase::ChooseFirstBlock(activation, new, Some(view));
        return with_rest(call, vec![SessionOutput::Backoff], Some(rest));
    };
    if !session.reaches(Commitment::Confirmed, view.block()) {
        let rest = Phase::ChooseFirstBlock(activation, new, None);
        return with_rest(call, vec![SessionOutput::Backoff], Some(rest));
    }
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

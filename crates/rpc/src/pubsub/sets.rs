//! Subscriptions to sets of addresses: `addressesSubscribe` and `addressesUpdate`, as JSON and as
//! binary messages.
//!
//! Shape: a [`Task`] is what one message of a client is worth, done in steps on the CPU pool (`turns`);
//! what a step gives is written before the next one is made, so that a snapshot of a million accounts
//! waits in no queue. A message of tens of thousands of addresses is found out in one step of a
//! millisecond or two (its JSON), and read, registered and entered in many of a tenth of one (`given`,
//! [`subs::Changing`]); a set ends in such steps too. The order on the wire: the reply, the snapshot if
//! asked for, what was told since the block that the subscription starts after, then the stream. What
//! is added to a set goes the same way while what the rest of the set is told of is held back, and put
//! between it block by block: the blocks of a subscription never go back.
//! Bounds: `Config::addresses_message_bytes_max` a message, `Config::sets_at_once` at once, one task
//! for each connection. Those of the sets are the engine's: all or nothing, naming the knob.
//! What users see: docs/subscriptions.md.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use chain::{Block, View};
use ledger::{Address, AddressId, BlockId, Commitment, KeyKind, Slot};
use pool::Class;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use solana::{Account, Encoding};
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::CommitmentLevel;
use solana_hash::Hash;
use subs::{
    Added, AddressSet, Change, Changed, Changing, Conflated, Ending, From, GoOn, Part, Step,
    SubscriptionId, WhenSlow, Wish,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::PubSub;
use super::body::{Body, Kept, Placed};
use super::calls;
use super::client::Client;
use super::given::Given;
use super::subscription::{Kind, Subscription, facet};
use super::text::SharedText;
use super::told::{self, Conflating, Messages, Place, Told};
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
pub(super) enum Out {
    /// As it is.
    Text(String),
    /// A notification, with the listener's numbers.
    Placed(SubscriptionId, Placed),
    /// A notification whose beginning is this.
    Beginning(SubscriptionId, SharedText),
    /// What waits of a subscription, up to a step.
    Until(SubscriptionId, u64),
    /// Nothing for a moment.
    Rest,
    /// The end of the connection.
    Close(CloseCode, String),
}

/// Work on a set, in steps.
pub(super) struct Task {
    pubsub: Arc<PubSub>,
    client: Arc<Client>,
    /// When the message was there.
    began: Duration,
    work: Work,
}

enum Work {
    Text(Utf8Bytes),
    Binary(Bytes),
    Register(Box<Registering>),
    Update(Box<Updating>),
    Begin(Begun),
    Snapshot(Box<Snapshot>),
    CatchUp(Begun),
    Conflated(SubscriptionId, Box<Conflating>, Encoding, Commitment),
    End(SubscriptionId, Ask),
    Ending(Box<Ending<Subscription, Body, Block>>, Ask),
}

/// Whose reply is still to come.
#[derive(Clone)]
struct Ask {
    id: Id,
    method: &'static str,
    /// When its message was there.
    began: Duration,
}

/// The addresses of a message on their way into a set.
struct Registering {
    ask: Ask,
    given: Given,
    /// How many have been read.
    read: usize,
    set: AddressSet,
    asked: Asked,
}

/// What is to be done with them.
enum Asked {
    Subscribe(Wanted),
    Update { of: SubscriptionId, make: fn(AddressSet) -> Change, tracked: Tracked, snapshot: bool },
}

/// What a subscription to a set is to be.
struct Wanted {
    tracked: Tracked,
    from: Option<BlockId>,
    snapshot: bool,
    when_slow: WhenSlow,
}

/// What a subscription to a set is, but for the set.
#[derive(Clone, Copy)]
struct Tracked {
    facet: KeyKind,
    commitment: Commitment,
    encoding: Encoding,
}

/// A change of a set under way.
struct Updating {
    ask: Ask,
    changing: Changing<Subscription, Body, Block>,
    tracked: Tracked,
    snapshot: bool,
}

/// A subscription, or an addition to one, that is on its way to be live.
struct Begun {
    part: Part,
    facet: KeyKind,
    commitment: Commitment,
    encoding: Encoding,
    /// The addresses that are new; all of the set if `None`.
    added: Option<Added>,
    from: From,
    snapshot: Option<View>,
}

struct Snapshot {
    begun: Begun,
    view: View,
    ids: std::vec::IntoIter<AddressId>,
    /// What stands under the newest of the ids, where that may be many.
    accounts: std::vec::IntoIter<(Address, Arc<Account>)>,
}

impl Task {
    /// A message of text that may be about a set.
    pub(super) fn text(pubsub: &Arc<PubSub>, client: &Arc<Client>, text: Utf8Bytes) -> Self {
        Self::new(pubsub, client, Work::Text(text))
    }

    /// A binary message about a set.
    pub(super) fn binary(pubsub: &Arc<PubSub>, client: &Arc<Client>, message: Bytes) -> Self {
        Self::new(pubsub, client, Work::Binary(message))
    }

    /// What a slow client did not take.
    pub(super) fn conflated(
        pubsub: &Arc<PubSub>,
        client: &Arc<Client>,
        conflated: Conflated<Kept>,
    ) -> Option<Self> {
        let identity = client.identity(conflated.subscription)?;
        let Subscription::Addresses { commitment, encoding, .. } = *identity else { return None };
        let conflating = Box::new(Conflating::new(conflated.kept)?);
        let work = Work::Conflated(conflated.subscription, conflating, encoding, commitment);
        Some(Self::new(pubsub, client, work))
    }

    fn new(pubsub: &Arc<PubSub>, client: &Arc<Client>, work: Work) -> Self {
        let began = pubsub.pool.now();
        Self { pubsub: Arc::clone(pubsub), client: Arc::clone(client), began, work }
    }

    /// Whether a text is one for [`Self::text`]: a long one, or one that names the methods here.
    pub(super) fn is_for(text: &str, message_bytes_max: usize) -> bool {
        text.len() > message_bytes_max
            || text.contains("addressesSubscribe")
            || text.contains("addressesU")
    }

    /// What its next step costs.
    pub(super) fn class(&self) -> Class {
        match self.work {
            Work::Snapshot(_) => Class::Heavy,
            _ => Class::Medium,
        }
    }

    /// Does a step of the work: what to write now, and what is left to do after it.
    pub(super) fn step(self) -> (Vec<Out>, Option<Self>) {
        let Self { pubsub, client, began, work } = self;
        let node = (&pubsub, &client);
        let (out, next) = match work {
            Work::Text(text) => read_text(&pubsub, &client, began, &text),
            Work::Binary(message) => read_binary(&pubsub, &client, began, message),
            Work::Register(registering) => {
                let ask = registering.ask.clone();
                ask.answered(&pubsub, || registering.step(&pubsub, &client))
            }
            Work::Update(updating) => {
                let ask = updating.ask.clone();
                ask.answered(&pubsub, || updating.step(&pubsub, &client))
            }
            Work::End(id, ask) => match client.begin_unsubscribe(id) {
                Some(ending) => (Vec::new(), Some(Work::Ending(Box::new(ending), ask))),
                None => {
                    let err = RpcError::invalid_params("Invalid subscription id.");
                    (ask.reply(&pubsub, Err(err)), None)
                }
            },
            Work::Ending(mut ending, ask) => {
                if ending.step() {
                    (Vec::new(), Some(Work::Ending(ending, ask)))
                } else {
                    (ask.reply(&pubsub, MethodOutput::json(&true)), None)
                }
            }
            Work::Begin(begun) => begin(node.0, node.1, begun),
            Work::Snapshot(snapshot) => snapshot.step(&pubsub),
            Work::CatchUp(begun) => catch_up(&pubsub, &client, begun),
            Work::Conflated(id, conflating, encoding, commitment) => {
                let view = pubsub.reader.view(commitment);
                let (texts, left) = conflating.step(&pubsub, encoding, &view, STEP_BYTES);
                let left =
                    left.map(|left| Work::Conflated(id, Box::new(left), encoding, commitment));
                (texts.into_iter().map(|text| Out::Beginning(id, text)).collect(), left)
            }
        };
        (out, next.map(|work| Self { pubsub, client, began, work }))
    }
}

type Stepped = (Vec<Out>, Option<Work>);

/// What a set's methods answer within a batch.
pub(super) fn not_in_a_batch() -> RpcError {
    RpcError::invalid_request("addressesSubscribe and addressesUpdate cannot be in a batch")
}

impl Ask {
    /// Its reply, which is counted.
    fn reply(&self, pubsub: &PubSub, answer: Result<MethodOutput, RpcError>) -> Vec<Out> {
        calls::count(pubsub, Some(self.method), self.began, answer.as_ref());
        let reply = answer.and_then(|answer| answer.into_response(&self.id));
        text(reply.unwrap_or_else(|err| envelope::error_reply(&err, &self.id, true)))
    }

    /// A step of what it is worth; an error, or a panic, is its answer.
    fn answered(
        &self,
        pubsub: &PubSub,
        step: impl FnOnce() -> Result<Stepped, RpcError>,
    ) -> Stepped {
        let stepped = catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| {
            tracing::error!(method = self.method, "work on a set panicked; its request got -32603");
            Err(RpcError::internal())
        });
        stepped.unwrap_or_else(|err| (self.reply(pubsub, Err(err)), None))
    }
}

fn text(bytes: Vec<u8>) -> Vec<Out> {
    let Ok(text) = String::from_utf8(bytes) else { unreachable!("replies are written as JSON") };
    vec![Out::Text(text)]
}

fn read_text(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    began: Duration,
    message: &str,
) -> Stepped {
    let call = match envelope::read(message) {
        Ok(Request::Single(Call::Method { id, method, params })) => Some((id, method, params)),
        _ => None,
    };
    type Read = fn(&Arc<PubSub>, &Arc<Client>, Params<'_>) -> Result<(Given, Asked), RpcError>;
    let read: Option<(&'static str, Read)> = match call.as_ref().map(|(_, method, _)| &**method) {
        Some("addressesSubscribe") => Some(("addressesSubscribe", subscribe)),
        Some("addressesUpdate") => Some(("addressesUpdate", update)),
        _ => None,
    };
    match (call, read) {
        (Some((id, _, params)), Some((method, read))) => {
            let ask = Ask { id, method, began };
            ask.answered(pubsub, || {
                client.admit(pubsub, 1)?;
                let (given, asked) = read(pubsub, client, params)?;
                Ok(register(pubsub, ask.clone(), given, asked))
            })
        }
        (Some((id, method, params)), _) if method == "addressesUnsubscribe" => {
            let ask = Ask { id, method: "addressesUnsubscribe", began };
            client.count(pubsub, 1);
            match params.parse::<(u64,)>(1) {
                Ok((of,)) => (Vec::new(), Some(Work::End(SubscriptionId(of), ask))),
                Err(err) => (ask.reply(pubsub, Err(err)), None),
            }
        }
        (Some((_, method, _)), _)
            if method == "transactionSubscribe"
                || message.len() <= pubsub.config.message_bytes_max =>
        {
            (calls::answer(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        (None, _) if message.len() <= pubsub.config.message_bytes_max => {
            (calls::answer(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        _ => {
            let limit = pubsub.config.message_bytes_max;
            let reason = format!("a message over {limit} bytes (pubsub.message_bytes_max)");
            (vec![Out::Close(CloseCode::Size, reason)], None)
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FacetGiven {
    #[default]
    Account,
    Program,
    TokenOwner,
    TokenMint,
    TokenDelegate,
    Mentions,
}

impl FacetGiven {
    fn facet(self) -> KeyKind {
        match self {
            Self::Account => facet::ITSELF,
            Self::Program => facet::PROGRAM,
            Self::TokenOwner => solana::key_kind::OWNER,
            Self::TokenMint => solana::key_kind::MINT,
            Self::TokenDelegate => solana::key_kind::DELEGATE,
            Self::Mentions => facet::MENTIONED,
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WhenSlowGiven {
    #[default]
    Close,
    Conflate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    facet: FacetGiven,
    commitment: Option<CommitmentLevel>,
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    snapshot: bool,
    resume: Option<Resume>,
    when_slow: WhenSlowGiven,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    slot: Slot,
    block: String,
}

fn register(pubsub: &PubSub, ask: Ask, given: Given, asked: Asked) -> Stepped {
    let set = AddressSet::empty(pubsub.reader.addresses());
    let registering = Registering { ask, given, read: 0, set, asked };
    (Vec::new(), Some(Work::Register(Box::new(registering))))
}

impl Registering {
    /// Registers the next addresses; if there are none, begins what they are for.
    fn step(
        mut self: Box<Self>,
        pubsub: &Arc<PubSub>,
        client: &Arc<Client>,
    ) -> Result<Stepped, RpcError> {
        let addresses = self.given.take(REGISTER_ADDRESSES)?;
        if addresses.is_empty() {
            return self.go_on(pubsub, client);
        }
        self.read += addresses.len();
        let limit = pubsub.config.tracked_addresses_per_connection_max;
        if client.tracked() + self.read > limit.saturating_mul(2) {
            // Not even if half of them were known: no need to look.
            return Err(calls::refusal(&subs::SubscribeError::ListenerTrackedFull { limit }));
        }
        self.set.add(addresses).map_err(|full| calls::refusal(&full.into()))?;
        Ok((Vec::new(), Some(Work::Register(self))))
    }

    fn go_on(self, pubsub: &PubSub, client: &Arc<Client>) -> Result<Stepped, RpcError> {
        let Self { ask, set, asked, .. } = self;
        match asked {
            Asked::Subscribe(wanted) => track(pubsub, client, &ask, set, wanted),
            Asked::Update { of, make, tracked, snapshot } => {
                let changing = client.begin_change(of, make(set));
                let changing = changing.map_err(|err| calls::refusal(&err))?;
                let updating = Updating { ask, changing, tracked, snapshot };
                Ok((Vec::new(), Some(Work::Update(Box::new(updating)))))
            }
        }
    }
}

fn subscribe(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    params: Params<'_>,
) -> Result<(Given, Asked), RpcError> {
    let (given, options): (Box<RawValue>, Option<Options>) = params.parse(1)?;
    let options = options.unwrap_or_default();
    let facet = options.facet.facet();
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
    let from = options.resume.map(|at| resume(pubsub, client, commitment, &at)).transpose()?;
    let wanted = Wanted {
        tracked: Tracked { facet, commitment, encoding },
        from,
        snapshot: options.snapshot,
        when_slow: match options.when_slow {
            WhenSlowGiven::Close => WhenSlow::Close,
            WhenSlowGiven::Conflate => WhenSlow::Conflate,
        },
    };
    Ok((Given::text(given), Asked::Subscribe(wanted)))
}

fn check_snapshot(is_wanted: bool, facet: KeyKind) -> Result<(), RpcError> {
    if is_wanted && facet == facet::MENTIONED {
        let message = "Invalid params: snapshot: what mentions an address has no present state";
        return Err(RpcError::invalid_params(message));
    }
    Ok(())
}

/// Subscribes to a set that is registered. Cost: the message's addresses, in one step.
fn track(
    pubsub: &PubSub,
    client: &Arc<Client>,
    ask: &Ask,
    set: AddressSet,
    wanted: Wanted,
) -> Result<Stepped, RpcError> {
    let Wanted { tracked: Tracked { facet, commitment, encoding }, from, snapshot, when_slow } =
        wanted;
    let wish = Wish {
        identity: Subscription::Addresses { facet, commitment, encoding },
        topic: Kind::Addresses.at(commitment),
        facet,
        set,
        when_slow,
    };
    let count = wish.set.len();
    let part = client.track(wish).map_err(|err| calls::refusal(&err))?;
    let view = pubsub.present(commitment);
    let present = view.block();
    let answer = json!({
        "subscription": part.subscription.0,
        "addresses": count,
        "slot": present.slot,
        "block": view.meta().last_blockhash().to_string(),
    });
    let begun = Begun {
        part,
        facet,
        commitment,
        encoding,
        added: None,
        from: From::Block(from.unwrap_or(present)),
        snapshot: snapshot.then_some(view),
    };
    Ok((ask.reply(pubsub, MethodOutput::json(&answer)), Some(Work::Begin(begun))))
}

fn resume(
    pubsub: &PubSub,
    client: &Client,
    commitment: Commitment,
    at: &Resume,
) -> Result<BlockId, RpcError> {
    let hash = at.block.parse::<Hash>();
    let hash = hash.map_err(|_| RpcError::invalid_params("Invalid params: resume.block"))?;
    let known = pubsub.recent.lock().find(&hash);
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
struct UpdateGiven {
    add: Option<Box<RawValue>>,
    remove: Option<Box<RawValue>>,
    replace: Option<Box<RawValue>>,
    clear: bool,
    snapshot: bool,
}

fn update(
    _: &Arc<PubSub>,
    client: &Arc<Client>,
    params: Params<'_>,
) -> Result<(Given, Asked), RpcError> {
    let (id, given): (u64, UpdateGiven) = params.parse(2)?;
    let (make, addresses): (fn(AddressSet) -> Change, _) =
        match (given.add, given.remove, given.replace, given.clear) {
            (Some(add), None, None, false) => (Change::Add, Given::text(add)),
            (None, Some(remove), None, false) => (Change::Remove, Given::text(remove)),
            (None, None, Some(replace), false) => (Change::Replace, Given::text(replace)),
            (None, None, None, true) => (Change::Replace, Given::nothing()),
            _ => {
                let message = "Invalid params: give one of add, remove, replace and clear";
                return Err(RpcError::invalid_params(message));
            }
        };
    Ok((addresses, asked(client, SubscriptionId(id), make, given.snapshot)?))
}

fn asked(
    client: &Client,
    of: SubscriptionId,
    make: fn(AddressSet) -> Change,
    snapshot: bool,
) -> Result<Asked, RpcError> {
    let unknown = || calls::refusal(&subs::SubscribeError::Unknown);
    let identity = client.identity(of).ok_or_else(unknown)?;
    let Subscription::Addresses { facet, commitment, encoding } = *identity else {
        return Err(unknown());
    };
    check_snapshot(snapshot, facet)?;
    let tracked = Tracked { facet, commitment, encoding };
    Ok(Asked::Update { of, make, tracked, snapshot })
}

impl Updating {
    fn step(
        mut self: Box<Self>,
        pubsub: &PubSub,
        client: &Arc<Client>,
    ) -> Result<Stepped, RpcError> {
        match self.changing.step().map_err(|err| calls::refusal(&err))? {
            None => Ok((Vec::new(), Some(Work::Update(self)))),
            Some(changed) => Ok(self.done(pubsub, client, changed)),
        }
    }

    fn done(self: Box<Self>, pubsub: &PubSub, client: &Arc<Client>, changed: Changed) -> Stepped {
        let Tracked { facet, commitment, encoding } = self.tracked;
        // Whatever was written of it before is of no later block than the one that is present now.
        client.hold(changed.part.map(|part| part.subscription));
        let view = pubsub.present(commitment);
        let present = view.block();
        let added = changed.added.len();
        let answer = json!({
            "addresses": changed.len,
            "added": added,
            "removed": changed.removed,
            "slot": present.slot,
            "block": view.meta().last_blockhash().to_string(),
        });
        let next = changed.part.map(|part| {
            Work::Begin(Begun {
                part,
                facet,
                commitment,
                encoding,
                added: Some(changed.added),
                from: From::Block(present),
                snapshot: self.snapshot.then_some(view),
            })
        });
        (self.ask.reply(pubsub, MethodOutput::json(&answer)), next)
    }
}

/// `0xad`, what to do (1 add, 2 remove, 3 replace), flags (1: snapshot), 0; the number of the request
/// and that of the subscription, both little-endian; then 32 bytes for each address.
fn read_binary(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    began: Duration,
    mut message: Bytes,
) -> Stepped {
    let ask = |id: Id| Ask { id, method: "addressesUpdate", began };
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
    let make: fn(AddressSet) -> Change = match header[1] {
        1 => Change::Add,
        2 => Change::Remove,
        3 => Change::Replace,
        _ => return invalid(request, "not 1 (add), 2 (remove) or 3 (replace)"),
    };
    let Some(given) = Given::binary(message) else {
        return invalid(request, "addresses have 32 bytes each");
    };
    let ask = ask(request);
    ask.answered(pubsub, || {
        client.admit(pubsub, 1)?;
        let asked = asked(client, id, make, header[2] & 1 == 1)?;
        Ok(register(pubsub, ask.clone(), given, asked))
    })
}

/// After the reply: the snapshot, if there is to be one.
fn begin(pubsub: &Arc<PubSub>, client: &Arc<Client>, mut begun: Begun) -> Stepped {
    let Some(view) = begun.snapshot.take() else {
        return catch_up(pubsub, client, begun);
    };
    let mut before = Vec::new();
    if begun.added.is_some() {
        let Some(step) = client.told(begun.commitment, view.block()) else {
            begun.snapshot = Some(view);
            return (vec![Out::Rest], Some(Work::Begin(begun)));
        };
        before.push(Out::Until(begun.part.subscription, step));
    }
    let ids: Vec<AddressId> = match &begun.added {
        Some(added) => added.ids().collect(),
        None => match client.set(begun.part.subscription) {
            Ok(set) => {
                let ids = set.ids().collect();
                client.drop_set(set);
                ids
            }
            Err(_) => Vec::new(),
        },
    };
    let limit = pubsub.config.snapshot_accounts_max;
    if begun.facet != facet::ITSELF {
        let addresses = ids.iter().filter_map(|id| pubsub.reader.addresses().address(*id));
        let mut count = 0;
        for address in addresses {
            count += view.records_by_key_len(begun.facet, &address);
            if count > limit {
                let reason = format!(
                    "a snapshot of more than {limit} accounts (pubsub.snapshot_accounts_max)"
                );
                return (vec![Out::Close(CloseCode::Policy, reason)], None);
            }
        }
    }
    let (ids, accounts) = (ids.into_iter(), Vec::new().into_iter());
    (before, Some(Work::Snapshot(Box::new(Snapshot { begun, view, ids, accounts }))))
}

impl Snapshot {
    fn step(mut self: Box<Self>, pubsub: &PubSub) -> Stepped {
        let block = self.view.meta().last_blockhash().to_string();
        let mut messages = Messages::new(pubsub, Told::Snapshot, self.view.block().slot, block);
        let mut looked_at = 0;
        let has_more = loop {
            if messages.bytes() >= STEP_BYTES || looked_at >= SNAPSHOT_ADDRESSES {
                break true;
            }
            looked_at += 1;
            if let Some((address, account)) = self.accounts.next() {
                messages.present(&address, &account, self.begun.encoding, &self.view);
                continue;
            }
            let Some(id) = self.ids.next() else { break false };
            // The subscription holds it.
            let Some(address) = pubsub.reader.addresses().address(id) else { continue };
            if self.begun.facet == facet::ITSELF {
                if let Some(account) = self.view.record(&address) {
                    messages.present(&address, &account, self.begun.encoding, &self.view);
                }
            } else {
                let accounts: Vec<_> =
                    self.view.records_by_key(self.begun.facet, &address).collect();
                self.accounts = accounts.into_iter();
            }
        };
        let id = self.begun.part.subscription;
        let is_empty = messages.bytes() == 0;
        let next = if has_more { Work::Snapshot(self) } else { Work::CatchUp(self.begun) };
        if has_more && is_empty {
            return (Vec::new(), Some(next)); // many addresses, none with an account
        }
        let texts = messages.finish(has_more);
        (texts.into_iter().map(|text| Out::Beginning(id, text)).collect(), Some(next))
    }
}

/// The next blocks between the one that a part starts after and now; then the part is live. The blocks are fetched
/// anew for each step, so a client that reads slowly holds none of them.
fn catch_up(pubsub: &Arc<PubSub>, client: &Arc<Client>, mut begun: Begun) -> Stepped {
    let id = begun.part.subscription;
    let steps: Vec<Step<Block>> = match client.go_on(begun.part, begun.commitment, begun.from) {
        GoOn::Live => return (Vec::new(), None),
        GoOn::Steps(steps) => steps,
        GoOn::Gone => {
            let reason = "the block to start from is too long ago (pubsub.resume_blocks, \
                              pubsub.resume_bytes)";
            return (vec![Out::Close(CloseCode::Policy, reason.to_owned())], None);
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
        begun.from = From::Step(step.number);
        let things = told::things(pubsub, &step.body, begun.facet).into_iter();
        let places = Place::of_set(things.filter(|(id, _)| contains(*id)).map(|(_, place)| place));
        if !places.is_empty() {
            let placed = told::step(pubsub, step, begun.facet, begun.encoding, places);
            bytes += placed.iter().map(|placed| placed.beginning.len()).sum::<usize>();
            out.push(Out::Until(id, step.number));
            out.extend(placed.into_iter().map(|placed| Out::Placed(id, placed)));
        }
    }
    if let Some(set) = set {
        client.drop_set(set);
    }
    (out, Some(Work::CatchUp(begun)))
}

//! Subscriptions to sets of addresses: `addressesSubscribe` and `addressesUpdate`, as JSON and as
//! binary messages.
//!
//! Shape: a [`Task`] is what one message of a client is worth, done in steps of a few milliseconds on
//! the CPU pool (`turns`); what a step gives is written before the next one is made, so that a
//! snapshot of a million accounts waits in no queue. The order on the wire: the reply, the snapshot if
//! asked for, what was told since the block that the subscription starts after, then the stream. What
//! is added to a set goes the same way while what the rest of the set is told of is held back, and put
//! between it block by block: the blocks of a subscription never go back.
//! Bounds: `Config::addresses_message_bytes_max` a message, `Config::sets_at_once` at once, one task
//! for each connection. Those of the sets are the engine's: all or nothing, naming the knob.
//! What users see: docs/subscriptions.md.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use chain::{Block, View};
use ledger::{Address, AddressId, BlockId, Commitment, Facet, Slot};
use pool::Class;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use solana::{Account, Encoding};
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::CommitmentLevel;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use subs::{
    Added, AddressSet, Change, Conflated, From, GoOn, Part, Step, SubscriptionId, WhenSlow, Wish,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::PubSub;
use super::body::{Kept, Placed};
use super::calls::{self, Client};
use super::subscription::{Kind, Subscription, facet};
use super::told::{self, Messages, Place, Told};
use crate::envelope::{self, Call, Id, Request};
use crate::error::RpcError;
use crate::methods::Answer;
use crate::params::Params;

/// The first byte of a binary message about a set. No text begins with it.
pub(super) const BINARY: u8 = 0xad;
/// Bytes of a binary message before its addresses.
const BINARY_HEADER: usize = 16;
/// What a step of a snapshot makes at most.
const SNAPSHOT_BYTES: usize = 256 * 1024;
/// Addresses that a step of a snapshot looks at.
const SNAPSHOT_ADDRESSES: usize = 4_096;
/// Blocks that a step of catching up encodes.
const CATCH_UP_STEPS: usize = 16;

/// What is to be written.
pub(super) enum Out {
    /// As it is.
    Text(Utf8Bytes),
    /// A notification, with the listener's numbers.
    Placed(SubscriptionId, Placed),
    /// A notification whose beginning is this.
    Beginning(SubscriptionId, Utf8Bytes),
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
    Begin(Begun),
    Snapshot(Box<Snapshot>),
    CatchUp(Begun, Vec<Step<Block>>),
    Conflated(Box<Conflated<Kept>>, Encoding, Commitment),
    End(SubscriptionId, Id),
}

/// A subscription, or an addition to one, that is on its way to be live.
struct Begun {
    part: Part,
    facet: Facet,
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
        let work = Work::Conflated(Box::new(conflated), encoding, commitment);
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

    /// Does some milliseconds of work: what to write now, and what is left to do after it.
    pub(super) fn step(self) -> (Vec<Out>, Option<Self>) {
        let Self { pubsub, client, began, work } = self;
        let node = (&pubsub, &client);
        let (out, next) = match work {
            Work::Text(text) => read_text(&pubsub, &client, began, &text),
            Work::Binary(message) => read_binary(&pubsub, &client, began, &message),
            Work::End(id, request) => {
                let ended = client.unsubscribe(id);
                let err = || RpcError::invalid_params("Invalid subscription id.");
                let answer = if ended { Answer::of(&true) } else { Err(err()) };
                (reply_to(&pubsub, ("addressesUnsubscribe", began), &request, answer), None)
            }
            Work::Begin(begun) => begin(node.0, node.1, begun),
            Work::Snapshot(snapshot) => snapshot.step(&pubsub),
            Work::CatchUp(begun, steps) => catch_up(&pubsub, &client, begun, steps),
            Work::Conflated(conflated, encoding, commitment) => {
                let view = pubsub.reader.view(commitment);
                let texts = told::conflated(&conflated.kept, encoding, &view);
                let id = conflated.subscription;
                (texts.into_iter().map(|text| Out::Beginning(id, text)).collect(), None)
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

/// The reply to a call of a method that came at a certain time, which is counted.
fn reply_to(
    pubsub: &PubSub,
    (method, began): (&str, Duration),
    id: &Id,
    answer: Result<Answer, RpcError>,
) -> Vec<Out> {
    calls::count(pubsub, Some(method), began, answer.as_ref());
    let reply = answer.and_then(|answer| answer.into_reply(id));
    text(reply.unwrap_or_else(|err| envelope::error_reply(&err, id, true)))
}

fn text(bytes: Vec<u8>) -> Vec<Out> {
    let Ok(text) = Utf8Bytes::try_from(bytes) else { unreachable!("replies are written as JSON") };
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
    let asked = call.map(|(id, method, params)| {
        let answered = catch_unwind(AssertUnwindSafe(|| match &*method {
            "addressesSubscribe" => Some(subscribe(pubsub, client, params)),
            "addressesUpdate" => Some(update(pubsub, client, params)),
            _ => None,
        }));
        let answered = answered.unwrap_or_else(|_| {
            tracing::error!(%method, "a method panicked; its request got -32603");
            Some(Err(RpcError::internal()))
        });
        (id, method, params, answered)
    });
    match asked {
        Some((id, method, _, Some(Ok((value, next))))) => {
            (reply_to(pubsub, (&method, began), &id, Answer::of(&value)), next)
        }
        Some((id, method, _, Some(Err(err)))) => {
            (reply_to(pubsub, (&method, began), &id, Err(err)), None)
        }
        Some((id, method, params, None)) if method == "addressesUnsubscribe" => {
            match params.parse::<(u64,)>(1) {
                Ok((of,)) => (Vec::new(), Some(Work::End(SubscriptionId(of), id))),
                Err(err) => (reply_to(pubsub, (&method, began), &id, Err(err)), None),
            }
        }
        Some((_, method, _, None))
            if method == "transactionSubscribe"
                || message.len() <= pubsub.config.message_bytes_max =>
        {
            (calls::answer(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        None if message.len() <= pubsub.config.message_bytes_max => {
            (calls::answer(pubsub, client, message).map(text).unwrap_or_default(), None)
        }
        _ => {
            let limit = pubsub.config.message_bytes_max;
            let reason = format!("a message over {limit} bytes (pubsub.message_bytes_max)");
            (vec![Out::Close(CloseCode::Size, reason)], None)
        }
    }
}

/// An address in base58, read without keeping its text.
struct Given(Address);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address in base58")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Given, E> {
                let pubkey = Pubkey::from_str(text)
                    .map_err(|_| E::custom(format_args!("`{text}` is no address")))?;
                Ok(Given(Address::from(pubkey.to_bytes())))
            }
        }
        deserializer.deserialize_str(Text)
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
    fn facet(self) -> Facet {
        match self {
            Self::Account => facet::ITSELF,
            Self::Program => facet::PROGRAM,
            Self::TokenOwner => solana::facet::OWNER,
            Self::TokenMint => solana::facet::MINT,
            Self::TokenDelegate => solana::facet::DELEGATE,
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

type Answered = Result<(serde_json::Value, Option<Work>), RpcError>;

fn subscribe(pubsub: &Arc<PubSub>, client: &Arc<Client>, params: Params<'_>) -> Answered {
    let (given, options): (Vec<Given>, Option<Options>) = params.parse(1)?;
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
    if options.snapshot && facet == facet::MENTIONED {
        let message = "Invalid params: snapshot: what mentions an address has no present state";
        return Err(RpcError::invalid_params(message));
    }
    let from = options.resume.map(|at| resume(pubsub, client, commitment, &at)).transpose()?;
    let set = registered(pubsub, client, given.into_iter().map(|given| given.0))?;
    let wish = Wish {
        identity: Subscription::Addresses { facet, commitment, encoding },
        topic: Kind::Addresses.at(commitment),
        facet,
        set,
        when_slow: match options.when_slow {
            WhenSlowGiven::Close => WhenSlow::Close,
            WhenSlowGiven::Conflate => WhenSlow::Conflate,
        },
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
        snapshot: options.snapshot.then_some(view),
    };
    Ok((answer, Some(Work::Begin(begun))))
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
            "Cannot resume: block {} of slot {} is not among the last {} \
             (pubsub.resume_blocks); subscribe with a snapshot",
            at.block, at.slot, pubsub.config.resume_blocks
        ))
    })
}

fn registered(
    pubsub: &PubSub,
    client: &Client,
    addresses: impl ExactSizeIterator<Item = Address>,
) -> Result<AddressSet, RpcError> {
    let limit = pubsub.config.tracked_addresses_per_connection_max;
    if client.tracked() + addresses.len() > limit.saturating_mul(2) {
        // Not even if half of them were known: no need to look.
        return Err(calls::refusal(&subs::SubscribeError::ListenerTrackedFull { limit }));
    }
    AddressSet::register(pubsub.reader.addresses(), addresses)
        .map_err(|full| calls::refusal(&full.into()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct UpdateGiven {
    add: Option<Vec<Given>>,
    remove: Option<Vec<Given>>,
    replace: Option<Vec<Given>>,
    clear: bool,
    snapshot: bool,
}

fn update(pubsub: &Arc<PubSub>, client: &Arc<Client>, params: Params<'_>) -> Answered {
    let (id, given): (u64, UpdateGiven) = params.parse(2)?;
    type Make = fn(AddressSet) -> Change;
    let (make, addresses): (Make, Vec<Given>) =
        match (given.add, given.remove, given.replace, given.clear) {
            (Some(add), None, None, false) => (Change::Add, add),
            (None, Some(remove), None, false) => (Change::Remove, remove),
            (None, None, Some(replace), false) => (Change::Replace, replace),
            (None, None, None, true) => (Change::Replace, Vec::new()),
            _ => {
                let message = "Invalid params: give one of add, remove, replace and clear";
                return Err(RpcError::invalid_params(message));
            }
        };
    let set = registered(pubsub, client, addresses.into_iter().map(|given| given.0))?;
    change(pubsub, client, SubscriptionId(id), make(set), given.snapshot)
}

fn change(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    id: SubscriptionId,
    change: Change,
    snapshot: bool,
) -> Answered {
    let unknown = || calls::refusal(&subs::SubscribeError::Unknown);
    let identity = client.identity(id).ok_or_else(unknown)?;
    let Subscription::Addresses { facet, commitment, encoding } = *identity else {
        return Err(unknown());
    };
    if snapshot && facet == facet::MENTIONED {
        let message = "Invalid params: snapshot: what mentions an address has no present state";
        return Err(RpcError::invalid_params(message));
    }
    let changed = client.change(id, change).map_err(|err| calls::refusal(&err))?;
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
            snapshot: snapshot.then_some(view),
        })
    });
    Ok((answer, next))
}

/// `0xad`, what to do (1 add, 2 remove, 3 replace), flags (1: snapshot), 0; the number of the request
/// and that of the subscription, both little-endian; then 32 bytes for each address.
fn read_binary(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    began: Duration,
    message: &[u8],
) -> Stepped {
    let reply =
        |request: &Id, answer| reply_to(pubsub, ("addressesUpdate", began), request, answer);
    let invalid = |request: Id, why: &str| {
        let err = RpcError::invalid_params(format!("Invalid binary message: {why}"));
        (reply(&request, Err(err)), None)
    };
    let Some((header, addresses)) = message.split_at_checked(BINARY_HEADER) else {
        return invalid(Id::Null, "no header");
    };
    let mut words = header
        .chunks_exact(4)
        .map(|word| word.iter().rev().fold(0, |number: u32, byte| number << 8 | u32::from(*byte)));
    let mut word = || words.next().unwrap_or_default(); // the header has four
    let (_, request, low, high) = (word(), word(), word(), word());
    let request = Id::Number(u64::from(request));
    let id = SubscriptionId(u64::from(high) << 32 | u64::from(low));
    let make = match header[1] {
        1 => Change::Add,
        2 => Change::Remove,
        3 => Change::Replace,
        _ => return invalid(request, "not 1 (add), 2 (remove) or 3 (replace)"),
    };
    let (addresses, []) = addresses.as_chunks::<32>() else {
        return invalid(request, "addresses have 32 bytes each");
    };
    let addresses = addresses.iter().map(|bytes| Address::from(*bytes));
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let set = registered(pubsub, client, addresses)?;
        change(pubsub, client, id, make(set), header[2] & 1 == 1)
    }));
    match answered.unwrap_or_else(|_| Err(RpcError::internal())) {
        Ok((answer, next)) => (reply(&request, Answer::of(&answer)), next),
        Err(err) => (reply(&request, Err(err)), None),
    }
}

/// After the reply: the snapshot, if there is to be one.
fn begin(pubsub: &Arc<PubSub>, client: &Arc<Client>, mut begun: Begun) -> Stepped {
    let Some(view) = begun.snapshot.take() else {
        return catch_up(pubsub, client, begun, Vec::new());
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
            count += view.keyed_len(begun.facet, &address);
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
        let mut messages = Messages::new(Told::Snapshot, self.view.block().slot, block);
        let mut looked_at = 0;
        let has_more = loop {
            if messages.bytes() >= SNAPSHOT_BYTES || looked_at >= SNAPSHOT_ADDRESSES {
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
                let accounts: Vec<_> = self.view.keyed(self.begun.facet, &address).collect();
                self.accounts = accounts.into_iter();
            }
        };
        let id = self.begun.part.subscription;
        let is_empty = messages.bytes() == 0;
        let next =
            if has_more { Work::Snapshot(self) } else { Work::CatchUp(self.begun, Vec::new()) };
        if has_more && is_empty {
            return (Vec::new(), Some(next)); // many addresses, none with an account
        }
        let texts = messages.finish(has_more);
        (texts.into_iter().map(|text| Out::Beginning(id, text)).collect(), Some(next))
    }
}

/// What was told between the block that a part starts after and now; then it is live.
fn catch_up(
    pubsub: &Arc<PubSub>,
    client: &Arc<Client>,
    mut begun: Begun,
    mut steps: Vec<Step<Block>>,
) -> Stepped {
    let id = begun.part.subscription;
    if steps.is_empty() {
        steps = match client.go_on(begun.part, begun.commitment, begun.from) {
            GoOn::Live => return (Vec::new(), None),
            GoOn::Steps(steps) => steps,
            GoOn::Gone => {
                let reason = "the block to start from is too long ago (pubsub.resume_blocks)";
                return (vec![Out::Close(CloseCode::Policy, reason.to_owned())], None);
            }
        };
    }
    let rest = steps.split_off(steps.len().min(CATCH_UP_STEPS));
    let Some(last) = steps.last() else { return (Vec::new(), None) };
    begun.from = From::Step(last.number);
    let set = client.set(id).ok();
    let contains = |id: u32| match (&begun.added, &set) {
        (Some(added), _) => added.contains(AddressId(id)),
        (None, Some(set)) => set.contains(AddressId(id)),
        (None, None) => false,
    };
    let mut out = Vec::new();
    for step in &steps {
        let things = told::things(pubsub, &step.body, begun.facet).into_iter();
        let places = Place::of_set(things.filter(|(id, _)| contains(*id)).map(|(_, place)| place));
        if !places.is_empty() {
            let placed = told::step(pubsub, step, begun.facet, begun.encoding, places);
            out.push(Out::Until(id, step.number));
            out.extend(placed.into_iter().map(|placed| Out::Placed(id, placed)));
        }
    }
    if let Some(set) = set {
        client.drop_set(set);
    }
    (out, Some(Work::CatchUp(begun, rest)))
}

//! What waits in a client's queue: a notification that is the same for all who get it, or the common
//! beginning of one, to which each listener's numbers are added when it is written.
//!
//! Invariant: the common beginning is encoded once and shared. It goes out as the first frame of a
//! WebSocket message whose second frame has the numbers.

use std::sync::Arc;

use chain::{Block, Executed};
use foldhash::HashMap;
use ledger::Facet;
use solana_pubkey::Pubkey;
use subs::{Message as Queued, SubscriptionId, Turn};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::subscription::facet;
use super::told::Place;

/// What a thing that was conflated may cost in memory, about.
const KEPT_BYTES: usize = 120;

/// The body of a queued message.
#[derive(Clone)]
pub(super) enum Body {
    /// A whole notification.
    Whole(Utf8Bytes),
    /// The beginning of one of a set.
    Placed(Placed),
}

/// A notification of a set up to the listener's numbers.
#[derive(Clone)]
pub(super) struct Placed {
    /// `{"jsonrpc":...,"params":{"result":{...}`
    pub(super) beginning: Utf8Bytes,
    /// What it tells of, in case it is conflated.
    pub(super) things: Option<Arc<Things>>,
}

/// Some of what a block did.
pub(super) struct Things {
    pub(super) facet: Facet,
    pub(super) turn: Turn,
    pub(super) block: Arc<Block>,
    /// Places in the block's writes, or in its transactions where the set is of what those mention.
    pub(super) places: Vec<Place>,
}

/// What is left of conflated messages: the newest of each thing.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) newest: Option<Arc<Block>>,
    pub(super) writes: HashMap<Pubkey, KeptWrite>,
    pub(super) transactions: Vec<(Arc<Executed>, Turn)>,
}

/// The newest that was told of an account.
pub(super) struct KeptWrite {
    pub(super) block: Arc<Block>,
    pub(super) place: Place,
    pub(super) turn: Turn,
}

impl Body {
    /// What it counts against a queue's bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Placed(placed) => placed.beginning.len(),
        }
    }
}

impl Queued for Body {
    type Kept = Kept;

    fn conflate(self, kept: &mut Kept) -> usize {
        // Only sets ask for it.
        let Self::Placed(Placed { things: Some(things), .. }) = self else { return 0 };
        let before = kept.writes.len() + kept.transactions.len();
        kept.newest = Some(Arc::clone(&things.block));
        for place in &things.places {
            if things.facet == facet::MENTIONED {
                let executed = Arc::clone(&things.block.transactions[place.at()]);
                kept.transactions.push((executed, things.turn));
            } else {
                let pubkey = things.block.writes[place.at()].pubkey;
                let block = Arc::clone(&things.block);
                let write = KeptWrite { block, place: *place, turn: things.turn };
                kept.writes.insert(pubkey, write);
            }
        }
        (kept.writes.len() + kept.transactions.len() - before) * KEPT_BYTES
    }
}

impl Placed {
    /// The two frames of the message to one listener.
    pub(super) fn frames(self, subscription: SubscriptionId, sequence: u64) -> [Message; 2] {
        let end = format!(r#","sequence":{sequence},"subscription":{}}}}}"#, subscription.0);
        let first = Frame::message(self.beginning, OpCode::Data(Data::Text), false);
        let second = Frame::message(end, OpCode::Data(Data::Continue), true);
        [Message::Frame(first), Message::Frame(second)]
    }
}

//! From the updates of one or several sources to whole banks, tips and roots.
//!
//! In: account writes, transactions, entries, block metas and slot statuses, as a Geyser stream sends them, each with
//! its source; votes; the time as an argument. Out: [`Event`]s: whole banks in an order in which a parent precedes its
//! children, the processed tip, confirmed banks, roots, removed banks, late writes and gaps.
//! Shape: [`Feed`] has no socket, clock or task. The caller opens a source for each session of a stream, calls
//! [`Feed::handle`] for each update and takes the events with [`Feed::poll_event`].
//! Bounds: [`FeedConfig`]; a source at a bound is closed with a [`Gap`] that lists the dropped banks. The caller then
//! opens another one, which starts after the root.
//! Open banks: [`Feed::handle_batch_end`] reports them ([`Event::Opened`]), and the accounts of those that the caller
//! prepares ([`Event::Quiescent`]). The caller must hide its preparation until the bank is whole.
//! Invariant: writes and transactions of two banks are never mixed, if the source names its banks.
//! Not here: the contents of accounts, transactions and block metas. They are types of the caller.
#![forbid(unsafe_code)]

mod account_writes;
mod approval;
mod assembly;
mod bank;
mod bank_tree;
mod config;
mod decision;
mod event;
mod feed;
mod opened_banks;
mod session;
mod stats;
mod update;
mod votes;

pub use account_writes::{BankAccounts, LastWrite};
pub use bank::{Bank, OpenBank};
pub use config::FeedConfig;
pub use decision::{Decision, LandedVote};
pub use event::{DropReason, Event, Gap, GapReason, Missing};
pub use feed::Feed;
pub use session::StreamStart;
pub use stats::{FeedStats, FeedStatus, SourceProgress};
pub use update::{BlockMeta, SlotStatus, SourceId, Update, UpdateKind};

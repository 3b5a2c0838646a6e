//! The events of a feed, and the reasons of gaps.

use std::time::Duration;

use ledger::{BlockId, Slot};
use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::account_writes::LastWrite;
use crate::bank::{Bank, OpenBank};
use crate::update::SourceId;

/// One event, in the order in which the caller applies them.
#[derive(Clone, Debug)]
pub enum Event<A, T, M> {
    /// A source has created a bank and sent its SlotHashes and Clock. [`Decision::Prepare`](crate::Decision::Prepare)
    /// requests its accounts. Banks of a source that started above the root follow once the root reaches them.
    Opened(Box<OpenBank<A>>),
    /// Accounts that a prepared bank has written for the first time.
    FirstWrites {
        /// Id of the prepared bank.
        bank: BlockId,
        /// Addresses of the accounts, in the order of the writes.
        pubkeys: Vec<Pubkey>,
    },
    /// Accounts that a prepared bank will probably not write again
    /// ([`FeedConfig::quiescent_after`](crate::FeedConfig::quiescent_after)). An account that is written again is
    /// reported again, or is pending in the whole bank.
    Quiescent {
        /// Id of the prepared bank.
        bank: BlockId,
        /// The accounts, each with its last write.
        accounts: Vec<LastWrite<A>>,
    },
    /// An opened bank was replaced or dropped before it was whole, or another source completed it first.
    Ended(BlockId),
    /// A bank is whole, and its parent was reported before.
    Bank(Box<Bank<A, T, M>>),
    /// A write of a bank that was reported as whole. The bank's writes were not all of them.
    LateWrite {
        /// Id of the whole bank.
        bank: BlockId,
        /// The write that was missing in the bank.
        write: LastWrite<A>,
    },
    /// A whole bank is removed. Its descendants were removed before it. The tips move after it.
    Dropped {
        /// Id of the removed bank.
        bank: BlockId,
        /// Reason of the removal.
        reason: DropReason,
    },
    /// The bank is the processed tip. It descends from the confirmed bank.
    Tip(BlockId),
    /// The bank is confirmed, and its ancestors with it. The tip descends from it once all events were taken.
    Confirmed(BlockId),
    /// The bank is the root. All banks that do not descend from it were dropped before.
    Root(BlockId),
    /// A block that no source sent is on top of the confirmed bank ([`Feed::jump`](crate::Feed::jump)). It is the tip. All
    /// banks that do not lead to it were dropped before.
    Jumped {
        /// The confirmed bank.
        from: BlockId,
        /// The block of the archive.
        to: BlockId,
    },
    /// A source cannot be followed any further. It is closed.
    Gap(Gap),
}

impl<A, T, M> Event<A, T, M> {
    /// Whether the event is about a bank that is not whole. Such an event changes nothing that a reader may see.
    pub fn is_about_open_bank(&self) -> bool {
        matches!(
            self,
            Self::Opened(_) | Self::FirstWrites { .. } | Self::Quiescent { .. } | Self::Ended(_)
        )
    }
}

/// Why a whole bank was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The source says that it, or one of its ancestors, broke a rule.
    Dead {
        /// The broken rule, as the source names it.
        error: String,
    },
    /// The root is on another fork.
    Abandoned,
    /// The source made another bank for the slot.
    Replaced,
}

/// The end of a source. Fix: open another session that starts after the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The source, which is closed.
    pub source: SourceId,
    /// The slot at which the gap was found.
    pub slot: Slot,
    /// The first slot that the next session needs.
    pub resume_from: Slot,
    /// Reason of the gap.
    pub reason: GapReason,
    /// Slots of the banks that were dropped with the source: open ones, and whole ones without their parent.
    pub dropped_slots: Vec<Slot>,
    /// Bytes of the dropped banks.
    pub dropped_bytes: usize,
}

/// Why a source cannot be followed any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GapReason {
    /// The bank is not whole, although the source has sent everything of it.
    #[error("the bank lacks {missing} after {waited:?} (feed.incomplete_timeout)")]
    Incomplete {
        /// The missing parts of the bank.
        missing: Missing,
        /// Time since the source reported the bank as frozen.
        waited: Duration,
    },
    /// The parent of the bank is above the root, and nothing of it was sent.
    #[error("the parent of the bank, slot {parent}, was not sent; the root is {root}")]
    ParentUnknown {
        /// Slot of the missing parent.
        parent: Slot,
        /// Slot of the feed's root.
        root: Slot,
    },
    /// The source has another block in a slot that is rooted here: it follows another cluster, or it is wrong.
    #[error("the rooted block has the hash {ours}, and the source says {theirs}")]
    OtherChain {
        /// Blockhash of the feed's rooted block.
        ours: Hash,
        /// Blockhash that the source lists for the slot.
        theirs: Hash,
    },
    /// A transaction has an index that the block does not have.
    #[error("a transaction has the index {index}, and its block has {count} transactions")]
    TransactionIndex {
        /// Index of the transaction.
        index: u64,
        /// Number of transactions in the block.
        count: u64,
    },
    /// The bank has two block metas that differ.
    #[error("the bank has the hash {first} and also {second}")]
    TwoMetas {
        /// Blockhash of the first meta.
        first: Hash,
        /// Blockhash of the second meta.
        second: Hash,
    },
    /// A source without bank ids sent content of a slot, and then that it made a bank for the slot. The content is of
    /// an earlier bank, which the stream began inside.
    #[error(
        "the stream began inside a bank that was replaced, and the source does not name its banks"
    )]
    BeganInside,
    /// The ledger jumped to an archive, and the session does not contain the children of its block.
    #[error("the ledger jumped to slot {slot}, which the stream did not contain")]
    Jumped {
        /// Slot of the archive's block.
        slot: Slot,
    },
    /// The caller took a bank back: it is requested again.
    #[error("the bank was wrong and is requested again")]
    Retracted,
    /// Too many slots above the root.
    #[error("{slots} slots are open or unrooted, at most {limit} (feed.slots_max)")]
    Slots {
        /// Number of slots with the refused one.
        slots: usize,
        /// Maximum number of slots.
        limit: usize,
    },
    /// A slot has too many banks, replaced ones included.
    #[error("the slot has {banks} banks, at most {limit}")]
    BanksOfSlot {
        /// Number of banks with the refused one.
        banks: usize,
        /// Maximum number of banks in a slot.
        limit: usize,
    },
    /// The banks that are not complete, or wait for their parents, hold too much.
    #[error(
        "an update of {update} B makes open banks hold {bytes} B, at most {limit} (feed.bytes_max)"
    )]
    Bytes {
        /// Bytes of the refused update.
        update: usize,
        /// Bytes in use with the refused update.
        bytes: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
}

impl GapReason {
    /// Returns the name of the reason in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } => "incomplete",
            Self::ParentUnknown { .. } => "parent_unknown",
            Self::OtherChain { .. } => "other_chain",
            Self::TransactionIndex { .. } => "transaction_index",
            Self::TwoMetas { .. } => "two_metas",
            Self::BeganInside => "began_inside",
            Self::Jumped { .. } => "jumped",
            Self::Retracted => "retracted",
            Self::Slots { .. } => "slots",
            Self::BanksOfSlot { .. } => "banks_of_slot",
            Self::Bytes { .. } => "bytes",
        }
    }
}

/// The missing parts of an open bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Whether the status "created bank" is missing.
    pub created: bool,
    /// Whether the block meta is missing.
    pub meta: bool,
    /// Number of missing transactions.
    pub transactions: u64,
    /// Number of missing entries.
    pub entries: u64,
    /// Names of the sysvars that each bank writes.
    pub sysvars: [Option<&'static str>; 4],
    /// Slot of the parent, if the bank waits for it.
    pub parent: Option<Slot>,
}

impl Missing {
    /// Whether the bank has all its parts.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether entries are missing, and nothing else.
    pub(crate) fn is_only_entries(&self) -> bool {
        self.entries > 0 && Self { entries: 0, ..*self }.is_nothing()
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        let mut part = |text: &dyn std::fmt::Display| {
            write!(f, "{separator}{text}")?;
            separator = ", ";
            Ok(())
        };
        if self.created {
            part(&"the status that it was created")?;
        }
        if self.meta {
            part(&"the block meta")?;
        }
        if self.transactions > 0 {
            let text = "transactions (a source must send votes and failed ones too)";
            part(&format_args!("{} {text}", self.transactions))?;
        }
        if self.entries > 0 {
            part(&format_args!("{} entries", self.entries))?;
        }
        for name in self.sysvars.iter().flatten() {
            part(&format_args!("the sysvar {name}"))?;
        }
        if let Some(parent) = self.parent {
            part(&format_args!("its parent, slot {parent}"))?;
        }
        Ok(())
    }
}

//! The next append of a leader: own blocks that the log lacks, in the order of parents, and the marks that follow
//! them.
//!
//! Shape: items are taken in the order of their events, and each is compared with the log as the batch will leave it.
//! So the same code appends a new block, and everything that the log lacks after a takeover.
//! Invariant: a mark follows its block. The root is confirmed or an ancestor of the confirmed block, and that one an
//! ancestor of the tip, or the tip. A root comes after the root of its parent and the removal of the blocks on other
//! forks.
//! Not here: the choice of the leader (`plan`).

use std::sync::Arc;

use chain_solana::RevertReason;
use chain_solana::wire::{BlockKey, Mark};
use ledger::Slot;

use crate::batch::{BatchBuilder, BatchError};
use crate::log_chain::LogChain;
use crate::own_chain::{Item, ItemKind, OwnBlock, OwnChain};

/// The result of an item.
enum Progress {
    /// The log has it after the batch, or does not need it.
    Done,
    /// A block before it is missing.
    Blocked,
    /// It does not fit into the batch.
    Full,
}

/// Whether the log has an item, or will never need it.
pub(crate) fn is_obsolete(item: &Item, own: &OwnChain, log: &LogChain) -> bool {
    let is_below_root = is_below_root(&item.key, log);
    let found = log.find(&item.key);
    match item.kind {
        ItemKind::Block => {
            let is_reverted = || own.block(item.number).is_none_or(|block| block.is_reverted());
            is_below_root || found.is_some() || is_reverted()
        }
        // Only the batch that has it knows whether it was appended.
        ItemKind::TipMoved => is_below_root,
        ItemKind::Confirmed => match found {
            Some(number) => log.confirmed_number().is_some_and(|it| log.descends(it, number)),
            None => is_below_root || own.find(&item.key).is_none(),
        },
        ItemKind::Rooted => is_below_root || (found.is_none() && own.find(&item.key).is_none()),
        ItemKind::Reverted(_) => found.is_none() || is_below_root,
    }
}

/// Whether a leader can append an item now, or once it has appended those before it. A block of a fork that the log's
/// root has left is never appended.
pub(crate) fn can_append(item: &Item, own: &OwnChain, log: &LogChain) -> bool {
    match item.kind {
        ItemKind::TipMoved => false,
        ItemKind::Block => own.block(item.number).is_some_and(|block| {
            block.content.is_ok()
                && log
                    .find(&block.parent)
                    .is_some_and(|parent| !leaves_confirmed(block, parent, log))
        }),
        _ => log.find(&item.key).is_some(),
    }
}

/// Whether a block is the log's root, or can never be above it.
fn is_below_root(key: &BlockKey, log: &LogChain) -> bool {
    log.root_slot().is_some_and(|root| key.slot <= root)
}

/// Adds the items that the log lacks, as far as they fit.
pub(crate) fn add_items(builder: &mut BatchBuilder, own: &OwnChain) -> Result<(), BatchError> {
    if own.has_left_root() {
        // Its blocks continue from a root that the log cannot go back to.
        return Ok(());
    }
    let mut is_everything_done = true;
    for item in own.items() {
        if !builder.has_space() {
            return Ok(());
        }
        match add_item(builder, own, item)? {
            Progress::Done => builder.finish_item(item.number),
            Progress::Blocked => is_everything_done = false,
            Progress::Full => return Ok(()),
        }
    }
    // A new leader has no earlier moves of its tip.
    if is_everything_done && let Some(tip) = own.tip() {
        move_tip(builder, &tip);
    }
    Ok(())
}

/// The reason why own blocks cannot be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) reason: Arc<str>,
    /// The block that cannot be appended. A snapshot of a root below it has the same gap.
    slot: Option<Slot>,
}

impl Gap {
    /// Whether a generation that starts with the own root has no such gap.
    pub(crate) fn is_closed_by_root(&self, own: &OwnChain) -> bool {
        self.slot.is_none_or(|slot| slot <= own.root_key().slot)
    }
}

/// Returns why the own tip can't be appended with the own blocks, or `None` if it can.
pub(crate) fn find_gap(own: &OwnChain, log: &LogChain) -> Option<Gap> {
    if own.has_left_root() {
        return Some(Gap { reason: "the ledger reverted a final block".into(), slot: None });
    }
    let tip = own.tip()?;
    let mut key = tip;
    loop {
        if log.find(&key).is_some() || is_below_root(&tip, log) {
            return None;
        }
        let slot = Some(key.slot);
        let Some(block) = own.find(&key) else {
            let reason = format!("block {} of slot {} is missing", key.blockhash, key.slot);
            return Some(Gap { reason: reason.into(), slot });
        };
        if log.find(&block.parent).is_some_and(|parent| leaves_confirmed(block, parent, log)) {
            let reason = format!(
                "the ledger jumped to slot {}, from a block below the log's confirmed one",
                key.slot
            );
            return Some(Gap { reason: reason.into(), slot });
        }
        if let Err(reason) = &block.content {
            return Some(Gap { reason: Arc::clone(reason), slot });
        }
        key = block.parent;
    }
}

fn add_item(
    builder: &mut BatchBuilder,
    own: &OwnChain,
    item: &Item,
) -> Result<Progress, BatchError> {
    let log = builder.chain();
    if is_obsolete(item, own, log) {
        return Ok(Progress::Done);
    }
    let found = log.find(&item.key);
    match (&item.kind, found) {
        (ItemKind::Block, _) => add_block(builder, own, item),
        (_, None) => Ok(Progress::Blocked),
        (ItemKind::TipMoved, Some(_)) => {
            move_tip(builder, &item.key);
            Ok(Progress::Done)
        }
        (ItemKind::Confirmed, Some(number)) => {
            confirm(builder, number);
            Ok(Progress::Done)
        }
        (ItemKind::Rooted, Some(number)) => Ok(set_root(builder, number)),
        (ItemKind::Reverted(reason), Some(number)) => {
            let removed = log.descendants(number);
            builder.add_reverts(&removed, reason);
            Ok(Progress::Done)
        }
    }
}

fn add_block(
    builder: &mut BatchBuilder,
    own: &OwnChain,
    item: &Item,
) -> Result<Progress, BatchError> {
    let Some(block) = own.block(item.number) else { return Ok(Progress::Done) };
    let (Some(parent), Ok(content)) = (builder.chain().find(&block.parent), &block.content) else {
        return Ok(Progress::Blocked);
    };
    if leaves_confirmed(block, parent, builder.chain()) {
        return Ok(Progress::Blocked);
    }
    let is_added = builder.add_block(item.number, content, parent)?;
    Ok(if is_added { Progress::Done } else { Progress::Full })
}

/// Whether a block is a jump from a block that is not the log's confirmed one, nor above it. Its readers would have to
/// leave a confirmed block without a removal.
fn leaves_confirmed(block: &OwnBlock, parent: u64, log: &LogChain) -> bool {
    block.is_jump
        && log.confirmed_number().is_some_and(|confirmed| !log.descends(parent, confirmed))
}

/// Moves the tip to a block, unless the log's tip or confirmed block is ahead of this ledger's.
fn move_tip(builder: &mut BatchBuilder, key: &BlockKey) {
    let log = builder.chain();
    let Some(number) = log.find(key) else { return };
    let is_behind = log.tip().is_some_and(|tip| log.descends(tip, number));
    let is_allowed = |lower: Option<u64>| lower.is_none_or(|lower| log.descends(number, lower));
    if !is_behind && is_allowed(log.confirmed_number()) && is_allowed(log.root()) {
        builder.add_mark(number, Mark::TipMoved);
    }
}

/// Confirms a block, and moves the tip to it first if the log's is not above it.
fn confirm(builder: &mut BatchBuilder, number: u64) {
    let log = builder.chain();
    if !log.tip().is_some_and(|tip| log.descends(tip, number)) {
        builder.add_mark(number, Mark::TipMoved);
    }
    builder.add_mark(number, Mark::Confirmed);
}

/// Makes a block the root, after its ancestors. Removes the blocks that a root leaves, and confirms it first.
fn set_root(builder: &mut BatchBuilder, number: u64) -> Progress {
    let Some(path) = builder.chain().path_from_root(number) else { return Progress::Blocked };
    for root in path {
        let abandoned = builder.chain().blocks_on_other_forks(root);
        builder.add_reverts(&abandoned, &RevertReason::Abandoned);
        let log = builder.chain();
        if !log.confirmed_number().is_some_and(|it| log.descends(it, root)) {
            confirm(builder, root);
        }
        builder.add_mark(root, Mark::Rooted);
    }
    Progress::Done
}

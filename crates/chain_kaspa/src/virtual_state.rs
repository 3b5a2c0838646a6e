//! The virtual UTXO set: the messages about it, its completeness, and its check.
//!
//! Input: notifications of changed UTXOs, steps of the chain, block templates. Output: the differences from the sink's
//! set, which [`crate::Chain`] writes as a block above it.
//! The state is joining until a block template of the source commits to the same set. Then it is exact, and a message
//! that was lost or doubled is found: by a contradiction or a difference that lasts, or by a template with another
//! commitment. Then it is joining again, and becomes exact as at the start. The chain is never affected.
//! Not proven: a template has the commitment of the same source. It shows that the two agree, not that the source is
//! honest.

use kaspa::{AddressUtxo, BlockTemplate, Hash, UtxoChanges};
use muhash::MuHash;

use crate::config::VirtualLimits;
use crate::ledger_block::{ChainBlock, LedgerBlock};
use crate::overlay::{ChainLookup, Differences, Overlay};
use crate::script_utxo::ScriptUtxo;

/// Templates with another commitment, one after the other, that show a lost message. A single one may be of another
/// virtual block with the same score, or come between two messages that the source swapped.
const MISMATCHES_MAX: u32 = 3;

/// The completeness of the virtual UTXO set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VirtualMode {
    /// Its messages are not applied. Readers see the sink's set as processed.
    #[default]
    Off,
    /// Its messages are applied. Differences from before the first one may be missing for some chain blocks.
    Joining,
    /// A template committed to the same set, and every message since then was applied.
    Exact,
}

/// The result of a comparison with a block template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateCheck {
    /// The template commits to our virtual UTXO set.
    Matched,
    /// The template commits to another set at the same score, although every message about it was applied.
    Mismatched,
    /// The template commits to another set, and ours is not complete: it is joining, or the message about the virtual
    /// block of the template has not arrived. kaspad sends it after its index was written, and makes templates before.
    Incomplete,
    /// The template is of another virtual block than the one that we know.
    NotComparable,
}

/// The state of the virtual UTXO set, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtualStatus {
    /// The completeness of the set.
    pub mode: VirtualMode,
    /// Changes of UTXOs in which it differs from that of the sink. A UTXO that has another DAA score is two of them.
    pub differences: usize,
    /// UTXOs about which messages contradict each other. They are shown as in the sink's set.
    pub contradictions: usize,
    /// Templates that committed to the same set.
    pub matches: u64,
    /// Templates that committed to another set, although every message about it was applied.
    pub mismatches: u64,
    /// Templates that committed to another set while ours was not complete.
    pub incomplete: u64,
    /// Number of times that a lost or doubled message was found.
    pub losses: u64,
}

pub(crate) struct VirtualState {
    limits: VirtualLimits,
    mode: VirtualMode,
    overlay: Overlay,
    /// The highest DAA score among the UTXOs that the last message added.
    stamp: Option<u64>,
    /// The DAA score that the source announced, and whether it is shown before a message with that score.
    announced: Option<u64>,
    is_released: bool,
    matches: u64,
    mismatches: u64,
    incomplete: u64,
    losses: u64,
    mismatches_in_a_row: u32,
    /// The commitment of the last template that came before its message.
    awaited: Option<Hash>,
    is_changed: bool,
}

impl VirtualState {
    pub(crate) fn new(limits: VirtualLimits) -> Self {
        Self {
            limits,
            mode: VirtualMode::Off,
            overlay: Overlay::default(),
            stamp: None,
            announced: None,
            is_released: false,
            matches: 0,
            mismatches: 0,
            incomplete: 0,
            losses: 0,
            mismatches_in_a_row: 0,
            awaited: None,
            is_changed: true,
        }
    }

    pub(crate) fn mode(&self) -> VirtualMode {
        self.mode
    }

    pub(crate) fn status(&self) -> VirtualStatus {
        VirtualStatus {
            mode: self.mode,
            differences: self.overlay.len(),
            contradictions: self.overlay.contradictions(),
            matches: self.matches,
            mismatches: self.mismatches,
            incomplete: self.incomplete,
            losses: self.losses,
        }
    }

    /// Starts or stops to apply messages, without any difference from the sink's set. Off, the announced score is
    /// forgotten, too: the next source announces its own.
    pub(crate) fn restart(&mut self, mode: VirtualMode) {
        self.mode = mode;
        if mode == VirtualMode::Off {
            self.announced = None;
            self.is_released = false;
        }
        self.overlay.clear();
        self.stamp = None;
        self.mismatches_in_a_row = 0;
        self.awaited = None;
        self.is_changed = true;
    }

    /// Sets the DAA score that the source announced for its virtual block.
    pub(crate) fn announce_daa_score(&mut self, daa_score: u64) {
        self.announced = Some(daa_score);
        self.is_released = false;
        self.is_changed |= self.stamp.is_none();
    }

    /// Shows the announced score although no message with that score has been applied.
    pub(crate) fn release_daa_score(&mut self) {
        self.is_released = true;
        self.is_changed = true;
    }

    /// Returns the DAA score of the virtual block above a sink: the highest one among the UTXOs that it adds. Without one
    /// it is that of the last message, or the announced one.
    pub(crate) fn daa_score(&self, sink: &LedgerBlock, newest: Option<u64>) -> u64 {
        let by_messages = newest.or(self.stamp);
        // A score that was shown by a message does not go back to an older announcement.
        let known = if self.is_released {
            self.announced.max(by_messages)
        } else {
            by_messages.or(self.announced)
        };
        known.unwrap_or(0).max(sink.next_daa_score_min())
    }

    /// Applies a message. Nothing happens while the state is off.
    pub(crate) fn apply_message(&mut self, changes: &UtxoChanges, in_chain: ChainLookup<'_>) {
        if self.mode == VirtualMode::Off {
            return;
        }
        self.overlay.start_message();
        let to_utxo = |utxo: &AddressUtxo| ScriptUtxo::new(utxo.outpoint, &utxo.entry);
        let is_joining = self.mode == VirtualMode::Joining;
        for removed in changes.removed.iter().map(to_utxo) {
            if is_joining {
                self.overlay.set_absent(&removed, in_chain);
            } else {
                self.overlay.remove(&removed, in_chain);
            }
        }
        for added in changes.added.iter().map(to_utxo) {
            if is_joining {
                self.overlay.set_present(&added, in_chain);
            } else {
                self.overlay.add(&added, in_chain);
            }
        }
        if let Some(score) = changes.added.iter().map(|utxo| utxo.entry.block_daa_score).max() {
            self.stamp = Some(score);
            self.is_released = false;
        }
        self.is_changed = true;
        if self.overlay.has_lasting_contradiction(self.limits.contradiction_messages_max) {
            self.note_loss();
        }
        self.check_len();
    }

    /// Replaces the differences, while the state is joining. `daa_score` is that of the virtual block.
    pub(crate) fn set_differences(
        &mut self,
        differences: &Differences,
        daa_score: u64,
        in_chain: ChainLookup<'_>,
    ) {
        if self.mode != VirtualMode::Joining {
            return;
        }
        self.overlay.clear();
        let Differences { removed, added } = differences;
        removed.iter().for_each(|utxo| self.overlay.set_absent(utxo, in_chain));
        added.iter().for_each(|utxo| self.overlay.set_present(utxo, in_chain));
        self.stamp = Some(daa_score);
        self.is_changed = true;
        self.check_len();
    }

    /// Applies a step of the chain: the blocks that left it, the highest first, and those that joined it. `in_chain`
    /// reads the sink after the step.
    pub(crate) fn apply_step(
        &mut self,
        removed: &[ChainBlock],
        added: &[ChainBlock],
        in_chain: ChainLookup<'_>,
    ) {
        if self.mode == VirtualMode::Off {
            return;
        }
        let is_joining = self.mode == VirtualMode::Joining;
        self.overlay.start_step();
        for chain in removed {
            self.overlay.revert_block(&chain.block.changes, is_joining);
        }
        for chain in added {
            self.overlay.apply_block(&chain.block.changes, is_joining);
        }
        self.overlay.check_chain(in_chain);
        let steps_max = self.limits.difference_steps_max;
        if is_joining {
            self.overlay.forget_doubtful(steps_max);
        } else if self.overlay.has_lasting_difference(steps_max) {
            self.note_loss();
        }
        self.check_len();
    }

    /// Compares the virtual set with the commitment of a template.
    pub(crate) fn check_template(
        &mut self,
        template: &BlockTemplate,
        sink: &ChainBlock,
        in_chain: ChainLookup<'_>,
    ) -> TemplateCheck {
        let header = &template.header;
        let differences = self.overlay.differences(in_chain);
        let newest = differences.newest_daa_score();
        let is_same_block = header.parents.direct().first() == Some(&sink.block.info.hash)
            && header.daa_score == self.daa_score(&sink.block, newest);
        if self.mode == VirtualMode::Off || !is_same_block || self.overlay.contradictions() > 0 {
            return TemplateCheck::NotComparable;
        }
        let computed = Hash(multiply_differences(&sink.product, &differences).finalize());
        if computed == header.utxo_commitment {
            self.matches += 1;
            self.mismatches_in_a_row = 0;
            self.awaited = None;
            self.mode = VirtualMode::Exact;
            return TemplateCheck::Matched;
        }
        // The score alone does not say that the message of this virtual block was applied: without messages the score is
        // one above the sink's, and the chain may come first. A message that is still missing at the next template of
        // the same set is lost.
        let has_message = self.stamp == Some(header.daa_score);
        let awaited_before = self.awaited.replace(header.utxo_commitment);
        let is_overdue = awaited_before == Some(header.utxo_commitment);
        if self.mode != VirtualMode::Exact || !(has_message || is_overdue) {
            self.incomplete += 1;
            return TemplateCheck::Incomplete;
        }
        self.mismatches += 1;
        self.mismatches_in_a_row += 1;
        if self.mismatches_in_a_row >= MISMATCHES_MAX {
            self.losses += 1;
            self.restart(VirtualMode::Joining);
        }
        TemplateCheck::Mismatched
    }

    /// Returns the differences from the sink's set.
    pub(crate) fn differences(&self, in_chain: ChainLookup<'_>) -> Differences {
        self.overlay.differences(in_chain)
    }

    /// Returns whether there are changes that can be shown: those of contradicting messages wait for the next message.
    pub(crate) fn has_changes(&self) -> bool {
        self.is_changed && self.overlay.contradictions() == 0
    }

    /// Notes that the changes up to now are shown.
    pub(crate) fn note_shown(&mut self) {
        self.is_changed = false;
    }

    /// Joins again after a message was lost or doubled, with the differences that are not doubtful.
    fn note_loss(&mut self) {
        self.losses += 1;
        self.mode = VirtualMode::Joining;
        self.mismatches_in_a_row = 0;
        self.overlay.forget_doubtful(self.limits.difference_steps_max);
    }

    fn check_len(&mut self) {
        if self.overlay.len() > self.limits.differences_max {
            self.losses += 1;
            self.restart(VirtualMode::Joining);
        }
    }
}

/// Returns the product over the virtual set.
fn multiply_differences(sink_product: &MuHash, differences: &Differences) -> MuHash {
    let mut product = sink_product.clone();
    let element = |utxo: &ScriptUtxo| utxo.to_entry().element(&utxo.outpoint());
    differences.removed.iter().for_each(|utxo| product.remove(&element(utxo)));
    differences.added.iter().for_each(|utxo| product.add(&element(utxo)));
    product
}

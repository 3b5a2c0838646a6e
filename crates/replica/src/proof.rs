//! Whose word the banks of a replica are: a snapshot's, or that of an ingester with its level of proof.
//!
//! In: the levels of the records, and each block that becomes confirmed. Out: the word for a confirmed bank by its
//! slot. A replica computes the hash of each bank, and compares it with that of the bank's record. All else is the word
//! of the ingesters: of the one that logged the bank, and of the one that confirmed it. The lower level of the two
//! counts.
//! Bounds: [`SPANS_MAX`] changes of the word. Banks before them have none.
//! Not here: what servers say about it (`hydrant`).

use std::collections::VecDeque;

use ledger::Slot;
use parking_lot::Mutex;
use solana::VerificationLevel;

/// Retained changes of the word: one for each new leader with another level, and one for each snapshot.
const SPANS_MAX: usize = 1_024;

/// Whose word a confirmed bank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankWord {
    /// The bank of a snapshot, whose hash was not computed here.
    Snapshot,
    /// The ingester confirmed the bank at this level, or without verifying anything.
    Ingester(Option<VerificationLevel>),
}

/// Confirmed banks with the same word: from this slot to the next span.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Slot,
    word: BankWord,
}

/// Whose word the banks of a replica are. The writer changes it, and servers read it.
#[derive(Debug)]
pub struct ReplicaProof(Mutex<Words>);

#[derive(Debug)]
struct Words {
    level: Option<VerificationLevel>,
    /// By ascending slot.
    spans: VecDeque<Span>,
}

impl ReplicaProof {
    /// Creates the proof of a ledger at the block of a snapshot, whose ingesters required this level.
    pub fn new(slot: Slot, level: Option<VerificationLevel>) -> Self {
        let spans = VecDeque::from([Span { first: slot, word: BankWord::Snapshot }]);
        Self(Mutex::new(Words { level, spans }))
    }

    /// Returns the level that the writer of the newest record requires of a confirmed bank; that of the snapshot before
    /// the first record. `None` if it verifies nothing.
    pub fn level(&self) -> Option<VerificationLevel> {
        self.0.lock().level
    }

    /// Returns whose word a confirmed bank is. `None` if its slot is below the retained ones.
    pub fn word(&self, confirmed: Slot) -> Option<BankWord> {
        let words = self.0.lock();
        let mut newest_first = words.spans.iter().rev();
        newest_first.find(|span| span.first <= confirmed).map(|span| span.word)
    }

    /// Sets the level of the writer of the newest record.
    pub fn set_level(&self, level: Option<VerificationLevel>) {
        self.0.lock().level = level;
    }

    /// Records that a block is confirmed at a level. Blocks of one chain are confirmed in the order of their slots.
    pub fn confirm(&self, slot: Slot, level: Option<VerificationLevel>) {
        self.0.lock().start_span(slot, BankWord::Ingester(level));
    }

    /// Records a jump to the block of a snapshot, whose ingesters required this level.
    pub fn start_from_snapshot(&self, slot: Slot, level: Option<VerificationLevel>) {
        let mut words = self.0.lock();
        words.level = level;
        words.start_span(slot, BankWord::Snapshot);
    }
}

impl Words {
    fn start_span(&mut self, first: Slot, word: BankWord) {
        // Confirmed blocks that were left for another fork.
        while self.spans.back().is_some_and(|span| span.first >= first) {
            self.spans.pop_back();
        }
        if self.spans.back().is_some_and(|span| span.word == word && word != BankWord::Snapshot) {
            return;
        }
        if self.spans.len() == SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(Span { first, word });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTED: Option<VerificationLevel> = Some(VerificationLevel::Voted);
    const SEQUENCE: Option<VerificationLevel> = Some(VerificationLevel::Sequence);

    #[test]
    fn a_bank_has_the_level_at_which_it_was_confirmed() {
        let proof = ReplicaProof::new(100, SEQUENCE);
        assert_eq!(proof.level(), SEQUENCE);
        proof.set_level(VOTED);
        [101, 103].into_iter().for_each(|slot| proof.confirm(slot, VOTED));
        proof.set_level(None);
        proof.confirm(104, None);
        let words = [99, 100, 101, 102, 103, 104].map(|slot| proof.word(slot));
        let ingester = |level| Some(BankWord::Ingester(level));
        let snapshot = Some(BankWord::Snapshot);
        let voted = ingester(VOTED);
        assert_eq!(words, [None, snapshot, voted, voted, voted, ingester(None)]);
        assert_eq!(proof.level(), None);
    }

    #[test]
    fn a_snapshot_that_is_jumped_to_is_its_own_word() {
        let proof = ReplicaProof::new(100, VOTED);
        proof.confirm(101, VOTED);
        proof.start_from_snapshot(200, SEQUENCE);
        assert_eq!(proof.level(), SEQUENCE);
        assert_eq!(proof.word(199), Some(BankWord::Ingester(VOTED)));
        assert_eq!(proof.word(200), Some(BankWord::Snapshot));
        proof.confirm(201, SEQUENCE);
        assert_eq!(proof.word(201), Some(BankWord::Ingester(SEQUENCE)));
    }

    #[test]
    fn a_block_on_another_fork_replaces_those_that_are_left() {
        let proof = ReplicaProof::new(100, None);
        proof.confirm(101, VOTED);
        proof.confirm(105, None);
        proof.confirm(103, SEQUENCE);
        assert_eq!(proof.word(102), Some(BankWord::Ingester(VOTED)));
        assert_eq!(proof.word(105), Some(BankWord::Ingester(SEQUENCE)));
    }

    #[test]
    fn the_oldest_words_are_dropped() {
        let proof = ReplicaProof::new(0, None);
        for slot in 1..2 * SPANS_MAX as u64 {
            proof.confirm(slot, [VOTED, SEQUENCE][slot as usize % 2]);
        }
        assert_eq!(proof.0.lock().spans.len(), SPANS_MAX);
        assert_eq!(proof.word(SPANS_MAX as u64 - 1), None);
        assert!(proof.word(SPANS_MAX as u64).is_some());
    }
}

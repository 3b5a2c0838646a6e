//! Rounds over the sources of a follower in which one lacks what follows the root.
//!
//! Input: how each stream ended without moving the root. Output: whether the next stream starts above the gap.
//! Not here: the streams (`stream`), archives that close the gap (`gap_closer`).

use crate::stream_end::StreamEnd;

/// Number of rounds over all sources that find a gap before a stream starts above it, to wait for an archive.
const GAP_ROUNDS: u32 = 2;

/// Whether sources lack what follows the root, since it moved last.
pub(crate) struct GapRounds {
    /// Number of rounds over all sources in which one had a gap.
    rounds: u32,
    is_in_round: bool,
    /// Whether a source of this round had its time to bring the next bank, and did not.
    has_stalled: bool,
    /// The sources that have refused the stream.
    refused: Vec<bool>,
}

impl GapRounds {
    pub(crate) fn new(sources: usize) -> Self {
        Self { rounds: 0, is_in_round: false, has_stalled: false, refused: vec![false; sources] }
    }

    /// A stream of a source ended without moving the root.
    pub(crate) fn record(&mut self, source: usize, end: &StreamEnd) {
        self.refused[source] = end.is_out_of_window();
        self.is_in_round |= self.refused[source] || matches!(end, StreamEnd::Gap);
        self.has_stalled |= end.is_choice();
        if source + 1 == self.refused.len() {
            let has_stalled = std::mem::take(&mut self.has_stalled);
            if std::mem::take(&mut self.is_in_round) {
                // A second round with a stall would only lose more slots.
                let rounds = if has_stalled { GAP_ROUNDS } else { 1 };
                self.rounds = self.rounds.saturating_add(rounds);
            }
        }
    }

    /// A source has refused the stream, and is tried again at once.
    pub(crate) fn record_refusal(&mut self, source: usize) {
        self.refused[source] = true;
    }

    /// Whether each source had its chance, and more than once.
    pub(crate) fn are_lasting(&self) -> bool {
        self.rounds >= GAP_ROUNDS
    }

    pub(crate) fn was_refused(&self, source: usize) -> bool {
        self.refused[source]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_source_that_is_tried_again_at_once_has_refused_the_stream() {
        let mut gaps = GapRounds::new(2);
        gaps.record_refusal(1);
        assert!(gaps.was_refused(1) && !gaps.was_refused(0));
        assert!(!gaps.are_lasting(), "a refusal is not a round");
        gaps.record(1, &StreamEnd::Ended);
        assert!(!gaps.was_refused(1));
    }

    #[test]
    fn a_round_with_a_stalled_source_is_enough_for_a_gap() {
        let refusal = || StreamEnd::Refused(tonic::Status::out_of_range("slot"));
        let stalled = || StreamEnd::NoBank(Duration::from_secs(45));
        let mut gaps = GapRounds::new(2);
        gaps.record(0, &stalled());
        assert!(!gaps.are_lasting(), "the other source may have the bank");
        gaps.record(1, &refusal());
        assert!(gaps.are_lasting() && gaps.was_refused(1));
        let mut gaps = GapRounds::new(2);
        gaps.record(0, &stalled());
        gaps.record(1, &stalled());
        assert!(!gaps.are_lasting(), "no source lacks the bank");
        let mut gaps = GapRounds::new(2);
        gaps.record(0, &StreamEnd::Ended);
        gaps.record(1, &refusal());
        assert!(!gaps.are_lasting(), "the first one may be back soon");
    }
}

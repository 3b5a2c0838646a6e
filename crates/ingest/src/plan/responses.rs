//! Notes of the outcomes of operations as responses of the log, or as its silence.
//!
//! Invariant: the outcome of an operation that requests nothing from the log says nothing about the log.
//! Not here: the state of the silence (`silence`), the reactions to outcomes (`recovering`, `following`, `opening`).

use super::silence::SilenceChange;
use super::{AppendFailure, Notice, Now, Outcome, Plan};

impl Plan {
    /// Notes whether the log has responded to an operation.
    pub(super) fn note_outcome(&mut self, outcome: &Outcome, now: Now) {
        let has_response = match outcome {
            // A reader is opened without a request, and the store is not the log.
            Outcome::ReaderOpened(Ok(()))
            | Outcome::ChainChecked(_)
            | Outcome::ViewRetained(_)
            | Outcome::SnapshotWritten(_) => return self.silence.end_operation(),
            Outcome::Appended(result) => {
                let change = match result {
                    Err(AppendFailure::Unknown) => self.silence.note_append_failure(now.elapsed),
                    _ => self.silence.note_progress(now.elapsed),
                };
                self.silence.end_operation();
                return self.note_silence_change(change);
            }
            Outcome::GenerationFound(result) => result.is_ok(),
            Outcome::TailRead(result) => result.is_ok(),
            Outcome::LogChecked(result)
            | Outcome::GenerationOpened(result)
            | Outcome::ReaderOpened(result)
            | Outcome::GenerationCreated(result) => result.is_ok(),
        };
        self.note_response(has_response, now);
        self.silence.end_operation();
    }

    /// Notes whether the log has responded to anything other than an append.
    pub(super) fn note_response(&mut self, has_response: bool, now: Now) {
        let change = match has_response {
            true => self.silence.note_response(now.elapsed),
            false => self.silence.note_failure(now.elapsed),
        };
        self.note_silence_change(change);
    }

    pub(super) fn note_silence_change(&mut self, change: Option<SilenceChange>) {
        match change {
            Some(SilenceChange::Started) => {
                self.counters.silences += 1;
                self.notices.push(Notice::Silent);
            }
            Some(SilenceChange::Ended { after }) => self.notices.push(Notice::Responds { after }),
            None => {}
        }
    }
}

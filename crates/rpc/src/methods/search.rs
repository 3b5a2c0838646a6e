//! Answers that are looked for in steps before any of them is there: pages, the largest of many.
//!
//! Bounds: what a search keeps, it bounds itself.

use pool::TimeSlice;

use super::{Answer, Form, MethodResult, PREFIX, Pieces, Progress};
use crate::error::RpcError;

/// Records looked at in a step: some tens of microseconds.
pub(super) const VISITS: usize = 128;

/// What looks for an answer.
pub(super) trait Search: Send {
    /// Looks on for some tens of microseconds; the answer, once it is known.
    fn step(&mut self) -> Result<Option<Answer>, RpcError>;

    /// How many records were looked at so far.
    fn touched(&self) -> u64;
}

/// The answer that is found.
pub(super) fn search(search: impl Search + 'static) -> MethodResult {
    Ok(Answer::in_pieces(Searched { search, found: None }))
}

struct Searched<S> {
    search: S,
    found: Option<Box<dyn Pieces>>,
}

impl<S: Search> Pieces for Searched<S> {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        if let Some(found) = &mut self.found {
            return found.write(slice, out);
        }
        loop {
            match self.search.step()?.map(Answer::into_form) {
                None if slice.is_over() => return Ok(Progress::More),
                None => {}
                Some(Form::Whole(bytes)) => {
                    out.extend_from_slice(&bytes[PREFIX.len()..]); // it begins with that
                    return Ok(Progress::Done);
                }
                Some(Form::InPieces(pieces)) => {
                    self.found = Some(pieces);
                    return Ok(Progress::More);
                }
            }
        }
    }

    fn touched(&self) -> u64 {
        self.search.touched()
    }
}

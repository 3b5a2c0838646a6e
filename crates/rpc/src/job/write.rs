//! What a task has written on its way out: sent piece by piece, or collected whole for the cache.
//!
//! Bounds: a piece is of about [`RESULT_CHUNK_BYTES`]; those of [`crate::held`] for what is collected.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.
//! Not here: the way to the client ([`crate::outlet`]), coding ([`crate::kept`]).

use pool::TaskPoll;

use super::Job;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::held::Collected;
use crate::kept::Coder;
use crate::look::Hit;
use crate::methods::{self, RESULT_CHUNK_BYTES};
use crate::metrics::Outcome;

impl Job {
    /// Whether what is written can no longer become an error.
    pub(super) fn may_send(&self) -> bool {
        self.current.as_ref().is_none_or(|current| current.begins_at.is_none())
    }

    fn send(&mut self, is_last: bool) -> std::io::Result<()> {
        self.made.bytes += self.out.len() as u64;
        if is_last {
            if self.answered > 0 && self.overloaded == self.answered {
                self.writer.overloaded();
            }
            self.tell();
        }
        self.writer.write(std::mem::take(&mut self.out), is_last)
    }

    /// Passes a piece on that is written: to what is collected for the cache, or to be sent. An answer that
    /// turns out not to be kept is sent as any other.
    pub(super) fn pass_on(&mut self) -> std::io::Result<()> {
        let collected = match self.keeping.take() {
            Some(keeping) => keeping.collect(std::mem::take(&mut self.out)),
            None if self.out.len() <= 2 * RESULT_CHUNK_BYTES => return self.send(false),
            None => {
                let mut collected =
                    Collected::new(&self.node.answers.room, self.about.asker.client);
                collected.push(std::mem::take(&mut self.out));
                self.unsent = Some(collected);
                return Ok(());
            }
        };
        match collected {
            Ok(keeping) => self.keeping = Some(keeping),
            Err((why, unsent)) => {
                self.made.cache = why.name();
                self.unsent = Some(unsent);
                let aside = std::mem::take(&mut self.aside);
                if !aside.is_empty() {
                    self.made.bytes += aside.len() as u64;
                    self.writer.write(aside, false)?;
                }
            }
        }
        // The next piece will be as long, and a little more.
        self.out.reserve(RESULT_CHUNK_BYTES + RESULT_CHUNK_BYTES / 8);
        Ok(())
    }

    /// Sends the next piece of what is to go before `out`.
    pub(super) fn send_unsent(&mut self, mut unsent: Collected) -> std::io::Result<()> {
        if let Some(piece) = unsent.pop(RESULT_CHUNK_BYTES) {
            self.made.bytes += piece.len() as u64;
            self.writer.write(piece.into(), false)?;
        }
        if !unsent.is_empty() {
            self.unsent = Some(unsent);
        }
        Ok(())
    }

    /// An error is not kept: who asks next may get more.
    pub(super) fn refuse(&mut self, err: &RpcError, id: &Id) {
        self.keeping = None;
        self.take_from_aside();
        self.overloaded += usize::from(err.is_overload());
        self.out.extend(envelope::error_reply(err, id, true));
        self.count(Outcome::Refused(err.code));
    }

    /// Puts what the batch had before before what is written, which is little.
    fn take_from_aside(&mut self) {
        if !self.aside.is_empty() {
            let written = std::mem::replace(&mut self.out, std::mem::take(&mut self.aside));
            self.out.extend(written);
        }
    }

    /// The result is whole. One that is kept goes on without the id.
    pub(super) fn close_reply(&mut self, id: Id) {
        if let Some(keeping) = self.keeping.take() {
            if !self.about.is_batch {
                self.made.bytes += keeping.bytes() + self.out.len() as u64;
            }
            let coder = keeping.code(std::mem::take(&mut self.out));
            let coder = coder.unwrap_or_else(|err| panic!("compress an answer: {err}"));
            self.coder = Some((coder, id));
            return;
        }
        methods::close_response(&mut self.out, &id);
        self.count(Outcome::Succeeded);
    }

    /// Codes a piece of what is kept, and sends it when that was the last; of a batch it is then copied out.
    pub(super) fn code(
        &mut self,
        (mut coder, id): (Coder, Id),
    ) -> std::io::Result<Option<TaskPoll>> {
        if coder.step()? {
            self.coder = Some((coder, id));
            return Ok(None);
        }
        let (entry, slot) = coder.done();
        if self.about.is_batch {
            self.take_from_aside();
            self.copy(Hit { entry, slot }, id);
            return Ok(None);
        }
        self.count(Outcome::Succeeded);
        self.tell();
        self.writer.keep(entry, slot);
        self.is_closed = true;
        Ok(Some(self.leave()))
    }

    pub(super) fn close(&mut self) -> std::io::Result<TaskPoll> {
        if self.about.is_batch && self.answered > 0 {
            self.out.push(b']');
        }
        self.out.push(b'\n');
        self.send(true)?;
        self.is_closed = true;
        Ok(self.leave())
    }

    pub(super) fn leave(&mut self) -> TaskPoll {
        if self.writer.flush() { TaskPoll::Done } else { TaskPoll::Wait }
    }
}

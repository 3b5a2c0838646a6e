//! What a task has written on its way out: sent piece by piece, or collected whole for the cache.
//!
//! Bounds: a piece is of about [`RESULT_CHUNK_BYTES`]; those of [`crate::held`] for what is collected.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.
//! Not here: the way to the client ([`crate::outlet`]), coding ([`crate::kept`]).

use pool::TaskPoll;

use super::CallTask;
use crate::cache_lookup::CacheHit;
use crate::cached_response::ResponseEncoder;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::memory_budget::CollectedResponse;
use crate::methods::{self, RESULT_CHUNK_BYTES};
use crate::metrics::Outcome;

impl CallTask {
    /// Whether what is written can no longer become an error.
    pub(super) fn may_send(&self) -> bool {
        self.active.as_ref().is_none_or(|current| current.starts_at.is_none())
    }

    fn send(&mut self, is_last: bool) -> std::io::Result<()> {
        self.stats.bytes += self.out.len() as u64;
        if is_last {
            if self.answered > 0 && self.overloaded == self.answered {
                self.sender.mark_overloaded();
            }
            self.log_if_slow();
        }
        self.sender.write(std::mem::take(&mut self.out), is_last)
    }

    /// Passes a piece on that is written: to what is collected for the cache, or to be sent. An answer that
    /// turns out not to be kept is sent as any other.
    pub(super) fn flush_chunk(&mut self) -> std::io::Result<()> {
        let collected = match self.builder.take() {
            Some(keeping) => keeping.collect(std::mem::take(&mut self.out)),
            None if self.out.len() <= 2 * RESULT_CHUNK_BYTES => return self.send(false),
            None => {
                let mut collected = CollectedResponse::new(
                    &self.node.response_cache.budget,
                    self.info.context.client,
                );
                collected.push(std::mem::take(&mut self.out));
                self.unsent = Some(collected);
                return Ok(());
            }
        };
        match collected {
            Ok(keeping) => self.builder = Some(keeping),
            Err((why, unsent)) => {
                self.stats.cache = why.name();
                self.unsent = Some(unsent);
                let aside = std::mem::take(&mut self.side_buffer);
                if !aside.is_empty() {
                    self.stats.bytes += aside.len() as u64;
                    self.sender.write(aside, false)?;
                }
            }
        }
        // The next piece will be as long, and a little more.
        self.out.reserve(RESULT_CHUNK_BYTES + RESULT_CHUNK_BYTES / 8);
        Ok(())
    }

    /// Sends the next piece of what is to go before `out`.
    pub(super) fn drain_collected(&mut self, mut unsent: CollectedResponse) -> std::io::Result<()> {
        if let Some(piece) = unsent.pop(RESULT_CHUNK_BYTES) {
            self.stats.bytes += piece.len() as u64;
            self.sender.write(piece.into(), false)?;
        }
        if !unsent.is_empty() {
            self.unsent = Some(unsent);
        }
        Ok(())
    }

    /// An error is not kept: who asks next may get more.
    pub(super) fn refuse(&mut self, err: &RpcError, id: &Id) {
        self.builder = None;
        self.restore_side_buffer();
        self.overloaded += usize::from(err.is_overload());
        self.out.extend(envelope::error_response(err, id, true));
        self.record_call(Outcome::Refused(err.code));
    }

    /// Puts what the batch had before before what is written, which is little.
    fn restore_side_buffer(&mut self) {
        if !self.side_buffer.is_empty() {
            let written = std::mem::replace(&mut self.out, std::mem::take(&mut self.side_buffer));
            self.out.extend(written);
        }
    }

    /// The result is whole. One that is kept goes on without the id.
    pub(super) fn close_response(&mut self, id: Id) {
        if let Some(keeping) = self.builder.take() {
            if !self.info.is_batch {
                self.stats.bytes += keeping.bytes() + self.out.len() as u64;
            }
            let coder = keeping.into_encoder(std::mem::take(&mut self.out));
            let coder = coder.unwrap_or_else(|err| panic!("compress an answer: {err}"));
            self.encoder = Some((coder, id));
            return;
        }
        methods::close_response(&mut self.out, &id);
        self.record_call(Outcome::Succeeded);
    }

    /// Codes a piece of what is kept, and sends it when that was the last; of a batch it is then copied out.
    pub(super) fn encode_chunk(
        &mut self,
        (mut coder, id): (ResponseEncoder, Id),
    ) -> std::io::Result<Option<TaskPoll>> {
        if coder.encode_chunk()? {
            self.encoder = Some((coder, id));
            return Ok(None);
        }
        let (entry, slot) = coder.finish();
        if self.info.is_batch {
            self.restore_side_buffer();
            self.start_copy(CacheHit { entry, slot }, id);
            return Ok(None);
        }
        self.record_call(Outcome::Succeeded);
        self.log_if_slow();
        self.sender.send_cached(entry, slot);
        self.is_closed = true;
        Ok(Some(self.finish()))
    }

    pub(super) fn close(&mut self) -> std::io::Result<TaskPoll> {
        if self.info.is_batch && self.answered > 0 {
            self.out.push(b']');
        }
        self.out.push(b'\n');
        self.send(true)?;
        self.is_closed = true;
        Ok(self.finish())
    }

    pub(super) fn finish(&mut self) -> TaskPoll {
        if self.sender.flush() { TaskPoll::Done } else { TaskPoll::Wait }
    }
}

//! Sends a task's output in chunks, or collects it for the cache.
//!
//! Bounds: a chunk has about [`RESULT_CHUNK_BYTES`]; a collected response has the limits of
//! [`response_cache`].
//! Invariant: a response is sent only after its last fallible step has succeeded.
//! Not here: the channel to the client (`response_channel`), encoding ([`response_cache`]).

use cpu_pool::TaskPoll;
use response_cache::{
    CacheHit, CollectedResponse, RESULT_CHUNK_BYTES, ResponseEncoder, ResultContext,
};

use super::CallTask;
use crate::api::Api;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::metrics::Outcome;

impl<A: Api> CallTask<A> {
    /// Whether the written bytes can no longer be replaced by an error.
    pub(super) fn may_send(&self) -> bool {
        self.active.as_ref().is_none_or(|active| active.starts_at.is_none())
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

    /// Collects the written chunk for the cache, or sends it. A response that turns out not to be cacheable is
    /// sent as any other.
    pub(super) fn flush_chunk(&mut self) -> std::io::Result<()> {
        let collected = match self.builder.take() {
            Some(builder) => builder.collect(std::mem::take(&mut self.out)),
            None if self.out.len() <= 2 * RESULT_CHUNK_BYTES => return self.send(false),
            None => {
                let mut collected =
                    self.server.context.response_cache.collect(self.info.context.client);
                collected.push(std::mem::take(&mut self.out));
                self.unsent = Some(collected);
                return Ok(());
            }
        };
        match collected {
            Ok(builder) => self.builder = Some(builder),
            Err((why, unsent)) => {
                self.stats.cache = why.name();
                self.unsent = Some(unsent);
                let mut before = std::mem::take(&mut self.side_buffer);
                if !self.sender.is_value_only() {
                    envelope::write_before_value(&mut before, self.context);
                    self.stats.bytes += before.len() as u64;
                    self.sender.write(before, false)?;
                }
            }
        }
        // The next chunk will be about as long.
        self.out.reserve(RESULT_CHUNK_BYTES + RESULT_CHUNK_BYTES / 8);
        Ok(())
    }

    /// Sends the next chunk of the text before `out`.
    pub(super) fn drain_collected(&mut self, mut unsent: CollectedResponse) -> std::io::Result<()> {
        if let Some(chunk) = unsent.pop(RESULT_CHUNK_BYTES) {
            self.stats.bytes += chunk.len() as u64;
            self.sender.write(chunk.into(), false)?;
        }
        if !unsent.is_empty() {
            self.unsent = Some(unsent);
        }
        Ok(())
    }

    /// Writes what precedes a value, unless the value is collected for the cache or sent alone.
    pub(super) fn start_value(&mut self, context: Option<ResultContext>) {
        self.context = context;
        if !self.info.is_batch {
            self.sender.set_context(context);
        }
        if !self.sender.is_value_only() && self.builder.is_none() {
            envelope::write_before_value(&mut self.out, context);
        }
    }

    /// Writes an error. Errors are not cached: the next request may succeed.
    pub(super) fn refuse(&mut self, err: &RpcError, id: &Id) {
        self.write_error(err, id, true);
    }

    /// Writes an error as a response without `"jsonrpc":"2.0"`.
    pub(super) fn refuse_unversioned(&mut self, err: &RpcError, id: &Id) {
        self.write_error(err, id, false);
    }

    fn write_error(&mut self, err: &RpcError, id: &Id, versioned: bool) {
        self.builder = None;
        self.restore_side_buffer();
        self.overloaded += usize::from(err.is_overload());
        if self.sender.is_value_only() {
            self.sender.refuse(err.clone());
        } else {
            self.out.extend(envelope::error_response(err, id, versioned));
        }
        self.record_call(Outcome::Refused(err.code));
    }

    /// Puts the side buffer before `out`, which is short at this point.
    fn restore_side_buffer(&mut self) {
        if !self.side_buffer.is_empty() {
            let written = std::mem::replace(&mut self.out, std::mem::take(&mut self.side_buffer));
            self.out.extend(written);
        }
    }

    /// Closes the response to a complete value. For the cache the value is encoded alone.
    pub(super) fn close_response(&mut self, id: Id) {
        if let Some(builder) = self.builder.take() {
            if !self.info.is_batch {
                self.stats.bytes += builder.bytes() + self.out.len() as u64;
            }
            let encoder = builder.into_encoder(self.context, std::mem::take(&mut self.out));
            match encoder {
                Ok(encoder) => self.encoder = Some((encoder, id)),
                Err(err) => self.failure = Some(err.into()),
            }
            return;
        }
        if !self.sender.is_value_only() {
            envelope::write_after_value(&mut self.out, self.context, &id);
        }
        self.record_call(Outcome::Succeeded);
    }

    /// Encodes a chunk of a collected response. After the last one the response is sent, or copied into its
    /// batch.
    pub(super) fn encode_chunk(
        &mut self,
        (mut encoder, id): (ResponseEncoder, Id),
    ) -> std::io::Result<Option<TaskPoll>> {
        if encoder.encode_chunk()? {
            self.encoder = Some((encoder, id));
            return Ok(None);
        }
        let (entry, slot) = encoder.finish();
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
        if !self.sender.is_value_only() {
            self.out.push(b'\n');
        }
        self.send(true)?;
        self.is_closed = true;
        Ok(self.finish())
    }

    pub(super) fn finish(&mut self) -> TaskPoll {
        if self.sender.flush() { TaskPoll::Done } else { TaskPoll::Wait }
    }
}

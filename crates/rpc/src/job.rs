//! The calls of a body as a task of the CPU pool: methods run and answers are written, slice by slice.
//!
//! Calls run one after another, so that a body is one task however long its batch is, and what it
//! holds is what one call holds.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pool::{Ended, Slice, Step, Task};

use crate::dispatch::Asker;
use crate::envelope::{self, Id};
use crate::error::RpcError;
use crate::kept::{Coder, Keeping};
use crate::methods::{self, Form, Method, PIECE_BYTES, Pieces, Progress};
use crate::node::Node;
use crate::outlet::{Taker, Writer, outlet};
use crate::params::Params;

/// A call that owns what it needs.
pub(crate) enum OwnedCall {
    /// The reply is there already.
    Answered(Vec<u8>),
    /// To be run.
    Run { id: Id, method: &'static Method, params: Option<Box<str>> },
}

impl OwnedCall {
    pub(crate) fn run(id: Id, method: &'static Method, params: Params<'_>) -> Self {
        Self::Run { id, method, params: params.text().map(Box::from) }
    }
}

/// The calls of one body on their way.
pub(crate) struct Job {
    node: Arc<Node>,
    calls: std::vec::IntoIter<OwnedCall>,
    /// What the answers are joined with.
    is_batch: bool,
    answered: usize,
    /// Written and not sent yet.
    out: Vec<u8>,
    current: Option<Current>,
    writer: Writer,
    /// Everything is written, if not sent.
    is_closed: bool,
    /// The answer is collected for the cache instead of sent piece by piece.
    keeping: Option<Keeping>,
    /// It is collected, and being coded.
    coder: Option<Coder>,
}

/// A call whose answer is being made.
struct Current {
    id: Id,
    name: &'static str,
    pieces: Box<dyn Pieces>,
    /// Where in `out` the reply begins as long as nothing of the result is there.
    begins_at: Option<usize>,
}

impl Job {
    pub(crate) fn new(
        node: Arc<Node>,
        calls: Vec<OwnedCall>,
        is_batch: bool,
        asker: Asker,
    ) -> (Self, Taker) {
        let (writer, taker) = outlet(asker.coding, asker.want);
        let calls = calls.into_iter();
        let (out, current) = (Vec::new(), None);
        let (answered, is_closed, keeping, coder) = (0, false, None, None);
        let job = Self {
            node,
            calls,
            is_batch,
            answered,
            out,
            current,
            writer,
            is_closed,
            keeping,
            coder,
        };
        (job, taker)
    }

    /// The same for a single call whose answer is to be kept.
    pub(crate) fn keep(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    /// Works on until the slice is over; whether there is more.
    fn work(&mut self, slice: &Slice<'_>) -> std::io::Result<Step> {
        if !self.writer.has_room() {
            return Ok(Step::Wait);
        }
        loop {
            if self.out.len() >= self.piece_bytes() && self.may_send() {
                if let Some(keeping) = self.keeping.take() {
                    keeping.give_up();
                }
                self.writer.write(std::mem::take(&mut self.out), false)?;
                if !self.writer.has_room() {
                    return Ok(Step::Wait);
                }
            }
            if slice.is_cancelled() {
                return Ok(Step::More);
            }
            if let Some(coder) = self.coder.take() {
                if let Some(step) = self.code(coder)? {
                    return Ok(step);
                }
            } else if let Some(current) = self.current.take() {
                self.go_on(current, slice);
            } else if let Some(call) = self.calls.next() {
                self.begin(call);
            } else {
                return self.close();
            }
            if slice.is_over() {
                return Ok(Step::More);
            }
        }
    }

    /// After so many bytes they are sent: an answer that is kept goes when it is whole, one that is too
    /// large for it as any other.
    fn piece_bytes(&self) -> usize {
        self.keeping.as_ref().map_or(PIECE_BYTES, |keeping| keeping.bytes_max().max(PIECE_BYTES))
    }

    /// Whether what is written can no longer become an error.
    fn may_send(&self) -> bool {
        self.current.as_ref().is_none_or(|current| current.begins_at.is_none())
    }

    fn begin(&mut self, call: OwnedCall) {
        if self.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        let (id, method, params) = match call {
            OwnedCall::Answered(text) => return self.out.extend(text),
            OwnedCall::Run { id, method, params } => (id, method, params),
        };
        let begins_at = Some(self.out.len());
        let params = Params::new(params.as_deref());
        match guarded(method.name, || (method.run)(&self.node, params)).flatten() {
            Err(err) => self.refuse(&err, &id),
            Ok(answer) => match answer.into_form() {
                Form::Whole(bytes) => {
                    // Nearly every body is one call, whose answer is then not copied.
                    if self.out.is_empty() {
                        self.out = bytes;
                    } else {
                        self.out.extend(bytes);
                    }
                    self.close_reply(&id);
                }
                Form::InPieces(pieces) => {
                    self.out.extend_from_slice(methods::PREFIX);
                    self.current = Some(Current { id, name: method.name, pieces, begins_at });
                }
            },
        }
    }

    fn go_on(&mut self, mut current: Current, slice: &Slice<'_>) {
        let before = self.out.len();
        let wrote = guarded(current.name, || current.pieces.write(slice, &mut self.out)).flatten();
        if self.out.len() > before {
            current.begins_at = if wrote.is_ok() { None } else { current.begins_at };
        }
        match (wrote, current.begins_at) {
            (Ok(Progress::More), _) => self.current = Some(current),
            (Ok(Progress::Done), _) => self.close_reply(&current.id),
            (Err(err), Some(begins_at)) => {
                self.out.truncate(begins_at);
                self.refuse(&err, &current.id);
            }
            // Part of it may be gone already: the pool ends the task, and with it the connection.
            (Err(err), None) => panic!("an answer failed after it had begun: {err}"),
        }
    }

    /// An error is not kept: who asks next may get more.
    fn refuse(&mut self, err: &RpcError, id: &Id) {
        self.keeping = None;
        self.out.extend(envelope::error_reply(err, id, true));
    }

    /// The result is whole. One that is kept goes on without the id.
    fn close_reply(&mut self, id: &Id) {
        if let Some(keeping) = self.keeping.take() {
            let coder = keeping.code(std::mem::take(&mut self.out));
            self.coder = Some(coder.unwrap_or_else(|err| panic!("compress an answer: {err}")));
            return;
        }
        methods::close_reply(&mut self.out, id);
    }

    /// Codes a piece of what is kept, and sends it when that was the last.
    fn code(&mut self, mut coder: Coder) -> std::io::Result<Option<Step>> {
        if coder.step()? {
            self.coder = Some(coder);
            return Ok(None);
        }
        let (entry, slot) = coder.done();
        self.writer.keep(entry, slot);
        self.is_closed = true;
        Ok(Some(self.leave()))
    }

    fn close(&mut self) -> std::io::Result<Step> {
        if self.is_batch && self.answered > 0 {
            self.out.push(b']');
        }
        self.out.push(b'\n');
        self.writer.write(std::mem::take(&mut self.out), true)?;
        self.is_closed = true;
        Ok(self.leave())
    }

    fn leave(&mut self) -> Step {
        if self.writer.flush() { Step::Done } else { Step::Wait }
    }
}

impl Task for Job {
    fn step(&mut self, slice: &Slice<'_>) -> Step {
        if self.is_closed {
            return self.leave();
        }
        self.work(slice).unwrap_or_else(|err| panic!("compress an answer: {err}"))
    }

    fn ended(&mut self, why: Ended) {
        self.writer.end(why);
    }
}

/// Runs a method's code; a panic in it is the answer to this call and nothing more.
pub(crate) fn guarded<T>(name: &str, run: impl FnOnce() -> T) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(method = name, "a method panicked; its request got -32603");
        RpcError::internal()
    })
}

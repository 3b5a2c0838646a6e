//! The calls of a body as a task of the CPU pool: methods run and answers are written, slice by slice.
//!
//! Calls run one after another, so that a body is one task however long its batch is, and what it
//! holds is what one call holds.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pool::{Ended, Slice, Step, Task};

use crate::compress::Coding;
use crate::envelope::{self, Id};
use crate::error::RpcError;
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
        coding: Coding,
    ) -> (Self, Taker) {
        let (writer, taker) = outlet(coding);
        let calls = calls.into_iter();
        let (out, current) = (Vec::new(), None);
        let job =
            Self { node, calls, is_batch, answered: 0, out, current, writer, is_closed: false };
        (job, taker)
    }

    /// Works on until the slice is over; whether there is more.
    fn work(&mut self, slice: &Slice<'_>) -> std::io::Result<Step> {
        if !self.writer.has_room() {
            return Ok(Step::Wait);
        }
        loop {
            if self.out.len() >= PIECE_BYTES && self.may_send() {
                self.writer.write(std::mem::take(&mut self.out), false)?;
                if !self.writer.has_room() {
                    return Ok(Step::Wait);
                }
            }
            if slice.is_cancelled() {
                return Ok(Step::More);
            }
            match self.current.take() {
                Some(current) => self.go_on(current, slice),
                None => match self.calls.next() {
                    Some(call) => self.begin(call),
                    None => return self.close(),
                },
            }
            if slice.is_over() {
                return Ok(Step::More);
            }
        }
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
            Err(err) => self.out.extend(envelope::error_reply(&err, &id, true)),
            Ok(answer) => match answer.into_form() {
                Form::Whole(bytes) => {
                    // Nearly every body is one call, whose answer is then not copied.
                    if self.out.is_empty() {
                        self.out = bytes;
                    } else {
                        self.out.extend(bytes);
                    }
                    methods::close_reply(&mut self.out, &id);
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
            (Ok(Progress::Done), _) => methods::close_reply(&mut self.out, &current.id),
            (Err(err), Some(begins_at)) => {
                self.out.truncate(begins_at);
                self.out.extend(envelope::error_reply(&err, &current.id, true));
            }
            // Part of it may be gone already: the pool ends the task, and with it the connection.
            (Err(err), None) => panic!("an answer failed after it had begun: {err}"),
        }
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

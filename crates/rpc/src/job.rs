//! The calls of a body as a task of the CPU pool: methods run and answers are written, slice by slice.
//!
//! Calls run one after another, so that a body is one task however long its batch is, and what it
//! holds is what one call holds.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pool::{Class as PoolClass, Ended, Slice, Step, Task};

use crate::dispatch::Asker;
use crate::envelope::{self, Id};
use crate::error::{OVERLOADED, RpcError};
use crate::kept::{Coder, Keeping};
use crate::methods::{self, Form, Named, PIECE_BYTES, Pieces, Progress};
use crate::metrics::{Lane, Made, Outcome, Slow, Subject};
use crate::node::Node;
use crate::outlet::{Taker, Writer, outlet};
use crate::params::Params;
use crate::request_id::RequestId;
use crate::stamp::Stamper;

/// An answer that is collected to be kept is long from here on.
const COLLECTED_BYTES_LONG: usize = 1024 * 1024;

/// A call that owns what it needs.
pub(crate) enum OwnedCall {
    /// The reply is there already.
    Answered { text: Vec<u8>, subject: Subject, outcome: Outcome },
    /// To be run.
    Run { id: Id, method: Named, params: Option<Box<str>> },
}

/// What a body is, beside its calls.
#[derive(Clone, Copy)]
pub(crate) struct About {
    pub(crate) asker: Asker,
    pub(crate) class: PoolClass,
    /// What came of looking into the cache, for the log.
    pub(crate) cache: &'static str,
    /// Whether answers are in an array.
    pub(crate) is_batch: bool,
}

impl OwnedCall {
    pub(crate) fn run(id: Id, method: Named, params: Params<'_>) -> Self {
        Self::Run { id, method, params: params.text().map(Box::from) }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Answered { subject, .. } => *subject,
            Self::Run { method, .. } => method.subject(),
        }
    }
}

/// The calls of one body on their way.
pub(crate) struct Job {
    node: Arc<Node>,
    about: About,
    calls: std::vec::IntoIter<OwnedCall>,
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
    /// What names the answer if it is long.
    stamper: Option<Stamper>,
    /// What the call is of whose answer is being made.
    subject: Option<Subject>,
    /// Of the call that was begun last.
    params: Option<Box<str>>,
    made: Made,
    slice_began: Duration,
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
    pub(crate) fn new(node: Arc<Node>, about: About, calls: Vec<OwnedCall>) -> (Self, Taker) {
        let asker = &about.asker;
        let (writer, taker) = outlet(asker.coding, asker.want, asker.request);
        let calls = calls.into_iter();
        let (out, current) = (Vec::new(), None);
        let (answered, is_closed, keeping, coder) = (0, false, None, None);
        let job = Self {
            node,
            about,
            calls,
            answered,
            out,
            current,
            writer,
            is_closed,
            keeping,
            coder,
            stamper: None,
            subject: None,
            params: None,
            made: Made { cache: about.cache, ..Made::default() },
            slice_began: Duration::ZERO,
        };
        (job, taker)
    }

    /// The same for a single call whose answer is to be kept.
    pub(crate) fn keep(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    /// The same for a single call whose answer is to be named though it is long.
    pub(crate) fn stamp(mut self, stamper: Option<Stamper>) -> Self {
        self.stamper = stamper;
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
                self.send(false)?;
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
            self.make_room();
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

    /// Once what is collected turns out to be long, it gets all the room that it may need: growing by
    /// halves would hold three times as much at the end. Room that is not written to is no memory.
    fn make_room(&mut self) {
        let bytes = self.piece_bytes() + PIECE_BYTES;
        let is_long = self.out.len() > COLLECTED_BYTES_LONG;
        if is_long && self.keeping.is_some() && self.out.capacity() < bytes {
            self.out.reserve_exact(bytes - self.out.len());
        }
    }

    /// Whether what is written can no longer become an error.
    fn may_send(&self) -> bool {
        self.current.as_ref().is_none_or(|current| current.begins_at.is_none())
    }

    fn send(&mut self, is_last: bool) -> std::io::Result<()> {
        self.made.bytes += self.out.len() as u64;
        if is_last {
            self.tell();
        }
        self.writer.write(std::mem::take(&mut self.out), is_last)
    }

    fn begin(&mut self, call: OwnedCall) {
        if self.about.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        let (id, method, params) = match call {
            OwnedCall::Answered { text, subject, outcome } => {
                self.subject = Some(subject);
                self.out.extend(text);
                return self.count(outcome);
            }
            OwnedCall::Run { id, method, params } => (id, method, params),
        };
        let begins_at = Some(self.out.len());
        (self.subject, self.params) = (Some(method.subject()), params);
        let params = Params::new(self.params.as_deref());
        let request = self.about.asker.request;
        let before = self.stamper.as_ref().and_then(|stamper| stamper.now(&self.node));
        let answer = guarded(method.name, request, || (method.run)(&self.node, params)).flatten();
        // The view was taken in between.
        let after = self.stamper.take().and_then(|stamper| stamper.now(&self.node));
        let stamps = before.zip(after).map(|((before, _), (after, _))| (before, after));
        self.writer.stamp(stamps.filter(|(before, after)| before == after).map(|(it, _)| it));
        match answer {
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
        let (before, touched) = (self.out.len(), current.pieces.touched());
        let (name, request) = (current.name, self.about.asker.request);
        let wrote = guarded(name, request, || current.pieces.write(slice, &mut self.out)).flatten();
        self.made.touched += current.pieces.touched() - touched;
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
        self.count(Outcome::Refused(err.code));
    }

    /// Counts the call whose answer was being made.
    fn count(&mut self, outcome: Outcome) {
        let Some(subject) = self.subject.take() else { return };
        let About { asker, class, .. } = &self.about;
        let took = self.node.pool.now().saturating_sub(asker.arrived);
        self.node.metrics.count(subject, Lane::Pool(*class), took, outcome);
        self.made.last = Some((subject, outcome));
    }

    /// Logs the body if its answer took too long.
    fn tell(&mut self) {
        let About { asker, class, is_batch, .. } = &self.about;
        let now = self.node.pool.now();
        let took = now.saturating_sub(asker.arrived);
        let Some((subject, outcome)) = self.made.last.filter(|_| self.node.is_slow(took)) else {
            return;
        };
        self.made.ran += now.saturating_sub(self.slice_began);
        let slow = Slow {
            asker,
            method: if *is_batch { "batch" } else { subject.name() },
            params: self.params.as_deref().filter(|_| !is_batch),
            lane: Lane::Pool(*class),
            took,
            outcome,
            made: Some(&self.made),
        };
        slow.tell(&self.node.metrics, now);
    }

    /// The result is whole. One that is kept goes on without the id.
    fn close_reply(&mut self, id: &Id) {
        if let Some(keeping) = self.keeping.take() {
            self.made.bytes += self.out.len() as u64;
            self.out.shrink_to_fit();
            let coder = keeping.code(std::mem::take(&mut self.out));
            self.coder = Some(coder.unwrap_or_else(|err| panic!("compress an answer: {err}")));
            return;
        }
        methods::close_reply(&mut self.out, id);
        self.count(Outcome::Answered);
    }

    /// Codes a piece of what is kept, and sends it when that was the last.
    fn code(&mut self, mut coder: Coder) -> std::io::Result<Option<Step>> {
        if coder.step()? {
            self.coder = Some(coder);
            return Ok(None);
        }
        let (entry, slot) = coder.done();
        self.count(Outcome::Answered);
        self.tell();
        self.writer.keep(entry, slot);
        self.is_closed = true;
        Ok(Some(self.leave()))
    }

    fn close(&mut self) -> std::io::Result<Step> {
        if self.about.is_batch && self.answered > 0 {
            self.out.push(b']');
        }
        self.out.push(b'\n');
        self.send(true)?;
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
        self.slice_began = self.node.pool.now();
        self.made.slices += 1;
        let waited = self.slice_began.saturating_sub(self.about.asker.arrived);
        self.made.waited.get_or_insert(waited);
        let step = self.work(slice).unwrap_or_else(|err| panic!("compress an answer: {err}"));
        if !self.is_closed {
            self.made.ran += self.node.pool.now().saturating_sub(self.slice_began);
        }
        step
    }

    fn ended(&mut self, why: Ended) {
        let outcome = match why {
            _ if self.made.bytes > 0 => Outcome::Cut,
            Ended::Cancelled => Outcome::Cut,
            Ended::Expired | Ended::ExpiredWaiting => Outcome::Refused(OVERLOADED),
            Ended::Panicked | Ended::ShutDown => Outcome::Refused(RpcError::internal().code),
        };
        self.slice_began = self.node.pool.now();
        self.count(outcome);
        for call in std::mem::take(&mut self.calls) {
            self.subject = Some(call.subject());
            self.count(outcome);
        }
        if !self.is_closed {
            self.tell();
        }
        self.writer.end(why);
    }
}

/// Runs a method's code; a panic in it is the answer to this call and nothing more.
pub(crate) fn guarded<T>(
    name: &str,
    request: RequestId,
    run: impl FnOnce() -> T,
) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(%request, method = name, "a method panicked; its request got -32603");
        RpcError::internal()
    })
}

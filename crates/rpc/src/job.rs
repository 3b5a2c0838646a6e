//! The calls of a body as a task of the CPU pool: methods run and answers are written, slice by slice.
//!
//! Calls run one after another, so that a body is one task however long its batch is, and what it
//! holds is what one call holds.
//! A call of a batch is looked for in the answer cache when its turn comes: what is there is copied out part by
//! part; what is not, and is worth it, is made for all, collected whole, and then copied out as well; and what
//! somebody else is making is waited for, without a place among those that the pool has begun.
//! Invariant: nothing is sent of an answer before all of it that can fail has not failed.
//! Invariant: who makes an answer for others waits for nobody, so not for his client either: nothing is sent
//! meanwhile, and what the batch had before it stands aside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use cache::{Entry, Tell, Turn};
use pool::{Class as PoolClass, Ended, Slice, Step, Task};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::asker::Asker;
use crate::cached::Asked;
use crate::compress::Coding;
use crate::envelope::{self, Id};
use crate::error::{OVERLOADED, RpcError};
use crate::held::Collected;
use crate::kept::{Coder, Copying, Keeping, Kept};
use crate::look::{self, ATTEMPTS, Hit, ToMake};
use crate::methods::{
    self, Budget, Class, Form, MethodResult, Named, PIECE_BYTES, Pieces, Progress,
};
use crate::metrics::{Lane, Made, Outcome, Slow, Subject};
use crate::node::Node;
use crate::outlet::{Taker, Writer, outlet};
use crate::params::Params;
use crate::request_id::RequestId;
use crate::stamp::Stamper;

/// A call that owns what it needs.
pub(crate) enum OwnedCall {
    /// The reply is there already.
    Answered { text: Vec<u8>, subject: Subject, outcome: Outcome },
    /// To be run.
    Run { id: Id, method: Named, params: Option<Box<str>>, way: Way },
}

/// What comes before a call is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing: it is cheap, or was looked for.
    Run,
    /// It is looked for in the cache.
    LookFirst,
    /// The one or the other, by what it costs.
    ByCost,
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
    pub(crate) fn new(id: Id, method: Named, params: Params<'_>, way: Way) -> Self {
        Self::Run { id, method, params: params.text().map(Box::from), way }
    }

    pub(crate) fn subject(&self) -> Subject {
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
    /// Calls that were refused because there is too much to do.
    overloaded: usize,
    /// Written and not sent yet.
    out: Vec<u8>,
    current: Option<Current>,
    writer: Writer,
    /// Everything is written, if not sent.
    is_closed: bool,
    /// The answer is collected for the cache instead of sent piece by piece.
    keeping: Option<Keeping>,
    /// What was written before `out` and is too much to be sent at once.
    unsent: Option<Collected>,
    /// Of a batch: what was written before the answer that is collected.
    aside: Vec<u8>,
    /// It is collected, and being coded; for the call of that id.
    coder: Option<(Coder, Id)>,
    /// What is looked for in the cache when the only call is begun.
    sought: Option<(Asked, Turn<Kept>)>,
    /// Somebody makes the answer to the call that was begun last.
    waiting: Option<Waiting>,
    /// What names the answer if it is long.
    stamper: Option<Stamper>,
    /// What the call is of whose answer is being made, and where it comes from.
    subject: Option<(Subject, Lane)>,
    /// Of the call that was begun last.
    params: Option<Box<str>>,
    made: Made,
    slice_began: Duration,
}

/// A call whose answer somebody else is making.
struct Waiting {
    id: Id,
    method: Named,
    asked: Asked,
    told: oneshot::Receiver<Option<Arc<Entry<Kept>>>>,
    /// For as long as it is to be told.
    place: cache::Waiting<Kept>,
    /// How often it may be looked for again.
    attempts: usize,
}

/// A call whose answer is being made, or copied.
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
        let (out, current, aside, waiting) = (Vec::new(), None, Vec::new(), None);
        let (answered, overloaded, is_closed, keeping, coder) = (0, 0, false, None, None);
        let unsent = None;
        let job = Self {
            node,
            about,
            calls,
            answered,
            overloaded,
            out,
            current,
            writer,
            is_closed,
            keeping,
            unsent,
            aside,
            coder,
            sought: None,
            waiting,
            stamper: None,
            subject: None,
            params: None,
            made: Made { cache: about.cache, ..Made::default() },
            slice_began: Duration::ZERO,
        };
        (job, taker)
    }

    /// The same for a single call that is looked for in the cache once its turn has come, and made for it.
    pub(crate) fn look_for_it(mut self, sought: Option<(Asked, Turn<Kept>)>) -> Self {
        self.sought = sought;
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
            if self.out.len() >= PIECE_BYTES && self.unsent.is_none() && self.may_send() {
                self.pass_on()?;
                if !self.writer.has_room() {
                    return Ok(Step::Wait);
                }
            }
            if slice.is_cancelled() {
                return Ok(Step::More);
            }
            if let Some(unsent) = self.unsent.take() {
                self.send_unsent(unsent)?;
                if !self.writer.has_room() {
                    return Ok(Step::Wait);
                }
            } else if let Some(coder) = self.coder.take() {
                if let Some(step) = self.code(coder)? {
                    return Ok(step);
                }
            } else if let Some(waiting) = self.waiting.take() {
                if let Some(step) = self.go_on_waiting(waiting) {
                    return Ok(step);
                }
            } else if let Some(current) = self.current.take() {
                self.go_on(current, slice);
            } else if let Some(call) = self.calls.next() {
                self.begin(call);
            } else {
                return self.close();
            }
            if self.is_closed {
                return Ok(self.leave());
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
    fn pass_on(&mut self) -> std::io::Result<()> {
        let collected = match self.keeping.take() {
            Some(keeping) => keeping.collect(std::mem::take(&mut self.out)),
            None if self.out.len() <= 2 * PIECE_BYTES => return self.send(false),
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
        self.out.reserve(PIECE_BYTES + PIECE_BYTES / 8);
        Ok(())
    }

    /// Sends the next piece of what is to go before `out`.
    fn send_unsent(&mut self, mut unsent: Collected) -> std::io::Result<()> {
        if let Some(piece) = unsent.pop(PIECE_BYTES) {
            self.made.bytes += piece.len() as u64;
            self.writer.write(piece.into(), false)?;
        }
        if !unsent.is_empty() {
            self.unsent = Some(unsent);
        }
        Ok(())
    }

    fn begin(&mut self, call: OwnedCall) {
        if self.about.is_batch {
            self.out.push(if self.answered == 0 { b'[' } else { b',' });
        }
        self.answered += 1;
        let (id, method, params, way) = match call {
            OwnedCall::Answered { text, subject, outcome } => {
                self.subject = Some((subject, self.lane()));
                self.out.extend(text);
                return self.count(outcome);
            }
            OwnedCall::Run { id, method, params, way } => (id, method, params, way),
        };
        (self.subject, self.params) = (Some((method.subject(), self.lane())), params);
        if let Some((asked, turn)) = self.sought.take() {
            return self.look_for(asked, Some(turn), (id, method), ATTEMPTS);
        }
        match way {
            Way::Run => self.run(id, method),
            Way::LookFirst => self.look(id, method),
            Way::ByCost => match self.run_if_cheap(method) {
                Some(answer) => self.take(answer, id, method),
                None => self.look(id, method),
            },
        }
    }

    fn lane(&self) -> Lane {
        Lane::Pool(self.about.class)
    }

    /// The answer to a call that would not come to the pool if it were alone: of others none is made.
    fn run_if_cheap(&self, method: Named) -> Option<MethodResult> {
        let params = Params::new(self.params.as_deref());
        let mut budget = Budget::new(&self.node);
        let run = || match method.class {
            Class::Inline => Some((method.run)(&self.node, params)),
            Class::Light | Class::Medium => None,
            Class::By(class) => match class(&self.node, params, &mut budget) {
                None => Some((method.run)(&self.node, params)),
                Some(_) => None,
            },
            Class::Try(run) => run(&self.node, params, &mut budget).ok(),
        };
        guarded(method.name, self.about.asker.request, run).unwrap_or_else(|err| Some(Err(err)))
    }

    /// Answers a call of a batch from the cache, or for it.
    fn look(&mut self, id: Id, method: Named) {
        let params = Params::new(self.params.as_deref());
        let look = || match look::known(&self.node, Coding::Plain, &method, params) {
            Some(hit) => Err(hit),
            None => Ok(look::kept_call(&self.node, Coding::Plain, &method, params)),
        };
        match guarded(method.name, self.about.asker.request, look) {
            Err(err) => self.refuse(&err, &id),
            Ok(Err(hit)) => {
                look::count_known(&self.node);
                self.copy_hit(hit, id);
            }
            Ok(Ok(None)) => self.run(id, method),
            Ok(Ok(Some(asked))) => self.look_for(asked, None, (id, method), ATTEMPTS),
        }
    }

    /// A batch is compressed as a whole, so of its calls the plain answers are kept.
    fn coding(&self) -> Coding {
        if self.about.is_batch { Coding::Plain } else { self.about.asker.coding }
    }

    fn look_for(
        &mut self,
        asked: Asked,
        turn: Option<Turn<Kept>>,
        (id, method): (Id, Named),
        attempts: usize,
    ) {
        let (sender, told) = oneshot::channel();
        let waker = self.writer.waker();
        let tell = || -> Option<Tell<Kept>> {
            let waker = waker.clone();
            (attempts > 0).then(|| -> Tell<Kept> {
                Box::new(move |entry| {
                    // Who waited may have gone.
                    let _ = sender.send(entry);
                    waker.wake();
                })
            })
        };
        let call = (self.coding(), &*method, Params::new(self.params.as_deref()));
        let client = self.about.asker.client;
        match look::look_to_make(&self.node, (&asked, turn), call, client, tell) {
            ToMake::Hit(hit) => self.copy_hit(hit, id),
            ToMake::Make(keeping) => {
                self.made.cache = "made";
                self.aside = std::mem::take(&mut self.out);
                self.keeping = Some(keeping);
                self.run(id, method);
            }
            ToMake::Wait(place) => {
                let attempts = attempts - 1; // who has none does not wait
                self.waiting = Some(Waiting { id, method, asked, told, place, attempts });
            }
            ToMake::Alone(why) => {
                self.made.cache = why;
                self.run(id, method);
            }
        }
    }

    /// Looks whether somebody told the answer that is waited for.
    fn go_on_waiting(&mut self, mut waiting: Waiting) -> Option<Step> {
        // Asked before: what is told after it wakes.
        let can_be_woken = self.writer.waker().is_there();
        let told = match waiting.told.try_recv() {
            Err(TryRecvError::Empty) => {
                self.waiting = Some(waiting);
                return Some(if can_be_woken { Step::Wait } else { Step::More });
            }
            told => told.ok().flatten(),
        };
        let Waiting { id, method, asked, attempts, place, .. } = waiting;
        drop(place);
        match told.and_then(|entry| look::still_good(&self.node, &asked, entry)) {
            Some(hit) if hit.entry.answer.is_some() => self.copy_hit(hit, id),
            _ => self.look_for(asked, None, (id, method), attempts),
        }
        None
    }

    fn copy_hit(&mut self, hit: Hit, id: Id) {
        if let Some((_, lane)) = &mut self.subject {
            *lane = Lane::Cached;
        }
        if self.made.cache == "none" {
            self.made.cache = "hit";
        }
        if self.about.is_batch {
            return self.copy(hit, id);
        }
        self.count(Outcome::Answered);
        self.tell();
        self.writer.keep(hit.entry, hit.slot);
        self.is_closed = true;
    }

    /// Begins to copy a kept answer out.
    fn copy(&mut self, Hit { entry, slot }: Hit, id: Id) {
        let name = self.subject.map_or("", |(subject, _)| subject.name());
        match Copying::begin(entry, slot, &mut self.out) {
            Some(copying) => {
                let pieces = Box::new(copying);
                self.current = Some(Current { id, name, pieces, begins_at: None });
            }
            None => self.refuse(&RpcError::internal(), &id),
        }
    }

    fn run(&mut self, id: Id, method: Named) {
        let params = Params::new(self.params.as_deref());
        let request = self.about.asker.request;
        let before = self.stamper.as_ref().and_then(|stamper| stamper.now(&self.node));
        let answer = guarded(method.name, request, || (method.run)(&self.node, params)).flatten();
        // The view was taken in between.
        let after = self.stamper.take().and_then(|stamper| stamper.now(&self.node));
        let stamps = before.zip(after).map(|((before, _), (after, _))| (before, after));
        self.writer.stamp(stamps.filter(|(before, after)| before == after).map(|(it, _)| it));
        self.take(answer, id, method);
    }

    /// Takes what a method gave.
    fn take(&mut self, answer: MethodResult, id: Id, method: Named) {
        match answer.map(methods::Answer::into_form) {
            Err(err) => self.refuse(&err, &id),
            Ok(Form::Whole(bytes)) => {
                // Nearly every body is one call, whose answer is then not copied.
                if self.out.is_empty() {
                    self.out = bytes;
                } else {
                    self.out.extend(bytes);
                }
                self.close_reply(id);
            }
            Ok(Form::InPieces(pieces)) => {
                let begins_at = Some(self.out.len());
                self.out.extend_from_slice(methods::PREFIX);
                self.current = Some(Current { id, name: method.name, pieces, begins_at });
            }
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
            (Ok(Progress::Done), _) => self.close_reply(current.id),
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

    /// Counts the call whose answer was being made.
    fn count(&mut self, outcome: Outcome) {
        let Some((subject, lane)) = self.subject.take() else { return };
        let took = self.node.pool.now().saturating_sub(self.about.asker.arrived);
        self.node.metrics.count(subject, lane, took, outcome);
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
    fn close_reply(&mut self, id: Id) {
        if let Some(keeping) = self.keeping.take() {
            if !self.about.is_batch {
                self.made.bytes += keeping.bytes() + self.out.len() as u64;
            }
            let coder = keeping.code(std::mem::take(&mut self.out));
            let coder = coder.unwrap_or_else(|err| panic!("compress an answer: {err}"));
            self.coder = Some((coder, id));
            return;
        }
        methods::close_reply(&mut self.out, &id);
        self.count(Outcome::Answered);
    }

    /// Codes a piece of what is kept, and sends it when that was the last; of a batch it is then copied out.
    fn code(&mut self, (mut coder, id): (Coder, Id)) -> std::io::Result<Option<Step>> {
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
        let lane = self.lane();
        for call in std::mem::take(&mut self.calls) {
            self.subject = Some((call.subject(), lane));
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

//! The work that one poll of a connection's task may do before it yields.
//!
//! Shape: a counter of work units for each thread. [`Budgeted`] wraps the task of a connection and resets the
//! counter before each poll. Code that works on a polling thread calls [`charge`]: it adds bytes that were
//! read, parsed, encoded, copied or written. The socket and the HTTP service check [`is_spent`] before each
//! step, and yield (`yield_queue`) when the budget is spent.
//! Bounds: a poll starts no request and no read after [`UNITS`] units, and it writes at most what is left of them. The
//! yield queue may grant it [`GRANT_UNITS`] more of writing, once. One step is bounded by the limits of `Config`.
//! Invariant: with debug assertions a poll panics if it did more than [`UNITS_MAX`], granted writes apart, or if it
//! wrote more than [`WRITTEN_MAX`]. Each test that serves clients checks this, in bytes and not in time. Outside of a
//! [`Budgeted`] task nothing is counted.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A unit is about the cost of copying one byte to a socket. The budget of a poll is some 50 microseconds.
pub const UNITS: usize = 64 * 1024;

/// What a poll may write in addition if the yield queue lets it: a megabyte, some 200 microseconds. A large response in
/// smaller parts would wake its reader, and switch between tasks, once for each part.
pub const GRANT_UNITS: usize = 1024 * 1024;

/// No poll does more besides what it was granted. The worst one reads 64 KiB just before its budget is spent, then
/// parses a head of 32 KiB (the most that `rpc.head_bytes_max` can be) and a body of 8 KiB, and encodes a response of
/// some 100 KB.
pub const UNITS_MAX: usize = 448 * 1024;

/// No poll writes more bytes to its socket.
pub const WRITTEN_MAX: usize = UNITS + GRANT_UNITS;

/// The fixed cost of a request: reading headers, counting it, and writing the head of its response.
pub const REQUEST_UNITS: usize = 4 * 1024;

/// A byte that is parsed costs as much as four that are copied.
pub const PARSE_UNITS: usize = 4;

/// The units of the current poll.
#[derive(Clone, Copy, Default)]
struct Meter {
    /// Work, granted writes apart.
    spent: usize,
    /// Unwritten units of the current grant. `None` without a grant.
    granted: Option<usize>,
    /// Bytes written to the socket, granted or not.
    written: usize,
}

thread_local! {
    /// None outside of the poll of a [`Budgeted`] task.
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Adds work to the current poll.
pub fn charge(units: usize) {
    if let Some(meter) = METER.get() {
        METER.set(Some(Meter { spent: meter.spent.saturating_add(units), ..meter }));
    }
}

/// Adds the work of parsing `bytes` bytes to the current poll.
pub fn charge_parsed(bytes: usize) {
    charge(bytes.saturating_mul(PARSE_UNITS));
}

/// Whether the current poll must not start another step.
pub fn is_spent() -> bool {
    METER.get().is_some_and(|meter| meter.spent >= UNITS)
}

/// Adds bytes that were written to the current poll. They use up its grant first.
pub fn charge_written(bytes: usize) {
    if let Some(meter) = METER.get() {
        let of_grant = bytes.min(meter.granted.unwrap_or_default());
        let granted = meter.granted.map(|left| left - of_grant);
        METER.set(Some(Meter { granted, written: meter.written + bytes, ..meter }));
        charge(bytes - of_grant);
    }
}

/// Returns the number of bytes that the current poll may still write.
pub fn write_left() -> usize {
    METER.get().map_or(usize::MAX, |meter| {
        meter.granted.unwrap_or_default() + UNITS.saturating_sub(meter.spent)
    })
}

/// Lets the current poll write [`GRANT_UNITS`] more, unless it was granted that before. Returns whether it does.
pub fn grant() -> bool {
    let Some(meter) = METER.get() else { return true };
    if meter.granted.is_some() {
        return false;
    }
    METER.set(Some(Meter { granted: Some(GRANT_UNITS), ..meter }));
    true
}

/// Whether the yield queue let the current poll write on. A poll that is not counted needs no grant.
pub fn is_granted() -> bool {
    METER.get().is_none_or(|meter| meter.granted.is_some())
}

/// A task whose polls are counted.
pub struct Budgeted<F>(Pin<Box<F>>);

impl<F: Future> Budgeted<F> {
    /// Counts the polls of `task`.
    pub fn new(task: F) -> Self {
        Self(Box::pin(task))
    }
}

impl<F: Future> Future for Budgeted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if METER.get().is_some() {
            // It is a part of a task that is counted as a whole.
            return self.0.as_mut().poll(cx);
        }
        let metered = Metered::start();
        let polled = self.0.as_mut().poll(cx);
        let Meter { spent, written, .. } = metered.end();
        debug_assert!(
            spent <= UNITS_MAX,
            "one poll of a connection did {spent} units of work, at most {UNITS_MAX} are allowed"
        );
        debug_assert!(
            written <= WRITTEN_MAX,
            "one poll of a connection wrote {written} bytes, at most {WRITTEN_MAX} are allowed"
        );
        polled
    }
}

/// A poll that is counted. The count ends with it also if the poll panics.
struct Metered;

impl Metered {
    fn start() -> Self {
        METER.set(Some(Meter::default()));
        Self
    }

    fn end(self) -> Meter {
        METER.get().unwrap_or_default()
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        METER.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Returns the panic message of a poll that runs `work`.
    #[cfg(debug_assertions)]
    fn panic_of(work: impl Fn()) -> String {
        let mut task = Budgeted::new(poll_fn(|_| {
            work();
            Poll::Ready(())
        }));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let poll = AssertUnwindSafe(|| Pin::new(&mut task).poll(&mut cx));
        let panicked = catch_unwind(poll).expect_err("it does too much");
        match panicked.downcast_ref::<String>() {
            Some(message) => message.clone(),
            None => panicked.downcast_ref::<&str>().expect("a message").to_string(),
        }
    }

    /// Polls a task once that does `units` of work.
    fn poll_once(units: usize) -> (bool, usize) {
        let task = poll_fn(|_| {
            charge(units);
            Poll::Ready((is_spent(), write_left()))
        });
        let mut task = Budgeted::new(task);
        match Pin::new(&mut task).poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(state) => state,
            Poll::Pending => unreachable!("it is ready at once"),
        }
    }

    #[test]
    fn a_poll_has_a_budget_and_the_next_one_a_new_one() {
        assert_eq!(poll_once(UNITS - 1), (false, 1));
        assert_eq!(poll_once(UNITS), (true, 0));
        assert_eq!(poll_once(0), (false, UNITS));
        charge(10 * UNITS_MAX);
        assert!(!is_spent(), "nothing is counted outside of a task");
        assert_eq!(write_left(), usize::MAX);
    }

    #[test]
    fn a_grant_is_for_writing_only_and_for_one_poll() {
        let mut task = Budgeted::new(poll_fn(|_| {
            assert!(!is_granted());
            charge(UNITS - 10);
            assert!(grant());
            assert!(is_granted() && !grant());
            assert_eq!(write_left(), GRANT_UNITS + 10);
            charge_written(GRANT_UNITS);
            assert!(is_granted() && !is_spent(), "granted writes are not work of the poll");
            assert_eq!(write_left(), 10);
            charge_written(10);
            assert!(is_spent());
            Poll::Ready(())
        }));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut task).poll(&mut cx).is_ready());
        assert_eq!(poll_once(0), (false, UNITS));
    }

    #[test]
    fn a_part_of_a_task_is_counted_with_the_whole() {
        let part = Budgeted::new(poll_fn(|_| {
            charge(UNITS);
            Poll::Ready(is_spent())
        }));
        let mut whole = Budgeted::new(async move {
            charge(1);
            (part.await, write_left(), is_spent())
        });
        let polled = Pin::new(&mut whole).poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert_eq!(polled, Poll::Ready((true, 0, true)));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_poll_that_does_too_much_panics_in_tests() {
        assert_eq!(poll_once(UNITS_MAX), (true, 0));
        let message = panic_of(|| charge(UNITS_MAX + 1));
        assert!(message.contains(&format!("did {} units", UNITS_MAX + 1)), "{message}");
        assert_eq!(poll_once(0), (false, UNITS), "the next task is counted by itself");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_poll_that_writes_too_much_panics_in_tests() {
        let message = panic_of(|| {
            assert!(grant() && !grant(), "a poll has one grant");
            charge_written(WRITTEN_MAX + 1);
        });
        assert!(message.contains(&format!("wrote {} bytes", WRITTEN_MAX + 1)), "{message}");
    }
}

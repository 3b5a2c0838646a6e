//! One call computes a response and others wait for it: every end that the computation may have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use cache::FillTicket;
use clients::ClientId;
use http_server::ContentEncoding;
use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record, Slot};
use query::{ChangeTracker, Ledger, LedgerConfig, Reader};

use crate::cache_fill::LookupStage;
use crate::*;

/// Bytes of the cache: a value may have 64 KiB, and 64 KiB are collected for one.
const CACHE_BYTES: u64 = 1 << 20;

/// The address that every response depends on.
const ADDRESS: [u8; 32] = [7; 32];

struct Number;

impl Record for Number {
    fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}
}

struct Versions(Reader<Number, ()>);

impl LedgerVersions for Versions {
    fn version_and_slot(&self, commitment: Commitment) -> (u64, Slot) {
        let view = self.0.view(commitment);
        (view.version(), view.block().slot)
    }

    fn change_tracker(&self) -> &Arc<ChangeTracker> {
        self.0.change_tracker()
    }
}

/// Counts how often a waiter is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A cache in front of a ledger.
struct World {
    cache: ResponseCache,
    ledger: Ledger<Number, ()>,
    versions: Versions,
    wakes: Arc<Wakes>,
}

impl World {
    fn new(cache_bytes: u64) -> Self {
        let genesis = BlockId { slot: 0, version: 0 };
        let (mut ledger, reader) = Ledger::new(LedgerConfig::new(100), genesis, Arc::new(()));
        ledger.publish();
        let cache = ResponseCache::new(cache_bytes);
        Self { cache, ledger, versions: Versions(reader), wakes: Arc::default() }
    }

    /// Writes `address` in the block of `slot`.
    fn write(&mut self, slot: Slot, address: [u8; 32]) {
        let block = BlockId { slot, version: 0 };
        let parent = BlockId { slot: slot - 1, version: 0 };
        self.ledger.open(block, parent, Arc::new(())).expect("the parent is there");
        let change = Change { address: address.into(), record: Some(Arc::new(Number)) };
        self.ledger.apply(block, vec![change], Arc::new(())).expect("the block is open");
        self.ledger.publish();
    }

    fn poll<S: LookupStage>(
        &self,
        fill: &mut CacheFill<S>,
        client: u128,
    ) -> Poll<LookupOutcome<S::Fill>> {
        let text = CallText { method: "sum", params: None, coding: ContentEncoding::Plain };
        let context = LookupContext { ledger: &self.versions, text, client: ClientId(client) };
        let waker = Waker::from(Arc::clone(&self.wakes));
        fill.poll(&self.cache, &context, &mut Context::from_waker(&waker))
    }

    /// Returns the ticket of a client that computes the response.
    fn ticket(&self, client: u128) -> FillTicket<CachedResponse> {
        match self.poll(&mut unscheduled_fill(), client) {
            Poll::Ready(LookupOutcome::Fill(ticket)) => ticket,
            _ => panic!("no other task computes it"),
        }
    }

    /// Returns the response that a running task computes for the cache.
    fn builder(&self, client: u128) -> ResponseBuilder {
        match self.poll(&mut scheduled_fill(), client) {
            Poll::Ready(LookupOutcome::Fill(builder)) => builder,
            _ => panic!("no other task computes it"),
        }
    }

    /// Returns a call without a task, and one with, that wait for a builder.
    fn waiters(&self) -> (CacheFill<Unscheduled>, CacheFill<Scheduled>) {
        let mut without_task = unscheduled_fill();
        let mut with_task = scheduled_fill();
        assert!(self.poll(&mut without_task, 2).is_pending() && without_task.has_waited());
        assert!(self.poll(&mut with_task, 3).is_pending() && with_task.has_waited());
        (without_task, with_task)
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }
}

fn call() -> CacheableCall {
    let dependencies = Dependencies::none(Commitment::Processed, None);
    let dependencies = dependencies.with_records([ADDRESS.into()]).expect("a few records");
    CacheableCall { key: (*b"sum").into(), dependencies }
}

fn unscheduled_fill() -> CacheFill<Unscheduled> {
    CacheFill::for_call(call())
}

fn scheduled_fill() -> CacheFill<Scheduled> {
    CacheFill::for_task(call(), None)
}

fn complete(builder: ResponseBuilder) {
    let mut encoder = builder.into_encoder(None, b"12".to_vec()).expect("an encoder");
    while encoder.encode_chunk().expect("it encodes") {}
    encoder.finish();
}

/// Returns the value of a hit, or why there is none.
fn value<F>(outcome: Poll<LookupOutcome<F>>) -> Result<Vec<u8>, &'static str> {
    match outcome {
        Poll::Ready(LookupOutcome::Hit(hit)) => {
            Ok(hit.entry.value.as_ref().expect("a hit has a value").value_body().concat())
        }
        Poll::Ready(LookupOutcome::Fill(_)) => Err("fill"),
        Poll::Ready(LookupOutcome::Uncached(why)) => Err(why),
        Poll::Pending => Err("pending"),
    }
}

#[test]
fn a_completed_response_wakes_its_waiters_and_is_theirs() {
    let world = World::new(CACHE_BYTES);
    let ticket = world.ticket(1);
    let mut same_client = unscheduled_fill();
    assert!(world.poll(&mut same_client, 1).is_pending(), "its client has a ticket");
    let mut task = CacheFill::for_task(call(), Some(ticket));
    let Poll::Ready(LookupOutcome::Fill(builder)) = world.poll(&mut task, 1) else {
        panic!("the ticket fills")
    };
    assert!(!task.has_waited());
    let (mut without_task, mut with_task) = world.waiters();
    assert!(world.poll(&mut with_task, 3).is_pending(), "nothing has happened");
    assert_eq!(world.wakes(), 0);
    complete(builder);
    assert_eq!(world.wakes(), 3);
    assert_eq!(value(world.poll(&mut same_client, 1)), Ok(b"12".to_vec()));
    assert_eq!(value(world.poll(&mut without_task, 2)), Ok(b"12".to_vec()));
    assert_eq!(value(world.poll(&mut with_task, 3)), Ok(b"12".to_vec()));
    let mut late = unscheduled_fill();
    assert_eq!(value(world.poll(&mut late, 4)), Ok(b"12".to_vec()));
    assert!(!late.has_waited());
    let counters = world.cache.counters();
    assert_eq!((counters.misses, counters.coalesced, counters.hits), (4, 3, 1));
    assert_eq!((counters.bypassed, counters.entries), (0, 1));
}

#[test]
fn a_response_that_is_dropped_is_computed_by_a_waiter() {
    let world = World::new(CACHE_BYTES);
    // As after an error of the method, a panic, or the end of its task.
    let builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    drop(builder);
    assert_eq!(world.wakes(), 2);
    let Poll::Ready(LookupOutcome::Fill(builder)) = world.poll(&mut with_task, 3) else {
        panic!("it computes the response now")
    };
    assert!(world.poll(&mut without_task, 2).is_pending(), "it waits for the next task");
    complete(builder);
    assert_eq!(value(world.poll(&mut without_task, 2)), Ok(b"12".to_vec()));
}

#[test]
fn a_dropped_ticket_goes_to_its_clients_waiter() {
    let world = World::new(CACHE_BYTES);
    let ticket = world.ticket(1);
    let mut waiter = unscheduled_fill();
    assert!(world.poll(&mut waiter, 1).is_pending());
    // As if its client had disconnected before the task ran.
    drop(CacheFill::for_task(call(), Some(ticket)));
    assert_eq!(world.wakes(), 1);
    assert_eq!(value(world.poll(&mut waiter, 1)), Err("fill"));
}

#[test]
fn waiters_compute_a_response_over_the_memory_budget() {
    let world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    // Responses of other clients use up the memory budget.
    let collect = |client| {
        let mut collected = world.cache.collect(ClientId(client));
        collected.push(vec![0; CACHE_BYTES as usize / 4]);
        collected
    };
    let others = collect(9);
    let Err((why, collected)) = builder.collect(vec![b'1'; 100]) else { panic!("over budget") };
    assert_eq!((why, collected.bytes()), (NotCached::OverBudget, 100));
    assert_eq!(world.wakes(), 2);
    // Without a task it stops waiting; a running task tries again, and the budget is still used up.
    assert_eq!(value(world.poll(&mut without_task, 2)), Err("bypass"));
    assert_eq!(value(world.poll(&mut with_task, 3)), Err("no room"));
    drop(others);
    assert_eq!(
        value(world.poll(&mut scheduled_fill(), 3)),
        Err("fill"),
        "the budget is free again"
    );
}

#[test]
fn a_response_that_is_too_large_is_remembered_as_such() {
    let world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    let Err((why, _)) = builder.collect(vec![b'1'; CACHE_BYTES as usize / 8]) else {
        panic!("more than an entry")
    };
    assert_eq!(why, NotCached::TooLarge);
    assert_eq!(value(world.poll(&mut without_task, 2)), Err("bypass"));
    assert_eq!(value(world.poll(&mut with_task, 3)), Err("bypass"));
    assert_eq!(value(world.poll(&mut unscheduled_fill(), 4)), Err("bypass"), "it does not wait");
}

#[test]
fn a_response_over_the_limit_with_its_overhead_is_remembered() {
    let world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    // With the two bytes of its end it has one byte less than an entry may have.
    let part = vec![b'1'; CACHE_BYTES as usize / 16 - 3];
    let Ok(builder) = builder.collect(part) else { panic!("its bytes are below the limit") };
    complete(builder);
    for waiter in [value(world.poll(&mut without_task, 2)), value(world.poll(&mut with_task, 3))] {
        assert_eq!(waiter.map(|bytes| bytes.len()), Ok(CACHE_BYTES as usize / 16 - 1));
    }
    assert_eq!(value(world.poll(&mut unscheduled_fill(), 4)), Err("bypass"), "it is not collected");
}

#[test]
fn a_waiter_that_is_dropped_is_neither_woken_nor_counted() {
    // One client may have 2,048 waiters.
    let world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    for _ in 0..10_000 {
        let mut waiter = unscheduled_fill();
        assert!(world.poll(&mut waiter, 2).is_pending(), "all before have left");
    }
    let mut stays = unscheduled_fill();
    assert!(world.poll(&mut stays, 2).is_pending());
    complete(builder);
    assert_eq!(world.wakes(), 1);
    assert_eq!(value(world.poll(&mut stays, 2)), Ok(b"12".to_vec()));
}

#[test]
fn a_call_waits_three_times_and_is_then_computed() {
    let world = World::new(CACHE_BYTES);
    let mut builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    for _ in 0..2 {
        drop(builder);
        builder = world.builder(1);
        assert!(world.poll(&mut without_task, 2).is_pending());
        assert!(world.poll(&mut with_task, 3).is_pending());
    }
    drop(builder);
    let bypassed = world.cache.counters().bypassed;
    let builder = world.builder(1);
    assert_eq!(value(world.poll(&mut without_task, 2)), Err("bypass"));
    assert_eq!(world.cache.counters().bypassed, bypassed, "it was not looked up");
    assert_eq!(value(world.poll(&mut with_task, 3)), Err("bypass"));
    assert_eq!(world.cache.counters().bypassed, bypassed + 1);
    complete(builder);
}

#[test]
fn a_running_tasks_last_lookup_may_hit_or_fill() {
    for is_completed in [true, false] {
        let world = World::new(CACHE_BYTES);
        let mut builder = world.builder(1);
        let mut waiter = scheduled_fill();
        for _ in 0..3 {
            assert!(world.poll(&mut waiter, 2).is_pending());
            drop(builder);
            builder = world.builder(1);
        }
        if is_completed {
            complete(builder);
        } else {
            drop(builder);
        }
        let expected = if is_completed { Ok(b"12".to_vec()) } else { Err("fill") };
        assert_eq!(value(world.poll(&mut waiter, 2)), expected);
    }
}

#[test]
fn a_response_that_is_no_longer_valid_is_computed_again() {
    let mut world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    let (mut without_task, mut with_task) = world.waiters();
    world.write(1, ADDRESS);
    complete(builder);
    assert_eq!(value(world.poll(&mut with_task, 3)), Err("fill"));
    assert_eq!(value(world.poll(&mut without_task, 2)), Err("fill"));
}

#[test]
fn a_hit_is_at_the_current_views_slot() {
    let mut world = World::new(CACHE_BYTES);
    let builder = world.builder(1);
    let (mut without_task, _with_task) = world.waiters();
    world.write(1, [8; 32]);
    complete(builder);
    let Poll::Ready(LookupOutcome::Hit(hit)) = world.poll(&mut without_task, 2) else {
        panic!("what it depends on has not changed")
    };
    assert_eq!(hit.slot, 1);
}

#[test]
fn a_call_that_no_response_can_serve_does_not_wait() {
    let world = World::new(CACHE_BYTES);
    let _builder = world.builder(1);
    let with = |dependencies: Dependencies| {
        let call = CacheableCall { dependencies, ..call() };
        value(world.poll(&mut CacheFill::for_call(call), 2))
    };
    let ahead = Dependencies::none(Commitment::Processed, Some(1));
    assert_eq!(with(ahead), Err("none"), "the view has not reached the slot");
    let large = Dependencies::none(Commitment::Processed, None).min_bytes(CACHE_BYTES);
    assert_eq!(with(large), Err("too large"));
    let off = World::new(0);
    assert_eq!(value(off.poll(&mut unscheduled_fill(), 1)), Err("bypass"));
    assert_eq!(value(off.poll(&mut scheduled_fill(), 1)), Err("bypass"));
}

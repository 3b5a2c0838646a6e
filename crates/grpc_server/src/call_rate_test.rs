//! Clients that make more calls than their rate, in paused time. Their calls and refusals are counted; the calls of an
//! honest client must be due at once.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clients::ClientId;
use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use crate::config::Config;
use crate::connection_context::ConnectionContext;
use crate::counters::Event;
use crate::excess_calls::EXCESS_CALLS_MAX;
use crate::read_rate::ReadRate;
use crate::request_budget::{CALL_WAIT_MAX, REFUSAL_WAIT_MAX};
use crate::server_state::ServerState;
use crate::unread_streams::UNREAD_STREAMS_MAX;

const CALLS_PER_S: u32 = 100;
/// Calls that are due at once.
const BURST: usize = CALLS_PER_S as usize;
/// Further calls that wait.
const WAITING: usize = CALLS_PER_S as usize * CALL_WAIT_MAX.as_secs() as usize;
/// Further calls with refusals that are due at once, or wait.
const REFUSALS: usize = CALLS_PER_S as usize * (1 + REFUSAL_WAIT_MAX.as_secs() as usize);

/// Further calls that have no effect on their connection.
const EXCESS: usize = EXCESS_CALLS_MAX as usize;

const HOSTILE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn state() -> Arc<ServerState> {
    Arc::new(ServerState::new(Config { calls_per_s: CALLS_PER_S, ..Config::default() }))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn connection(peer: IpAddr) -> Arc<ConnectionContext> {
    Arc::new(ConnectionContext::new(peer, None, 100))
}

/// Makes calls that are reset at once.
fn reset_calls(
    state: &ServerState,
    connection: &ConnectionContext,
    client: ClientId,
    count: usize,
) {
    for _ in 0..count {
        let _ = state.wait_for_call(client, connection).now_or_never();
    }
}

/// Whether the connection must end.
fn must_end(connection: &ConnectionContext) -> bool {
    connection.excess_calls.wait_for_end().now_or_never().is_some()
}

/// The responses to the calls of the hostile client.
#[derive(Clone, Copy)]
enum CallKind {
    Served,
    /// An unknown method, or a call without a token.
    RefusedEarly,
}

/// Waits for the response to a call.
async fn call(state: &ServerState, connection: &ConnectionContext, kind: CallKind) -> Code {
    let client = ClientId::from_ip(connection.peer);
    let refusal = match kind {
        CallKind::Served => match state.wait_for_call(client, connection).await {
            Ok(()) => return Code::Ok,
            Err(refusal) => refusal,
        },
        CallKind::RefusedEarly => {
            let refusal = Status::unimplemented("this method is not served").into();
            state.charge_refused_call(refusal, client, connection)
        }
    };
    sleep(refusal.delay.unwrap_or_default()).await;
    refusal.status.code()
}

/// Responses to the calls of the hostile client.
#[derive(Default)]
struct Responses {
    /// Responses of the calls' kind.
    regular: AtomicUsize,
    beyond_rate: AtomicUsize,
}

/// Floods for ten seconds: 50 connections with 16 streams send a call after each response. An honest client sends 50
/// calls a second meanwhile. Returns the responses to the flood, and the calls that may be due in the time.
async fn flood(state: &Arc<ServerState>, kind: CallKind) -> (Arc<Responses>, usize) {
    let started = Instant::now();
    let responses = Arc::<Responses>::default();
    let mut streams = JoinSet::<()>::new();
    for _ in 0..50 {
        let connection = connection(HOSTILE);
        for _ in 0..16 {
            let state = Arc::clone(state);
            let connection = Arc::clone(&connection);
            let responses = Arc::clone(&responses);
            streams.spawn(async move {
                loop {
                    let counter = match call(&state, &connection, kind).await {
                        Code::ResourceExhausted => &responses.beyond_rate,
                        _ => &responses.regular,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    let honest = connection(HONEST);
    let client = ClientId::from_ip(HONEST);
    for _ in 0..500 {
        sleep(Duration::from_millis(20)).await;
        let admitted = state.wait_for_call(client, &honest).now_or_never();
        assert!(matches!(admitted, Some(Ok(()))), "the honest client waits");
    }
    let seconds = started.elapsed().as_secs_f64();
    (responses, BURST + (seconds * f64::from(CALLS_PER_S)).ceil() as usize)
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_calls_is_served_at_its_rate_and_delays_no_other_client() {
    let state = state();
    let (responses, due) = flood(&state, CallKind::Served).await;
    let served = responses.regular.load(Ordering::Relaxed);
    let refused = responses.beyond_rate.load(Ordering::Relaxed);
    assert!((due - BURST..=due).contains(&served), "{served} calls, {due} are due");
    assert!((1..=due).contains(&refused), "{refused} refusals, {due} are due");
    assert!(state.counters.sum(Event::CallDelayed) > 0);
    assert_eq!(state.counters.sum(Event::CallExcess), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_early_refused_calls_is_delayed_as_well() {
    let state = state();
    let (responses, due) = flood(&state, CallKind::RefusedEarly).await;
    let refused_early = responses.regular.load(Ordering::Relaxed);
    let refused = responses.beyond_rate.load(Ordering::Relaxed);
    assert!((BURST..=due).contains(&refused_early), "{refused_early} calls, {due} are due");
    assert!((1..=due).contains(&refused), "{refused} refusals, {due} are due");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_wait_too_long_is_refused_with_its_limit_and_setting() {
    let state = state();
    let connection = connection(HOSTILE);
    let client = ClientId::from_ip(HOSTILE);
    for _ in 0..BURST + WAITING {
        // The calls that wait are reset at once. They stay charged.
        let _ = state.wait_for_call(client, &connection).now_or_never();
    }
    assert_eq!(state.shares.waiting_calls.units_in_use(), 0);
    let refused = state.wait_for_call(client, &connection).now_or_never().expect("no wait");
    let status = refused.map_err(|refusal| refusal.status).expect_err("beyond its rate");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let expected = "more than 100 calls a second (grpc.calls_per_s): this one is due in 2010 ms";
    assert!(status.message().contains(expected), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_resets_its_calls_loses_its_connection() {
    let state = state();
    let connection = connection(HOSTILE);
    let client = ClientId::from_ip(HOSTILE);
    reset_calls(&state, &connection, client, BURST + WAITING + REFUSALS + EXCESS);
    assert!(!must_end(&connection));
    reset_calls(&state, &connection, client, 1);
    assert!(must_end(&connection));
}

#[tokio::test(start_paused = true)]
async fn a_connection_does_not_end_because_of_the_calls_of_another() {
    let state = state();
    let flooded = connection(HOSTILE);
    let other = connection(HOSTILE);
    let client = ClientId::from_ip(HOSTILE);
    reset_calls(&state, &flooded, client, BURST + WAITING + REFUSALS + EXCESS + 1);
    assert!(must_end(&flooded));
    for _ in 0..EXCESS {
        let refused = state.wait_for_call(client, &other).now_or_never().expect("no wait");
        let delay = refused.map_err(|refusal| refusal.delay).expect_err("beyond the rate");
        assert_eq!(delay, Some(REFUSAL_WAIT_MAX));
    }
    assert!(!must_end(&other), "it may have subscriptions");
    sleep(REFUSAL_WAIT_MAX).await;
    reset_calls(&state, &flooded, client, BURST + WAITING + REFUSALS);
    reset_calls(&state, &other, client, EXCESS);
    assert!(!must_end(&other), "its refusals before were due");
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_several_clients_is_read_later_if_one_of_them_resets_its_calls() {
    let state = state();
    let connection = connection(HOSTILE);
    let client = ClientId(1);
    for other in [client, ClientId(2)] {
        connection.unread.record_call(other);
    }
    reset_calls(&state, &connection, client, BURST + WAITING + REFUSALS + EXCESS);
    let mut reads = ReadRate::new(Arc::clone(&state), client)
        .with_excess_calls(Arc::clone(&connection.excess_calls));
    assert!(reads.poll_due(&mut Context::from_waker(Waker::noop())).is_ready());
    let refused = state.wait_for_call(client, &connection).now_or_never().expect("no wait");
    let delay = refused.map_err(|refusal| refusal.delay).expect_err("beyond its rate");
    assert_eq!(delay, Some(REFUSAL_WAIT_MAX));
    reset_calls(&state, &connection, client, 99);
    assert!(!must_end(&connection));
    let started = Instant::now();
    poll_fn(|context| reads.poll_due(context)).await;
    let waited = started.elapsed();
    assert!((ms(200)..ms(210)).contains(&waited), "{waited:?} for 100 calls");
    reset_calls(&state, &connection, client, 10_000);
    let started = Instant::now();
    poll_fn(|context| reads.poll_due(context)).await;
    let waited = started.elapsed();
    assert!((ms(2_000)..ms(2_010)).contains(&waited), "{waited:?} for any number of calls");
}

#[tokio::test(start_paused = true)]
async fn few_calls_of_a_client_wait_on_a_connection_of_several_clients() {
    let state = state();
    let connection = connection(HOSTILE);
    let client = ClientId(1);
    for other in [client, ClientId(2)] {
        connection.unread.record_call(other);
    }
    for _ in 0..BURST {
        let admitted = state.wait_for_call(client, &connection).now_or_never();
        assert!(matches!(admitted, Some(Ok(()))));
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..=UNREAD_STREAMS_MAX)
        .map(|_| Box::pin(state.wait_for_call(client, &connection)))
        .collect();
    let polled: Vec<_> = calls.iter_mut().map(|call| call.as_mut().poll(&mut context)).collect();
    let (last, waiting) = polled.split_last().expect("there are some");
    assert!(waiting.iter().all(Poll::is_pending));
    assert!(matches!(last, Poll::Ready(Err(_))), "its frames would block the other client");
    assert_eq!(state.shares.waiting_calls.units_in_use(), UNREAD_STREAMS_MAX);
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_address_delay_neither_its_health_checks_nor_its_connections() {
    let state = state();
    let connection = connection(HOSTILE);
    let address = ClientId::from_ip(HOSTILE);
    reset_calls(&state, &connection, address, BURST + WAITING + REFUSALS);
    let call = state.wait_for_call(address, &connection).now_or_never();
    assert!(matches!(call, Some(Err(_))), "the rates of calls and refusals are used up");
    // A load balancer opens a connection for each check.
    let admitted = state.admit_connection(address).map(|admitted| admitted.delay);
    assert_eq!(admitted, Ok(Duration::ZERO));
    for _ in 0..BURST {
        let checked = state.wait_for_health_check(address, &connection).now_or_never();
        assert!(matches!(checked, Some(Ok(()))), "the health check is due");
    }
    let checked = state.wait_for_health_check(address, &connection).now_or_never();
    assert!(checked.is_none(), "health checks have a rate");
}

#[tokio::test(start_paused = true)]
async fn connections_of_an_address_have_a_rate() {
    let state = state();
    let hostile = ClientId::from_ip(HOSTILE);
    let admit = |address| state.admit_connection(address).map(|admitted| admitted.delay);
    for _ in 0..BURST {
        assert_eq!(admit(hostile), Ok(Duration::ZERO));
    }
    assert_eq!(state.counters.sum(Event::CallDelayed), 0);
    for _ in 0..WAITING {
        assert!(admit(hostile).is_ok_and(|delay| !delay.is_zero()));
    }
    assert_eq!(state.counters.sum(Event::CallDelayed), WAITING as u64);
    let reason = admit(hostile).expect_err("beyond its rate");
    assert!(reason.contains("grpc.calls_per_s"), "{reason}");
    assert_eq!(admit(ClientId::from_ip(HONEST)), Ok(Duration::ZERO));
}

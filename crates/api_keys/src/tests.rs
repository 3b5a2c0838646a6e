//! The behaviour of the keys of a node, as its servers use them.

use core::net::IpAddr;
use std::fmt::Write;
use std::time::Duration;

use crate::{
    ANONYMOUS_CLIENTS_MAX, ApiKeys, AuthError, Caller, Charge, Credentials, FAILING_CLIENTS_MAX,
    KEY_BYTES_MAX, KeyFile, KeyHash, KeyNumber, REFUSAL_DELAY_MAX, REPORTED_KEYS_MAX, RateStatus,
};

const NOON: u64 = 1_795_478_400 + 43_200;
const NONE: std::iter::Empty<&str> = std::iter::empty();

fn entry(key: &str, more: &str) -> String {
    let hash = KeyHash::of_key(key.as_bytes());
    format!("[[keys]]\nname = \"name-of-{key}\"\nsha256 = \"{hash}\"\n{more}\n")
}

fn file(text: &str) -> KeyFile {
    KeyFile::parse(text).expect("it is valid")
}

fn keys(text: &str) -> ApiKeys {
    ApiKeys::new(file(text), NOON)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn with_key(key: &str) -> Credentials<'_> {
    Credentials { key: Some(key.as_bytes()), ..Credentials::default() }
}

fn number(keys: &ApiKeys, key: &str) -> KeyNumber {
    keys.authenticate(&with_key(key), 1, ms(0)).expect("it is valid").expect("it is a key")
}

fn one_request(keys: &ApiKeys, caller: Caller, at: u64) -> bool {
    keys.admit(caller, Charge::requests(1), NONE, ms(at)).is_ok()
}

#[test]
fn a_request_belongs_to_its_key_or_is_refused() {
    let keys = keys(&format!("[tiers.t]\n{}", entry("one", "tier = \"t\"")));
    let too_long = "x".repeat(KEY_BYTES_MAX + 1);
    let megabyte = "x".repeat(1 << 20);
    let authenticate = |credentials| keys.authenticate(&credentials, 1, ms(0));
    assert_eq!(keys.name(number(&keys, "one")).as_deref(), Some("name-of-one"));
    assert_eq!(authenticate(with_key("two")), Err(AuthError::Unknown));
    assert_eq!(authenticate(with_key("")), Err(AuthError::Unknown));
    assert_eq!(authenticate(with_key(&too_long)), Err(AuthError::TooLong));
    assert_eq!(authenticate(with_key(&megabyte)), Err(AuthError::TooLong));
    assert_eq!(authenticate(Credentials::default()), Err(AuthError::Missing));
    // A path that is not a key is a request without one.
    let path = |path: &'static [u8]| Credentials { path: Some(path), ..Credentials::default() };
    assert_eq!(authenticate(path(b"one")), Ok(Some(number(&keys, "one"))));
    assert_eq!(authenticate(path(b"two")), Err(AuthError::Missing));
    assert_eq!(keys.unauthorized_requests(), 6);
}

#[test]
fn a_key_may_be_bound_to_origins_and_addresses() {
    let rules = "tier = \"t\"\norigins = [\"https://a.example\"]\naddresses = [\"10.0.0.0/8\"]";
    let keys = keys(&format!("[tiers.t]\n{}", entry("one", rules)));
    let authenticate = |origin: Option<&'static [u8]>, address: Option<&str>| {
        let address = address.map(|text| text.parse::<IpAddr>().expect("an address"));
        let credentials = Credentials { key: Some(b"one"), path: None, origin, address };
        keys.authenticate(&credentials, 1, ms(0)).map(|key| key.is_some())
    };
    let origin = Some(&b"https://a.example"[..]);
    assert_eq!(authenticate(origin, Some("10.1.2.3")), Ok(true));
    assert_eq!(authenticate(Some(b"https://b.example"), Some("10.1.2.3")), Err(AuthError::Origin));
    assert_eq!(authenticate(None, Some("10.1.2.3")), Err(AuthError::Origin));
    assert_eq!(authenticate(origin, Some("11.1.2.3")), Err(AuthError::Address));
    assert_eq!(authenticate(origin, None), Err(AuthError::Address));
}

#[test]
fn a_reload_continues_what_keys_have_used_and_names_those_that_are_gone() {
    let text =
        |per_s: u32, entries: &str| format!("[tiers.t]\nrequests_per_s = {per_s}\n{entries}");
    let one = entry("one", "tier = \"t\"");
    let two = entry("two", "tier = \"t\"");
    let keys = keys(&text(2, &format!("{one}{two}")));
    let first = number(&keys, "one");
    let second = number(&keys, "two");
    let caller = Caller::Key(first);
    assert!(one_request(&keys, caller, 0) && one_request(&keys, caller, 0));
    assert!(!one_request(&keys, caller, 0));
    let reload = keys.reload(file(&text(2, &format!("{}{one}", entry("three", "tier = \"t\"")))));
    assert_eq!((reload.keys, reload.removed), (2, vec![second]));
    assert!(!one_request(&keys, caller, 0), "what it has used continues");
    assert_eq!(number(&keys, "one"), first);
    assert!(number(&keys, "three") > second, "a number is never that of another key");
    assert!(!keys.contains(second));
    assert!(one_request(&keys, Caller::Key(second), 0), "its last request is still served");
    assert!(!one_request(&keys, caller, 250), "the next one after half a second");
    keys.reload(file(&text(4, &one)));
    assert!(one_request(&keys, caller, 250), "the tier has a higher limit now");
    assert_eq!(keys.reload(file("")).removed.len(), 1);
    assert_eq!(keys.reloads(), (3, 0));
}

#[test]
fn a_client_without_a_key_has_its_tiers_limits_for_itself() {
    let keys = keys("anonymous = \"free\"\n[tiers.free]\nrequests_per_s = 2\ndeny = [\"a\"]\n");
    assert_eq!(keys.authenticate(&Credentials::default(), 7, ms(0)), Ok(None));
    let one = Caller::Anonymous(1);
    let two = Caller::Anonymous(2);
    assert_eq!((0..5).filter(|_| one_request(&keys, one, 0)).count(), 2);
    let status = |caller| keys.rate_status(caller, ms(0)).expect("a limit");
    assert_eq!(status(one), RateStatus { limit: 2, remaining: 0, reset_s: 1 });
    assert_eq!(status(two), RateStatus { limit: 2, remaining: 2, reset_s: 0 });
    assert!(one_request(&keys, two, 0));
    assert!(keys.denies(one, "a") && !keys.denies(one, "b") && !keys.may_read_metrics(one));
    let [row] = &keys.metric_rows()[..] else { panic!("{:?}", keys.metric_rows()) };
    assert_eq!((&*row.name, row.requests, row.refused), ("(anonymous)", 3, 4));
}

#[test]
fn sockets_streams_and_subscriptions_count_for_their_key() {
    let tier = "[tiers.t]\nwebsocket_connections = 2\nsubscriptions = 3\ngrpc_streams = 1\n";
    let keys = keys(&format!("{tier}{}", entry("one", "tier = \"t\"")));
    let caller = Caller::Key(number(&keys, "one"));
    let first = keys.open_socket(caller, ms(0)).expect("the first");
    let second = keys.open_socket(caller, ms(0)).expect("the second");
    let refused = keys.open_socket(caller, ms(0)).expect_err("the third").to_string();
    let expected = "more than 2 WebSocket connections of one client (tiers.websocket_connections)";
    assert_eq!(refused, expected);
    drop(first);
    let third = keys.open_socket(caller, ms(0)).expect("one was closed");
    let stream = keys.open_stream(caller, ms(0)).expect("the first stream");
    assert!(keys.open_stream(caller, ms(0)).is_err());
    let gauges = [keys.count_subscriptions(caller, ms(0)), keys.count_subscriptions(caller, ms(0))];
    gauges[0].set(2);
    assert!(keys.admit_subscription(caller, ms(0)).is_ok());
    gauges[1].set(1);
    assert!(keys.admit_subscription(caller, ms(0)).is_err());
    gauges[0].set(1);
    assert!(keys.admit_subscription(caller, ms(0)).is_ok());
    let report = keys.usage_report();
    let row = &report["keys"][0];
    assert_eq!(
        (&row["websocketConnections"], &row["subscriptions"], &row["grpcStreams"]),
        (&2.into(), &2.into(), &1.into())
    );
    drop((second, third, stream, gauges));
    let row = &keys.usage_report()["keys"][0];
    assert_eq!(
        (&row["websocketConnections"], &row["subscriptions"], &row["grpcStreams"]),
        (&0.into(), &0.into(), &0.into())
    );
}

/// Returns a file of keys `key-0`, `key-1` and so on.
fn large_file(count: usize) -> String {
    let mut text = "[tiers.t]\nrequests_per_s = 10\nrequests_per_day = 1000\n".to_owned();
    for method in 0..16 {
        let _ = write!(text, "[tiers.t.methods.method{method}]\nrequests_per_s = 1\n");
    }
    (0..count).for_each(|at| text += &entry(&format!("key-{at}"), "tier = \"t\""));
    text
}

#[test]
fn ten_thousand_keys_cost_less_than_four_megabytes() {
    let keys = keys(&large_file(10_000));
    let idle = keys.memory_bytes();
    for at in 0..10_000 {
        let caller = Caller::Key(number(&keys, &format!("key-{at}")));
        let admitted = keys.admit(caller, Charge::call(1), std::iter::once("method3"), ms(0));
        assert_eq!(admitted, Ok(()), "{at}");
    }
    let used = keys.memory_bytes();
    assert!(idle > 2_000_000 && used > idle, "{idle} {used}: bytes are counted");
    assert!(used < 4_000_000, "{used}");
    let rows = keys.metric_rows();
    assert_eq!(rows.len(), REPORTED_KEYS_MAX + 1);
    assert_eq!(rows.iter().map(|row| row.calls[1]).sum::<u64>(), 10_000);
    assert_eq!(keys.usage_report()["keys"].as_array().map(Vec::len), Some(10_000));
}

#[test]
fn refusals_past_a_keys_rate_wait_and_other_keys_do_not() {
    let text =
        format!("[tiers.t]\n{}{}", entry("one", "tier = \"t\""), entry("two", "tier = \"t\""));
    let keys = keys(&text);
    let one = Caller::Key(number(&keys, "one"));
    let two = Caller::Key(number(&keys, "two"));
    let at_once = (0..1_000).filter(|_| keys.delay_refusal(one, ms(0)).is_none()).count();
    assert_eq!((at_once, keys.delayed_refusals()), (100, 900));
    assert_eq!(keys.delay_refusal(one, ms(0)), Some(REFUSAL_DELAY_MAX));
    assert_eq!(keys.delay_refusal(two, ms(0)), None);
    assert_eq!(keys.delay_refusal(one, ms(300)), Some(ms(210)));
    assert_eq!(keys.delay_refusal(one, ms(1_000)), None, "a client that stops is refused at once");
    // A removed key, which is in no table.
    keys.reload(file(""));
    assert_eq!(keys.delay_refusal(one, ms(0)), None);
}

#[test]
fn wrong_keys_are_counted_to_their_client_and_take_no_memory() {
    let keys = keys(&format!("[tiers.t]\n{}", entry("one", "tier = \"t\"")));
    let before = keys.memory_bytes();
    let refused = |at: usize, client: u128, now: u64| {
        keys.authenticate(&with_key(&format!("wrong-{at}")), client, ms(now))
    };
    let answered = (0..10_000).filter(|at| refused(*at, 1, 0) == Err(AuthError::Unknown)).count();
    assert_eq!((answered, keys.throttled_requests()), (100, 9_900));
    let throttled = AuthError::Throttled { retry_after: ms(100) };
    assert_eq!(refused(0, 1, 0), Err(throttled));
    assert_eq!((throttled.status(), throttled.retry_after_s()), (429, Some(1)));
    assert_eq!(refused(0, 2, 0), Err(AuthError::Unknown), "another client does not notice");
    assert!(keys.authenticate(&with_key("one"), 1, ms(0)).is_ok(), "the right key is served");
    assert_eq!(refused(0, 1, 100), Err(AuthError::Unknown), "ten a second");
    let added = keys.memory_bytes() - before;
    assert!(added < 8_192, "{added} bytes for two clients");
    (0..100_000).for_each(|client| assert!(refused(0, client, 200).is_err()));
    let added = keys.memory_bytes() - before;
    assert!(added < FAILING_CLIENTS_MAX as u64 * 100, "{added} bytes for 100,000 clients");
}

#[test]
fn refusals_of_wrong_keys_wait_and_those_of_other_addresses_do_not() {
    let keys = keys(&format!("[tiers.t]\n{}", entry("one", "tier = \"t\"")));
    let at_once = (0..1_000).filter(|_| keys.delay_failure(1, ms(0)).is_none()).count();
    assert_eq!((at_once, keys.delayed_refusals()), (100, 900));
    assert_eq!(keys.delay_failure(1, ms(0)), Some(REFUSAL_DELAY_MAX));
    assert_eq!(keys.delay_failure(2, ms(0)), None, "another address does not notice");
    let one = Caller::Key(number(&keys, "one"));
    assert_eq!(keys.delay_refusal(one, ms(0)), None, "nor does a key");
    assert_eq!(keys.delay_failure(1, ms(1_000)), None, "a client that stops is refused at once");
}

#[test]
fn clients_without_a_key_are_bounded() {
    let keys = keys("anonymous = \"free\"\n[tiers.free]\nrequests_per_s = 1\n");
    let clients = 2 * ANONYMOUS_CLIENTS_MAX as u128;
    let admitted = (0..clients).filter(|client| one_request(&keys, Caller::Anonymous(*client), 0));
    assert_eq!(admitted.count(), ANONYMOUS_CLIENTS_MAX + 1, "those past the bound share one");
    assert!(keys.memory_bytes() < 10_000_000, "{}", keys.memory_bytes());
    assert!(one_request(&keys, Caller::Anonymous(clients), 1_000), "unused entries are free");
}

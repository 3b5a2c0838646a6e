//! A connection that a proxy shares between API keys: one of them sends more than the node reads.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use api_keys::{ApiKeys, KeyFile, KeyHash};
use authentication::Authenticator;
use cpu_pool::Pool;
use grpc::{Config, Security};
use yellowstone_grpc_proto::geyser::{PingRequest, SubscribeRequest, SubscribeRequestPing};

use crate::calls::scrape;
use crate::client::wait_until;
use crate::ledger::ScriptedLedger;
use crate::raw_client::{
    CLOSED_WINDOW, DATA, END_HEADERS, END_STREAM, HEADERS, RawClient, WINDOW_UPDATE,
    call_headers_with_key, encode_message, frame,
};
use crate::send_windows::{FRAME_BYTES_MAX, SendWindows};

const FLOODING: &str = "hyd_0123456789abcdef";
const OTHER: &str = "hyd_fedcba9876543210";
/// Streams of a shared connection that may be unread.
const UNREAD_STREAMS_MAX: usize = 6;

fn start_with_keys() -> ScriptedLedger {
    let mut file = "[tiers.t]\n".to_owned();
    for (name, key) in [("flooding", FLOODING), ("other", OTHER)] {
        let hash = KeyHash::of_key(key.as_bytes());
        write!(file, "[[keys]]\nname = \"{name}\"\ntier = \"t\"\nsha256 = \"{hash}\"\n")
            .expect("memory");
    }
    let keys = ApiKeys::new(KeyFile::parse(&file).expect("it is valid"), 0);
    let pool = Pool::new(cpu_pool::Config::default(), Arc::new(|| Duration::ZERO), || {});
    let authenticator = Authenticator::new(Arc::new(keys), Arc::new(pool.expect("a thread")));
    let security = Security { authenticator: Some(authenticator), ..Security::default() };
    ScriptedLedger::start_secured(Config::default(), Vec::new(), security)
}

/// Opens subscriptions of the flooding key from stream `first` on, and sends on each as much as the windows
/// allow. Responses are not read.
async fn flood(client: &mut RawClient, windows: &mut SendWindows, first: u32, streams: usize) {
    let ping = Some(SubscribeRequestPing { id: 1 });
    let request = encode_message(&SubscribeRequest { ping, ..SubscribeRequest::default() });
    let requests = request.repeat((256 << 10) / request.len());
    for stream in (first..).step_by(2).take(streams) {
        let headers = call_headers_with_key("Subscribe", FLOODING);
        client.send(&frame(HEADERS, END_HEADERS, stream, &headers)).await;
        let accepted = windows.push(client, stream, &requests).await;
        assert!(accepted < requests.len(), "stream {stream} is read without an end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_streams_of_one_key_do_not_block_another_one() {
    const STREAMS: usize = 2 * UNREAD_STREAMS_MAX;
    let ledger = start_with_keys();
    let mut client = RawClient::connect(&ledger, &CLOSED_WINDOW).await;
    let mut windows = SendWindows::new();
    let headers = call_headers_with_key("Ping", OTHER);
    // Without a message it has an error, but the connection is shared.
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &headers)).await;
    flood(&mut client, &mut windows, 3, STREAMS).await;
    let refused =
        format!("hydrant_grpc_refused_total{{cause=\"bound\"}} {}\n", STREAMS - UNREAD_STREAMS_MAX);
    wait_until(|| scrape(&ledger.server).contains(&refused)).await;
    let left = windows.connection();
    assert!(left > FRAME_BYTES_MAX as i64, "{left} bytes are left of the connection's window");
    let message = encode_message(&PingRequest { count: 7 });
    let stream = 3 + 2 * STREAMS as u32;
    client.send(&frame(HEADERS, END_HEADERS, stream, &headers)).await;
    client.send(&frame(WINDOW_UPDATE, 0, stream, &1_024_u32.to_be_bytes())).await;
    client.send(&frame(DATA, END_STREAM, stream, &message)).await;
    let response = client.next_frame(DATA).await.expect("the connection continues");
    assert_eq!(response.stream, stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_streams_of_an_only_key_are_not_refused() {
    let ledger = start_with_keys();
    let mut client = RawClient::connect(&ledger, &CLOSED_WINDOW).await;
    flood(&mut client, &mut SendWindows::new(), 1, UNREAD_STREAMS_MAX + 1).await;
    assert!(scrape(&ledger.server).contains("hydrant_grpc_refused_total{cause=\"bound\"} 0\n"));
}

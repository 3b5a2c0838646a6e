//! Frames that would fill the memory: lengths of a gibibyte, and few bytes that inflate to many.

use std::io::{Read, Write};

use bytes::Bytes;
use follow::SourceConfig;
use futures_util::{StreamExt, stream};
use testkit::geyser_source::Source;
use testkit::raw_geyser_source::RawSource;

use crate::follows::{Rig, config, source_config};
use crate::script::chain;

const CHUNK: Bytes = Bytes::from_static(&[0; 64 << 10]);
/// Bytes of one message, as the tests limit them.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes that HTTP/2 may have in the windows of several streams before the frame is refused.
const WINDOWS_BYTES: u64 = 64 << 20;

/// Returns the prefix of a gRPC message.
fn head(is_compressed: bool, bytes: u32) -> Bytes {
    let mut head = vec![u8::from(is_compressed)];
    head.extend(bytes.to_be_bytes());
    head.into()
}

/// Follows a bad source and a good one, until the banks of the good one are there.
async fn follow_until_the_other_serves(bad: &RawSource, reason: &str) {
    let good = Source::new(None);
    good.send(chain(101..=102));
    let url = format!("http://{}", bad.serve().await);
    let sources =
        vec![SourceConfig { url: url.clone(), x_token: None }, source_config(&good).await];
    let mut config = config(sources);
    config.stream.message_bytes_max = MESSAGE_BYTES_MAX;
    let rig = Rig::start(config);
    rig.wait_for_slots([102, 102, 100]).await;
    let end = rig.status.last_stream_end().unwrap_or_default();
    assert!(end.starts_with(&url) && end.contains(reason), "{end}");
    assert!(bad.calls() > 0, "the bad source was tried");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_a_gibibyte_is_refused_by_its_length() {
    let bad = RawSource::new(None, || {
        let body = stream::repeat(CHUNK).take((1 << 30) / CHUNK.len());
        stream::iter([head(false, 1 << 30)]).chain(body).boxed()
    });
    follow_until_the_other_serves(&bad, "1048576 B (stream.message_bytes_max)").await;
    assert!(bad.sent() < WINDOWS_BYTES, "{} bytes were taken", bad.sent());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_inflates_beyond_the_bound_is_refused() {
    let mut packed = zstd::stream::Encoder::new(Vec::new(), 1).expect("an encoder");
    std::io::copy(&mut std::io::repeat(0).take(1 << 28), &mut packed).expect("zeros");
    packed.flush().expect("memory");
    let packed = Bytes::from(packed.finish().expect("memory"));
    assert!(packed.len() < MESSAGE_BYTES_MAX, "{} bytes", packed.len());
    let bad = RawSource::new(Some("zstd"), move || {
        let length = u32::try_from(packed.len()).expect("it is small");
        stream::iter([head(true, length), packed.clone()]).boxed()
    });
    follow_until_the_other_serves(&bad, "1048576 B (stream.message_bytes_max)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_end_the_stream() {
    let garbage = Bytes::from_static(&[0xff; 300]);
    let bad =
        RawSource::new(None, move || stream::iter([head(false, 300), garbage.clone()]).boxed());
    follow_until_the_other_serves(&bad, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoding_that_was_not_accepted_ends_the_stream() {
    let bad = RawSource::new(Some("gzip"), || stream::iter([head(true, 10), CHUNK]).boxed());
    follow_until_the_other_serves(&bad, "").await;
}

//! The cached values, and the text around them.

use std::io::Read;
use std::sync::{Arc, LazyLock};

use cache::Entry;
use clients::ClientId;
use http_server::{COMPRESS_BYTES_MIN, ContentEncoding};

use crate::*;

/// Creates a builder for the entry of a key with a dependency that changed at version `at`.
fn new_builder(
    response_cache: &ResponseCache,
    key: &[u8],
    at: u64,
    coding: ContentEncoding,
) -> ResponseBuilder {
    let cache::FillStart::Fill(fill) =
        response_cache.cache.start_fill(key, None, at, |_| at, || None)
    else {
        panic!("it is not cached")
    };
    ResponseBuilder::new(response_cache, fill, at, [0].into(), (coding, ClientId(1)))
}

#[test]
fn responses_that_are_replaced_and_still_read_do_not_end_the_cache() {
    let response_cache = ResponseCache::new(1 << 20);
    let insert = |key: u32, at: u64| {
        let builder = new_builder(&response_cache, &key.to_le_bytes(), at, ContentEncoding::Plain);
        assert!(builder.has_budget(), "{key}: {} bytes used", response_cache.used_bytes());
        let part = vec![b'1'; 30_000];
        let builder = builder.collect(part).unwrap_or_else(|_| panic!("{key}: over budget"));
        let mut encoder = builder.into_encoder(None, b"1".to_vec()).expect("an encoder");
        while encoder.encode_chunk().expect("it encodes") {}
        encoder.finish().0
    };
    (1..100).for_each(|key| drop(insert(key, 1)));
    let full = response_cache.cache.bytes();
    assert!(full > 900_000, "{full}");
    // One entry is replaced again and again, while each version is still being read.
    let slow: Vec<_> = (1..18).map(|at| insert(0, at)).collect();
    assert!(
        response_cache.used_bytes() <= (1 << 20) / 4 * 5 + 64 * 1024,
        "{}",
        response_cache.used_bytes()
    );
    let left = response_cache.cache.bytes();
    assert!(left > 600_000 && left < 900_000, "{left}");
    drop(slow);
    (100..200).for_each(|key| drop(insert(key, 1)));
    assert!(response_cache.cache.bytes() > 900_000, "all of the cache is used again");
}

#[test]
fn small_cached_values_do_not_hide_unread_responses() {
    let response_cache = ResponseCache::new(1 << 20);
    for key in 0..4_000_u32 {
        let builder = new_builder(&response_cache, &key.to_le_bytes(), 1, ContentEncoding::Plain);
        let mut encoder = builder.into_encoder(None, b"1".to_vec()).expect("an encoder");
        while encoder.encode_chunk().expect("it encodes") {}
        encoder.finish();
    }
    let counters = response_cache.counters();
    assert!(counters.bytes > 900_000, "the cache is full: {counters:?}");
    assert_eq!(response_cache.used_bytes(), counters.entries, "one byte each");
    // As many bytes as half of the cache were evicted, and are still being sent. A sixteenth of the rest is left.
    let _unread = response_cache.budget.track(vec![b'1'; 1 << 19]);
    let collect = |bytes: usize| {
        let builder = new_builder(&response_cache, b"large", 1, ContentEncoding::Plain);
        builder.collect(vec![b'1'; bytes]).map(drop).map_err(|(why, _)| why)
    };
    assert_eq!(collect(30_000), Ok(()));
    assert_eq!(collect(40_000), Err(NotCached::OverBudget));
}

fn encode(
    coding: ContentEncoding,
    context: Option<ResultContext>,
    value: &[u8],
) -> (Arc<Entry<CachedResponse>>, u64) {
    let response_cache = ResponseCache::new(1 << 30);
    let mut builder = new_builder(&response_cache, b"key", 0, coding);
    let (parts, last) = value.split_at(value.len().saturating_sub(1) / 1_000 * 1_000);
    for part in parts.chunks(RESULT_CHUNK_BYTES) {
        builder = builder.collect(part.to_vec()).unwrap_or_else(|_| panic!("over budget"));
    }
    let mut encoder = builder.into_encoder(context, last.to_vec()).expect("an encoder");
    while encoder.encode_chunk().expect("it encodes") {}
    encoder.finish()
}

#[test]
fn whatever_is_put_around_a_value_is_one_member_or_frame() {
    for bytes in [0, 1, 65_500, 70_000, 131_072, 140_000, 300_000] {
        check_framing(&"x".repeat(bytes));
    }
}

fn check_framing(around: &str) {
    static FRAME: LazyLock<ContextFrame> =
        LazyLock::new(|| ContextFrame::new(r#"{"slot":"#, r#","value":"#));
    let list: String = (0..90_000).map(|n| format!("{n},")).collect();
    for value in [format!("[{list}0]"), "[]".to_owned()] {
        for context in [None, Some(FRAME.at(123))] {
            for coding in [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd] {
                let (entry, slot) = encode(coding, context, value.as_bytes());
                assert_eq!(slot, if context.is_none() { 0 } else { 123 });
                let cached = entry.value.as_ref().expect("it is cached");
                let mut head = around.as_bytes().to_vec();
                let mut tail = Vec::new();
                let at_slot = cached.context_at(45_678);
                at_slot.inspect(|context| context.write_before(&mut head));
                at_slot.inspect(|context| context.write_after(&mut tail));
                tail.extend_from_slice(around.as_bytes());
                let expected = [&head, value.as_bytes(), &tail].concat();
                let has_slot = String::from_utf8_lossy(&head).contains(r#"{"slot":45678,"#);
                assert_eq!(has_slot, context.is_some());
                let sent = cached.frame(head, tail).concat();
                let is_short = value.len() < COMPRESS_BYTES_MIN;
                assert_eq!(cached.coding(), if is_short { ContentEncoding::Plain } else { coding });
                let read = decode(cached.coding(), &sent);
                assert!(read.as_bytes() == expected, "{coding:?} of {} bytes", expected.len());
            }
        }
    }
}

/// Decodes one member or frame.
fn decode(coding: ContentEncoding, sent: &[u8]) -> String {
    let mut read = String::new();
    match coding {
        ContentEncoding::Plain => read = String::from_utf8(sent.to_vec()).expect("text"),
        ContentEncoding::Gzip => {
            let mut decoder = flate2::bufread::GzDecoder::new(sent);
            decoder.read_to_string(&mut read).expect("gzip");
            assert_eq!(decoder.into_inner().len(), 0, "one member");
        }
        ContentEncoding::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(sent);
            let mut decoder = decoder.expect("zstd").single_frame();
            decoder.read_to_string(&mut read).expect("zstd");
            let rest = decoder.finish();
            assert_eq!(rest.buffer().len() + rest.get_ref().len(), 0, "one frame");
        }
    }
    read
}

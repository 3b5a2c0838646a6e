//! Answers as the cache keeps them: the value, coded once, between a beginning with the slot and an end
//! with the id, which are put around it uncoded; or nothing around it, for another door than JSON-RPC.
//!
//! With gzip both are stored blocks of the same member, with zstd raw blocks of the same frame: what
//! goes out is one member or frame as any other.
//! Bounds: the cache's, and those of [`crate::held`] for what is collected plain before it is coded, and for
//! what is sent after the cache has forgotten it. An answer that goes past them is given up: streamed.
//!
//! The files: `around` (blocks that are not coded), `answer` (one that is kept), `store` (all of them), `copying`
//! (into a batch), `keeping` (collecting one), `coder` (coding it). A file uses only those named before it.

mod builder;
mod copy;
mod encoder;
mod entry;
mod framing;
mod store;

pub(crate) use builder::{NotCached, ResponseBuilder};
pub(crate) use copy::ResponseCopy;
pub(crate) use encoder::ResponseEncoder;
pub(crate) use entry::CachedResponse;
pub use store::ResponseCache;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use cache::Entry;
    use pool::ClientId;

    use super::*;
    use crate::content_encoding::{COMPRESS_BYTES_MIN, ContentEncoding};
    use crate::envelope::{Call, Id, Request};
    use crate::methods::{RESULT_CHUNK_BYTES, close_response};

    /// To make the answer to a key of which something has changed at a moment.
    fn new_builder(
        answers: &ResponseCache,
        key: &[u8],
        at: u64,
        coding: ContentEncoding,
    ) -> ResponseBuilder {
        let cache::FillStart::Fill(fill) = answers.cache.start_fill(key, None, at, |_| at, || None)
        else {
            panic!("it is not there")
        };
        ResponseBuilder::new(answers, fill, at, [0].into(), (coding, ClientId(1)))
    }

    #[test]
    fn responses_that_are_replaced_and_still_read_do_not_end_the_cache() {
        let answers = ResponseCache::new(1 << 20);
        let keep = |key: u32, at: u64| {
            let keeping = new_builder(&answers, &key.to_le_bytes(), at, ContentEncoding::Plain);
            assert!(keeping.has_budget(), "{key}: {} held", answers.used_bytes());
            let part = vec![b'1'; 30_000];
            let keeping = keeping.collect(part).unwrap_or_else(|_| panic!("{key}: there is room"));
            let mut coder = keeping.into_encoder(b"1".to_vec()).expect("it begins");
            while coder.encode_chunk().expect("it codes") {}
            coder.finish().0
        };
        (1..100).for_each(|key| drop(keep(key, 1)));
        let full = answers.cache.bytes();
        assert!(full > 900_000, "{full}");
        // One changes again and again, and each is read slowly.
        let slow: Vec<_> = (1..18).map(|at| keep(0, at)).collect();
        assert!(answers.used_bytes() <= (1 << 20) / 4 * 5 + 64 * 1024, "{}", answers.used_bytes());
        let left = answers.cache.bytes();
        assert!(left > 600_000 && left < 900_000, "{left}");
        drop(slow);
        (100..200).for_each(|key| drop(keep(key, 1)));
        assert!(answers.cache.bytes() > 900_000, "all of the cache is used again");
    }

    fn encode(coding: ContentEncoding, reply: &[u8]) -> (Arc<Entry<CachedResponse>>, u64) {
        let answers = ResponseCache::new(1 << 30);
        let mut keeping = new_builder(&answers, b"key", 0, coding);
        let (parts, last) = reply.split_at(reply.len().saturating_sub(1) / 1_000 * 1_000);
        for part in parts.chunks(RESULT_CHUNK_BYTES) {
            keeping = keeping.collect(part.to_vec()).unwrap_or_else(|_| panic!("there is room"));
        }
        let mut coder = keeping.into_encoder(last.to_vec()).expect("it begins");
        while coder.encode_chunk().expect("it codes") {}
        coder.finish()
    }

    /// An id that is a text of so many bytes.
    fn long_id(bytes: usize) -> Id {
        let body =
            format!(r#"{{"jsonrpc":"2.0","method":"getSlot","id":"{}"}}"#, "x".repeat(bytes));
        match crate::envelope::read(&body) {
            Ok(Request::Single(Call::Method { id, .. })) => id,
            _ => panic!("it is a call"),
        }
    }

    #[test]
    fn whatever_slot_and_id_are_put_around_it_is_one_member_or_frame() {
        let ids = [0, 65_500, 70_000, 131_072, 140_000, 300_000].map(long_id);
        for id in [Id::Number(9)].into_iter().chain(ids) {
            check_framing(&id);
        }
    }

    fn check_framing(id: &Id) {
        let list: String = (0..90_000).map(|n| format!("{n},")).collect();
        for result in [format!("[{list}0]"), "[]".to_owned()] {
            for (context, end) in [("", ""), (r#"{"context":{"slot":123,"a":"b"},"value":"#, "}")] {
                let reply = format!(r#"{{"jsonrpc":"2.0","result":{context}{result}{end}"#);
                for coding in [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd]
                {
                    let (entry, slot) = encode(coding, reply.as_bytes());
                    assert_eq!(slot, if context.is_empty() { 0 } else { 123 });
                    let kept = entry.value.as_ref().expect("it is kept");
                    let sent = kept.response_body(45_678, id).concat();
                    let mut read = String::new();
                    let is_short = reply.len() < COMPRESS_BYTES_MIN;
                    assert_eq!(
                        kept.coding(),
                        if is_short { ContentEncoding::Plain } else { coding }
                    );
                    match kept.coding() {
                        ContentEncoding::Plain => read = String::from_utf8(sent).expect("text"),
                        ContentEncoding::Gzip => {
                            let mut decoder = flate2::bufread::GzDecoder::new(&sent[..]);
                            decoder.read_to_string(&mut read).expect("gzip");
                            assert_eq!(decoder.into_inner().len(), 0, "one member");
                        }
                        ContentEncoding::Zstd => {
                            let decoder = zstd::stream::read::Decoder::new(&sent[..]);
                            let mut decoder = decoder.expect("zstd").single_frame();
                            decoder.read_to_string(&mut read).expect("zstd");
                            let rest = decoder.finish();
                            assert_eq!(rest.buffer().len() + rest.get_ref().len(), 0, "one frame");
                        }
                    }
                    let mut wanted = reply.replace(":123,", ":45678,").into_bytes();
                    close_response(&mut wanted, id);
                    wanted.push(b'\n');
                    assert!(read.as_bytes() == wanted, "{coding:?} of {} bytes", wanted.len());
                }
            }
        }
    }
}

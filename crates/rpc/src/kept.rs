//! Answers as the cache keeps them: the value, coded once, between a beginning with the slot and an end
//! with the id, which are put around it uncoded; or nothing around it, for another door than JSON-RPC.
//!
//! With gzip both are stored blocks of the same member, with zstd raw blocks of the same frame: what
//! goes out is one member or frame as any other.
//! Bounds: the cache's. An answer is collected plain before it is coded: once more its size.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::{Cache, Config, Entry, Fill, Known, Weigh};
use flate2::{Compress, Compression, FlushCompress};

use crate::bare::{self, BEGINNING_BYTES, Told};
use crate::cached::Meaning;
use crate::compress::{COMPRESS_BYTES_MIN, Coding};
use crate::envelope::Id;
use crate::methods::{PIECE_BYTES, PREFIX, close_reply};
use crate::stamp::Run;

/// What precedes the slot within a result that has a context.
const CONTEXT: &[u8] = br#"{"context":{"slot":"#;

/// Magic, frame header, window: what a zstd frame of unknown length begins with.
const ZSTD_HEAD_BYTES: usize = 6;

/// The answer cache, and what names answers that it does not keep.
pub struct Answers {
    pub(crate) cache: Cache<Kept>,
    /// Of this start of the process alone.
    pub(crate) run: Run,
    /// What requests mean whose answers are kept, by their texts.
    pub(crate) known: Known<Meaning>,
    known_hits: AtomicU64,
}

/// Texts of requests that are known: 4 MB, and as much for what is known of them.
const KNOWN_MAX: usize = 8_192;

impl Answers {
    /// A cache of so many bytes; 0 keeps nothing. One answer may have a sixteenth of it.
    pub fn new(bytes_max: u64) -> Self {
        let entry_bytes_max = bytes_max / 16;
        let cache = Cache::new(Config { bytes_max, entry_bytes_max, waiters_max: 4_096 });
        let (known, known_hits) = (Known::new(KNOWN_MAX), AtomicU64::new(0));
        Self { cache, run: Run::new(), known, known_hits }
    }

    /// What the cache has done and holds.
    pub fn counters(&self) -> cache::Counters {
        self.cache.counters()
    }

    /// Of the hits, those whose parameters were not even read, because the same text came before.
    pub fn known_hits(&self) -> u64 {
        self.known_hits.load(Ordering::Relaxed)
    }

    pub(crate) fn count_known(&self) {
        self.known_hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// An answer without slot and id.
pub(crate) struct Kept {
    /// Up to the slot, or to the result if it has none.
    head: Vec<u8>,
    has_slot: bool,
    /// From the slot to the value.
    middle: Vec<u8>,
    /// The value.
    pieces: Vec<Bytes>,
    /// Its first bytes, as they are.
    beginning: Vec<u8>,
    /// Of its bytes, as they are coded.
    hash: [u8; 16],
    coded: Coded,
}

/// What is needed to put something around it.
enum Coded {
    Plain,
    /// The checksum of the plain bytes, and how many they are.
    Gzip(crc32fast::Hasher, u64),
    Zstd([u8; ZSTD_HEAD_BYTES]),
}

impl Weigh for Kept {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Kept {
    pub(crate) fn coding(&self) -> Coding {
        match self.coded {
            Coded::Plain => Coding::Plain,
            Coded::Gzip(..) => Coding::Gzip,
            Coded::Zstd(_) => Coding::Zstd,
        }
    }

    /// The reply to request `id`, true at `slot`.
    pub(crate) fn reply(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let mut head = self.head.clone();
        if self.has_slot {
            head.extend_from_slice(slot.to_string().as_bytes());
        }
        head.extend_from_slice(&self.middle);
        let mut tail = Vec::new();
        if self.has_slot {
            tail.push(b'}');
        }
        close_reply(&mut tail, id);
        tail.push(b'\n');
        self.between(head, tail)
    }

    /// The value alone.
    pub(crate) fn bare(&self) -> Vec<Bytes> {
        self.between(Vec::new(), Vec::new())
    }

    /// What is told of the value, true at `slot`.
    pub(crate) fn told(&self, slot: u64) -> Told {
        Told {
            slot: self.has_slot.then_some(slot),
            beginning: self.beginning.clone(),
            hash: Some(self.hash),
            ..Told::default()
        }
    }

    /// The value between two things that are not coded.
    fn between(&self, head: Vec<u8>, tail: Vec<u8>) -> Vec<Bytes> {
        let (head, tail) = match &self.coded {
            Coded::Plain => (head, tail),
            Coded::Gzip(crc, bytes) => gzip_around((crc, *bytes), &head, &tail),
            Coded::Zstd(begin) => {
                let head = [&begin[..], &raw_block(&head, false)].concat();
                (head, raw_block(&tail, true))
            }
        };
        let mut reply = Vec::with_capacity(self.pieces.len() + 2);
        reply.push(head.into());
        reply.extend(self.pieces.iter().cloned());
        reply.push(tail.into());
        reply.retain(|part| !part.is_empty());
        reply
    }
}

fn gzip_around(
    (body, body_bytes): (&crc32fast::Hasher, u64),
    head: &[u8],
    tail: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.combine(body);
    let mut of_tail = crc32fast::Hasher::new();
    of_tail.update(tail);
    crc.combine(&of_tail);
    let bytes = body_bytes + (head.len() + tail.len()) as u64;
    let bytes = bytes as u32; // by the format, the low half
    let begin = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &stored_block(head, false)].concat();
    let end = [&stored_block(tail, true)[..], &crc.finalize().to_le_bytes(), &bytes.to_le_bytes()];
    (begin, end.concat())
}

/// A deflate block of bytes as they are; fewer than 65,536.
fn stored_block(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let len = bytes.len() as u16;
    [&[u8::from(is_last)][..], &len.to_le_bytes(), &(!len).to_le_bytes(), bytes].concat()
}

/// A zstd block of bytes as they are; fewer than 128 KiB.
fn raw_block(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let header = u32::from(is_last) | (bytes.len() as u32) << 3;
    [&header.to_le_bytes()[..3], bytes].concat()
}

/// An answer on its way into the cache.
pub(crate) struct Keeping {
    fill: Fill<Kept>,
    made_at: u64,
    read: Box<[u64]>,
    coding: Coding,
}

/// A whole answer that is being coded.
pub(crate) struct Coder {
    keeping: Keeping,
    head: Vec<u8>,
    slot: Option<u64>,
    middle: Vec<u8>,
    beginning: Vec<u8>,
    body: Bytes,
    pieces: Vec<Bytes>,
    hasher: blake3::Hasher,
    by: By,
}

enum By {
    Plain,
    Gzip(Box<Compress>, crc32fast::Hasher),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Keeping {
    pub(crate) fn new(fill: Fill<Kept>, made_at: u64, read: Box<[u64]>, coding: Coding) -> Self {
        Self { fill, made_at, read, coding }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        usize::try_from(self.fill.bytes_max()).unwrap_or(usize::MAX)
    }

    /// It has become too large: whoever asks next need not wait to learn it.
    pub(crate) fn give_up(self) {
        self.fill.done(Entry { answer: None, made_at: self.made_at, read: self.read });
    }

    /// Begins to code a reply up to the end of its result.
    pub(crate) fn code(self, mut reply: Vec<u8>) -> std::io::Result<Coder> {
        let result = reply.get(PREFIX.len()..).unwrap_or_default();
        let (slot, context_len) = bare::context(result);
        // The context begins with its slot: what a context is, is said in one place.
        let slot = slot.filter(|_| result.starts_with(CONTEXT));
        let head_len = PREFIX.len() + slot.map_or(0, |_| CONTEXT.len());
        let slot_len = slot.map_or(0, |slot| slot.to_string().len());
        let value_at = PREFIX.len() + slot.map_or(0, |_| context_len);
        let head = reply[..head_len].to_vec();
        let middle = reply[head_len + slot_len..value_at].to_vec();
        let is_short = reply.len() < COMPRESS_BYTES_MIN;
        if slot.is_some() {
            reply.pop(); // the brace around context and value
        }
        reply.shrink_to_fit();
        let body = Bytes::from(reply).slice(value_at..);
        let beginning = body[..body.len().min(BEGINNING_BYTES)].to_vec();
        let by = match if is_short { Coding::Plain } else { self.coding } {
            Coding::Plain => By::Plain,
            Coding::Gzip => By::Gzip(
                Box::new(Compress::new(Compression::fast(), false)),
                crc32fast::Hasher::new(),
            ),
            Coding::Zstd => By::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        };
        let (pieces, hasher) = (Vec::new(), blake3::Hasher::new());
        Ok(Coder { keeping: self, head, slot, middle, beginning, body, pieces, hasher, by })
    }
}

impl Coder {
    /// Codes a piece; whether there is more.
    pub(crate) fn step(&mut self) -> std::io::Result<bool> {
        let piece = self.body.split_to(self.body.len().min(PIECE_BYTES));
        let is_last = self.body.is_empty();
        match &mut self.by {
            By::Plain => self.pieces.push(piece),
            By::Gzip(compress, crc) => {
                crc.update(&piece);
                let flush = if is_last { FlushCompress::Sync } else { FlushCompress::None };
                let coded = deflate(compress, &piece, flush)?;
                self.pieces.push(coded.into());
            }
            By::Zstd(encoder) => {
                encoder.write_all(&piece)?;
                if is_last {
                    encoder.flush()?;
                }
                self.pieces.push(std::mem::take(encoder.get_mut()).into());
            }
        }
        if let Some(coded) = self.pieces.last() {
            self.hasher.update(coded);
        }
        Ok(!is_last)
    }

    /// The answer, which is given to whoever waits; with the slot that it was made at.
    pub(crate) fn done(self) -> (Arc<Entry<Kept>>, u64) {
        let Self { keeping, head, slot, middle, beginning, mut pieces, hasher, by, .. } = self;
        let coded = match by {
            By::Plain => Coded::Plain,
            By::Gzip(compress, crc) => Coded::Gzip(crc, compress.total_in()),
            By::Zstd(_) => {
                let mut begin = [0; ZSTD_HEAD_BYTES];
                if let Some(first) = pieces.iter_mut().find(|piece| piece.len() >= begin.len()) {
                    begin.copy_from_slice(&first.split_to(ZSTD_HEAD_BYTES));
                }
                Coded::Zstd(begin)
            }
        };
        pieces.retain(|piece| !piece.is_empty());
        let (has_slot, hash) = (slot.is_some(), bare::short(&hasher));
        let answer = Some(Kept { head, has_slot, middle, pieces, beginning, hash, coded });
        let Keeping { fill, made_at, read, .. } = keeping;
        (fill.done(Entry { answer, made_at, read }), slot.unwrap_or_default())
    }
}

fn deflate(
    compress: &mut Compress,
    mut from: &[u8],
    flush: FlushCompress,
) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(from.len() / 4 + 1024);
    loop {
        let before = compress.total_in();
        compress.compress_vec(from, &mut out, flush)?;
        from = &from[(compress.total_in() - before) as usize..];
        // With room left in `out` everything was taken, and flushed if that was asked.
        if from.is_empty() && out.len() < out.capacity() {
            return Ok(out);
        }
        out.reserve(out.capacity().max(1024));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn code(coding: Coding, reply: &[u8]) -> (Arc<Entry<Kept>>, u64) {
        let answers = Answers::new(1 << 30);
        let tell = || -> cache::Tell<Kept> { Box::new(|_| {}) };
        let cache::Find::Make(fill) = answers.cache.find(b"key", 0, |_| 0, tell) else {
            panic!("it is empty")
        };
        let keeping = Keeping::new(fill, 0, Box::default(), coding);
        let mut coder = keeping.code(reply.to_vec()).expect("it begins");
        while coder.step().expect("it codes") {}
        coder.done()
    }

    #[test]
    fn whatever_slot_and_id_are_put_around_it_is_one_member_or_frame() {
        let list: String = (0..90_000).map(|n| format!("{n},")).collect();
        for result in [format!("[{list}0]"), "[]".to_owned()] {
            for (context, end) in [("", ""), (r#"{"context":{"slot":123,"a":"b"},"value":"#, "}")] {
                let reply = format!(r#"{{"jsonrpc":"2.0","result":{context}{result}{end}"#);
                for coding in [Coding::Plain, Coding::Gzip, Coding::Zstd] {
                    let (entry, slot) = code(coding, reply.as_bytes());
                    assert_eq!(slot, if context.is_empty() { 0 } else { 123 });
                    let kept = entry.answer.as_ref().expect("it is kept");
                    let sent = kept.reply(45_678, &Id::Number(9)).concat();
                    let mut read = String::new();
                    let is_short = reply.len() < COMPRESS_BYTES_MIN;
                    assert_eq!(kept.coding(), if is_short { Coding::Plain } else { coding });
                    match kept.coding() {
                        Coding::Plain => read = String::from_utf8(sent).expect("text"),
                        Coding::Gzip => {
                            let mut decoder = flate2::bufread::GzDecoder::new(&sent[..]);
                            decoder.read_to_string(&mut read).expect("gzip");
                            assert_eq!(decoder.into_inner().len(), 0, "one member");
                        }
                        Coding::Zstd => {
                            let decoder = zstd::stream::read::Decoder::new(&sent[..]);
                            let mut decoder = decoder.expect("zstd").single_frame();
                            decoder.read_to_string(&mut read).expect("zstd");
                            let rest = decoder.finish();
                            assert_eq!(rest.buffer().len() + rest.get_ref().len(), 0, "one frame");
                        }
                    }
                    let wanted = reply.replace(":123,", ":45678,") + ",\"id\":9}\n";
                    assert!(read == wanted, "{coding:?} of {} bytes", wanted.len());
                }
            }
        }
    }
}

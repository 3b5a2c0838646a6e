//! Answers as the cache keeps them: the value, coded once, between a beginning with the slot and an end
//! with the id, which are put around it uncoded; or nothing around it, for another door than JSON-RPC.
//!
//! With gzip both are stored blocks of the same member, with zstd raw blocks of the same frame: what
//! goes out is one member or frame as any other.
//! Bounds: the cache's, and those of [`crate::held`] for what is collected plain before it is coded, and for
//! what is sent after the cache has forgotten it. An answer that goes past them is given up: streamed.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::{Cache, Config, Entry, Fill, Known, Weigh};
use flate2::{Compress, Compression, FlushCompress};
use pool::ClientId;
use pool::Slice;

use crate::bare::{self, BEGINNING_BYTES, Told};
use crate::cached::Meaning;
use crate::compress::{COMPRESS_BYTES_MIN, Coding};
use crate::envelope::Id;
use crate::error::RpcError;
use crate::held::{Collected, Room};
use crate::methods::{PIECE_BYTES, PREFIX, Pieces, Progress, close_reply};
use crate::stamp::Run;

/// What precedes the slot within a result that has a context.
const CONTEXT: &[u8] = br#"{"context":{"slot":"#;

/// Magic, frame header, window: what a zstd frame of unknown length begins with.
const ZSTD_HEAD_BYTES: usize = 6;

/// Bytes of one stored block of deflate: its length has 16 bits.
const STORED_BYTES_MAX: usize = 65_535;

/// Bytes of one block of zstd, by its format: its window is never smaller.
const RAW_BYTES_MAX: usize = 128 * 1024;

/// The answer cache, and what names answers that it does not keep.
pub struct Answers {
    pub(crate) cache: Cache<Kept>,
    /// What answers may hold.
    pub(crate) room: Room,
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
        let room = Room::new(bytes_max);
        Self { cache, room, run: Run::new(), known, known_hits }
    }

    /// Bytes of answers that are collected, kept, or kept no more and not sent yet: at most the cache's and a
    /// quarter more.
    pub fn held_bytes(&self) -> u64 {
        self.room.held_bytes()
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
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        self.write_head(slot, &mut head);
        self.write_end(&mut tail);
        close_reply(&mut tail, id);
        tail.push(b'\n');
        self.between(head, tail)
    }

    /// The same as one of several in a batch, if it is plain.
    pub(crate) fn reply_in_batch(&self, slot: u64, id: &Id) -> Vec<Bytes> {
        let mut reply = self.reply(slot, id);
        if let Some(tail) = reply.last_mut() {
            tail.truncate(tail.len() - 1); // the newline, which is never alone
        }
        reply
    }

    /// Appends what precedes the value.
    fn write_head(&self, slot: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if self.has_slot {
            out.extend_from_slice(slot.to_string().as_bytes());
        }
        out.extend_from_slice(&self.middle);
    }

    /// Appends what follows the value within the result.
    fn write_end(&self, out: &mut Vec<u8>) {
        if self.has_slot {
            out.push(b'}');
        }
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
                let head = [&begin[..], &raw_blocks(&head, false)].concat();
                (head, raw_blocks(&tail, true))
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

/// A kept answer on its way into a batch, part by part: it is held, and never copied as a whole.
pub(crate) struct Copying {
    entry: Arc<Entry<Kept>>,
    copied: usize,
}

impl Copying {
    /// Appends the beginning of the reply, true at `slot`; `None` if there is no answer, or it is compressed.
    pub(crate) fn begin(entry: Arc<Entry<Kept>>, slot: u64, out: &mut Vec<u8>) -> Option<Self> {
        let kept = entry.answer.as_ref()?;
        if kept.coding() != Coding::Plain {
            return None;
        }
        kept.write_head(slot, out);
        Some(Self { entry, copied: 0 })
    }
}

impl Pieces for Copying {
    fn write(&mut self, slice: &Slice<'_>, out: &mut Vec<u8>) -> Result<Progress, RpcError> {
        let kept = self.entry.answer.as_ref().ok_or_else(RpcError::internal)?;
        while let Some(part) = kept.pieces.get(self.copied) {
            if out.len() >= PIECE_BYTES || slice.is_over() {
                return Ok(Progress::More);
            }
            out.extend_from_slice(part);
            self.copied += 1;
        }
        kept.write_end(out);
        Ok(Progress::Done)
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
    let begin = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &stored_blocks(head, false)].concat();
    let end = [&stored_blocks(tail, true)[..], &crc.finalize().to_le_bytes(), &bytes.to_le_bytes()];
    (begin, end.concat())
}

/// Deflate blocks of bytes as they are.
fn stored_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    in_blocks(bytes, STORED_BYTES_MAX, ends, |out, bytes, is_last| {
        let len = bytes.len() as u16; // as many as STORED_BYTES_MAX at most
        out.push(u8::from(is_last));
        out.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    })
}

/// Zstd blocks of bytes as they are.
fn raw_blocks(bytes: &[u8], ends: bool) -> Vec<u8> {
    in_blocks(bytes, RAW_BYTES_MAX, ends, |out, bytes, is_last| {
        let header = u32::from(is_last) | (bytes.len() as u32) << 3;
        out.extend(&header.to_le_bytes()[..3]);
    })
}

/// Bytes behind headers, at least one; the last ends the stream, if that `ends` here.
fn in_blocks(
    bytes: &[u8],
    bytes_max: usize,
    ends: bool,
    header: impl Fn(&mut Vec<u8>, &[u8], bool),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut rest = bytes;
    loop {
        let (block, after) = rest.split_at(rest.len().min(bytes_max));
        header(&mut out, block, ends && after.is_empty());
        out.extend_from_slice(block);
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
}

/// An answer on its way into the cache.
pub(crate) struct Keeping {
    fill: Fill<Kept>,
    made_at: u64,
    read: Box<[u64]>,
    coding: Coding,
    collected: Collected,
}

/// Why an answer is not kept after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// It is larger than one answer may be.
    TooLarge,
    /// Too many are being collected.
    NoRoom,
}

impl GaveUp {
    /// As the log says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::NoRoom => "no room",
        }
    }
}

/// A whole answer that is being coded.
pub(crate) struct Coder {
    keeping: Keeping,
    head: Vec<u8>,
    slot: Option<u64>,
    middle: Vec<u8>,
    beginning: Vec<u8>,
    /// What is not coded yet.
    body: Collected,
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
    pub(crate) fn new(
        answers: &Answers,
        fill: Fill<Kept>,
        made_at: u64,
        read: Box<[u64]>,
        (coding, client): (Coding, ClientId),
    ) -> Self {
        let collected = Collected::new(&answers.room, client);
        Self { fill, made_at, read, coding, collected }
    }

    /// Whether there is room for what is collected and more. If all of it is held, the cache gives up some.
    pub(crate) fn has_room(&self) -> bool {
        let (cache, room) = (self.fill.cache(), self.collected.room());
        if room.is_full() {
            cache.make_room(self.fill.bytes_max());
        }
        !room.is_full() && self.collected.bytes() < self.collected.share(cache.bytes())
    }

    /// Takes the next part of the reply. If it is not to be kept after all, why, and all parts of it.
    pub(crate) fn collect(mut self, part: Vec<u8>) -> Result<Self, (GaveUp, Collected)> {
        self.collected.push(part);
        if self.collected.bytes() > self.fill.bytes_max() {
            return Err((GaveUp::TooLarge, self.give_up(GaveUp::TooLarge)));
        }
        if !self.has_room() {
            return Err((GaveUp::NoRoom, self.give_up(GaveUp::NoRoom)));
        }
        Ok(self)
    }

    /// How much of the reply was collected.
    pub(crate) fn bytes(&self) -> u64 {
        self.collected.bytes()
    }

    /// Whoever waits for it is told at once; that it is too large is told to all who ask next as well.
    fn give_up(self, why: GaveUp) -> Collected {
        let entry = Entry { answer: None, made_at: self.made_at, read: self.read };
        match why {
            GaveUp::TooLarge => drop(self.fill.done(entry)),
            GaveUp::NoRoom => self.fill.not_now(entry),
        }
        self.collected
    }

    /// Begins to code a reply up to the end of its result, of which these are the last bytes.
    pub(crate) fn code(mut self, mut last: Vec<u8>) -> std::io::Result<Coder> {
        let bytes = self.collected.bytes() + last.len() as u64;
        let begins = if self.collected.is_empty() { &last[..] } else { self.collected.first() };
        let result = begins.get(PREFIX.len()..).unwrap_or_default();
        let (slot, context_len) = bare::context(result);
        // The context begins with its slot: what a context is, is said in one place.
        let slot = slot.filter(|_| result.starts_with(CONTEXT));
        let head_len = PREFIX.len() + slot.map_or(0, |_| CONTEXT.len());
        let slot_len = slot.map_or(0, |slot| slot.to_string().len());
        let value_at = PREFIX.len() + slot.map_or(0, |_| context_len);
        let head = begins[..head_len].to_vec();
        let middle = begins[head_len + slot_len..value_at].to_vec();
        if slot.is_some() {
            last.pop(); // the brace around context and value
        }
        let is_short = bytes < COMPRESS_BYTES_MIN as u64;
        let none = self.collected.another();
        let mut body = std::mem::replace(&mut self.collected, none);
        body.push(last);
        body.skip(value_at);
        let beginning = body.first();
        let beginning = beginning[..beginning.len().min(BEGINNING_BYTES)].to_vec();
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
        let piece = self.body.pop(PIECE_BYTES).unwrap_or_default();
        let is_last = self.body.is_empty();
        let room = self.body.room();
        match &mut self.by {
            By::Plain => self.pieces.push(piece),
            By::Gzip(compress, crc) => {
                crc.update(&piece);
                let flush = if is_last { FlushCompress::Sync } else { FlushCompress::None };
                let coded = deflate(compress, &piece, flush)?;
                self.pieces.push(room.hold(coded));
            }
            By::Zstd(encoder) => {
                encoder.write_all(&piece)?;
                if is_last {
                    encoder.flush()?;
                }
                self.pieces.push(room.hold(std::mem::take(encoder.get_mut())));
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
    use crate::envelope::{Call, Request};

    /// To make the answer to a key of which something has changed at a moment.
    fn keeping(answers: &Answers, key: &[u8], at: u64, coding: Coding) -> Keeping {
        let cache::Begun::Make(fill) = answers.cache.begin(key, None, at, |_| at, || None) else {
            panic!("it is not there")
        };
        Keeping::new(answers, fill, at, [0].into(), (coding, ClientId(1)))
    }

    #[test]
    fn answers_that_are_replaced_and_still_read_do_not_end_the_cache() {
        let answers = Answers::new(1 << 20);
        let keep = |key: u32, at: u64| {
            let keeping = keeping(&answers, &key.to_le_bytes(), at, Coding::Plain);
            assert!(keeping.has_room(), "{key}: {} held", answers.held_bytes());
            let part = vec![b'1'; 30_000];
            let keeping = keeping.collect(part).unwrap_or_else(|_| panic!("{key}: there is room"));
            let mut coder = keeping.code(b"1".to_vec()).expect("it begins");
            while coder.step().expect("it codes") {}
            coder.done().0
        };
        (1..100).for_each(|key| drop(keep(key, 1)));
        let full = answers.cache.bytes();
        assert!(full > 900_000, "{full}");
        // One changes again and again, and each is read slowly.
        let slow: Vec<_> = (1..18).map(|at| keep(0, at)).collect();
        assert!(answers.held_bytes() <= (1 << 20) / 4 * 5 + 64 * 1024, "{}", answers.held_bytes());
        let left = answers.cache.bytes();
        assert!(left > 600_000 && left < 900_000, "{left}");
        drop(slow);
        (100..200).for_each(|key| drop(keep(key, 1)));
        assert!(answers.cache.bytes() > 900_000, "all of the cache is used again");
    }

    fn code(coding: Coding, reply: &[u8]) -> (Arc<Entry<Kept>>, u64) {
        let answers = Answers::new(1 << 30);
        let mut keeping = keeping(&answers, b"key", 0, coding);
        let (parts, last) = reply.split_at(reply.len().saturating_sub(1) / 1_000 * 1_000);
        for part in parts.chunks(PIECE_BYTES) {
            keeping = keeping.collect(part.to_vec()).unwrap_or_else(|_| panic!("there is room"));
        }
        let mut coder = keeping.code(last.to_vec()).expect("it begins");
        while coder.step().expect("it codes") {}
        coder.done()
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
            around(&id);
        }
    }

    fn around(id: &Id) {
        let list: String = (0..90_000).map(|n| format!("{n},")).collect();
        for result in [format!("[{list}0]"), "[]".to_owned()] {
            for (context, end) in [("", ""), (r#"{"context":{"slot":123,"a":"b"},"value":"#, "}")] {
                let reply = format!(r#"{{"jsonrpc":"2.0","result":{context}{result}{end}"#);
                for coding in [Coding::Plain, Coding::Gzip, Coding::Zstd] {
                    let (entry, slot) = code(coding, reply.as_bytes());
                    assert_eq!(slot, if context.is_empty() { 0 } else { 123 });
                    let kept = entry.answer.as_ref().expect("it is kept");
                    let sent = kept.reply(45_678, id).concat();
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
                    let mut wanted = reply.replace(":123,", ":45678,").into_bytes();
                    close_reply(&mut wanted, id);
                    wanted.push(b'\n');
                    assert!(read.as_bytes() == wanted, "{coding:?} of {} bytes", wanted.len());
                }
            }
        }
    }
}

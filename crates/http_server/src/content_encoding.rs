//! Compression of responses: gzip or zstd, by content negotiation. Runs on the CPU pool, chunk by chunk.
//!
//! Bounds: about 300 KB of memory for each response with gzip, about 1 MB with zstd at level 1.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderMap, HeaderValue};

/// Shorter responses are not compressed.
pub const COMPRESS_BYTES_MIN: usize = 1_024;

/// Encoding of the bytes of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEncoding {
    /// Not compressed.
    #[default]
    Plain,
    /// Gzip, at its fastest.
    Gzip,
    /// Zstd, at its fastest.
    Zstd,
}

impl ContentEncoding {
    /// The encoding that a client prefers of those that we have, by all lines of `Accept-Encoding` (RFC 9110,
    /// 12.5.3). Zstd if it names both with equal weight: that is less work for both sides. A client that
    /// accepts anything (`*`) gets gzip, which every client can decode. `Plain` if the client accepts nothing
    /// else, even if it refuses that.
    pub fn negotiate(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(header::ACCEPT_ENCODING).iter().peekable();
        if lines.peek().is_none() {
            return Self::Plain;
        }
        let offers = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        let mut accepted = AcceptEncoding::default();
        offers.for_each(|offer| accepted.add_offer(offer));
        accepted.best()
    }

    /// Its value of `Content-Encoding`; `None` for `Plain`.
    pub fn header(self) -> Option<HeaderValue> {
        match self {
            Self::Plain => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }
}

/// Parsed `Accept-Encoding`: for each encoding that is named, its first weight in thousandths.
#[derive(Default)]
struct AcceptEncoding {
    plain: Option<u16>,
    gzip: Option<u16>,
    zstd: Option<u16>,
    /// Weight of every encoding that is not named (`*`).
    any: Option<u16>,
}

impl AcceptEncoding {
    fn add_offer(&mut self, offer: &str) {
        let (name, params) = offer.split_once(';').unwrap_or((offer, ""));
        let name = name.trim_matches([' ', '\t']);
        let is = |coding: &str| name.eq_ignore_ascii_case(coding);
        let named = if is("gzip") || is("x-gzip") {
            &mut self.gzip
        } else if is("zstd") {
            &mut self.zstd
        } else if is("identity") {
            &mut self.plain
        } else if is("*") {
            &mut self.any
        } else {
            return;
        };
        // A weight that is not valid is ignored.
        if let Some(weight) = parse_qvalue(params) {
            named.get_or_insert(weight);
        }
    }

    fn best(&self) -> ContentEncoding {
        let any = self.any.unwrap_or(0);
        // The first of equal weight wins. An encoding that is accepted by `*` comes after one that is named,
        // and `Plain` comes last.
        let ranked = [
            (ContentEncoding::Zstd, self.zstd.unwrap_or(0)),
            (ContentEncoding::Gzip, self.gzip.unwrap_or(any)),
            (ContentEncoding::Zstd, self.zstd.unwrap_or(any)),
            (ContentEncoding::Plain, self.plain.unwrap_or(0)),
        ];
        let mut best = (ContentEncoding::Plain, 0);
        for (coding, weight) in ranked {
            if weight > best.1 {
                best = (coding, weight);
            }
        }
        best.0
    }
}

/// The weight in these parameters, in thousandths: that of `q`, 1,000 if there is no `q`; `None` if it is not a
/// valid weight (RFC 9110, 12.4.2; more than three digits are accepted).
pub fn parse_qvalue(params: &str) -> Option<u16> {
    let mut params = params.split(';').map(|param| param.trim_matches([' ', '\t']));
    let Some(q) = params.find_map(|param| param.strip_prefix(['q', 'Q'])?.strip_prefix('=')) else {
        return Some(1_000);
    };
    let (whole, digits) = q.split_once('.').unwrap_or((q, ""));
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut digits = digits.bytes().map(|digit| u16::from(digit - b'0'));
    let mut digit = || digits.next().unwrap_or(0);
    let thousandths = digit() * 100 + digit() * 10 + digit();
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
}

/// Encodes complete bytes at once: for content that is built once and sent often.
pub fn encode_all(coding: ContentEncoding, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = BodyEncoder::new(coding)?;
    let mut out = encoder.encode(bytes.to_vec())?;
    out.extend(encoder.finish()?);
    Ok(out)
}

/// Bytes that an encoder gets at once. The output is then the same for any division of a response into chunks,
/// which its `ETag` relies on (`etag`).
const STEP_BYTES: usize = 64 * 1024;

/// Encodes the chunks of one response.
pub struct BodyEncoder {
    kind: EncoderKind,
    /// Less than [`STEP_BYTES`].
    waiting: Vec<u8>,
}

enum EncoderKind {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl BodyEncoder {
    /// An encoder for one body. Errors: the library could not allocate its state.
    pub fn new(coding: ContentEncoding) -> std::io::Result<Self> {
        let kind = match coding {
            ContentEncoding::Plain => EncoderKind::Plain,
            ContentEncoding::Gzip => {
                EncoderKind::Gzip(GzEncoder::new(Vec::new(), Compression::fast()))
            }
            ContentEncoding::Zstd => {
                EncoderKind::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?)
            }
        };
        Ok(Self { kind, waiting: Vec::new() })
    }

    /// Encodes a chunk; returns the output that is ready, which may be empty.
    pub fn encode(&mut self, chunk: Vec<u8>) -> std::io::Result<Vec<u8>> {
        if matches!(self.kind, EncoderKind::Plain) {
            return Ok(chunk);
        }
        let mut left = &chunk[..];
        if !self.waiting.is_empty() {
            let missing = (STEP_BYTES - self.waiting.len()).min(left.len());
            let (first, rest) = left.split_at(missing);
            self.waiting.extend_from_slice(first);
            left = rest;
            if self.waiting.len() < STEP_BYTES {
                return Ok(self.kind.take_output());
            }
            self.kind.write_bytes(&self.waiting)?;
            self.waiting.clear();
        }
        let mut steps = left.chunks_exact(STEP_BYTES);
        for step in &mut steps {
            self.kind.write_bytes(step)?;
        }
        self.waiting.extend_from_slice(steps.remainder());
        Ok(self.kind.take_output())
    }

    /// The rest of the output after the last chunk.
    pub fn finish(mut self) -> std::io::Result<Vec<u8>> {
        self.kind.write_bytes(&self.waiting)?;
        match self.kind {
            EncoderKind::Plain => Ok(Vec::new()),
            EncoderKind::Gzip(encoder) => encoder.finish(),
            EncoderKind::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl EncoderKind {
    fn write_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn take_output(&mut self) -> Vec<u8> {
        match self {
            Self::Plain => Vec::new(),
            Self::Gzip(encoder) => std::mem::take(encoder.get_mut()),
            Self::Zstd(encoder) => std::mem::take(encoder.get_mut()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_client_gets_the_encoding_that_it_prefers() {
        use ContentEncoding::{Gzip, Plain, Zstd};
        let cases: &[(&[&str], ContentEncoding)] = &[
            (&[], Plain),
            (&[""], Plain),
            (&["br"], Plain),
            (&["gzip, deflate"], Gzip),
            (&["gzip, deflate, br, zstd"], Zstd),
            (&["zstd;q=0.5, GZIP;q=0.8"], Gzip),
            (&["gzip;q=0"], Plain),
            (&["zstd;q=0, gzip;q=0.1"], Gzip),
            (&["x-gzip"], Gzip),
            // More than one line is one list.
            (&["br", "gzip"], Gzip),
            (&["gzip", "zstd"], Zstd),
            (&["gzip;q=0.9", "zstd;q=0.3"], Gzip),
            (&["br, deflate", "", " , gzip ;\tQ=0.5 ,"], Gzip),
            (&["caf\u{e9}", "gzip"], Gzip),
            // The first weight counts.
            (&["gzip;q=0", "gzip"], Plain),
            // `*` is any encoding that is not named.
            (&["*"], Gzip),
            (&["*;q=0.1"], Gzip),
            (&["gzip;q=0, *"], Zstd),
            (&["*, zstd"], Zstd),
            (&["*, zstd;q=0.5"], Gzip),
            (&["zstd;q=0.5, *;q=0.5"], Zstd),
            (&["*;q=0"], Plain),
            (&["*;q=0, zstd"], Zstd),
            (&["gzip, *;q=0"], Gzip),
            (&["zstd;q=0, gzip;q=0, *"], Plain),
            // Plain: the last choice unless it is named, and the only one if nothing else is accepted.
            (&["identity"], Plain),
            (&["identity, gzip"], Gzip),
            (&["identity, gzip;q=0.5"], Plain),
            (&["identity;q=0.5, gzip;q=0.4, zstd;q=0.6"], Zstd),
            (&["identity;q=1, *;q=0.5"], Plain),
            (&["identity;q=0"], Plain),
            (&["identity;q=0, br"], Plain),
            (&["identity;q=0, *;q=0"], Plain),
            (&["identity;q=0, *"], Gzip),
            // A weight that is not valid is ignored.
            (&["gzip;q=2"], Plain),
            (&["gzip;q=x, zstd;q=0.1"], Zstd),
            (&["gzip;q="], Plain),
            (&["gzip;q=NaN"], Plain),
            (&["gzip;q=-0.5"], Plain),
            (&["gzip;q=0.0004"], Plain),
            (&["gzip;q=0.00190"], Gzip),
            (&["gzip;level=9;q=0"], Plain),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                let line = HeaderValue::from_bytes(line.as_bytes()).expect("a header");
                headers.append(header::ACCEPT_ENCODING, line);
            }
            assert_eq!(ContentEncoding::negotiate(&headers), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_weight_is_a_number_from_0_to_1() {
        for (params, expected) in [
            ("", Some(1_000)),
            ("level=1", Some(1_000)),
            ("q=1", Some(1_000)),
            ("q=1.000", Some(1_000)),
            ("q=1.", Some(1_000)),
            (" q=0.5 ", Some(500)),
            ("charset=utf-8; Q=0.125", Some(125)),
            ("q=0", Some(0)),
            ("q=0.33333", Some(333)),
            ("q=1.001", None),
            ("q=.5", None),
            ("q=0.5x", None),
            ("q=1e0", None),
            ("q=10", None),
        ] {
            assert_eq!(parse_qvalue(params), expected, "{params}");
        }
    }

    #[test]
    fn the_output_does_not_depend_on_the_division_into_chunks() -> std::io::Result<()> {
        let mut random = fastrand::Rng::with_seed(3);
        let text: Vec<u8> =
            (0..300_000).flat_map(|n| format!("{},", n * random.u32(..9)).into_bytes()).collect();
        for coding in [ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let whole = encode_all(coding, &text)?;
            for bytes_max in [3_000, 70_000, 400_000] {
                let mut encoder = BodyEncoder::new(coding)?;
                let mut left = &text[..];
                let mut sent = vec![];
                while !left.is_empty() {
                    let (chunk, rest) = left.split_at(random.usize(1..=bytes_max.min(left.len())));
                    sent.extend(encoder.encode(chunk.to_vec())?);
                    left = rest;
                }
                sent.extend(encoder.finish()?);
                assert!(sent == whole, "{coding:?} {bytes_max}");
            }
        }
        Ok(())
    }

    #[test]
    fn chunks_decode_to_their_input() -> std::io::Result<()> {
        let chunks: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; 10_000]).collect();
        for coding in [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let mut encoder = BodyEncoder::new(coding)?;
            let mut sent = Vec::new();
            for chunk in &chunks {
                sent.extend(encoder.encode(chunk.clone())?);
            }
            sent.extend(encoder.finish()?);
            let mut read = Vec::new();
            match coding {
                ContentEncoding::Plain => read = sent,
                ContentEncoding::Gzip => {
                    flate2::read::GzDecoder::new(&sent[..]).read_to_end(&mut read)?;
                }
                ContentEncoding::Zstd => read = zstd::stream::decode_all(&sent[..])?,
            }
            assert_eq!(read, chunks.concat(), "{coding:?}");
        }
        Ok(())
    }
}

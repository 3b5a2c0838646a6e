//! Compression of answers: gzip or zstd, as the client asks. Runs on the CPU pool, piece by piece.
//!
//! Bounds: about 300 KB of an answer's own for gzip, about 1 MB for zstd at level 1.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderMap, HeaderValue};

/// What is shorter goes as it is.
pub(crate) const COMPRESS_BYTES_MIN: usize = 1_024;

/// How the bytes of an answer are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEncoding {
    /// As they are.
    #[default]
    Plain,
    /// Gzip, at its fastest.
    Gzip,
    /// Zstd, at its fastest.
    Zstd,
}

impl ContentEncoding {
    /// What a client likes best of what we have, by all lines of `Accept-Encoding` (RFC 9110, 12.5.3). Zstd if
    /// it names both and likes both as much: less work for both. Who takes anything (`*`) gets gzip, which
    /// everybody reads. As it is if nothing else is taken: also for who does not take that.
    pub fn negotiate(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(header::ACCEPT_ENCODING).iter().peekable();
        if lines.peek().is_none() {
            return Self::Plain;
        }
        let offers = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        let mut asked = AcceptEncoding::default();
        offers.for_each(|offer| asked.add_offer(offer));
        asked.best()
    }

    /// Its value of `Content-Encoding`; none if the bytes are as they are.
    pub fn header(self) -> Option<HeaderValue> {
        match self {
            Self::Plain => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }
}

/// What `Accept-Encoding` says: of each coding the weight that it was first given, if it was named.
#[derive(Default)]
struct AcceptEncoding {
    plain: Option<u16>,
    gzip: Option<u16>,
    zstd: Option<u16>,
    /// Of every coding that is not named.
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
        // What is no weight says nothing.
        if let Some(weight) = parse_qvalue(params) {
            named.get_or_insert(weight);
        }
    }

    fn best(&self) -> ContentEncoding {
        let any = self.any.unwrap_or(0);
        // Of those that are liked as much the first. Who names none but what it takes as it is, likes that less.
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

/// How much is liked what has these parameters, in thousandths: those of its `q`, 1,000 if it has none; `None`
/// if that is no weight (RFC 9110, 12.4.2; more than three digits are no mistake).
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

/// Codes bytes that are all there, at once: for what is made once and sent often.
pub fn encode_all(coding: ContentEncoding, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = BodyEncoder::new(coding)?;
    let mut out = encoder.encode(bytes.to_vec())?;
    out.extend(encoder.finish()?);
    Ok(out)
}

/// An encoder is given so much at once: what comes out is then the same however an answer was cut into
/// pieces, which its `ETag` counts on (`stamp`).
const STEP_BYTES: usize = 64 * 1024;

/// Codes the pieces of one answer.
pub(crate) struct BodyEncoder {
    kind: EncoderKind,
    /// Less than a step.
    waiting: Vec<u8>,
}

enum EncoderKind {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl BodyEncoder {
    pub(crate) fn new(coding: ContentEncoding) -> std::io::Result<Self> {
        let by = match coding {
            ContentEncoding::Plain => EncoderKind::Plain,
            ContentEncoding::Gzip => {
                EncoderKind::Gzip(GzEncoder::new(Vec::new(), Compression::fast()))
            }
            ContentEncoding::Zstd => {
                EncoderKind::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?)
            }
        };
        Ok(Self { kind: by, waiting: Vec::new() })
    }

    /// What is ready to be sent after this piece; may be nothing.
    pub(crate) fn encode(&mut self, piece: Vec<u8>) -> std::io::Result<Vec<u8>> {
        if matches!(self.kind, EncoderKind::Plain) {
            return Ok(piece);
        }
        let mut left = &piece[..];
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

    /// What is left after the last piece.
    pub(crate) fn finish(mut self) -> std::io::Result<Vec<u8>> {
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
    fn the_client_gets_what_it_likes_best() {
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
            // The first word is what counts.
            (&["gzip;q=0", "gzip"], Plain),
            // Whatever is not named.
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
            // As it is: liked least unless it is named, and what there is if nothing else is.
            (&["identity"], Plain),
            (&["identity, gzip"], Gzip),
            (&["identity, gzip;q=0.5"], Plain),
            (&["identity;q=0.5, gzip;q=0.4, zstd;q=0.6"], Zstd),
            (&["identity;q=1, *;q=0.5"], Plain),
            (&["identity;q=0"], Plain),
            (&["identity;q=0, br"], Plain),
            (&["identity;q=0, *;q=0"], Plain),
            (&["identity;q=0, *"], Gzip),
            // What is no weight says nothing.
            (&["gzip;q=2"], Plain),
            (&["gzip;q=x, zstd;q=0.1"], Zstd),
            (&["gzip;q="], Plain),
            (&["gzip;q=NaN"], Plain),
            (&["gzip;q=-0.5"], Plain),
            (&["gzip;q=0.0004"], Plain),
            (&["gzip;q=0.00190"], Gzip),
            (&["gzip;level=9;q=0"], Plain),
        ];
        for (lines, wanted) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                let line = HeaderValue::from_bytes(line.as_bytes()).expect("a header");
                headers.append(header::ACCEPT_ENCODING, line);
            }
            assert_eq!(ContentEncoding::negotiate(&headers), *wanted, "{lines:?}");
        }
    }

    #[test]
    fn a_weight_is_a_number_from_0_to_1() {
        for (params, wanted) in [
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
            assert_eq!(parse_qvalue(params), wanted, "{params}");
        }
    }

    #[test]
    fn what_is_sent_does_not_depend_on_how_it_was_cut() -> std::io::Result<()> {
        let mut random = fastrand::Rng::with_seed(3);
        let text: Vec<u8> =
            (0..300_000).flat_map(|n| format!("{},", n * random.u32(..9)).into_bytes()).collect();
        for coding in [ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let whole = encode_all(coding, &text)?;
            for bytes_max in [3_000, 70_000, 400_000] {
                let (mut encoder, mut left, mut sent) =
                    (BodyEncoder::new(coding)?, &text[..], vec![]);
                while !left.is_empty() {
                    let (piece, rest) = left.split_at(random.usize(1..=bytes_max.min(left.len())));
                    sent.extend(encoder.encode(piece.to_vec())?);
                    left = rest;
                }
                sent.extend(encoder.finish()?);
                assert!(sent == whole, "{coding:?} {bytes_max}");
            }
        }
        Ok(())
    }

    #[test]
    fn pieces_decode_to_what_they_were() -> std::io::Result<()> {
        let pieces: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; 10_000]).collect();
        for coding in [ContentEncoding::Plain, ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let mut encoder = BodyEncoder::new(coding)?;
            let mut sent = Vec::new();
            for piece in &pieces {
                sent.extend(encoder.encode(piece.clone())?);
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
            assert_eq!(read, pieces.concat(), "{coding:?}");
        }
        Ok(())
    }
}

//! Compression of answers: gzip or zstd, as the client asks. Runs on the CPU pool, piece by piece.
//!
//! Bounds: about 300 KB of an answer's own for gzip, about 1 MB for zstd at level 1.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::HeaderValue;

/// What is shorter goes as it is.
pub(crate) const COMPRESS_BYTES_MIN: usize = 1_024;

/// How the bytes of an answer are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// As they are.
    #[default]
    Plain,
    /// Gzip, at its fastest.
    Gzip,
    /// Zstd, at its fastest.
    Zstd,
}

impl Coding {
    /// What a client likes best of what we have. Zstd if it likes both as much: less work for both.
    pub fn asked_by(accept: Option<&HeaderValue>) -> Self {
        let Some(accept) = accept.and_then(|value| value.to_str().ok()) else { return Self::Plain };
        let (mut best, mut best_q) = (Self::Plain, 0.0);
        for offer in accept.split(',') {
            let mut parts = offer.split(';');
            let coding = match parts.next().map(str::trim) {
                Some(name) if name.eq_ignore_ascii_case("zstd") => Self::Zstd,
                Some(name) if name.eq_ignore_ascii_case("gzip") => Self::Gzip,
                _ => continue,
            };
            let q = parts.find_map(|part| part.trim().strip_prefix("q=")?.parse().ok());
            let q: f32 = q.unwrap_or(1.0);
            if q > best_q || (q > 0.0 && q == best_q && coding == Self::Zstd) {
                (best, best_q) = (coding, q);
            }
        }
        best
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

/// Codes bytes that are all there, at once: for what is made once and sent often.
pub fn coded(coding: Coding, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding)?;
    let mut out = encoder.encode(bytes.to_vec())?;
    out.extend(encoder.finish()?);
    Ok(out)
}

/// An encoder is given so much at once: what comes out is then the same however an answer was cut into
/// pieces, which its `ETag` counts on (`stamp`).
const STEP_BYTES: usize = 64 * 1024;

/// Codes the pieces of one answer.
pub(crate) struct Encoder {
    by: By,
    /// Less than a step.
    waiting: Vec<u8>,
}

enum By {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    pub(crate) fn new(coding: Coding) -> std::io::Result<Self> {
        let by = match coding {
            Coding::Plain => By::Plain,
            Coding::Gzip => By::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => By::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        };
        Ok(Self { by, waiting: Vec::new() })
    }

    /// What is ready to be sent after this piece; may be nothing.
    pub(crate) fn encode(&mut self, piece: Vec<u8>) -> std::io::Result<Vec<u8>> {
        if matches!(self.by, By::Plain) {
            return Ok(piece);
        }
        let mut left = &piece[..];
        if !self.waiting.is_empty() {
            let missing = (STEP_BYTES - self.waiting.len()).min(left.len());
            let (first, rest) = left.split_at(missing);
            self.waiting.extend_from_slice(first);
            left = rest;
            if self.waiting.len() < STEP_BYTES {
                return Ok(self.by.take());
            }
            self.by.give(&self.waiting)?;
            self.waiting.clear();
        }
        let mut steps = left.chunks_exact(STEP_BYTES);
        for step in &mut steps {
            self.by.give(step)?;
        }
        self.waiting.extend_from_slice(steps.remainder());
        Ok(self.by.take())
    }

    /// What is left after the last piece.
    pub(crate) fn finish(mut self) -> std::io::Result<Vec<u8>> {
        self.by.give(&self.waiting)?;
        match self.by {
            By::Plain => Ok(Vec::new()),
            By::Gzip(encoder) => encoder.finish(),
            By::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl By {
    fn give(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn take(&mut self) -> Vec<u8> {
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
        for (accept, wanted) in [
            ("", Coding::Plain),
            ("br", Coding::Plain),
            ("gzip, deflate", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("zstd;q=0.5, GZIP;q=0.8", Coding::Gzip),
            ("gzip;q=0", Coding::Plain),
            ("zstd;q=0, gzip;q=0.1", Coding::Gzip),
        ] {
            let accept_value = HeaderValue::from_static(accept);
            assert_eq!(Coding::asked_by(Some(&accept_value)), wanted, "{accept}");
        }
        assert_eq!(Coding::asked_by(None), Coding::Plain);
    }

    #[test]
    fn what_is_sent_does_not_depend_on_how_it_was_cut() -> std::io::Result<()> {
        let mut random = fastrand::Rng::with_seed(3);
        let text: Vec<u8> =
            (0..300_000).flat_map(|n| format!("{},", n * random.u32(..9)).into_bytes()).collect();
        for coding in [Coding::Gzip, Coding::Zstd] {
            let whole = coded(coding, &text)?;
            for bytes_max in [3_000, 70_000, 400_000] {
                let (mut encoder, mut left, mut sent) = (Encoder::new(coding)?, &text[..], vec![]);
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
        for coding in [Coding::Plain, Coding::Gzip, Coding::Zstd] {
            let mut encoder = Encoder::new(coding)?;
            let mut sent = Vec::new();
            for piece in &pieces {
                sent.extend(encoder.encode(piece.clone())?);
            }
            sent.extend(encoder.finish()?);
            let mut read = Vec::new();
            match coding {
                Coding::Plain => read = sent,
                Coding::Gzip => {
                    flate2::read::GzDecoder::new(&sent[..]).read_to_end(&mut read)?;
                }
                Coding::Zstd => read = zstd::stream::decode_all(&sent[..])?,
            }
            assert_eq!(read, pieces.concat(), "{coding:?}");
        }
        Ok(())
    }
}

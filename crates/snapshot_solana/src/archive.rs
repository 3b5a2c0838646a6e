//! Reads a compressed tar archive, entry by entry, with all offsets.
//!
//! In: a file. Out: entries in order, each read in pieces. Agave writes ustar and GNU headers,
//! regular files and directories; anything else is not a snapshot archive.
//! Bounds: those of the decompressor, and one read buffer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::decompressor::{Decompressor, MAGIC_BYTES};
use crate::error::{ArchiveOffset, SnapshotError};
use crate::progress::Progress;

const BLOCK: usize = 512;
/// Bytes read from the disk, and unpacked, at a time.
const BUFFER_BYTES: usize = 1 << 18;
const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: std::ops::Range<usize> = 257..262;

/// A file that counts the bytes read from it.
struct ProgressReader<'a> {
    file: File,
    progress: &'a Progress,
}

impl Read for ProgressReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buf)?;
        self.progress.record_read(read);
        Ok(read)
    }
}

/// An archive that is being read.
pub(crate) struct Archive<'a> {
    name: String,
    unpacked: BufReader<Decompressor<BufReader<ProgressReader<'a>>>>,
    /// Bytes unpacked so far.
    position: u64,
    entry: Option<Entry>,
    /// Bytes of the entry that were read.
    entry_position: u64,
}

/// A regular file in the archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl<'a> Archive<'a> {
    pub(crate) fn open(path: &Path, progress: &'a Progress) -> Result<Self, SnapshotError> {
        let open_error = |err| SnapshotError::Open { path: path.to_owned(), err };
        let file = File::open(path).map_err(open_error)?;
        progress.add_total(file.metadata().map_err(open_error)?.len());
        let mut input = BufReader::with_capacity(BUFFER_BYTES, ProgressReader { file, progress });
        let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
        let at = || ArchiveOffset { archive: name.clone(), file: None, offset: 0 };
        if input.fill_buf().map_err(open_error)?.len() < MAGIC_BYTES {
            return Err(SnapshotError::Truncated { at: at() });
        }
        let decompressor = Decompressor::new(input).map_err(|err| match err.kind() {
            ErrorKind::Unsupported => {
                SnapshotError::Unsupported { at: at(), reason: err.to_string() }
            }
            _ => open_error(err),
        })?;
        Ok(Self {
            name,
            unpacked: BufReader::with_capacity(BUFFER_BYTES, decompressor),
            position: 0,
            entry: None,
            entry_position: 0,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn current_offset(&self) -> ArchiveOffset {
        match &self.entry {
            Some(entry) => self.offset_in_entry(&entry.name, self.entry_position),
            None => ArchiveOffset { archive: self.name.clone(), file: None, offset: self.position },
        }
    }

    fn offset_in_entry(&self, file: &str, offset: u64) -> ArchiveOffset {
        ArchiveOffset { archive: self.name.clone(), file: Some(file.to_owned()), offset }
    }

    pub(crate) fn unsupported(&self, reason: impl Into<String>) -> SnapshotError {
        SnapshotError::Unsupported { at: self.current_offset(), reason: reason.into() }
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> SnapshotError {
        SnapshotError::Damaged { at: self.current_offset(), reason: reason.into() }
    }

    /// Damage at another offset than the current one.
    pub(crate) fn damaged_at(&self, offset: u64, reason: impl Into<String>) -> SnapshotError {
        let at = ArchiveOffset { offset, ..self.current_offset() };
        SnapshotError::Damaged { at, reason: reason.into() }
    }

    /// Skips the rest of the current entry and goes to the next regular file. Returns `None` at the
    /// end of the archive, after reading the rest of the stream.
    pub(crate) fn next_file(&mut self) -> Result<Option<Entry>, SnapshotError> {
        self.finish_entry()?;
        loop {
            let mut header = [0; BLOCK];
            self.fill(&mut header)?;
            if header == [0; BLOCK] {
                return self.finish().map(|()| None);
            }
            let Header { name, size, kind } = self.header(&header)?;
            match kind {
                b'0' | 0 => {
                    let entry = Entry { name, size };
                    self.entry = Some(entry.clone());
                    self.entry_position = 0;
                    return Ok(Some(entry));
                }
                b'5' if size == 0 => {}
                _ => {
                    let kind = char::from(kind);
                    return Err(self.unsupported(format!("{name:?} is an entry of type {kind:?}")));
                }
            }
        }
    }

    /// Reads exactly `buf` from the current entry.
    pub(crate) fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), SnapshotError> {
        if buf.len() as u64 > self.remaining() {
            return Err(self.damaged("the file ends in the middle of a value"));
        }
        self.fill(buf)?;
        self.entry_position += buf.len() as u64;
        Ok(())
    }

    /// Appends `len` bytes of the current entry to `out`.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>, len: usize) -> Result<(), SnapshotError> {
        let start = out.len();
        out.resize(start + len, 0);
        self.read_exact(&mut out[start..])
    }

    /// Unread bytes of the current entry.
    pub(crate) fn remaining(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.size - self.entry_position)
    }

    /// Skips `len` bytes of the current entry.
    pub(crate) fn skip(&mut self, mut len: u64) -> Result<(), SnapshotError> {
        if len > self.remaining() {
            return Err(self.damaged("the file ends in the middle of a value"));
        }
        let mut scratch = [0; 4_096];
        while len > 0 {
            let step = len.min(scratch.len() as u64) as usize;
            self.read_exact(&mut scratch[..step])?;
            len -= step as u64;
        }
        Ok(())
    }

    fn finish_entry(&mut self) -> Result<(), SnapshotError> {
        self.skip(self.remaining())?;
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let padding = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
        let mut scratch = [0; BLOCK];
        self.fill(&mut scratch[..padding as usize])
    }

    /// After the end of the archive: the rest must be padding, to the end of the compressed stream.
    fn finish(&mut self) -> Result<(), SnapshotError> {
        loop {
            let more = match self.unpacked.fill_buf() {
                Ok(more) => more,
                Err(err) => return Err(self.unreadable(err)),
            };
            let len = more.len();
            if len == 0 {
                return Ok(());
            }
            if more.iter().any(|byte| *byte != 0) {
                return Err(self.damaged("something follows the end of the archive"));
            }
            self.unpacked.consume(len);
            self.position += len as u64;
        }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<(), SnapshotError> {
        match self.unpacked.read_exact(buf) {
            Ok(()) => {
                self.position += buf.len() as u64;
                Ok(())
            }
            Err(err) => Err(self.unreadable(err)),
        }
    }

    fn unreadable(&self, err: io::Error) -> SnapshotError {
        let at = self.current_offset();
        match err.kind() {
            ErrorKind::UnexpectedEof => SnapshotError::Truncated { at },
            _ => SnapshotError::Unreadable { at, err },
        }
    }

    fn header(&self, header: &[u8; BLOCK]) -> Result<Header, SnapshotError> {
        let offset = self.position - BLOCK as u64;
        let foreign = |reason: &str| SnapshotError::Unsupported {
            at: ArchiveOffset { archive: self.name.clone(), file: None, offset },
            reason: reason.to_owned(),
        };
        if &header[MAGIC] != b"ustar" {
            return Err(foreign("no tar header here"));
        }
        let damaged = |reason: &str| self.damaged_at(offset, reason);
        if octal(&header[CHECKSUM]) != Some(checksum(header)) {
            return Err(damaged("the checksum of a tar header does not match"));
        }
        let name = header[NAME].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| foreign("a file name is not text"))?;
        let size = match &header[SIZE] {
            // GNU: too long for octal digits, so a big-endian number.
            [0x80, high @ .., a, b, c, d, e, f, g, h] if high.iter().all(|byte| *byte == 0) => {
                Some(u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]))
            }
            digits => octal(digits),
        };
        let size = size.filter(|size| *size < 1 << 60);
        let size = size.ok_or_else(|| damaged("a tar header without a size"))?;
        let name = name.strip_prefix("./").unwrap_or(name).to_owned();
        Ok(Header { name, size, kind: header[TYPE] })
    }
}

struct Header {
    name: String,
    size: u64,
    kind: u8,
}

/// The sum of all bytes of the header, with the checksum field as spaces.
fn checksum(header: &[u8; BLOCK]) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    sum(header) - sum(&header[CHECKSUM]) + CHECKSUM.len() as u64 * u64::from(b' ')
}

fn octal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

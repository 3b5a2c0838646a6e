//! The file of a UTXO set that is being received. When it is whole, it is a snapshot file.
//!
//! Every transfer of a set begins with its first UTXO. So the bytes of a transfer are compared with those of the file,
//! and only new bytes are written. At the first difference the file continues with the new bytes.
//! Layout: that of a snapshot file (`snapshot_file`). Until the set is whole, the number of UTXOs is [`UNFINISHED`].
//! The file is not synced before it is whole: bytes that a power failure damages are a difference.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use kaspa::{Hash, Header, Network};

use crate::snapshot_file::{END, UNFINISHED, write_head};

/// Bytes of the number of UTXOs.
const COUNT_BYTES: u64 = 8;
/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// The file of a set.
pub(crate) struct ChunkStore {
    file: File,
    /// Bytes before the first UTXO.
    head_len: u64,
    /// Bytes of UTXOs in the file.
    len: u64,
    /// Bytes of UTXOs that the current transfer has brought.
    position: u64,
}

/// The result of comparing received bytes with those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// They are the same, or the file ended before them.
    Continued,
    /// The file had others, which these have replaced.
    Replaced,
}

impl ChunkStore {
    /// Opens the file of the set of a block. A file of another block, or a whole one, is emptied.
    pub(crate) fn open(
        path: &Path,
        network: Network,
        block: &Hash,
        header: &Header,
    ) -> io::Result<Self> {
        let mut head = Vec::new();
        write_head(&mut head, network, block, header)?;
        head.extend_from_slice(&UNFINISHED.to_le_bytes());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let head_len = head.len() as u64;
        let mut found = vec![0; head.len()];
        let is_same = file.read_exact_at(&mut found, 0).is_ok() && found == head;
        if !is_same {
            file.set_len(0)?;
            file.write_all_at(&head, 0)?;
        }
        let len = file.metadata()?.len().saturating_sub(head_len);
        Ok(Self { file, head_len, len, position: 0 })
    }

    /// Returns the bytes of UTXOs in the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Starts a transfer.
    pub(crate) fn rewind(&mut self) {
        self.position = 0;
    }

    /// Stores the next bytes of a transfer.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<Stored> {
        let stored_len = usize::try_from(self.len - self.position).unwrap_or(usize::MAX);
        let compared_len = stored_len.min(bytes.len());
        let equal_len = self.count_equal(&bytes[..compared_len])?;
        let start = self.head_len + self.position;
        if equal_len < bytes.len() {
            let end = start + equal_len as u64;
            if equal_len < compared_len {
                self.file.set_len(end)?;
            }
            self.file.write_all_at(&bytes[equal_len..], end)?;
            self.len = self.position + bytes.len() as u64;
        }
        self.position += bytes.len() as u64;
        Ok(if equal_len < compared_len { Stored::Replaced } else { Stored::Continued })
    }

    /// Returns how many of the next bytes the file has.
    fn count_equal(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut found = [0; COMPARED_BYTES];
        let mut offset = self.head_len + self.position;
        let mut equal_len = 0;
        for part in bytes.chunks(COMPARED_BYTES) {
            let found = &mut found[..part.len()];
            self.file.read_exact_at(found, offset)?;
            if found != part {
                let pairs = found.iter().zip(part);
                return Ok(equal_len + pairs.take_while(|(found, byte)| found == byte).count());
            }
            equal_len += part.len();
            offset += part.len() as u64;
        }
        Ok(equal_len)
    }

    /// Ends the file after the bytes of the current transfer, which are a whole set.
    pub(crate) fn finish(&mut self, utxos: u64) -> io::Result<()> {
        let end = self.head_len + self.position;
        self.file.set_len(end)?;
        self.file.write_all_at(&END, end)?;
        // Before the number: a file with one is whole.
        self.file.sync_all()?;
        self.file.write_all_at(&utxos.to_le_bytes(), self.head_len - COUNT_BYTES)?;
        self.file.sync_all()
    }

    /// Removes the UTXOs.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.len = 0;
        self.position = 0;
        self.file.set_len(self.head_len)
    }
}

/// Returns whether a file ends as a whole one does. It may still be damaged, or end in this way by chance before it is
/// whole.
pub(crate) fn has_end_mark(path: &Path) -> bool {
    let read_end = || {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut end = [0; END.len()];
        file.read_exact_at(&mut end, len.saturating_sub(END.len() as u64))?;
        io::Result::Ok(end)
    };
    read_end().is_ok_and(|end| end == END)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chain_kaspa::ChainConfig;

    use super::*;
    use crate::snapshot_file::load_snapshot;

    fn open(path: &Path) -> ChunkStore {
        let header = Network::Simnet.genesis();
        ChunkStore::open(path, Network::Simnet, &header.hash(), &header).expect("a file")
    }

    fn content(store: &ChunkStore) -> Vec<u8> {
        let len = store.file.metadata().expect("a file").len() - store.head_len;
        let mut bytes = vec![0; len as usize];
        store.file.read_exact_at(&mut bytes, store.head_len).expect("a file");
        bytes
    }

    #[test]
    fn only_new_bytes_are_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("set");
        let mut store = open(&path);
        assert_eq!(store.put(b"abcdef").expect("room"), Stored::Continued);
        drop(store);
        let mut store = open(&path);
        assert_eq!(store.len(), 6);
        for part in [&b"abc"[..], b"defgh"] {
            assert_eq!(store.put(part).expect("room"), Stored::Continued);
        }
        assert_eq!(content(&store), b"abcdefgh");
    }

    #[test]
    fn the_file_continues_with_new_bytes_after_a_difference() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut store = open(&dir.path().join("set"));
        let long = vec![7; 3 * COMPARED_BYTES];
        store.put(&long).expect("room");
        store.rewind();
        let mut other = long.clone();
        other[2 * COMPARED_BYTES + 5] = 8;
        let (first, last) = other.split_at(COMPARED_BYTES / 2);
        assert_eq!(store.put(first).expect("room"), Stored::Continued);
        let last = &last[..2 * COMPARED_BYTES];
        assert_eq!(store.put(last).expect("room"), Stored::Replaced);
        assert_eq!(content(&store), [first, last].concat());
        assert_eq!(store.put(b"more").expect("room"), Stored::Continued);
        assert_eq!(content(&store), [first, last, b"more"].concat());
    }

    #[test]
    fn a_file_of_another_block_is_emptied() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("set");
        open(&path).put(b"abc").expect("room");
        let header = Header { nonce: 1, ..Network::Simnet.genesis() };
        let other = ChunkStore::open(&path, Network::Simnet, &header.hash(), &header);
        assert_eq!(other.expect("a file").len(), 0);
        assert_eq!(open(&path).len(), 0);
        fs::write(&path, b"short").expect("it is written");
        assert_eq!(open(&path).len(), 0);
    }

    #[test]
    fn a_finished_file_ends_with_the_transfer() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("set");
        let mut store = open(&path);
        store.put(b"abcdef").expect("room");
        assert!(!has_end_mark(&path));
        store.rewind();
        store.put(b"abc").expect("room");
        store.finish(1).expect("room");
        assert!(has_end_mark(&path));
        assert_eq!(content(&store), b"abcDONE");
        store.clear().expect("a file");
        assert!(content(&store).is_empty());
        assert!(!has_end_mark(&path));
    }

    #[test]
    fn an_unfinished_file_is_not_loaded_whatever_its_last_bytes_are() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("set");
        open(&path).put(b"a script that ends with DONE").expect("room");
        assert!(has_end_mark(&path), "its end looks like that of a whole file");
        let loaded = load_snapshot(&path, Network::Simnet, ChainConfig::new(100));
        let error = loaded.err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("the number of UTXOs")));
    }
}

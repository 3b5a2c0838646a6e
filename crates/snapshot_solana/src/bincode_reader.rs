//! Reads values of bincode: little-endian numbers, lists with a 64-bit count before them.
//!
//! Lists that are not needed are skipped in the stream, so that the hundreds of megabytes of a
//! cluster's stakes take no memory.

use solana_hash::Hash;
use solana_pubkey::Pubkey;

use crate::archive::Archive;
use crate::error::SnapshotError;

/// Bytes of an address.
pub(crate) const PUBKEY: u64 = 32;

/// Reads values from the current entry of an archive.
pub(crate) struct BincodeReader<'r, 'a> {
    archive: &'r mut Archive<'a>,
}

impl<'r, 'a> BincodeReader<'r, 'a> {
    pub(crate) fn new(archive: &'r mut Archive<'a>) -> Self {
        Self { archive }
    }

    pub(crate) fn archive(&self) -> &Archive<'a> {
        self.archive
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.archive.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, SnapshotError> {
        self.bytes().map(i64::from_le_bytes)
    }

    pub(crate) fn hash(&mut self) -> Result<Hash, SnapshotError> {
        self.bytes().map(Hash::new_from_array)
    }

    pub(crate) fn pubkey(&mut self) -> Result<Pubkey, SnapshotError> {
        self.bytes().map(Pubkey::new_from_array)
    }

    pub(crate) fn bool(&mut self, what: &str) -> Result<bool, SnapshotError> {
        match self.bytes()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => {
                let at = self.archive.current_offset().offset - 1;
                Err(self.archive.damaged_at(at, format!("{what} is {other}, not 0 or 1")))
            }
        }
    }

    pub(crate) fn option<T>(
        &mut self,
        what: &str,
        value: impl FnOnce(&mut Self) -> Result<T, SnapshotError>,
    ) -> Result<Option<T>, SnapshotError> {
        if self.bool(what)? { value(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<(), SnapshotError> {
        self.archive.skip(len)
    }

    /// Reads the count of items of at least `item_bytes` each. A count that exceeds the rest of the
    /// file is damage.
    pub(crate) fn count(&mut self, what: &str, item_bytes: u64) -> Result<u64, SnapshotError> {
        let count = self.u64()?;
        let fits = self.archive.remaining() / item_bytes.max(1);
        if count > fits {
            let at = self.archive.current_offset().offset - 8;
            return Err(self
                .archive
                .damaged_at(at, format!("{count} {what}, and there is room for {fits}")));
        }
        Ok(count)
    }

    /// Skips a list of items of one size.
    pub(crate) fn skip_list(&mut self, what: &str, item_bytes: u64) -> Result<(), SnapshotError> {
        let count = self.count(what, item_bytes)?;
        self.skip(count * item_bytes)
    }

    /// Reads a list, item by item.
    pub(crate) fn each(
        &mut self,
        what: &str,
        item_bytes: u64,
        mut item: impl FnMut(&mut Self) -> Result<(), SnapshotError>,
    ) -> Result<(), SnapshotError> {
        for _ in 0..self.count(what, item_bytes)? {
            item(self)?;
        }
        Ok(())
    }
    /// Fails if there are `max` items already.
    pub(crate) fn check_len(
        &self,
        count: usize,
        max: usize,
        what: &str,
    ) -> Result<(), SnapshotError> {
        if count < max {
            return Ok(());
        }
        Err(self.archive.damaged(format!("more than {max} {what}")))
    }
}

//! The cache on disk: what the upstream answered, also that an account does not exist.
//!
//! Shape: `DIR/GENESIS/accounts`, a header and then records, each with its length and checksum. A record has the slot as
//! of which the upstream answered. With a pin the newest record up to that slot counts.
//! Invariant: a record is returned as it was written. A start skips a record whose checksum is wrong, and cuts off the
//! end of the file if it is not a record: the machine stopped during a write, or a length is damaged. Both are fetched
//! again. The end is first copied to `accounts.damaged`, over an older copy. An error of reading ends the start, and
//! changes nothing.
//! Bounds: `bytes_max` for the file, and as much for the copy; records that do not fit are not stored. About 80 bytes of
//! memory for an address.
//! Not here: which records are stored (`worker`).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chain_solana::ACCOUNT_BYTES_MAX;
use foldhash::quality::RandomState;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use store::{ByteReader, ByteWriter, DecodeError, Directory, durable_file};

use crate::error::{UpstreamForkError, file_error};

/// The file's first bytes: the format. The genesis hash follows.
const MAGIC: &[u8; 8] = b"HYFORK01";
const HEADER_BYTES: u64 = 40;
const FILE: &str = "accounts";
/// Name of the copy of the last damaged end.
const CUT_FILE: &str = "accounts.damaged";
/// Length and checksum of a record.
const FRAME_BYTES: u64 = 8;
/// Bytes of a record at most: an account with its address, its fields and its lengths.
const RECORD_BYTES_MAX: usize = ACCOUNT_BYTES_MAX + 256;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// An account as of a slot, `None` if it did not exist.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CachedAccount {
    pub(crate) pubkey: Pubkey,
    pub(crate) slot: u64,
    pub(crate) account: Option<Arc<Account>>,
}

/// Where a record is.
#[derive(Clone, Copy, Debug)]
struct Position {
    slot: u64,
    offset: u64,
    bytes: u32,
}

/// The records of one cluster.
pub(crate) struct DiskCache {
    file: File,
    path: PathBuf,
    newest: HashMap<Pubkey, Position, RandomState>,
    bytes: u64,
    bytes_max: u64,
    pin: Option<u64>,
    /// Bytes that were dropped or skipped at the start, because they were damaged.
    dropped_bytes: u64,
    _lock: Directory,
}

/// The clusters of a directory.
pub(crate) fn clusters(dir: &Path) -> Vec<Hash> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok()?.parse().ok();
    entries
        .filter_map(name)
        .filter(|it: &Hash| dir.join(it.to_string()).join(FILE).exists())
        .collect()
}

impl DiskCache {
    /// Opens the records of a cluster, which are checked, or creates the file. No other process may use it.
    pub(crate) fn open(
        dir: &Path,
        genesis: &Hash,
        (pin, bytes_max): (Option<u64>, u64),
    ) -> Result<Self, UpstreamForkError> {
        let dir = dir.join(genesis.to_string());
        let lock = Directory::lock(&dir)?;
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(file_error("open", &path))?;
        let newest = HashMap::default();
        let mut cache =
            Self { file, path, newest, bytes: 0, bytes_max, pin, dropped_bytes: 0, _lock: lock };
        cache.read_all(genesis)?;
        Ok(cache)
    }

    fn read_all(&mut self, genesis: &Hash) -> Result<(), UpstreamForkError> {
        let Self { file, path, newest, bytes, dropped_bytes, pin, .. } = self;
        let length = file.metadata().map_err(file_error("read", path))?.len();
        let header = [MAGIC.as_slice(), genesis.as_ref()].concat();
        if length < HEADER_BYTES {
            // New, or its creation was interrupted.
            let written = file.set_len(0).and_then(|()| file.write_all_at(&header, 0));
            let synced = written.and_then(|()| file.sync_all());
            synced
                .and_then(|()| durable_file::sync_entry(path))
                .map_err(file_error("write", path))?;
            *bytes = HEADER_BYTES;
            return Ok(());
        }
        let mut reader = BufReader::with_capacity(READ_BYTES, &*file);
        let mut found = [0; HEADER_BYTES as usize];
        reader.read_exact(&mut found).map_err(file_error("read", path))?;
        if found != *header {
            return Err(UpstreamForkError::Foreign { path: path.clone() });
        }
        let mut offset = HEADER_BYTES;
        let mut body = Vec::new();
        let mut valid_end = offset;
        let mut skipped_bytes = 0;
        loop {
            let frame = read_record(&mut reader, &mut body).map_err(file_error("read", path))?;
            let frame_bytes = FRAME_BYTES + body.len() as u64;
            match frame {
                Frame::Record(record) => {
                    let bytes = body.len() as u32;
                    let position = Position { slot: record.slot, offset, bytes };
                    insert(newest, *pin, record.pubkey, position);
                    // Between two records only damaged ones have been skipped.
                    skipped_bytes += offset - valid_end;
                    valid_end = offset + frame_bytes;
                }
                Frame::Damaged => {}
                Frame::End => break,
            }
            offset += frame_bytes;
        }
        *bytes = valid_end;
        let end_bytes = length.saturating_sub(valid_end);
        *dropped_bytes = skipped_bytes + end_bytes;
        if *dropped_bytes > 0 {
            tracing::warn!(
                file = %path.display(),
                skipped_bytes,
                end = valid_end,
                end_bytes,
                "the cache of the fork is damaged: skipped records stay in the file, and its end is cut off"
            );
        }
        if end_bytes > 0 {
            save_end(file, path, valid_end);
            file.set_len(valid_end).map_err(file_error("write", path))?;
        }
        Ok(())
    }

    /// Returns the record of an address. `None` if there is none, or if it is unreadable.
    pub(crate) fn get(&self, pubkey: &Pubkey) -> Option<CachedAccount> {
        let Position { offset, bytes, .. } = *self.newest.get(pubkey)?;
        let mut frame = vec![0; FRAME_BYTES as usize + bytes as usize];
        let read = self.file.read_exact_at(&mut frame, offset);
        let frame = read.and_then(|()| read_record(&mut frame.as_slice(), &mut Vec::new()));
        let record = match frame {
            Ok(Frame::Record(record)) => Some(record).filter(|record| record.pubkey == *pubkey),
            Ok(Frame::Damaged | Frame::End) | Err(_) => None,
        };
        if record.is_none() {
            tracing::error!(file = %self.path.display(), offset, "a record of the cache cannot be read");
        }
        record
    }

    /// Stores records, and returns the number of those that do not fit. Existing ones stay.
    pub(crate) fn put(&mut self, records: &[CachedAccount]) -> std::io::Result<usize> {
        let mut frames = Vec::new();
        let mut positions = Vec::new();
        let mut left_out = 0;
        for record in records {
            if self.newest.get(&record.pubkey).is_some_and(|it| it.slot >= record.slot) {
                continue;
            }
            let body = encode(record);
            let offset = self.bytes + frames.len() as u64;
            if offset + FRAME_BYTES + body.len() as u64 > self.bytes_max {
                left_out += 1;
                continue;
            }
            let bytes = body.len() as u32;
            frames.extend_from_slice(&bytes.to_le_bytes());
            frames.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
            frames.extend_from_slice(&body);
            positions.push((record.pubkey, Position { slot: record.slot, offset, bytes }));
        }
        if frames.is_empty() {
            return Ok(left_out);
        }
        let written = self.file.write_all_at(&frames, self.bytes);
        if let Err(err) = written.and_then(|()| self.file.sync_data()) {
            // The next records are written to the same place.
            self.file.set_len(self.bytes)?;
            return Err(err);
        }
        self.bytes += frames.len() as u64;
        for (pubkey, position) in positions {
            insert(&mut self.newest, self.pin, pubkey, position);
        }
        Ok(left_out)
    }

    /// The newest slot of all records that count.
    pub(crate) fn newest_slot(&self) -> Option<u64> {
        self.newest.values().map(|position| position.slot).max()
    }

    /// Whether an address has a record.
    pub(crate) fn has(&self, pubkey: &Pubkey) -> bool {
        self.newest.contains_key(pubkey)
    }

    /// Addresses with a record.
    pub(crate) fn len(&self) -> usize {
        self.newest.len()
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.newest.capacity() * (size_of::<(Pubkey, Position)>() + 1)) as u64
    }
}

/// Copies the end of a damaged file before it is cut off. Without the copy, for example on a full disk, the cache is
/// used all the same: its accounts can be fetched again.
fn save_end(file: &File, path: &Path, start: u64) {
    let copy = path.with_file_name(CUT_FILE);
    let mut end = file;
    let saved = end.seek(SeekFrom::Start(start)).and_then(|_| durable_file::replace(&copy, end));
    match saved {
        Ok(()) => tracing::warn!(file = %copy.display(), "the end that is cut off is in this file"),
        Err(err) => {
            tracing::error!(file = %copy.display(), %err, "the end that is cut off could not be saved");
        }
    }
}

fn insert(
    newest: &mut HashMap<Pubkey, Position, RandomState>,
    pin: Option<u64>,
    pubkey: Pubkey,
    position: Position,
) {
    if pin.is_some_and(|pin| position.slot > pin) {
        return;
    }
    let known = newest.entry(pubkey).or_insert(position);
    if position.slot >= known.slot {
        *known = position;
    }
}

/// The bytes of the file at the position of a record.
enum Frame {
    Record(CachedAccount),
    /// The length may be right, but the checksum or the content is not.
    Damaged,
    /// The file ends, or the length is impossible.
    End,
}

/// Reads the next record, whose bytes are in `body` afterwards. An error is one of the disk.
fn read_record(reader: &mut impl Read, body: &mut Vec<u8>) -> std::io::Result<Frame> {
    let mut head = [0; FRAME_BYTES as usize];
    body.clear();
    if !is_read(reader.read_exact(&mut head))? {
        return Ok(Frame::End);
    }
    let [a, b, c, d, crc @ ..] = head;
    let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
    if bytes > RECORD_BYTES_MAX {
        return Ok(Frame::End);
    }
    body.resize(bytes, 0);
    if !is_read(reader.read_exact(body))? {
        return Ok(Frame::End);
    }
    if crc32fast::hash(body) != u32::from_le_bytes(crc) {
        return Ok(Frame::Damaged);
    }
    Ok(decode(body).map_or(Frame::Damaged, Frame::Record))
}

/// Whether a read was complete. False if the file has ended.
fn is_read(read: std::io::Result<()>) -> std::io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(err) => Err(err),
    }
}

fn encode(record: &CachedAccount) -> Vec<u8> {
    let mut to = ByteWriter::default();
    to.key(&record.pubkey.to_bytes());
    to.u64(record.slot);
    to.option(record.account.as_ref(), |to, account| {
        to.u64(account.0.lamports());
        to.key(&account.0.owner().to_bytes());
        to.u8(u8::from(account.0.executable()));
        to.u64(account.0.rent_epoch());
        to.bytes(account.0.data());
    });
    to.0
}

fn decode(body: &[u8]) -> Result<CachedAccount, DecodeError> {
    let mut from = ByteReader::new(body);
    let pubkey = Pubkey::new_from_array(from.key("address")?);
    let slot = from.u64("slot")?;
    let account = from.option("account", |from| {
        let lamports = from.u64("lamports")?;
        let owner = Pubkey::new_from_array(from.key("owner")?);
        let executable = from.bool("executable")?;
        let rent_epoch = from.u64("rent epoch")?;
        let data = from.bytes("data")?.to_vec();
        let account = solana_account::Account { lamports, data, owner, executable, rent_epoch };
        Ok(Arc::new(Account(AccountSharedData::from(account))))
    })?;
    from.end()?;
    Ok(CachedAccount { pubkey, slot, account })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENESIS: Hash = Hash::new_from_array([5; 32]);
    const LARGE: (Option<u64>, u64) = (None, 1 << 30);

    fn record(n: u8, slot: u64, data: &[u8]) -> CachedAccount {
        let owner = Pubkey::new_from_array([9; 32]);
        let mut account = AccountSharedData::new(slot, 0, &owner);
        account.set_data_from_slice(data);
        let account = Some(Arc::new(Account(account)));
        CachedAccount { pubkey: Pubkey::new_from_array([n; 32]), slot, account }
    }

    fn open(dir: &Path, limits: (Option<u64>, u64)) -> DiskCache {
        DiskCache::open(dir, &GENESIS, limits).expect("it opens")
    }

    #[test]
    fn records_are_there_after_a_restart_and_a_pin_selects_among_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, second] = [record(1, 10, b"old"), record(1, 20, b"new")];
        let absent = CachedAccount { account: None, ..record(2, 15, b"") };
        let mut cache = open(dir.path(), LARGE);
        assert_eq!(cache.put(&[first.clone(), absent.clone()]).expect("it writes"), 0);
        assert_eq!(cache.put(&[second.clone(), first.clone()]).expect("it writes"), 0);
        assert_eq!(cache.get(&first.pubkey), Some(second.clone()));
        assert!(DiskCache::open(dir.path(), &GENESIS, LARGE).is_err(), "it is in use");
        drop(cache);
        assert_eq!(clusters(dir.path()), [GENESIS]);
        for (pin, expected) in [(None, Some(second)), (Some(19), Some(first)), (Some(9), None)] {
            let cache = open(dir.path(), (pin, 1 << 30));
            assert_eq!(cache.get(&record(1, 0, b"").pubkey), expected, "{pin:?}");
            let sees_absent = pin != Some(9);
            assert_eq!(cache.get(&absent.pubkey).is_some(), sees_absent, "{pin:?}");
            assert_eq!(cache.dropped_bytes, 0);
        }
        let other = Hash::new_from_array([6; 32]);
        fs::rename(dir.path().join(GENESIS.to_string()), dir.path().join(other.to_string()))
            .expect("it is renamed");
        let err = DiskCache::open(dir.path(), &other, LARGE).err().expect("another cluster");
        assert!(matches!(err, UpstreamForkError::Foreign { .. }), "{err}");
    }

    #[test]
    fn damage_costs_its_record_and_a_damaged_length_all_that_follow() {
        let dir = tempfile::tempdir().expect("a directory");
        let records: Vec<_> = (1..=3).map(|n| record(n, 10, &[n; 100])).collect();
        let mut cache = open(dir.path(), LARGE);
        let mut ends = vec![cache.bytes()];
        for record in &records {
            cache.put(std::slice::from_ref(record)).expect("it writes");
            ends.push(cache.bytes());
        }
        let path = cache.path.clone();
        drop(cache);
        let whole = fs::read(&path).expect("it is there");
        let first_record = HEADER_BYTES as usize;
        for at in (first_record..whole.len()).step_by(7) {
            for is_cut in [true, false] {
                let mut bytes = whole.clone();
                if is_cut {
                    bytes.truncate(at)
                } else {
                    bytes[at] ^= 0x10
                }
                fs::write(&path, &bytes).expect("it is written");
                let mut cache = open(dir.path(), LARGE);
                let whole_records = ends.iter().filter(|end| **end <= at as u64).count() - 1;
                let is_length = (at as u64) < ends[whole_records] + 4;
                for (index, record) in records.iter().enumerate() {
                    let is_after = index > whole_records && !is_cut && !is_length;
                    let expected = (index < whole_records || is_after).then(|| record.clone());
                    assert_eq!(cache.get(&record.pubkey), expected, "{at} {is_cut}");
                }
                assert!(cache.dropped_bytes > 0 || is_cut, "{at}");
                // The lost records are stored again.
                cache.put(&records).expect("it writes");
                drop(cache);
                let cache = open(dir.path(), LARGE);
                for record in &records {
                    assert_eq!(cache.get(&record.pubkey).as_ref(), Some(record), "{at} {is_cut}");
                }
            }
        }
        for at in 0..first_record {
            fs::write(&path, &whole[..at]).expect("it is written");
            assert_eq!(open(dir.path(), LARGE).len(), 0, "its creation was interrupted");
        }
    }

    #[test]
    fn a_damaged_end_is_saved_in_one_file_before_it_is_cut_off() {
        let dir = tempfile::tempdir().expect("a directory");
        let records: Vec<_> = (1..=3).map(|n| record(n, 10, &[n; 100])).collect();
        let mut cache = open(dir.path(), LARGE);
        cache.put(&records[..1]).expect("it writes");
        let first_end = cache.bytes() as usize;
        cache.put(&records[1..2]).expect("it writes");
        let second_end = cache.bytes() as usize;
        cache.put(&records[2..]).expect("it writes");
        let path = cache.path.clone();
        drop(cache);
        let saved = path.with_file_name(CUT_FILE);
        assert!(!saved.exists(), "nothing is damaged yet");
        let whole = fs::read(&path).expect("it is there");
        // The second record's length is impossible, and then the third one is torn.
        let mut damaged = whole.clone();
        damaged[first_end + 3] ^= 0x80;
        for (bytes, end) in [(&damaged[..], first_end), (&whole[..whole.len() - 1], second_end)] {
            fs::write(&path, bytes).expect("it is written");
            let cut = open(dir.path(), LARGE).bytes() as usize;
            assert_eq!(cut, end);
            assert_eq!(fs::read(&saved).expect("it is saved"), bytes[cut..]);
        }
        let files = fs::read_dir(path.parent().expect("a directory")).expect("it is read");
        assert_eq!(files.count(), 3, "the cache, its lock and one copy");
        // A copy that cannot be written does not prevent a start.
        fs::remove_file(&saved).expect("it is there");
        fs::create_dir(&saved).expect("it is created");
        fs::write(&path, &damaged).expect("it is written");
        assert_eq!(open(dir.path(), LARGE).bytes() as usize, first_end);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut cache = open(dir.path(), (None, 600));
        let records: Vec<_> = (1..=9).map(|n| record(n, 10, &[n; 100])).collect();
        let left_out = cache.put(&records).expect("it writes");
        assert!(left_out > 0 && cache.len() + left_out == records.len());
        assert!(cache.bytes() <= 600 && cache.newest_slot() == Some(10));
    }
}

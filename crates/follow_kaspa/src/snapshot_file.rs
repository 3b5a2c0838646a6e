//! The snapshot file: the UTXO set after one final chain block, with the block's header.
//!
//! Layout, numbers in little-endian order: [`MAGIC`]; the length of the network's name, and the name; the hash of the
//! block; its header; the number of UTXOs; the UTXOs, in no order; [`END`].
//! The file needs no checksum: the block's hash covers its header, and the header commits to the set. So a file that
//! was changed in any bit is refused, but not one that an attacker made as a whole: it is the operator's.
//! Bounds: a file of any length is read in batches of [`BATCH_UTXOS`], one for each thread that hashes them.
//! Not here: headers and UTXOs as bytes (`snapshot_fields`), when a file is written (`snapshot_thread`), the file
//! before the newest one (`snapshot_path`).

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use chain_kaspa::{Chain, ChainConfig, ChainLoader, View, all_utxos};
use kaspa::{Hash, Header, Network};
use muhash::MuHash;

use crate::hashed_set::{DigestReader, HashedSet};
use crate::snapshot_error::SnapshotError;
use crate::snapshot_fields::{FieldReader, write_header, write_utxo};
use crate::snapshot_path::{add_suffix, is_missing, retain_previous};
use crate::utxo_hashing::{Utxo, count_threads, hash_batches};

/// The first bytes of a file, with the version of the layout.
const MAGIC: [u8; 8] = *b"HYKASPA1";
/// The last bytes of a file.
pub(crate) const END: [u8; 4] = *b"DONE";
/// The number of UTXOs in a file that is not whole.
pub(crate) const UNFINISHED: u64 = u64::MAX;
/// UTXOs that are loaded at once, and that are written before it is checked whether the node stops.
const BATCH_UTXOS: usize = 4_096;
/// Suffix of the name under which a file is written first.
const UNFINISHED_SUFFIX: &str = ".new";
/// Bytes of the buffers.
const BUFFER_BYTES: usize = 1 << 18;

/// Loads a chain from a file. It has no history before the block of the file.
///
/// Cost: some 5 µs of CPU time for each UTXO, 3 of them on all threads of the machine.
pub fn load_snapshot(
    path: &Path,
    network: Network,
    config: ChainConfig,
) -> Result<Chain, SnapshotError> {
    let OpenSnapshot { mut reader, header, .. } = open_snapshot(path, network)?;
    let mut loader = ChainLoader::new(config, header);
    let utxos = reader.u64()?;
    if utxos == UNFINISHED {
        return Err(SnapshotError::Damaged { field: "the number of UTXOs" });
    }
    load_utxos(&mut reader, utxos, &mut loader, hash_batches)?;
    read_end(&mut reader)?;
    Ok(loader.finish()?)
}

/// Loads a chain from a file that this process has written and hashed. Its UTXOs are not hashed again: a
/// digest says whether they are the same.
pub(crate) fn load_hashed_snapshot(
    path: &Path,
    network: Network,
    config: ChainConfig,
    hashed: &HashedSet,
) -> Result<Chain, SnapshotError> {
    let OpenSnapshot { mut reader, header, .. } = open_snapshot(path, network)?;
    let mut loader = ChainLoader::new(config, header);
    let utxos = reader.u64()?;
    let mut reader = FieldReader { source: DigestReader::new(reader.source) };
    load_utxos(&mut reader, utxos, &mut loader, |_| MuHash::EMPTY)?;
    let (source, digest) = reader.source.finish();
    if digest != hashed.digest {
        return Err(SnapshotError::Damaged { field: "the UTXO set" });
    }
    read_end(&mut FieldReader { source })?;
    loader.add_product(&hashed.product);
    Ok(loader.finish()?)
}

/// Reads UTXOs into a chain. `hash` returns the product over the UTXOs of some batches.
fn load_utxos<R: Read>(
    reader: &mut FieldReader<R>,
    utxos: u64,
    loader: &mut ChainLoader,
    hash: impl Fn(&[Vec<Utxo>]) -> MuHash,
) -> Result<(), SnapshotError> {
    let threads = count_threads();
    let mut utxos_left = utxos;
    while utxos_left > 0 {
        let mut batches = Vec::with_capacity(threads);
        while batches.len() < threads && utxos_left > 0 {
            let batch_len = utxos_left.min(BATCH_UTXOS as u64);
            let batch = (0..batch_len).map(|_| reader.utxo());
            batches.push(batch.collect::<Result<Vec<Utxo>, _>>()?);
            utxos_left -= batch_len;
        }
        loader.add_product(&hash(&batches));
        for batch in &batches {
            loader.insert_unhashed(batch)?;
        }
    }
    Ok(())
}

fn read_end<R: Read>(reader: &mut FieldReader<R>) -> Result<(), SnapshotError> {
    if reader.array()? != END {
        return Err(SnapshotError::Damaged { field: "the end" });
    }
    if reader.source.read(&mut [0])? != 0 {
        return Err(SnapshotError::Damaged { field: "the length" });
    }
    Ok(())
}

/// Returns the hash of the block of a file, without its UTXO set, which is not checked.
pub(crate) fn read_block_hash(path: &Path, network: Network) -> Result<Hash, SnapshotError> {
    Ok(open_snapshot(path, network)?.block)
}

fn open_snapshot(path: &Path, network: Network) -> Result<OpenSnapshot, SnapshotError> {
    let file = File::open(path).map_err(|error| match is_missing(&error) {
        true => SnapshotError::Missing,
        false => SnapshotError::Io(error),
    })?;
    let mut reader = FieldReader { source: BufReader::with_capacity(BUFFER_BYTES, file) };
    if reader.array()? != MAGIC {
        return Err(SnapshotError::NotASnapshot);
    }
    let name_len = usize::from(reader.u8()?);
    let name = reader.bytes(name_len)?;
    if name != network.to_string().as_bytes() {
        let found = String::from_utf8_lossy(&name).into_owned();
        return Err(SnapshotError::OtherNetwork { found, network });
    }
    let block = reader.hash()?;
    let header = reader.header()?;
    let computed = header.hash();
    if computed != block {
        return Err(SnapshotError::WrongHash { block, computed });
    }
    Ok(OpenSnapshot { reader, block, header })
}

/// Replaces a file by the UTXO set of a view, which must be of a chain block. The view is held meanwhile.
///
/// Errors: [`io::ErrorKind::Interrupted`] if the node stops. The file stays as it was after an error.
pub(crate) fn write_snapshot(
    path: &Path,
    network: Network,
    view: &View,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<()> {
    let unfinished = add_suffix(path, UNFINISHED_SUFFIX);
    let written = write_file(&unfinished, network, view, is_stopped).and_then(|file| {
        retain_previous(path);
        store::durable_file::rename(&file, &unfinished, path)
    });
    if written.is_err() {
        // If it cannot be removed, the next write overwrites it.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_file(
    path: &Path,
    network: Network,
    view: &View,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
    let info = view.meta();
    write_head(&mut out, network, &info.hash, &info.header)?;
    out.write_all(&info.supply.utxos.to_le_bytes())?;
    let mut count: u64 = 0;
    for (outpoint, entry) in all_utxos(view) {
        if count.is_multiple_of(BATCH_UTXOS as u64) && is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        write_utxo(&mut out, &outpoint, &entry)?;
        count += 1;
    }
    if count != info.supply.utxos {
        let expected = info.supply.utxos;
        return Err(io::Error::other(format!("{count} UTXOs were read instead of {expected}")));
    }
    out.write_all(&END)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Writes everything before the number of UTXOs.
pub(crate) fn write_head(
    out: &mut impl Write,
    network: Network,
    block: &Hash,
    header: &Header,
) -> io::Result<()> {
    let name = network.to_string();
    out.write_all(&MAGIC)?;
    // The longest name has 18 bytes.
    out.write_all(&[name.len() as u8])?;
    out.write_all(name.as_bytes())?;
    out.write_all(&block.0)?;
    write_header(out, header)
}

/// A file whose header was read and checked. Its UTXOs follow.
struct OpenSnapshot {
    reader: FieldReader<BufReader<File>>,
    block: Hash,
    header: Header,
}

#[cfg(test)]
mod tests {
    use chain_kaspa::hash_utxos;
    use kaspa::{AddressPayload, Outpoint, ScriptPublicKey, UtxoEntry};
    use ledger::Commitment;

    use super::*;
    use crate::snapshot_path::find_previous_path;

    /// Returns a chain of one block with one UTXO of this amount.
    fn chain(amount: u64) -> Chain {
        let script_public_key = ScriptPublicKey::from_payload(&AddressPayload::PublicKey([7; 32]));
        let entry = UtxoEntry {
            amount,
            script_public_key,
            block_daa_score: 0,
            is_coinbase: false,
            covenant_id: None,
        };
        let outpoint = Outpoint { transaction_id: Hash([1; 32]), index: 0 };
        let utxos = [(outpoint, entry)];
        let utxo_commitment = Hash(hash_utxos(&utxos).finalize());
        let header = Header { utxo_commitment, ..Network::Simnet.genesis() };
        let mut loader = ChainLoader::new(ChainConfig::new(100), header);
        loader.insert(&utxos).expect("room");
        loader.finish().expect("the set of the block")
    }

    fn write(path: &Path, amount: u64, is_stopped: bool) -> io::Result<()> {
        let view = chain(amount).reader().utxos.view(Commitment::Finalized);
        write_snapshot(path, Network::Simnet, &view, &|| is_stopped)
    }

    #[test]
    fn a_write_that_is_stopped_leaves_the_file_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("utxos");
        write(&path, 1, false).expect("it is written");
        let before = fs::read(&path).expect("a file");
        let stopped = write(&path, 2, true).err().map(|error| error.kind());
        assert_eq!(stopped, Some(io::ErrorKind::Interrupted));
        assert_eq!(fs::read(&path).expect("a file"), before);
        let files = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(files, 1, "nothing unfinished is left");
    }

    #[test]
    fn the_file_of_before_is_retained_under_another_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("utxos");
        let mut files = Vec::new();
        for amount in 1..=3 {
            write(&path, amount, false).expect("it is written");
            files.push(fs::read(&path).expect("a file"));
        }
        let previous = find_previous_path(&path);
        assert_eq!(fs::read(&previous).expect("a file"), files[1]);
        let block = read_block_hash(&previous, Network::Simnet).expect("a snapshot");
        assert_eq!(block, chain(2).sink().hash);
        assert!(load_snapshot(&previous, Network::Simnet, ChainConfig::new(100)).is_ok());
    }
}

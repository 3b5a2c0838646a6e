//! The snapshot file: the UTXO set after one final chain block, with the block's header.
//!
//! Layout, numbers in little-endian order: [`MAGIC`]; the length of the network's name, and the name; the hash of the
//! block; its header; the number of UTXOs; the UTXOs, in no order; [`END`].
//! The file needs no checksum: the block's hash covers its header, and the header commits to the set. So a file that
//! was changed in any bit is refused, but not one that an attacker made as a whole: it is the operator's.
//! Bounds: a file of any length is read in batches of [`BATCH_UTXOS`].
//! Not here: when a file is written (`snapshot_thread`), the file before the newest one (`snapshot_path`).

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use chain_kaspa::{Chain, ChainConfig, ChainLoader, LoadError, View, all_utxos};
use kaspa::{
    BlueWork, Hash, Header, Network, Outpoint, ParentLevels, Parents, ScriptPublicKey, UtxoEntry,
};

use crate::snapshot_path::{add_suffix, is_missing, retain_previous};

/// The first bytes of a file, with the version of the layout.
const MAGIC: [u8; 8] = *b"HYKASPA1";
/// The last bytes of a file.
const END: [u8; 4] = *b"DONE";
/// UTXOs that are loaded at once, and that are written before it is checked whether the node stops.
const BATCH_UTXOS: usize = 4_096;
/// Bytes of a script, as in kaspad.
const SCRIPT_BYTES_MAX: u32 = 10_000;
/// Parents on one level.
const PARENTS_MAX: u32 = 2_048;
/// Suffix of the name under which a file is written first.
const UNFINISHED_SUFFIX: &str = ".new";
/// Bytes of the buffers.
const BUFFER_BYTES: usize = 1 << 18;

/// The bits of a UTXO's flags.
mod flag {
    pub(super) const COINBASE: u8 = 1;
    pub(super) const COVENANT: u8 = 2;
}

/// Why a snapshot file is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// The file cannot be read, or is cut.
    #[error("the file cannot be read to its end")]
    Io(#[from] io::Error),
    /// The file is not a snapshot of this version.
    #[error("it is not a snapshot of this version of Hydrant")]
    NotASnapshot,
    /// The file is of another network.
    #[error("it is of the network {found:?}, and {network} is followed (--network)")]
    OtherNetwork {
        /// The name in the file.
        found: String,
        /// The network that is followed.
        network: Network,
    },
    /// A field has a value that none is written with.
    #[error("{field} is damaged")]
    Damaged {
        /// The name of the field.
        field: &'static str,
    },
    /// The header does not have the hash that the file says.
    #[error("the header has the hash {computed}, and the file is of block {block}")]
    WrongHash {
        /// The hash in the file.
        block: Hash,
        /// The hash of the header.
        computed: Hash,
    },
    /// The UTXO set is not the one to which the block commits, or does not fit into the ledger.
    #[error("the UTXO set is refused")]
    Load(#[from] LoadError),
}

/// Loads a chain from a file. It has no history before the block of the file.
///
/// Cost: some 5 µs for each UTXO.
pub fn load_snapshot(
    path: &Path,
    network: Network,
    config: ChainConfig,
) -> Result<Chain, SnapshotError> {
    let OpenSnapshot { mut reader, header, .. } = open_snapshot(path, network)?;
    let mut loader = ChainLoader::new(config, header);
    let mut utxos_left = reader.u64()?;
    let mut batch = Vec::with_capacity(BATCH_UTXOS);
    while utxos_left > 0 {
        batch.clear();
        let batch_len = utxos_left.min(BATCH_UTXOS as u64);
        for _ in 0..batch_len {
            batch.push(reader.utxo()?);
        }
        loader.insert(&batch)?;
        utxos_left -= batch_len;
    }
    if reader.array()? != END {
        return Err(SnapshotError::Damaged { field: "the end" });
    }
    if reader.source.read(&mut [0])? != 0 {
        return Err(SnapshotError::Damaged { field: "the length" });
    }
    Ok(loader.finish()?)
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
    let name = network.to_string();
    out.write_all(&MAGIC)?;
    // The longest name has 18 bytes.
    out.write_all(&[name.len() as u8])?;
    out.write_all(name.as_bytes())?;
    out.write_all(&info.hash.0)?;
    write_header(&mut out, &info.header)?;
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

fn write_header(out: &mut impl Write, header: &Header) -> io::Result<()> {
    out.write_all(&header.version.to_le_bytes())?;
    let runs = header.parents.runs();
    // There are at most 255 levels.
    out.write_all(&[runs.len() as u8])?;
    for run in runs {
        out.write_all(&[run.cumulative_level])?;
        out.write_all(&(run.parents.len() as u32).to_le_bytes())?;
        for parent in &run.parents {
            out.write_all(&parent.0)?;
        }
    }
    out.write_all(&header.hash_merkle_root.0)?;
    out.write_all(&header.accepted_id_merkle_root.0)?;
    out.write_all(&header.utxo_commitment.0)?;
    out.write_all(&header.timestamp_ms.to_le_bytes())?;
    out.write_all(&header.bits.to_le_bytes())?;
    out.write_all(&header.nonce.to_le_bytes())?;
    out.write_all(&header.daa_score.to_le_bytes())?;
    out.write_all(&header.blue_work.0)?;
    out.write_all(&header.blue_score.to_le_bytes())?;
    out.write_all(&header.pruning_point.0)
}

fn write_utxo(out: &mut impl Write, outpoint: &Outpoint, entry: &UtxoEntry) -> io::Result<()> {
    let covenant = if entry.covenant_id.is_some() { flag::COVENANT } else { 0 };
    let coinbase = if entry.is_coinbase { flag::COINBASE } else { 0 };
    let script = &entry.script_public_key;
    out.write_all(&outpoint.transaction_id.0)?;
    out.write_all(&outpoint.index.to_le_bytes())?;
    out.write_all(&entry.amount.to_le_bytes())?;
    out.write_all(&entry.block_daa_score.to_le_bytes())?;
    out.write_all(&[coinbase | covenant])?;
    out.write_all(&script.version.to_le_bytes())?;
    out.write_all(&(script.script.len() as u32).to_le_bytes())?;
    out.write_all(&script.script)?;
    entry.covenant_id.iter().try_for_each(|covenant_id| out.write_all(&covenant_id.0))
}

/// A file whose header was read and checked. Its UTXOs follow.
struct OpenSnapshot {
    reader: FieldReader<BufReader<File>>,
    block: Hash,
    header: Header,
}

/// Reads the fields of a file.
struct FieldReader<R> {
    source: R,
}

impl<R: Read> FieldReader<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads bytes of a length that was checked.
    fn bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u8(&mut self) -> io::Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn hash(&mut self) -> io::Result<Hash> {
        self.array().map(Hash)
    }

    /// Reads a length up to a limit.
    fn len(&mut self, max: u32, field: &'static str) -> Result<usize, SnapshotError> {
        let len = self.u32()?;
        if len > max { Err(SnapshotError::Damaged { field }) } else { Ok(len as usize) }
    }

    fn header(&mut self) -> Result<Header, SnapshotError> {
        Ok(Header {
            version: self.u16()?,
            parents: self.parents()?,
            hash_merkle_root: self.hash()?,
            accepted_id_merkle_root: self.hash()?,
            utxo_commitment: self.hash()?,
            timestamp_ms: self.u64()?,
            bits: self.u32()?,
            nonce: self.u64()?,
            daa_score: self.u64()?,
            blue_work: BlueWork(self.array()?),
            blue_score: self.u64()?,
            pruning_point: self.hash()?,
        })
    }

    fn parents(&mut self) -> Result<Parents, SnapshotError> {
        let field = "the parents of the block";
        let mut runs = Vec::new();
        for _ in 0..self.u8()? {
            let cumulative_level = self.u8()?;
            let parents = self.len(PARENTS_MAX, field)?;
            let parents = (0..parents).map(|_| self.hash()).collect::<io::Result<_>>()?;
            runs.push(ParentLevels { cumulative_level, parents });
        }
        Parents::new(runs).map_err(|_| SnapshotError::Damaged { field })
    }

    fn utxo(&mut self) -> Result<(Outpoint, UtxoEntry), SnapshotError> {
        let outpoint = Outpoint { transaction_id: self.hash()?, index: self.u32()? };
        let amount = self.u64()?;
        let block_daa_score = self.u64()?;
        let flags = self.u8()?;
        if flags & !(flag::COINBASE | flag::COVENANT) != 0 {
            return Err(SnapshotError::Damaged { field: "the flags of a UTXO" });
        }
        let version = self.u16()?;
        let script_len = self.len(SCRIPT_BYTES_MAX, "the length of a script")?;
        let script = self.bytes(script_len)?.into();
        let has_covenant = flags & flag::COVENANT != 0;
        let entry = UtxoEntry {
            amount,
            script_public_key: ScriptPublicKey { version, script },
            block_daa_score,
            is_coinbase: flags & flag::COINBASE != 0,
            covenant_id: has_covenant.then(|| self.hash()).transpose()?,
        };
        Ok((outpoint, entry))
    }
}

#[cfg(test)]
mod tests {
    use chain_kaspa::hash_utxos;
    use kaspa::AddressPayload;
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

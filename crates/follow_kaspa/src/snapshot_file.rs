//! The snapshot file: the UTXO set after one final chain block, with the block's header.
//!
//! Layout, numbers in little-endian order: [`MAGIC`]; the length of the network's name, and the name; the hash of the
//! block; its header; the number of UTXOs; the UTXOs, in no order; [`END`].
//! The file needs no checksum: the block's hash covers its header, and the header commits to the set. So a file that
//! was changed in any bit is refused, but not one that an attacker made as a whole: it is the operator's.
//! Bounds: a file of any length is read in batches of [`BATCH_UTXOS`].
//! Not here: when a file is written (`snapshot_thread`).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use chain_kaspa::{Chain, ChainConfig, ChainLoader, LoadError, View, all_utxos};
use kaspa::{
    BlueWork, Hash, Header, Network, Outpoint, ParentLevels, Parents, ScriptPublicKey, UtxoEntry,
};

/// The first bytes of a file, with the version of the layout.
const MAGIC: [u8; 8] = *b"HYKASPA1";
/// The last bytes of a file.
const END: [u8; 4] = *b"DONE";
/// UTXOs that are loaded at once.
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
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SnapshotError::Missing,
        _ => SnapshotError::Io(error),
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

/// Replaces a file by the UTXO set of a view, which must be of a chain block. The view is held meanwhile.
pub(crate) fn write_snapshot(path: &Path, network: Network, view: &View) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED_SUFFIX);
    let unfinished = PathBuf::from(unfinished);
    let written = write_file(&unfinished, network, view)
        .and_then(|file| store::durable_file::rename(&file, &unfinished, path));
    if written.is_err() {
        // If it cannot be removed, the next write overwrites it.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

fn write_file(path: &Path, network: Network, view: &View) -> io::Result<File> {
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
    let mut count = 0;
    for (outpoint, entry) in all_utxos(view) {
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

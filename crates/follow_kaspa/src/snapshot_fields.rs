//! The fields of a snapshot file: headers and UTXOs as bytes, and back.
//!
//! Numbers are in little-endian order. Lengths are checked before bytes are allocated.
//! Not here: the layout of the file (`snapshot_file`), the file of an import (`import::chunk_store`).

use std::io::{self, Read, Write};

use kaspa::{BlueWork, Hash, Header, Outpoint, ParentLevels, Parents, ScriptPublicKey, UtxoEntry};

use crate::snapshot_error::SnapshotError;

/// Bytes of a script, as in kaspad.
pub(crate) const SCRIPT_BYTES_MAX: u32 = 10_000;
/// Parents on one level.
const PARENTS_MAX: u32 = 2_048;

/// The bits of a UTXO's flags.
mod flag {
    pub(super) const COINBASE: u8 = 1;
    pub(super) const COVENANT: u8 = 2;
}

/// Writes a header.
pub(crate) fn write_header(out: &mut impl Write, header: &Header) -> io::Result<()> {
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

/// Writes a UTXO.
pub(crate) fn write_utxo(
    out: &mut impl Write,
    outpoint: &Outpoint,
    entry: &UtxoEntry,
) -> io::Result<()> {
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
pub(crate) struct FieldReader<R> {
    pub(crate) source: R,
}

impl<R: Read> FieldReader<R> {
    pub(crate) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads bytes of a length that was checked.
    pub(crate) fn bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> io::Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn hash(&mut self) -> io::Result<Hash> {
        self.array().map(Hash)
    }

    /// Reads a length up to a limit.
    fn len(&mut self, max: u32, field: &'static str) -> Result<usize, SnapshotError> {
        let len = self.u32()?;
        if len > max { Err(SnapshotError::Damaged { field }) } else { Ok(len as usize) }
    }

    pub(crate) fn header(&mut self) -> Result<Header, SnapshotError> {
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

    pub(crate) fn utxo(&mut self) -> Result<(Outpoint, UtxoEntry), SnapshotError> {
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

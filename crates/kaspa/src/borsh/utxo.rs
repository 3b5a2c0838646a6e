//! Addresses, networks and UTXOs in Borsh.

use super::reader::{BorshError, Reader};
use super::writer::BorshBuffer;
use crate::address::{AddressPayload, KaspaAddress};
use crate::message::AddressUtxo;
use crate::network::{Network, Prefix};
use crate::script::ScriptPublicKey;
use crate::utxo::{Outpoint, UtxoEntry};

/// Bytes of the shortest address.
pub(crate) const ADDRESS_BYTES_MIN: usize = 1 + 1 + 4 + 32;
/// Bytes of a UTXO with its length, without its address, its script and its covenant.
const UTXO_BYTES_MIN: usize = 4 + 1 + 1 + OUTPOINT_BYTES + 4 + ENTRY_BYTES_MIN;
/// Bytes of an outpoint with its length.
const OUTPOINT_BYTES: usize = 4 + 1 + 32 + 4;
/// Bytes of an entry without its length, script and covenant.
const ENTRY_BYTES_MIN: usize = 1 + 8 + 2 + 4 + 8 + 1 + 1;
/// Bytes that a covenant adds to a UTXO.
const COVENANT_BYTES: usize = 32;

/// The version of an entry that has a covenant.
const ENTRY_VERSION: u8 = 2;

pub(crate) fn put_address(out: &mut Vec<u8>, address: &KaspaAddress) {
    out.put_u8(address.prefix as u8);
    out.put_u8(address.payload.version());
    out.put_bytes(address.payload.as_bytes());
}

pub(crate) fn read_address(reader: &mut Reader<'_>) -> Result<KaspaAddress, BorshError> {
    let prefix = reader.u8()?;
    let error =
        BorshError::UnknownValue { field: "the prefix of an address", value: u64::from(prefix) };
    let prefix = *Prefix::ALL.get(usize::from(prefix)).ok_or(error)?;
    let version = reader.u8()?;
    let payload = AddressPayload::from_parts(version, reader.bytes()?);
    let payload = payload
        .map_err(|error| BorshError::Invalid { field: "an address", reason: error.to_string() })?;
    Ok(KaspaAddress { prefix, payload })
}

pub(crate) fn read_addresses(reader: &mut Reader<'_>) -> Result<Vec<KaspaAddress>, BorshError> {
    reader.list(ADDRESS_BYTES_MIN, read_address)
}

pub(crate) fn put_addresses(out: &mut Vec<u8>, addresses: &[KaspaAddress]) {
    out.put_u32(addresses.len() as u32);
    addresses.iter().for_each(|address| put_address(out, address));
}

pub(crate) fn put_network(out: &mut Vec<u8>, network: Network) {
    let (kind, suffix) = match network {
        Network::Mainnet => (0, None),
        Network::Testnet(number) => (1, Some(number)),
        Network::Devnet => (2, None),
        Network::Simnet => (3, None),
    };
    out.put_u8(kind);
    out.put_u8(u8::from(suffix.is_some()));
    if let Some(suffix) = suffix {
        out.put_u32(suffix);
    }
}

pub(crate) fn read_network(reader: &mut Reader<'_>) -> Result<Network, BorshError> {
    let kind = reader.u8()?;
    let suffix = reader.option(Reader::u32)?;
    match (kind, suffix) {
        (0, _) => Ok(Network::Mainnet),
        (1, Some(number)) => Ok(Network::Testnet(number)),
        (2, _) => Ok(Network::Devnet),
        (3, _) => Ok(Network::Simnet),
        _ => Err(BorshError::UnknownValue { field: "the network", value: u64::from(kind) }),
    }
}

pub(crate) fn read_script(reader: &mut Reader<'_>) -> Result<ScriptPublicKey, BorshError> {
    let version = reader.u16()?;
    Ok(ScriptPublicKey { version, script: reader.bytes()?.into() })
}

/// Returns the bytes of a UTXO in a list, with its length.
///
/// ```
/// use kaspa::{AddressPayload, borsh_utxo_bytes};
///
/// let payload = AddressPayload::PublicKey([0; 32]);
/// assert_eq!(borsh_utxo_bytes(Some(&payload), 34, false), 148);
/// ```
pub fn borsh_utxo_bytes(
    payload: Option<&AddressPayload>,
    script_bytes: usize,
    has_covenant: bool,
) -> usize {
    let address = payload.map_or(0, |payload| 1 + 1 + 4 + payload.as_bytes().len());
    let covenant = if has_covenant { COVENANT_BYTES } else { 0 };
    UTXO_BYTES_MIN + address + script_bytes + covenant
}

impl AddressUtxo {
    /// Appends the UTXO as an element of a list, with its length.
    pub fn encode_borsh_into(&self, out: &mut Vec<u8>) {
        out.put_payload(|out| {
            out.put_u8(1);
            out.put_u8(u8::from(self.address.is_some()));
            if let Some(address) = &self.address {
                put_address(out, address);
            }
            out.put_payload(|out| {
                out.put_u8(1);
                out.put_hash(&self.outpoint.transaction_id);
                out.put_u32(self.outpoint.index);
            });
            out.put_payload(|out| put_entry(out, &self.entry));
        });
    }

    /// Returns the bytes that [`Self::encode_borsh_into`] appends.
    pub fn borsh_bytes(&self) -> usize {
        let payload = self.address.as_ref().map(|address| &address.payload);
        let script_bytes = self.entry.script_public_key.script.len();
        borsh_utxo_bytes(payload, script_bytes, self.entry.covenant_id.is_some())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, BorshError> {
        let mut reader = reader.payload()?;
        let _version = reader.u8()?;
        Ok(Self {
            address: reader.option(read_address)?,
            outpoint: read_outpoint(&mut reader.payload()?)?,
            entry: read_entry(&mut reader.payload()?)?,
        })
    }

    /// Reads a list: its length in bytes, its count, and its elements.
    pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Self>, BorshError> {
        reader.payload()?.list(UTXO_BYTES_MIN, Self::read)
    }
}

fn read_outpoint(reader: &mut Reader<'_>) -> Result<Outpoint, BorshError> {
    let _version = reader.u8()?;
    Ok(Outpoint { transaction_id: reader.hash()?, index: reader.u32()? })
}

fn put_entry(out: &mut Vec<u8>, entry: &UtxoEntry) {
    out.put_u8(ENTRY_VERSION);
    out.put_u64(entry.amount);
    out.put_u16(entry.script_public_key.version);
    out.put_bytes(&entry.script_public_key.script);
    out.put_u64(entry.block_daa_score);
    out.put_u8(u8::from(entry.is_coinbase));
    out.put_u8(u8::from(entry.covenant_id.is_some()));
    if let Some(covenant_id) = &entry.covenant_id {
        out.put_hash(covenant_id);
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<UtxoEntry, BorshError> {
    let version = reader.u8()?;
    Ok(UtxoEntry {
        amount: reader.u64()?,
        script_public_key: read_script(reader)?,
        block_daa_score: reader.u64()?,
        is_coinbase: reader.flag("isCoinbase")?,
        covenant_id: if version >= ENTRY_VERSION { reader.option(Reader::hash)? } else { None },
    })
}

//! Replies in Borsh: those that Hydrant sends are encoded, and those of its upstream decoded.
//!
//! The replies to getUtxosByAddresses and getBalancesByAddresses are encoded in pieces: their length is known before their
//! first entry is.

use super::frame::{encode_reply, put_reply_head};
use super::reader::{BorshError, Reader};
use super::utxo::{borsh_utxo_bytes, put_address, put_network, read_network};
use super::writer::BorshBuffer;
use crate::address::AddressPayload;
use crate::hash::Hash;
use crate::message::{AddressBalance, AddressUtxo, BlockDagInfo, CoinSupply, NodeInfo, ServerInfo};
use crate::operation::{Method, Operation};
use crate::record::Totals;
use crate::script::ScriptPublicKey;

/// The version of all replies here.
const VERSION: u16 = 1;

/// Bytes of a balance with its length, without the payload of its address.
const BALANCE_BYTES_MIN: u64 = 4 + 1 + (1 + 1 + 4) + 1 + 8;

/// The length of a reply to getUtxosByAddresses, summed up script by script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorshUtxosReply {
    count: u64,
    bytes: u64,
}

/// The length of a reply to getBalancesByAddresses, summed up address by address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorshBalancesReply {
    count: u64,
    bytes: u64,
}

/// A reply that does not fit into wRPC's lengths of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} entries have {bytes} bytes, and a reply has at most {}", u32::MAX)]
pub struct ReplyTooLong {
    /// Entries of the reply.
    pub count: u64,
    /// The encoded length of all of them, in bytes.
    pub bytes: u64,
}

impl BorshUtxosReply {
    /// Adds the UTXOs of an address.
    pub fn add_address(&mut self, payload: &AddressPayload, totals: &Totals) {
        let script_bytes = ScriptPublicKey::from_payload(payload).script.len();
        let bytes = borsh_utxo_bytes(Some(payload), script_bytes, false) as u64;
        let covenant_bytes = borsh_utxo_bytes(Some(payload), script_bytes, true) as u64 - bytes;
        let all = totals.count.saturating_mul(bytes);
        let covenants = totals.with_covenant.saturating_mul(covenant_bytes);
        self.count = self.count.saturating_add(totals.count);
        self.bytes = self.bytes.saturating_add(all).saturating_add(covenants);
    }

    /// Appends a UTXO of an address to the entries.
    pub fn add_utxo(&mut self, utxo: &AddressUtxo) {
        self.count += 1;
        self.bytes += utxo.borsh_bytes() as u64;
    }

    /// Encodes the reply up to its first UTXO. [`AddressUtxo::encode_borsh_into`] appends the UTXOs.
    pub fn encode_head(&self, id: u64) -> Result<Vec<u8>, ReplyTooLong> {
        encode_list_head(id, Method::GetUtxosByAddresses, self.count, self.bytes)
    }

    /// Returns the bytes of the whole reply.
    pub fn frame_bytes(&self) -> u64 {
        const HEAD_BYTES: u64 = 9 + 1 + 2 + 1 + 4 + 2 + 4 + 4;
        self.bytes.saturating_add(HEAD_BYTES)
    }
}

impl BorshBalancesReply {
    /// Adds the balance of an address.
    pub fn add_address(&mut self, payload: &AddressPayload) {
        self.count = self.count.saturating_add(1);
        let bytes = BALANCE_BYTES_MIN + payload.as_bytes().len() as u64;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Encodes the reply up to its first balance. [`AddressBalance::encode_borsh_into`] appends the balances.
    pub fn encode_head(&self, id: u64) -> Result<Vec<u8>, ReplyTooLong> {
        encode_list_head(id, Method::GetBalancesByAddresses, self.count, self.bytes)
    }
}

impl AddressBalance {
    /// Appends the balance as an element of a list, with its length.
    pub fn encode_borsh_into(&self, out: &mut Vec<u8>) {
        out.put_payload(|out| {
            out.put_u8(1);
            put_address(out, &self.address);
            out.put_u8(1);
            out.put_u64(self.balance);
        });
    }
}

/// Encodes a reply that is a list, up to its first entry.
fn encode_list_head(
    id: u64,
    method: Method,
    count: u64,
    bytes: u64,
) -> Result<Vec<u8>, ReplyTooLong> {
    let error = ReplyTooLong { count, bytes };
    let count = u32::try_from(count).map_err(|_| error)?;
    let list_bytes = bytes.saturating_add(size_of::<u32>() as u64);
    let structure_bytes = list_bytes.saturating_add((2 + size_of::<u32>()) as u64);
    let structure_bytes = u32::try_from(structure_bytes).map_err(|_| error)?;
    let mut head = Vec::with_capacity(64);
    put_reply_head(&mut head, id, Operation::Method(method));
    head.put_u32(structure_bytes);
    head.put_u16(VERSION);
    // Not above the length of the structure, which was checked.
    head.put_u32(list_bytes as u32);
    head.put_u32(count);
    Ok(head)
}

/// Encodes the reply to getBalanceByAddress.
pub fn encode_borsh_balance(id: u64, balance: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetBalanceByAddress, |out| out.put_u64(balance))
}

/// Encodes the reply to getSink.
pub fn encode_borsh_sink(id: u64, sink: &Hash) -> Vec<u8> {
    encode_method_reply(id, Method::GetSink, |out| out.put_hash(sink))
}

/// Encodes the reply to getSinkBlueScore.
pub fn encode_borsh_sink_blue_score(id: u64, blue_score: u64) -> Vec<u8> {
    encode_method_reply(id, Method::GetSinkBlueScore, |out| out.put_u64(blue_score))
}

/// Encodes the reply to getSyncStatus.
pub fn encode_borsh_sync_status(id: u64, is_synced: bool) -> Vec<u8> {
    encode_method_reply(id, Method::GetSyncStatus, |out| out.put_u8(u8::from(is_synced)))
}

/// Encodes the reply to subscribe. kaspad numbers its listeners; no client reads the number.
pub fn encode_borsh_subscribed(id: u64, listener: u64) -> Vec<u8> {
    encode_reply(id, Operation::Subscribe, |out| {
        out.put_u16(VERSION);
        out.put_u64(listener);
    })
}

/// Encodes the reply to unsubscribe.
pub fn encode_borsh_unsubscribed(id: u64) -> Vec<u8> {
    encode_reply(id, Operation::Unsubscribe, |out| out.put_u16(VERSION))
}

/// Encodes the reply to ping.
pub fn encode_borsh_pong(id: u64) -> Vec<u8> {
    encode_reply(id, Operation::Method(Method::Ping), |out| out.put_u8(1))
}

fn encode_method_reply(id: u64, method: Method, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    encode_reply(id, Operation::Method(method), |out| {
        out.put_u16(VERSION);
        write(out);
    })
}

/// Reads a reply's structure up to its fields.
fn read_structure(structure: &[u8]) -> Result<Reader<'_>, BorshError> {
    let mut reader = Reader::new(structure);
    let _version = reader.u16()?;
    Ok(reader)
}

/// Reads the reply to getUtxosByAddresses.
pub fn decode_borsh_utxos(structure: &[u8]) -> Result<Vec<AddressUtxo>, BorshError> {
    AddressUtxo::read_list(&mut read_structure(structure)?)
}

/// Reads the reply to getSink.
pub fn decode_borsh_sink(structure: &[u8]) -> Result<Hash, BorshError> {
    read_structure(structure)?.hash()
}

impl ServerInfo {
    /// Encodes the reply to getServerInfo.
    pub fn encode_borsh(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetServerInfo, |out| {
            out.put_u16(self.rpc_api_version);
            out.put_u16(self.rpc_api_revision);
            out.put_bytes(self.server_version.as_bytes());
            put_network(out, self.network);
            out.put_u8(u8::from(self.has_utxo_index));
            out.put_u8(u8::from(self.is_synced));
            out.put_u64(self.virtual_daa_score);
        })
    }

    /// Reads the structure of a reply.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = read_structure(structure)?;
        Ok(Self {
            rpc_api_version: reader.u16()?,
            rpc_api_revision: reader.u16()?,
            server_version: reader.string("serverVersion")?,
            network: read_network(&mut reader)?,
            has_utxo_index: reader.flag("hasUtxoIndex")?,
            is_synced: reader.flag("isSynced")?,
            virtual_daa_score: reader.u64()?,
        })
    }
}

impl NodeInfo {
    /// Encodes the reply to getInfo.
    pub fn encode_borsh(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetInfo, |out| {
            out.put_bytes(self.p2p_id.as_bytes());
            out.put_u64(self.mempool_size);
            out.put_bytes(self.server_version.as_bytes());
            out.put_u8(u8::from(self.is_utxo_indexed));
            out.put_u8(u8::from(self.is_synced));
            out.put_u8(u8::from(self.has_notify_command));
            out.put_u8(u8::from(self.has_message_id));
        })
    }

    /// Reads the structure of a reply.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = read_structure(structure)?;
        Ok(Self {
            p2p_id: reader.string("p2pId")?,
            mempool_size: reader.u64()?,
            server_version: reader.string("serverVersion")?,
            is_utxo_indexed: reader.flag("isUtxoIndexed")?,
            is_synced: reader.flag("isSynced")?,
            has_notify_command: reader.flag("hasNotifyCommand")?,
            has_message_id: reader.flag("hasMessageId")?,
        })
    }
}

impl CoinSupply {
    /// Encodes the reply to getCoinSupply.
    pub fn encode_borsh(&self, id: u64) -> Vec<u8> {
        encode_method_reply(id, Method::GetCoinSupply, |out| {
            out.put_u64(self.max_sompi);
            out.put_u64(self.circulating_sompi);
        })
    }

    /// Reads the structure of a reply.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = read_structure(structure)?;
        Ok(Self { max_sompi: reader.u64()?, circulating_sompi: reader.u64()? })
    }
}

impl BlockDagInfo {
    /// Reads the structure of a reply.
    pub fn decode_borsh(structure: &[u8]) -> Result<Self, BorshError> {
        let mut reader = read_structure(structure)?;
        Ok(Self {
            network: read_network(&mut reader)?,
            block_count: reader.u64()?,
            header_count: reader.u64()?,
            tip_hashes: reader.hashes()?,
            difficulty: reader.f64()?,
            past_median_time_ms: reader.u64()?,
            virtual_parents: reader.hashes()?,
            pruning_point: reader.hash()?,
            virtual_daa_score: reader.u64()?,
            sink: reader.hash()?,
        })
    }
}

//! Requests in Borsh: those that Hydrant serves are decoded, those that it sends are encoded.

use super::frame::{BorshRequest, encode_request};
use super::reader::{BorshError, Reader};
use super::utxo::{put_address, put_addresses, read_address, read_addresses};
use super::writer::BorshBuffer;
use crate::address::KaspaAddress;
use crate::hash::Hash;
use crate::message::Scope;
use crate::operation::{Event, Method, Operation};

/// The version of most requests.
const VERSION: u16 = 1;
/// The version of getVirtualChainFromBlock with a count of confirmations.
const CHAIN_IDS_VERSION: u16 = 2;

/// The data of each transaction that getVirtualChainFromBlockV2 returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum VerbosityLevel {
    /// Only the hashes of transactions.
    None = 0,
    /// The outputs of transactions, and scores of blocks.
    Low = 1,
    /// Inputs and most of the header.
    High = 2,
    /// Everything, so that a block can be verified.
    Full = 3,
}

impl BorshRequest<'_> {
    /// Reads the addresses of getUtxosByAddresses and getBalancesByAddresses.
    pub fn addresses(&self) -> Result<Vec<KaspaAddress>, BorshError> {
        let mut reader = self.reader()?;
        read_addresses(&mut reader)
    }

    /// Reads the address of getBalanceByAddress.
    pub fn address(&self) -> Result<KaspaAddress, BorshError> {
        let mut reader = self.reader()?;
        read_address(&mut reader)
    }

    /// Checks a request without parameters, such as getServerInfo.
    pub fn no_params(&self) -> Result<(), BorshError> {
        self.reader().map(drop)
    }

    /// Reads the window of estimateNetworkHashesPerSecond, in blocks.
    pub fn window_size(&self) -> Result<u32, BorshError> {
        self.reader()?.u32()
    }

    /// Returns the offset of allowOrphan in the payload of submitTransaction. The flag is a byte.
    pub fn allow_orphan_offset(&self) -> Result<usize, BorshError> {
        let mut reader = self.reader()?;
        let _transaction = reader.payload()?;
        let offset = self.payload.len() - reader.remaining().len();
        reader.flag("allowOrphan")?;
        Ok(offset)
    }

    /// Reads the scope of subscribe and unsubscribe.
    pub fn scope(&self) -> Result<Scope, BorshError> {
        let mut reader = self.reader()?;
        let variant = reader.u8()?;
        let error = BorshError::UnknownValue { field: "the scope", value: u64::from(variant) };
        match Event::from_variant(variant).ok_or(error)? {
            Event::UtxosChanged => {
                Ok(Scope::UtxosChanged { addresses: read_addresses(&mut reader)? })
            }
            Event::VirtualChainChanged => Ok(Scope::VirtualChainChanged {
                include_accepted_transaction_ids: reader.flag("includeAcceptedTransactionIds")?,
            }),
            event => Ok(Scope::Other(event)),
        }
    }

    /// Returns the fields after the version.
    fn reader(&self) -> Result<Reader<'_>, BorshError> {
        let mut reader = Reader::new(self.structure()?);
        let _version = reader.u16()?;
        Ok(reader)
    }
}

impl Method {
    /// Encodes a request without parameters, such as getServerInfo.
    pub fn encode_borsh_request(self, id: u64) -> Vec<u8> {
        self.encode_with(id, VERSION, |_| {})
    }

    /// Encodes a request of getBlock.
    pub fn encode_borsh_get_block(id: u64, hash: &Hash, include_transactions: bool) -> Vec<u8> {
        Self::GetBlock.encode_with(id, VERSION, |out| {
            out.put_hash(hash);
            out.put_u8(u8::from(include_transactions));
        })
    }

    /// Encodes a request of getBlockTemplate.
    pub fn encode_borsh_get_block_template(id: u64, pay_address: &KaspaAddress) -> Vec<u8> {
        Self::GetBlockTemplate.encode_with(id, VERSION, |out| {
            put_address(out, pay_address);
            out.put_bytes(&[]);
        })
    }

    /// Encodes a request of getBalanceByAddress.
    pub fn encode_borsh_get_balance(id: u64, address: &KaspaAddress) -> Vec<u8> {
        Self::GetBalanceByAddress.encode_with(id, VERSION, |out| put_address(out, address))
    }

    /// Encodes a request of getUtxosByAddresses or getBalancesByAddresses.
    pub fn encode_borsh_addresses(self, id: u64, addresses: &[KaspaAddress]) -> Vec<u8> {
        self.encode_with(id, VERSION, |out| put_addresses(out, addresses))
    }

    /// Encodes a request of getVirtualChainFromBlock with the ids of accepted transactions.
    pub fn encode_borsh_get_chain_ids(id: u64, start: &Hash) -> Vec<u8> {
        Self::GetVirtualChainFromBlock.encode_with(id, CHAIN_IDS_VERSION, |out| {
            out.put_hash(start);
            out.put_u8(1);
            out.put_u8(0);
        })
    }

    /// Encodes a request of getVirtualChainFromBlockV2.
    pub fn encode_borsh_get_chain(
        id: u64,
        start: &Hash,
        level: VerbosityLevel,
        min_confirmation_count: Option<u64>,
    ) -> Vec<u8> {
        Self::GetVirtualChainFromBlockV2.encode_with(id, VERSION, |out| {
            out.put_hash(start);
            out.put_payload(|out| {
                out.put_u8(1);
                out.put_payload(|out| {
                    out.put_u8(1);
                    out.put_u32(level as u32);
                });
            });
            out.put_u8(u8::from(min_confirmation_count.is_some()));
            if let Some(count) = min_confirmation_count {
                out.put_u64(count);
            }
        })
    }

    fn encode_with(self, id: u64, version: u16, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        encode_request(id, Operation::Method(self), |out| {
            if self == Self::Ping {
                return;
            }
            out.put_u16(version);
            write(out);
        })
    }
}

impl Scope {
    /// Encodes a request that starts notifications.
    pub fn encode_borsh_subscribe(&self, id: u64) -> Vec<u8> {
        encode_request(id, Operation::Subscribe, |out| self.put(out))
    }

    /// Encodes a request that stops notifications.
    pub fn encode_borsh_unsubscribe(&self, id: u64) -> Vec<u8> {
        encode_request(id, Operation::Unsubscribe, |out| self.put(out))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(VERSION);
        out.put_u8(self.event().variant());
        match self {
            Self::UtxosChanged { addresses } => put_addresses(out, addresses),
            Self::VirtualChainChanged { include_accepted_transaction_ids } => {
                out.put_u8(u8::from(*include_accepted_transaction_ids));
            }
            Self::Other(_) => {}
        }
    }
}

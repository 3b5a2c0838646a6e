//! Requests in Borsh.
//!
//! A message without a known operation has no [`Request`]: kaspad closes its connection.

use kaspa::{
    AddressPayload, BlueWork, CovenantBinding, Event, Hash, Header, KaspaAddress, Method,
    Operation, Outpoint, ParentLevels, Parents, Prefix, Scope, ScriptPublicKey, SubnetworkId,
    Transaction, TransactionInput, TransactionOutput,
};

use super::request::{Call, Request, is_plain};

/// The bytes that are not read yet. A read past the end returns `None`.
struct Bytes<'a>(&'a [u8]);

impl Request {
    /// Reads a message.
    pub(crate) fn from_borsh(message: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(message);
        let id = bytes.option(Bytes::u64)?;
        let operation = Operation::from_code(bytes.u8()?)?;
        let call = bytes.read_whole().and_then(|mut payload| read_call(operation, &mut payload));
        Some(Self { id, operation, call })
    }
}

fn read_call(operation: Operation, bytes: &mut Bytes<'_>) -> Option<Call> {
    let method = match operation {
        Operation::Method(Method::Ping) => return Some(Call::Plain(Method::Ping)),
        Operation::Method(method) => method,
        Operation::Subscribe | Operation::Unsubscribe => {
            let _version = bytes.u16()?;
            let scope = read_scope(bytes)?;
            let is_start = operation == Operation::Subscribe;
            return Some(if is_start { Call::Subscribe(scope) } else { Call::Unsubscribe(scope) });
        }
        Operation::Notification(_) | Operation::Unserved(_) | Operation::Own(_) => return None,
    };
    let version = bytes.u16()?;
    Some(match method {
        method if is_plain(method) => Call::Plain(method),
        Method::GetUtxosByAddresses
        | Method::GetBalancesByAddresses
        | Method::GetMempoolEntriesByAddresses => {
            Call::Addresses { method, addresses: bytes.list(Bytes::address)? }
        }
        Method::GetBalanceByAddress => Call::BalanceByAddress(bytes.address()?),
        Method::GetBlock => {
            Call::Block { hash: bytes.hash()?, include_transactions: bytes.flag()? }
        }
        Method::GetCurrentBlockColor => Call::BlockColor(bytes.hash()?),
        Method::GetBlocks => Call::Blocks {
            low_hash: bytes.option(Bytes::hash)?,
            include_blocks: bytes.flag()?,
            include_transactions: bytes.flag()?,
        },
        Method::GetVirtualChainFromBlock => Call::Chain {
            start: bytes.hash()?,
            include_ids: bytes.flag()?,
            min_confirmation_count: if version > 1 { bytes.option(Bytes::u64)? } else { None },
        },
        Method::GetVirtualChainFromBlockV2 => Call::ChainV2 {
            start: bytes.hash()?,
            is_full: bytes.framed_option(read_level)?.is_none_or(|level| level == 3),
            min_confirmation_count: bytes.option(Bytes::u64)?,
        },
        Method::GetBlockTemplate => {
            Call::Template { pay_address: bytes.address()?, extra_data: bytes.bytes()?.to_vec() }
        }
        Method::SubmitBlock => {
            let mut block = bytes.read_framed()?;
            let _version = block.u16()?;
            let header = Box::new(read_header(&mut block.read_framed()?)?);
            let transactions = block.read_framed()?.list(read_transaction)?;
            Call::SubmitBlock { header, transactions }
        }
        Method::SubmitTransaction => Call::SubmitTransaction(Box::new(read_transaction(bytes)?)),
        Method::GetMempoolEntry => Call::MempoolEntry(bytes.hash()?),
        Method::GetMempoolEntries => {
            let _includes_orphans = bytes.flag()?;
            Call::MempoolEntries { is_orphans_only: bytes.flag()? }
        }
        method => Call::Other(method),
    })
}

fn read_level(bytes: &mut Bytes<'_>) -> Option<u32> {
    let _version = bytes.u8()?;
    bytes.u32()
}

fn read_scope(bytes: &mut Bytes<'_>) -> Option<Scope> {
    Some(match Event::from_variant(bytes.u8()?)? {
        Event::UtxosChanged => Scope::UtxosChanged { addresses: bytes.list(Bytes::address)? },
        Event::VirtualChainChanged => {
            Scope::VirtualChainChanged { include_accepted_transaction_ids: bytes.flag()? }
        }
        event => Scope::Other(event),
    })
}

fn read_header(bytes: &mut Bytes<'_>) -> Option<Header> {
    let _version = bytes.u16()?;
    Some(Header {
        version: bytes.u16()?,
        parents: join_levels(bytes.list(|bytes| bytes.list(Bytes::hash))?)?,
        hash_merkle_root: bytes.hash()?,
        accepted_id_merkle_root: bytes.hash()?,
        utxo_commitment: bytes.hash()?,
        timestamp_ms: bytes.u64()?,
        bits: bytes.u32()?,
        nonce: bytes.u64()?,
        daa_score: bytes.u64()?,
        blue_work: {
            let mut work: [u8; 24] = bytes.array()?;
            work.reverse();
            BlueWork(work)
        },
        blue_score: bytes.u64()?,
        pruning_point: bytes.hash()?,
    })
}

/// Joins equal levels that follow each other.
pub(super) fn join_levels(levels: Vec<Vec<Hash>>) -> Option<Parents> {
    let mut runs: Vec<ParentLevels> = Vec::new();
    for (level, parents) in (1_usize..).zip(levels) {
        let cumulative_level = u8::try_from(level).ok()?;
        match runs.last_mut() {
            Some(run) if run.parents == parents => run.cumulative_level = cumulative_level,
            _ => runs.push(ParentLevels { cumulative_level, parents }),
        }
    }
    Parents::new(runs).ok()
}

fn read_transaction(bytes: &mut Bytes<'_>) -> Option<Transaction> {
    let mut bytes = bytes.read_framed()?;
    let _version = bytes.u16()?;
    Some(Transaction {
        version: bytes.u16()?,
        inputs: bytes.read_framed()?.list(read_input)?,
        outputs: bytes.read_framed()?.list(read_output)?,
        lock_time: bytes.u64()?,
        subnetwork_id: SubnetworkId(bytes.array()?),
        gas: bytes.u64()?,
        payload: bytes.bytes()?.to_vec(),
        storage_mass: bytes.u64()?,
    })
}

fn read_input(bytes: &mut Bytes<'_>) -> Option<TransactionInput> {
    let mut bytes = bytes.read_framed()?;
    let version = bytes.u8()?;
    let mut previous = bytes.read_framed()?;
    let _version = previous.u8()?;
    let previous_outpoint = Outpoint { transaction_id: previous.hash()?, index: previous.u32()? };
    let signature_script = bytes.bytes()?.to_vec();
    let sequence = bytes.u64()?;
    let sig_op_count = bytes.u8()?;
    let _verbose_data = bytes.read_framed()?;
    let compute_budget = if version > 1 { bytes.u16()? } else { 0 };
    Some(TransactionInput {
        previous_outpoint,
        signature_script,
        sequence,
        sig_op_count,
        compute_budget,
    })
}

fn read_output(bytes: &mut Bytes<'_>) -> Option<TransactionOutput> {
    let mut bytes = bytes.read_framed()?;
    let version = bytes.u8()?;
    let amount = bytes.u64()?;
    let script_version = bytes.u16()?;
    let script_public_key =
        ScriptPublicKey { version: script_version, script: bytes.bytes()?.into() };
    let _verbose_data = bytes.read_framed()?;
    let covenant = if version > 1 { bytes.framed_option(read_covenant)? } else { None };
    Some(TransactionOutput { amount, script_public_key, covenant })
}

fn read_covenant(bytes: &mut Bytes<'_>) -> Option<CovenantBinding> {
    let _version = bytes.u8()?;
    Some(CovenantBinding { authorizing_input: bytes.u16()?, covenant_id: bytes.hash()? })
}

impl<'a> Bytes<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_bytes(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn hash(&mut self) -> Option<Hash> {
        self.array().map(Hash)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take_bytes(count as usize)
    }

    /// Returns the bytes after a length.
    fn read_framed(&mut self) -> Option<Self> {
        self.bytes().map(Bytes)
    }

    /// Returns the bytes after a length, which must be all that are left.
    fn read_whole(&mut self) -> Option<Self> {
        self.read_framed().filter(|_| self.0.is_empty())
    }

    /// The outer `None` is an error, the inner one a missing value.
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    /// An optional structure after its length.
    fn framed_option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        self.read_framed()?.option(|bytes| read(&mut bytes.read_framed()?))
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn address(&mut self) -> Option<KaspaAddress> {
        let prefix = *Prefix::ALL.get(usize::from(self.u8()?))?;
        let version = self.u8()?;
        let payload = AddressPayload::from_parts(version, self.bytes()?).ok()?;
        Some(KaspaAddress { prefix, payload })
    }
}

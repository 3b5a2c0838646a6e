//! The records of a ledger of Kaspa: one for each script, with its first UTXOs inside, and one for each further UTXO.
//!
//! Shape: a [`ScriptRecord`] is at the script's address and has up to [`INSIDE_MAX`] UTXOs. The others are
//! [`OverflowUtxo`] records at their outpoints, with the script as key, and the script's record has their [`Totals`]. So a
//! balance, and the length of a response, are known without them.
//! Invariant: a packed record unpacks to its exact content. An overflow record needs its address for that, which is its
//! outpoint.
//! Cost: 40 bytes for a script with one UTXO of 10,000 sompi, and 39 for each further one inside. The overflow record of
//! such a UTXO has 7 bytes, in addition to its address and its key. A covenant adds 32 bytes to a UTXO. Blocks that are
//! not final have their records one by one. A script's is 16 bytes longer there: it is in its packed form, too, and its
//! parts are read each time.
//! Bounds: a script's record is packed up to [`PACKED_BYTES_MAX`] bytes. Longer ones, of scripts without an address, are
//! stored unpacked.

use ledger::{Address, KeyKind, Record, put_varint, take_varint};

use crate::hash::Hash;
use crate::script::ScriptPublicKey;
use crate::utxo::{Outpoint, UtxoEntry};

/// The key of an overflow record: the address of its script.
pub const SCRIPT_KEY: KeyKind = KeyKind(0);

/// The most UTXOs inside of a script's record.
pub const INSIDE_MAX: usize = 8;

/// A record is packed up to this length. It is below the limit of packed records in `state`, 512 bytes.
pub const PACKED_BYTES_MAX: usize = 500;

/// The longest packed UTXO: flags, two hashes, and varints of an index and two numbers of 64 bits.
const PACKED_UTXO_BYTES_MAX: usize = 1 + 32 + 32 + 5 + 10 + 10;

/// The longest packed record without a script and without UTXOs: its parts, and the totals of those outside.
const PACKED_HEAD_BYTES_MAX: usize = 1 + 3 * 10;

/// Flags of a packed UTXO, in its first byte. The other bits are the index.
mod flag {
    pub(super) const COINBASE: u8 = 1;
    pub(super) const COVENANT: u8 = 1 << 1;
    /// The position of the index.
    pub(super) const INDEX_SHIFT: u32 = 2;
    /// An index from here on follows the flags.
    pub(super) const LONG_INDEX: u8 = 63;
    /// Set in place of an index in an overflow record: its address contains the index. The first byte of a script's
    /// record does not have this bit.
    pub(super) const OVERFLOW: u8 = 1 << 7;
}

/// Parts of a packed script record, in its first byte.
mod part {
    pub(super) const SCRIPT: u8 = 1;
    pub(super) const OUTSIDE: u8 = 1 << 1;
}

/// A UTXO without its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredUtxo {
    /// The transaction and the output that made the UTXO.
    pub outpoint: Outpoint,
    /// The amount in sompi.
    pub amount: u64,
    /// The DAA score of the block that accepted the transaction.
    pub block_daa_score: u64,
    /// Whether a block's reward made it.
    pub is_coinbase: bool,
    /// The covenant that the output belongs to.
    pub covenant_id: Option<Hash>,
}

/// Sums over UTXOs of one script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sum of the amounts, in sompi.
    pub amount: u64,
    /// The number of UTXOs.
    pub count: u64,
    /// The number of those with a covenant.
    pub with_covenant: u64,
}

/// The record of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRecord {
    /// The parts in their packed form, which is a fourth as long as their structs.
    packed: Box<[u8]>,
}

/// The parts of a script's record, read from its packed form.
#[derive(Clone, Copy)]
struct ScriptParts<'a> {
    /// The script, if its address in the ledger is a hash.
    script: Option<PackedScript<'a>>,
    outside: Totals,
    /// The packed UTXOs inside, one after the other.
    inside: &'a [u8],
}

#[derive(Clone, Copy)]
struct PackedScript<'a> {
    version: u16,
    script: &'a [u8],
}

/// A UTXO that has a record of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowUtxo {
    /// The address of its script's record.
    pub script: Address,
    /// The stored part of the UTXO.
    pub utxo: StoredUtxo,
}

/// One record of a ledger of Kaspa. The length of its address tells which: 36 bytes are an outpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KaspaRecord {
    /// At the address of a script.
    Script(ScriptRecord),
    /// At the address of an outpoint. Boxed, so that the more common kind stays small.
    Overflow(Box<OverflowUtxo>),
}

/// The record that has a UTXO of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the script's record.
    Inside,
    /// In a record of its own, at the address of its outpoint.
    Overflow,
}

/// The totals of a script would be below zero, or above the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a UTXO of {amount} sompi does not fit into the totals of its script: {totals:?}")]
pub struct TotalsError {
    /// The amount of the UTXO.
    pub amount: u64,
    /// The totals of UTXOs outside of the record, before the change.
    pub totals: Totals,
}

impl StoredUtxo {
    /// Creates the stored form of an entry.
    pub fn new(outpoint: Outpoint, entry: &UtxoEntry) -> Self {
        Self {
            outpoint,
            amount: entry.amount,
            block_daa_score: entry.block_daa_score,
            is_coinbase: entry.is_coinbase,
            covenant_id: entry.covenant_id,
        }
    }

    /// Returns the entry, with the script that the record is found by.
    pub fn to_entry(&self, script_public_key: ScriptPublicKey) -> UtxoEntry {
        UtxoEntry {
            amount: self.amount,
            script_public_key,
            block_daa_score: self.block_daa_score,
            is_coinbase: self.is_coinbase,
            covenant_id: self.covenant_id,
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            amount: self.amount,
            count: 1,
            with_covenant: u64::from(self.covenant_id.is_some()),
        }
    }

    /// Appends everything, so that [`Self::unpack`] reads it.
    fn pack(&self, packed: &mut Vec<u8>) {
        packed.extend_from_slice(&self.outpoint.transaction_id.0);
        self.pack_without_id(packed);
    }

    /// Reads what [`Self::pack`] appended. `None` if the bytes are not its.
    fn unpack(rest: &mut &[u8]) -> Option<Self> {
        let transaction_id = take_hash(rest)?;
        Self::unpack_after_id(transaction_id, rest)
    }

    /// Appends everything but the transaction id: 3 to 58 bytes.
    pub fn pack_without_id(&self, packed: &mut Vec<u8>) {
        let index = self.outpoint.index;
        let short_index = u8::try_from(index).ok().filter(|index| *index < flag::LONG_INDEX);
        let index_bits = short_index.unwrap_or(flag::LONG_INDEX) << flag::INDEX_SHIFT;
        packed.push(index_bits | self.flags());
        if short_index.is_none() {
            put_varint(packed, u64::from(index));
        }
        self.pack_after_index(packed);
    }

    /// Appends everything but the outpoint: 3 to 53 bytes.
    fn pack_without_outpoint(&self, packed: &mut Vec<u8>) {
        packed.push(flag::OVERFLOW | self.flags());
        self.pack_after_index(packed);
    }

    /// Returns the flags other than the index.
    fn flags(&self) -> u8 {
        let coinbase = if self.is_coinbase { flag::COINBASE } else { 0 };
        let covenant = if self.covenant_id.is_some() { flag::COVENANT } else { 0 };
        coinbase | covenant
    }

    fn pack_after_index(&self, packed: &mut Vec<u8>) {
        put_varint(packed, self.amount);
        put_varint(packed, self.block_daa_score);
        if let Some(Hash(covenant_id)) = &self.covenant_id {
            packed.extend_from_slice(covenant_id);
        }
    }

    /// Reads what [`Self::pack_without_id`] appended, and moves `rest` behind it. `None` if the bytes are not its.
    pub fn unpack_after_id(transaction_id: Hash, rest: &mut &[u8]) -> Option<Self> {
        let flags = take_byte(rest)?;
        let index = match flags >> flag::INDEX_SHIFT {
            flag::LONG_INDEX => u32::try_from(take_varint(rest)?).ok()?,
            index => u32::from(index),
        };
        Self::unpack_after_index(Outpoint { transaction_id, index }, flags, rest)
    }

    /// Reads the bytes of [`Self::pack_without_outpoint`], and moves `rest` behind them. `None` if they are not its.
    fn unpack_after_outpoint(outpoint: Outpoint, rest: &mut &[u8]) -> Option<Self> {
        let flags = take_byte(rest)?;
        if flags & !(flag::COINBASE | flag::COVENANT) != flag::OVERFLOW {
            return None;
        }
        Self::unpack_after_index(outpoint, flags, rest)
    }

    fn unpack_after_index(outpoint: Outpoint, flags: u8, rest: &mut &[u8]) -> Option<Self> {
        let amount = take_varint(rest)?;
        let block_daa_score = take_varint(rest)?;
        let covenant_id = if flags & flag::COVENANT == 0 { None } else { Some(take_hash(rest)?) };
        Some(Self {
            outpoint,
            amount,
            block_daa_score,
            is_coinbase: flags & flag::COINBASE != 0,
            covenant_id,
        })
    }
}

impl Totals {
    fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            amount: self.amount.checked_add(other.amount)?,
            count: self.count.checked_add(other.count)?,
            with_covenant: self.with_covenant.checked_add(other.with_covenant)?,
        })
    }

    fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            amount: self.amount.checked_sub(other.amount)?,
            count: self.count.checked_sub(other.count)?,
            with_covenant: self.with_covenant.checked_sub(other.with_covenant)?,
        })
    }
}

impl ScriptRecord {
    /// Creates the record of a script that has no UTXO yet.
    pub fn new(script: &ScriptPublicKey) -> Self {
        let own_script = PackedScript { version: script.version, script: &script.script };
        let parts = ScriptParts {
            script: script.payload().is_none().then_some(own_script),
            outside: Totals::default(),
            inside: &[],
        };
        Self { packed: parts.pack(&[]) }
    }

    fn parts(&self) -> ScriptParts<'_> {
        ScriptParts::parse(&self.packed).unwrap_or_else(|| unreachable!("these bytes were checked"))
    }

    /// Returns the script of the record at this address. `None` if the record is not one of this address.
    pub fn script(&self, address: &Address) -> Option<ScriptPublicKey> {
        match self.parts().script {
            Some(PackedScript { version, script }) => {
                Some(ScriptPublicKey { version, script: script.into() })
            }
            None => ScriptPublicKey::from_ledger_address(address),
        }
    }

    /// Returns the UTXOs inside of the record, in no order.
    pub fn inside(&self) -> impl Iterator<Item = StoredUtxo> {
        self.parts().utxos()
    }

    /// Returns the totals of the UTXOs outside of the record.
    pub fn outside(&self) -> Totals {
        self.parts().outside
    }

    /// Returns the totals of all UTXOs of the script.
    pub fn totals(&self) -> Totals {
        self.parts().totals()
    }

    /// Returns whether the script has no UTXO, so that the record can be removed.
    pub fn is_empty(&self) -> bool {
        let parts = self.parts();
        parts.inside.is_empty() && parts.outside.count == 0
    }

    /// Adds a UTXO. For [`Location::Overflow`] the caller writes its record.
    pub fn insert(&mut self, utxo: StoredUtxo) -> Result<Location, TotalsError> {
        let parts = self.parts();
        if parts.can_hold_another() {
            let mut added = Vec::with_capacity(PACKED_UTXO_BYTES_MAX);
            utxo.pack(&mut added);
            self.packed = parts.pack(&added);
            return Ok(Location::Inside);
        }
        let error = TotalsError { amount: utxo.amount, totals: parts.outside };
        let outside = parts.outside.checked_add(utxo.totals()).ok_or(error)?;
        self.packed = ScriptParts { outside, ..parts }.pack(&[]);
        Ok(Location::Overflow)
    }

    /// Removes a UTXO. For [`Location::Overflow`] the caller removes its record, and knows that it was one.
    pub fn remove(&mut self, utxo: &StoredUtxo) -> Result<Location, TotalsError> {
        let parts = self.parts();
        let mut rest = parts.inside;
        while !rest.is_empty() {
            let before = &parts.inside[..parts.inside.len() - rest.len()];
            let Some(found) = StoredUtxo::unpack(&mut rest) else { break };
            if found.outpoint == utxo.outpoint {
                self.packed = ScriptParts { inside: before, ..parts }.pack(rest);
                return Ok(Location::Inside);
            }
        }
        let error = TotalsError { amount: utxo.amount, totals: parts.outside };
        let outside = parts.outside.checked_sub(utxo.totals()).ok_or(error)?;
        self.packed = ScriptParts { outside, ..parts }.pack(&[]);
        Ok(Location::Overflow)
    }
}

impl<'a> ScriptParts<'a> {
    /// Reads the parts of a record. `None` if these bytes do not begin as one. The UTXOs are not read.
    fn parse(packed: &'a [u8]) -> Option<Self> {
        let (parts, mut rest) = packed.split_first()?;
        let mut script = None;
        if parts & part::SCRIPT != 0 {
            let version = u16::try_from(take_varint(&mut rest)?).ok()?;
            let len = usize::try_from(take_varint(&mut rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(len)?;
            rest = after;
            script = Some(PackedScript { version, script: bytes });
        }
        let mut outside = Totals::default();
        if parts & part::OUTSIDE != 0 {
            outside = Totals {
                amount: take_varint(&mut rest)?,
                count: take_varint(&mut rest)?,
                with_covenant: take_varint(&mut rest)?,
            };
        }
        Some(Self { script, outside, inside: rest })
    }

    /// Returns the packed form, with more UTXOs after those inside. It has no spare capacity.
    fn pack(&self, added: &[u8]) -> Box<[u8]> {
        let script_bytes = self.script.map_or(0, |script| script.script.len());
        let bytes_max =
            PACKED_HEAD_BYTES_MAX + 2 * 10 + script_bytes + self.inside.len() + added.len();
        let mut packed = Vec::with_capacity(bytes_max);
        let script_part = if self.script.is_some() { part::SCRIPT } else { 0 };
        let outside_part = if self.outside == Totals::default() { 0 } else { part::OUTSIDE };
        packed.push(script_part | outside_part);
        if let Some(PackedScript { version, script }) = self.script {
            put_varint(&mut packed, u64::from(version));
            put_varint(&mut packed, script.len() as u64);
            packed.extend_from_slice(script);
        }
        if outside_part != 0 {
            put_varint(&mut packed, self.outside.amount);
            put_varint(&mut packed, self.outside.count);
            put_varint(&mut packed, self.outside.with_covenant);
        }
        packed.extend_from_slice(self.inside);
        packed.extend_from_slice(added);
        // A copy. Allocators leave up to half of an allocation unused when it is only made shorter.
        Box::from(packed.as_slice())
    }

    /// Returns the UTXOs inside, up to bytes that are none.
    fn utxos(self) -> impl Iterator<Item = StoredUtxo> {
        let mut rest = self.inside;
        std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| StoredUtxo::unpack(&mut rest)).flatten()
        })
    }

    /// Returns the totals of all UTXOs of the script.
    fn totals(self) -> Totals {
        let sum = |sum: Totals, utxo: StoredUtxo| Totals {
            amount: sum.amount.saturating_add(utxo.amount),
            count: sum.count.saturating_add(1),
            with_covenant: sum.with_covenant.saturating_add(u64::from(utxo.covenant_id.is_some())),
        };
        self.utxos().fold(self.outside, sum)
    }

    /// Returns whether another UTXO fits, and the record is packed even if it is the longest one, whatever the totals
    /// become later: they grow while the UTXOs inside stay. A record that has its script has no such limit of bytes.
    fn can_hold_another(&self) -> bool {
        let bytes_at_most = PACKED_HEAD_BYTES_MAX + self.inside.len() + PACKED_UTXO_BYTES_MAX;
        let fits = bytes_at_most <= PACKED_BYTES_MAX || self.script.is_some();
        fits && self.utxos().count() < INSIDE_MAX
    }
}

impl KaspaRecord {
    /// Creates the record of a UTXO outside of its script's record. It must be stored at the address of its outpoint,
    /// which its packed form leaves out.
    pub fn overflow(script: Address, utxo: StoredUtxo) -> Self {
        Self::Overflow(Box::new(OverflowUtxo { script, utxo }))
    }

    /// Returns the script's record, if this is one.
    pub fn as_script(&self) -> Option<&ScriptRecord> {
        match self {
            Self::Script(record) => Some(record),
            Self::Overflow(_) => None,
        }
    }

    /// Returns the UTXO with a record of its own, if this is one.
    pub fn as_overflow(&self) -> Option<&OverflowUtxo> {
        match self {
            Self::Overflow(overflow) => Some(overflow),
            Self::Script(_) => None,
        }
    }
}

impl Record for KaspaRecord {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        if let Self::Overflow(overflow) = self {
            key(SCRIPT_KEY, overflow.script);
        }
    }

    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        let start = packed.len();
        match self {
            Self::Script(record) => packed.extend_from_slice(&record.packed),
            Self::Overflow(overflow) => overflow.utxo.pack_without_outpoint(packed),
        }
        packed.len() - start <= PACKED_BYTES_MAX
    }

    fn unpack(
        keys: &[(KeyKind, Address)],
        packed: &[u8],
        own_address: &dyn Fn() -> Address,
    ) -> Option<Self> {
        let Some((_, script)) = keys.first() else {
            let mut inside = ScriptParts::parse(packed)?.inside;
            while !inside.is_empty() {
                StoredUtxo::unpack(&mut inside)?;
            }
            return Some(Self::Script(ScriptRecord { packed: packed.into() }));
        };
        let outpoint = Outpoint::from_ledger_address(&own_address())?;
        let mut rest = packed;
        let utxo = StoredUtxo::unpack_after_outpoint(outpoint, &mut rest)?;
        rest.is_empty().then(|| Self::overflow(*script, utxo))
    }

    /// Known for every record: only a script has a rank, and only among all records.
    fn packed_rank(packed: &[u8], kind: Option<KeyKind>) -> Option<Option<u64>> {
        if kind.is_some() || packed.first()? & flag::OVERFLOW != 0 {
            return Some(None);
        }
        Some(Some(ScriptParts::parse(packed)?.totals().amount))
    }

    fn weight(&self) -> usize {
        let on_heap = match self {
            Self::Script(record) => record.packed.len(),
            Self::Overflow(overflow) => size_of_val(overflow.as_ref()),
        };
        size_of_val(self) + on_heap
    }

    /// Returns the balance of a script.
    fn global_rank(&self) -> Option<u64> {
        self.as_script().map(|record| record.totals().amount)
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    Some(*byte)
}

fn take_hash(rest: &mut &[u8]) -> Option<Hash> {
    let (hash, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(Hash(*hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::AddressPayload;

    fn utxo(number: u32, amount: u64) -> StoredUtxo {
        StoredUtxo {
            outpoint: Outpoint { transaction_id: Hash([number as u8; 32]), index: number },
            amount,
            block_daa_score: 100_000_000,
            is_coinbase: false,
            covenant_id: None,
        }
    }

    fn with_covenant(number: u32) -> StoredUtxo {
        StoredUtxo { covenant_id: Some(Hash([9; 32])), ..utxo(number, 5) }
    }

    fn p2pk() -> ScriptPublicKey {
        ScriptPublicKey::from_payload(&AddressPayload::PublicKey([7; 32]))
    }

    /// Packs and unpacks at the record's address; returns the packed length, or `None` if the record is not packed.
    fn repack(record: &KaspaRecord) -> Option<usize> {
        let own_address = || match record {
            KaspaRecord::Script(_) => unreachable!("a script's record does not request it"),
            KaspaRecord::Overflow(overflow) => overflow.utxo.outpoint.ledger_address(),
        };
        let mut keys = Vec::new();
        record.keys(&mut |kind, address| keys.push((kind, address)));
        let mut packed = vec![9; 3];
        let is_packed = record.pack(&mut packed);
        assert_eq!(packed[..3], [9; 3]);
        if is_packed {
            let unpacked = KaspaRecord::unpack(&keys, &packed[3..], &own_address);
            assert_eq!(unpacked.as_ref(), Some(record));
            for kind in [None, Some(SCRIPT_KEY)] {
                let rank = kind.map_or_else(|| record.global_rank(), |kind| record.rank_in(kind));
                assert_eq!(KaspaRecord::packed_rank(&packed[3..], kind), Some(rank));
            }
        }
        is_packed.then_some(packed.len() - 3)
    }

    #[test]
    fn a_script_with_one_small_utxo_takes_40_bytes() {
        let mut record = ScriptRecord::new(&p2pk());
        assert_eq!(record.insert(utxo(1, 10_000)), Ok(Location::Inside));
        assert_eq!(repack(&KaspaRecord::Script(record)), Some(40));
    }

    #[test]
    fn an_overflow_record_takes_7_bytes() {
        let script = p2pk().ledger_address();
        assert_eq!(repack(&KaspaRecord::overflow(script, utxo(1, 10_000))), Some(7));
        assert_eq!(repack(&KaspaRecord::overflow(script, utxo(u32::MAX, 10_000))), Some(7));
        let with_covenant = StoredUtxo { covenant_id: Some(Hash([9; 32])), ..utxo(1, 10_000) };
        assert_eq!(repack(&KaspaRecord::overflow(script, with_covenant)), Some(7 + 32));
    }

    #[test]
    fn an_unpacked_script_takes_16_bytes_more_than_a_packed_one() {
        let mut record = ScriptRecord::new(&p2pk());
        assert_eq!(record.insert(utxo(1, 10_000)), Ok(Location::Inside));
        assert_eq!(KaspaRecord::Script(record.clone()).weight(), 16 + 40);
        assert_eq!(record.insert(utxo(2, 10_000)), Ok(Location::Inside));
        assert_eq!(KaspaRecord::Script(record.clone()).weight(), 16 + 40 + 39);
        assert_eq!(record.remove(&utxo(1, 10_000)), Ok(Location::Inside));
        assert_eq!(record.inside().collect::<Vec<_>>(), [utxo(2, 10_000)]);
        assert_eq!(KaspaRecord::Script(record).weight(), 16 + 40);
        assert_eq!(size_of::<KaspaRecord>(), 16);
    }

    #[test]
    fn utxos_above_the_limit_overflow_and_count() {
        let mut record = ScriptRecord::new(&p2pk());
        for number in 0..INSIDE_MAX as u32 {
            assert_eq!(record.insert(utxo(number, 5)), Ok(Location::Inside));
        }
        assert_eq!(record.insert(utxo(50, 7)), Ok(Location::Overflow));
        assert_eq!(record.insert(with_covenant(51)), Ok(Location::Overflow));
        assert_eq!(record.outside(), Totals { amount: 12, count: 2, with_covenant: 1 });
        assert_eq!(record.totals(), Totals { amount: 52, count: 10, with_covenant: 1 });
        // An overflow stays where it is when the record has less than its limit again.
        assert_eq!(record.remove(&utxo(3, 5)), Ok(Location::Inside));
        assert_eq!(record.remove(&utxo(50, 7)), Ok(Location::Overflow));
        assert_eq!(record.totals(), Totals { amount: 40, count: 8, with_covenant: 1 });
        assert_eq!(record.insert(utxo(52, 1)), Ok(Location::Inside));
        assert_eq!(record.remove(&with_covenant(51)), Ok(Location::Overflow));
        assert!(record.remove(&utxo(60, 1)).is_err(), "a UTXO that is not the script's");
        assert_eq!(record.outside(), Totals::default());
        assert!(!record.is_empty());
    }

    #[test]
    fn covenants_do_not_make_a_record_too_long_to_pack() {
        let mut record = ScriptRecord::new(&p2pk());
        for number in 0..20 {
            let huge = StoredUtxo {
                outpoint: Outpoint { transaction_id: Hash([1; 32]), index: u32::MAX - number },
                amount: u64::MAX / 32,
                block_daa_score: u64::MAX,
                is_coinbase: true,
                covenant_id: Some(Hash([9; 32])),
            };
            assert!(record.insert(huge).is_ok());
            assert!(repack(&KaspaRecord::Script(record.clone())).is_some());
        }
        assert_eq!(record.inside().count(), 5);
        assert_eq!(record.outside().with_covenant, 15);
    }

    #[test]
    fn growing_totals_do_not_make_a_record_too_long_to_pack() {
        let utxo = |number: u32, amount, has_covenant: bool| StoredUtxo {
            outpoint: Outpoint { transaction_id: Hash([1; 32]), index: number },
            amount,
            block_daa_score: u64::MAX >> 15,
            is_coinbase: false,
            covenant_id: has_covenant.then_some(Hash([9; 32])),
        };
        // As many UTXOs as fit while nothing is outside, of any length up to the longest.
        for index in [0, 62, 1 << 7, 1 << 14, 1 << 21, u32::MAX - 100] {
            for amount in (0..60).map(|bits| 1_u64 << bits) {
                for covenants in 0..INSIDE_MAX {
                    let mut record = ScriptRecord::new(&p2pk());
                    let mut number = 0;
                    while record.parts().can_hold_another() {
                        let inside = utxo(index + number as u32, amount, number < covenants);
                        assert_eq!(record.insert(inside), Ok(Location::Inside));
                        number += 1;
                    }
                    let outside =
                        Totals { amount: u64::MAX, count: u64::MAX, with_covenant: u64::MAX };
                    record.packed = ScriptParts { outside, ..record.parts() }.pack(&[]);
                    assert!(repack(&KaspaRecord::Script(record)).is_some());
                }
            }
        }
    }

    #[test]
    fn a_script_without_an_address_is_in_its_record() {
        for script_bytes in [0, 10, 200, 10_000] {
            let script = ScriptPublicKey { version: 3, script: vec![7; script_bytes].into() };
            let mut record = ScriptRecord::new(&script);
            assert!(record.is_empty());
            assert_eq!(record.insert(utxo(1, 5)), Ok(Location::Inside));
            assert_eq!(record.script(&script.ledger_address()), Some(script.clone()));
            let is_packed = repack(&KaspaRecord::Script(record)).is_some();
            assert_eq!(is_packed, script_bytes <= 200);
        }
        let record = ScriptRecord::new(&p2pk());
        assert_eq!(record.script(&p2pk().ledger_address()), Some(p2pk()));
    }

    #[test]
    fn an_overflow_record_has_its_script_as_key() {
        let script = p2pk().ledger_address();
        let overflow = KaspaRecord::overflow(script, with_covenant(70));
        let mut keys = Vec::new();
        overflow.keys(&mut |kind, address| keys.push((kind, address)));
        assert_eq!(keys, [(SCRIPT_KEY, script)]);
        assert!(repack(&overflow).is_some());
        let outpoint = with_covenant(70).outpoint;
        assert_eq!(Outpoint::from_ledger_address(&outpoint.ledger_address()), Some(outpoint));
        assert_eq!(Outpoint::from_ledger_address(&script), None);
    }

    #[test]
    fn cut_records_are_refused() {
        let script = p2pk().ledger_address();
        let mut packed = Vec::new();
        assert!(KaspaRecord::overflow(script, with_covenant(70)).pack(&mut packed));
        let keys = [(SCRIPT_KEY, script)];
        let at_outpoint = || with_covenant(70).outpoint.ledger_address();
        let unpack = |packed: &[u8]| KaspaRecord::unpack(&keys, packed, &at_outpoint);
        assert!(unpack(&packed).is_some());
        assert!((0..packed.len()).all(|len| unpack(&packed[..len]).is_none()));
        assert_eq!(KaspaRecord::unpack(&keys, &packed, &|| script), None, "not an outpoint");
        packed.push(0);
        assert_eq!(unpack(&packed), None);
        packed.pop();
        packed[0] ^= 1 << flag::INDEX_SHIFT;
        assert_eq!(unpack(&packed), None, "an index in its flags");
        let unpack = |packed: &[u8]| KaspaRecord::unpack(&[], packed, &|| script);
        assert_eq!(unpack(&[]), None);
        assert_eq!(unpack(&[part::SCRIPT, 0, 200, 1]), None);
        let mut record = ScriptRecord::new(&p2pk());
        assert_eq!(record.insert(with_covenant(70)), Ok(Location::Inside));
        let packed = &record.packed;
        assert!((2..packed.len()).all(|len| unpack(&packed[..len]).is_none()));
    }

    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
    }

    fn any_utxo() -> impl Strategy<Value = StoredUtxo> {
        let covenant = proptest::option::of(any::<[u8; 32]>());
        (any::<[u8; 32]>(), number(), number(), number(), any::<bool>(), covenant).prop_map(
            |(id, index, amount, block_daa_score, is_coinbase, covenant)| StoredUtxo {
                outpoint: Outpoint { transaction_id: Hash(id), index: index as u32 },
                amount: amount >> 8,
                block_daa_score,
                is_coinbase,
                covenant_id: covenant.map(Hash),
            },
        )
    }

    proptest! {
        #[test]
        fn every_record_is_restored_exactly(
            utxos in proptest::collection::vec(any_utxo(), 0..20),
            script in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
        ) {
            let script = script.map_or_else(p2pk, |script| ScriptPublicKey { version: 1, script: script.into() });
            let mut record = ScriptRecord::new(&script);
            let mut overflow = Vec::new();
            for utxo in &utxos {
                if record.insert(*utxo) == Ok(Location::Overflow) {
                    overflow.push(*utxo);
                }
                repack(&KaspaRecord::Script(record.clone()));
            }
            let all: Vec<StoredUtxo> = record.inside().chain(overflow.iter().copied()).collect();
            prop_assert_eq!(all.len(), utxos.len());
            let amount = utxos.iter().map(|utxo| utxo.amount).sum();
            let covenants = utxos.iter().filter(|utxo| utxo.covenant_id.is_some()).count() as u64;
            let totals = Totals { amount, count: utxos.len() as u64, with_covenant: covenants };
            prop_assert_eq!(record.totals(), totals);
            for utxo in &overflow {
                let overflow = KaspaRecord::overflow(script.ledger_address(), *utxo);
                prop_assert!(repack(&overflow).is_some());
            }
            for utxo in &utxos {
                prop_assert!(record.remove(utxo).is_ok());
            }
            prop_assert!(record.is_empty());
        }

        #[test]
        fn an_overflow_record_has_the_outpoint_of_its_address(utxo in any_utxo(), other in any_utxo()) {
            let script = p2pk().ledger_address();
            let mut packed = Vec::new();
            prop_assert!(KaspaRecord::overflow(script, utxo).pack(&mut packed));
            for outpoint in [utxo.outpoint, other.outpoint] {
                let own_address = || outpoint.ledger_address();
                let unpacked = KaspaRecord::unpack(&[(SCRIPT_KEY, script)], &packed, &own_address);
                let expected = StoredUtxo { outpoint, ..utxo };
                prop_assert_eq!(unpacked, Some(KaspaRecord::overflow(script, expected)));
            }
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(packed in proptest::collection::vec(any::<u8>(), 0..200)) {
            let keys = [(SCRIPT_KEY, p2pk().ledger_address())];
            let own_address = || utxo(1, 5).outpoint.ledger_address();
            let _ = KaspaRecord::unpack(&[], &packed, &own_address);
            let _ = KaspaRecord::unpack(&keys, &packed, &own_address);
            let _ = KaspaRecord::packed_rank(&packed, None);
        }
    }
}

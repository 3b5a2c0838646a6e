//! The record of an address, and the keys by which it is found.

use std::sync::Arc;

use crate::{Address, AddressId};

/// The kind of a key: a record's program, its token mint, and so on. The chain's implementation defines
/// the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyKind(pub u8);

/// One key of an index: "the records whose `kind` is this address".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the address is to the record.
    pub kind: KeyKind,
    /// The id of the address.
    pub id: AddressId,
}

/// What a ledger stores under an address.
///
/// ```
/// use ledger::{Address, KeyKind, Record};
///
/// struct Balance {
///     amount: u64,
///     owner: Address,
/// }
///
/// const OWNER: KeyKind = KeyKind(0);
///
/// impl Record for Balance {
///     fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
///         key(OWNER, self.owner);
///     }
///
///     /// The richest first.
///     fn global_rank(&self) -> Option<u64> {
///         Some(self.amount)
///     }
/// }
///
/// let balance = Balance { amount: 5, owner: Address::from([7; 32]) };
/// let mut keys = Vec::new();
/// balance.keys(&mut |kind, address| keys.push((kind, address)));
/// assert!(keys == [(OWNER, Address::from([7; 32]))]);
/// ```
pub trait Record: Send + Sync + 'static {
    /// Calls `key` once for every key of this record.
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address));

    /// Appends the part of the record that neither its keys nor its own address contain: together with these addresses
    /// it is the whole record. Returns false, whatever was appended, if the record is better stored unpacked: a large
    /// or an unusual one.
    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        let _ = packed;
        false
    }

    /// The record for which [`Self::keys`] returned these keys, in their order, and [`Self::pack`] these
    /// bytes; `None` if no record does.
    ///
    /// `own_address` returns the address of the record. It costs a lookup, so an implementation calls it only if
    /// [`Self::pack`] leaves out something that the address contains.
    fn unpack(
        keys: &[(KeyKind, Address)],
        packed: &[u8],
        own_address: &dyn Fn() -> Address,
    ) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = (keys, packed, own_address);
        None
    }

    /// The value of [`Self::global_rank`] or, with a `kind`, of [`Self::rank_in`] for the record that
    /// packed itself into these bytes, if they contain it without the keys and the record's own address. It is called
    /// for many records at once.
    fn packed_rank(packed: &[u8], kind: Option<KeyKind>) -> Option<Option<u64>>
    where
        Self: Sized,
    {
        let _ = (packed, kind);
        None
    }

    /// Appends what turns `base` into this record. Returns false, whatever was appended, if that is not much shorter than
    /// the record, or if the two differ in more than their content.
    fn patch(&self, base: &Self, patch: &mut Vec<u8>) -> bool
    where
        Self: Sized,
    {
        let _ = (base, patch);
        false
    }

    /// The record for which [`Self::patch`] appended these bytes to this `base`; `None` if it did for none.
    fn apply_patch(base: &Self, patch: &[u8]) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = (base, patch);
        None
    }

    /// The value of [`Self::global_rank`] or, with a `kind`, of [`Self::rank_in`] for a patched record, if that is known
    /// without the record.
    fn patched_rank(base: &Self, patch: &[u8], kind: Option<KeyKind>) -> Option<Option<u64>>
    where
        Self: Sized,
    {
        let _ = (base, patch, kind);
        None
    }

    /// Its bytes when it is stored unpacked. For reports.
    fn weight(&self) -> usize {
        size_of_val(self)
    }

    /// The rank among all records, the highest first; `None` if the record has none.
    fn global_rank(&self) -> Option<u64> {
        None
    }

    /// The rank among the records that have the same key of `kind`, if that kind
    /// has an order.
    fn rank_in(&self, kind: KeyKind) -> Option<u64> {
        let _ = kind;
        None
    }
}

/// The new state of one record in a block. A block may change a record several times; the last change counts.
#[derive(Debug)]
pub struct Change<R> {
    /// The address of the record.
    pub address: Address,
    /// The new record; `None` if the record is removed.
    pub record: Option<Arc<R>>,
}

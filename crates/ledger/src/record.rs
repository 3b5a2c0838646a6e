//! What stands under an address, and by which keys it can be found.

use std::sync::Arc;

use crate::{Address, AddressId};

/// By what a record is found: its program, its token mint, and so on. The dialect gives the numbers
/// their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyKind(pub u8);

/// One key of an index: "the records whose `facet` is this address".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the address is to the record.
    pub kind: KeyKind,
    /// The address, as its number.
    pub id: AddressId,
}

/// What a ledger keeps under an address.
pub trait Record: Send + Sync + 'static {
    /// Calls `key` once for every key that this record is found by.
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address));

    /// Appends what the record's keys do not say: with the addresses that [`Self::keys`] gives it is
    /// the whole record. False, whatever was appended, if it is better kept as it is: a large or an
    /// unusual one.
    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        let _ = packed;
        false
    }

    /// The record of which [`Self::keys`] gave these keys, in their order, and [`Self::pack`] these
    /// bytes; `None` if they are not of that making.
    fn unpack(keys: &[(KeyKind, Address)], packed: &[u8]) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = (keys, packed);
        None
    }

    /// What [`Self::global_rank`] or, with a facet, [`Self::rank_in`] gives for the record that
    /// packed itself into these bytes, if they say so without its keys: it is asked for many records
    /// at once.
    fn packed_rank(packed: &[u8], facet: Option<KeyKind>) -> Option<Option<u64>>
    where
        Self: Sized,
    {
        let _ = (packed, facet);
        None
    }

    /// How many bytes it takes where it is kept as it is. For reports.
    fn weight(&self) -> usize {
        size_of_val(self)
    }

    /// Where this record stands among all, the highest first; `None` if it has no place there.
    fn global_rank(&self) -> Option<u64> {
        None
    }

    /// Where it stands among the records that are found by the same key under `facet`, if that facet
    /// has an order.
    fn rank_in(&self, facet: KeyKind) -> Option<u64> {
        let _ = facet;
        None
    }
}

/// One record's new state within a block. A block may change a record several times; the last counts.
#[derive(Debug)]
pub struct Change<R> {
    /// Whose record it is.
    pub address: Address,
    /// What stands there now; `None` if the record is gone.
    pub record: Option<Arc<R>>,
}

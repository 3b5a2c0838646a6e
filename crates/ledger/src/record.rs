//! What stands under an address, and by which keys it can be found.

use std::sync::Arc;

use crate::{Address, AddressId};

/// By what a record is found: its program, its token mint, and so on. The dialect gives the numbers
/// their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facet(pub u8);

/// One key of an index: "the records whose `facet` is this address".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the address is to the record.
    pub facet: Facet,
    /// The address, as its number.
    pub id: AddressId,
}

/// What a ledger keeps under an address.
pub trait Record: Send + Sync + 'static {
    /// Calls `key` once for every key that this record is found by.
    fn keys(&self, key: &mut dyn FnMut(Facet, Address));

    /// Where this record stands among all, the highest first; `None` if it has no place there.
    fn rank_among_all(&self) -> Option<u64> {
        None
    }

    /// Where it stands among the records that are found by the same key under `facet`, if that facet
    /// has an order.
    fn rank_under(&self, facet: Facet) -> Option<u64> {
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

//! From the ids of a version, its own and those of its keys, to their addresses.

use address::AddressTable;
use ledger::{Address, AddressId};

/// Returns the addresses of ids that are referenced, or pinned by an epoch.
pub(crate) fn address_resolver(addresses: &AddressTable) -> impl Fn(AddressId) -> Address {
    |id| addresses.address(id).unwrap_or_else(|| panic!("{id:?} of a version has no address"))
}

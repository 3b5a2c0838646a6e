//! The index against plain sets, under epochs, and against readers on threads.

mod model;
mod readers;

use ledger::{AddressId, Key, KeyKind};

pub(crate) fn key(n: u32) -> Key {
    Key { kind: KeyKind((n % 3) as u8), id: AddressId(n / 3) }
}

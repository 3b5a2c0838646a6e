//! The table against plain maps, and against readers on threads.

mod model;
mod readers;

use ledger::Address;

/// Returns the address of number `n`. Of 10, seven have 32 bytes.
pub(crate) fn address(n: u32) -> Address {
    let mut bytes = [b'p'; 36];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    let len = match n % 10 {
        7 => 4 + n as usize % 28,
        8 => 33,
        9 => 36,
        _ => 32,
    };
    Address::try_from(&bytes[..len]).expect("4 to 36 bytes are an address")
}

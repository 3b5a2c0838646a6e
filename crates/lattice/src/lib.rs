//! The lattice hash over all accounts, and the bank hash that is made of it.
//!
//! Shape: [`LtHash`] is a sum over accounts, one number for each of them; [`BankHashInputs`] has everything that a bank
//! hash covers. The formulas are those of Agave 4.2 to 4.4.
//! Invariant: a sum over accounts does not depend on their order. So a block changes the sum by the old and the new
//! state of each account that it wrote, and every state between the two is irrelevant.
//! Not here: the types of a chain (addresses and hashes are bytes), and which accounts a block wrote.
#![forbid(unsafe_code)]

mod bank_hash;
mod lt_hash;

pub use bank_hash::{BankHashInputs, HardFork, crossed_hard_forks};
pub use lt_hash::{AccountFields, LT_HASH_BYTES, LtHash};

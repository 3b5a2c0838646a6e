//! The lattice hash of one account.

use lattice::{AccountFields, LtHash};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

/// The hash over one account; empty for an account without lamports.
pub fn lt_hash(key: &Pubkey, account: &AccountSharedData) -> LtHash {
    LtHash::from_account(&AccountFields {
        address: key.as_array(),
        lamports: account.lamports(),
        data: account.data(),
        executable: account.executable(),
        owner: account.owner().as_array(),
    })
}

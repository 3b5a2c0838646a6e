//! What is written of a bank into an archive, besides its accounts.
//!
//! Not here: its bytes (`fields_writer`), the archive (`archive_writer`).

use solana_pubkey::Pubkey;

use crate::bank_fields::BankFields;

/// The only storage file of its slot.
pub(crate) const STORAGE_ID: u64 = 1;

/// What a bank states besides its accounts.
#[derive(Clone, Debug)]
pub struct ArchivedBank {
    /// Fields of the bank. Capitalization and the hash over all accounts are not written: they are those of its accounts.
    pub fields: BankFields,
    /// The node that led the slot.
    pub leader: Pubkey,
    /// The status cache as Agave stores it; empty for none. That of the fields is not written.
    pub status_cache: Vec<u8>,
}

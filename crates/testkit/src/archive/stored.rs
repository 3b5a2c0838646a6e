//! An account as a storage file has it.

/// Bytes of an account in a storage file before its data.
pub(super) const HEAD_BYTES: usize = 136;

/// An account to be written.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Balance in lamports; 0 if the account is closed.
    pub lamports: u64,
    /// The program that owns it.
    pub owner: [u8; 32],
    /// Whether it is a program.
    pub executable: bool,
    /// Its rent epoch.
    pub rent_epoch: u64,
    /// Data of the account.
    pub data: &'a [u8],
}

impl Stored<'_> {
    /// Its bytes in a storage file.
    pub fn bytes(&self) -> usize {
        (HEAD_BYTES + self.data.len()).next_multiple_of(8)
    }
}

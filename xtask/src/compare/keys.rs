//! The keys of a run: the same in each, so that its genesis is the same.

use ed25519_dalek::{Signer, SigningKey};

/// Number of keys that pay for transactions and sign them.
pub(crate) const PAYERS: u8 = 8;

/// Number of the key that owns the supply at genesis.
pub(crate) const MINTED: u8 = 90;

/// A key by its number: a payer, or another signer above [`PAYERS`].
pub(crate) struct Key(SigningKey);

impl Key {
    pub(crate) fn new(number: u8) -> Self {
        Self(SigningKey::from_bytes(&[number + 1; 32]))
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// Returns the address of a key by its number, as text.
pub(crate) fn address(number: u8) -> String {
    base58(&Key::new(number).public())
}

/// Returns an address without a key, by its number.
pub(crate) fn plain(number: u8) -> [u8; 32] {
    let mut bytes = [200; 32];
    // The first byte, as those of real keys differ.
    bytes[0] = number;
    bytes
}

/// Returns an address without a key, as text.
pub(crate) fn plain_address(number: u8) -> String {
    base58(&plain(number))
}

pub(crate) fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

/// Returns the bytes of an address; zeros if the text is not an address.
pub(crate) fn bytes(address: &str) -> [u8; 32] {
    let decoded = bs58::decode(address).into_vec().unwrap_or_default();
    <[u8; 32]>::try_from(decoded).unwrap_or_default()
}

pub(crate) const SYSTEM: &str = "11111111111111111111111111111111";
pub(crate) const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
pub(crate) const TOKEN_2022: &str = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";
pub(crate) const MEMO: &str = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
pub(crate) const COMPUTE_BUDGET: &str = "ComputeBudget111111111111111111111111111111";
pub(crate) const STAKE: &str = "Stake11111111111111111111111111111111111111";
pub(crate) const VOTE: &str = "Vote111111111111111111111111111111111111111";
pub(crate) const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";
pub(crate) const RENT: &str = "SysvarRent111111111111111111111111111111111";

//! Addresses by number.

use anyhow::Result;

/// The address of a number. The first bytes differ as those of real keys do.
pub(crate) fn address_of(n: u32) -> [u8; 32] {
    let mut address = [7; 32];
    let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    address[..8].copy_from_slice(&(mixed ^ mixed >> 29).to_le_bytes());
    address[8..12].copy_from_slice(&n.to_le_bytes());
    address
}

/// The number of an address as [`address_of`] makes it.
pub(crate) fn number_of(pubkey: &str) -> Result<u32> {
    let bytes = pubkey.parse::<solana_pubkey::Pubkey>()?.to_bytes();
    let number = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    anyhow::ensure!(address_of(number) == bytes, "{pubkey} is no address of this benchmark");
    Ok(number)
}

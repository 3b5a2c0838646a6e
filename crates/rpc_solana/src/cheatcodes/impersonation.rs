//! The addresses whose signatures are not checked.
//!
//! Bounds: [`IMPERSONATED_MAX`] addresses.

use std::collections::BTreeSet;

use jsonrpc::error::RpcError;
use parking_lot::RwLock;
use solana_pubkey::Pubkey;

/// Maximum number of impersonated addresses.
const IMPERSONATED_MAX: usize = 1_000;

/// The addresses whose signatures are not checked.
#[derive(Default)]
pub(crate) struct Impersonated(RwLock<BTreeSet<Pubkey>>);

impl Impersonated {
    /// Adds an address; an error at the bound.
    pub(crate) fn insert(&self, pubkey: Pubkey) -> Result<(), RpcError> {
        let mut all = self.0.write();
        if all.len() >= IMPERSONATED_MAX && !all.contains(&pubkey) {
            let message = format!(
                "{IMPERSONATED_MAX} addresses are impersonated already, the maximum \
                 (hydrant_stopImpersonatingAccount)"
            );
            return Err(RpcError::invalid_request(message));
        }
        all.insert(pubkey);
        Ok(())
    }

    /// Removes an address. Returns false if it was not impersonated.
    pub(crate) fn remove(&self, pubkey: &Pubkey) -> bool {
        self.0.write().remove(pubkey)
    }

    pub(crate) fn contains(&self, pubkey: &Pubkey) -> bool {
        self.0.read().contains(pubkey)
    }

    /// Returns all impersonated addresses, sorted.
    pub(crate) fn all(&self) -> Vec<Pubkey> {
        self.0.read().iter().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impersonated_addresses_are_bounded() {
        let all = Impersonated::default();
        let keys: Vec<Pubkey> = (0..1_001).map(|_| Pubkey::new_unique()).collect();
        assert!(keys[..1_000].iter().all(|key| all.insert(*key).is_ok()));
        let err = all.insert(keys[1_000]).expect_err("it is full");
        assert!(err.message.contains("1000 addresses"), "{}", err.message);
        // An address that is already impersonated needs no space.
        assert!(all.insert(keys[5]).is_ok());
        assert!(all.remove(&keys[5]) && !all.remove(&keys[5]));
        assert!(!all.contains(&keys[5]) && all.contains(&keys[6]));
        assert!(all.insert(keys[1_000]).is_ok());
        assert_eq!((all.len(), all.all().len()), (1_000, 1_000));
    }
}

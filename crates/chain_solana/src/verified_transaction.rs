//! A transaction whose shape and signatures are valid: the only kind that a ledger accepts.
//!
//! Cheat codes of a local ledger exempt signers ([`VerifiedTransaction::verify_except`]). Their missing signatures are
//! replaced, so that a transaction still has one that identifies it.

use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;

use crate::signatures;

const SIGNATURE_BYTES: usize = 64;

/// A well-formed transaction with valid signatures: a ledger accepts no other. The verification is expensive (about 50
/// us a signature) and belongs on the CPU pool.
#[derive(Clone, Debug)]
pub struct VerifiedTransaction {
    transaction: VersionedTransaction,
    message_hash: Hash,
    message_bytes: usize,
    retries: u32,
}

/// Why a transaction is refused before execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The transaction contradicts itself: counts, indices, duplicate accounts.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// A signature is not valid for its key and message.
    #[error("Transaction signature verification failure")]
    Signature,
}

impl VerifiedTransaction {
    /// Verifies the shape and all signatures of a transaction.
    pub fn verify(transaction: VersionedTransaction) -> Result<Self, VerifyError> {
        let message = verify_signatures(&transaction)?;
        let message_hash = VersionedMessage::hash_raw_message(&message);
        Ok(Self { transaction, message_hash, message_bytes: message.len(), retries: 0 })
    }

    /// Verifies a transaction like [`Self::verify`], except the signatures of the signers that `is_exempt` selects. A
    /// missing signature (all zero) is replaced by a hash of the message, which no other transaction has.
    pub fn verify_except(
        mut transaction: VersionedTransaction,
        is_exempt: impl Fn(&Pubkey) -> bool,
    ) -> Result<Self, VerifyError> {
        transaction.sanitize().map_err(|err| VerifyError::Sanitize(err.to_string()))?;
        let message = transaction.message.serialize();
        let VersionedTransaction { signatures, message: parsed } = &mut transaction;
        let signers = signatures.iter_mut().zip(parsed.static_account_keys());
        for (index, (signature, signer)) in signers.enumerate() {
            if !is_exempt(signer) {
                if !signatures::verify_one(signature.as_array(), signer.as_array(), &message) {
                    return Err(VerifyError::Signature);
                }
            } else if *signature == Signature::default() {
                *signature = substitute(&message, index);
            }
        }
        let message_hash = VersionedMessage::hash_raw_message(&message);
        Ok(Self { transaction, message_hash, message_bytes: message.len(), retries: 0 })
    }

    /// Sets the number of retries, for while it cannot run yet.
    pub fn with_retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// Returns how often a ledger tries it again while it cannot run yet: 0 unless its sender requested retries.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns the transaction, for encoding and inspection.
    pub fn transaction(&self) -> &VersionedTransaction {
        &self.transaction
    }

    /// Returns the hash of its message. It identifies duplicates regardless of their signatures.
    pub fn message_hash(&self) -> Hash {
        self.message_hash
    }

    /// Returns the transaction for execution.
    pub fn into_transaction(self) -> VersionedTransaction {
        self.transaction
    }

    /// Returns the first signature, which identifies the transaction.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }

    /// Returns the key that pays the fee: the first one.
    pub fn fee_payer(&self) -> Pubkey {
        self.transaction.message.static_account_keys().first().copied().unwrap_or_default()
    }

    /// Returns the estimated bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.message_bytes + self.transaction.signatures.len() * SIGNATURE_BYTES
    }
}

/// Verifies the shape and all signatures of a transaction, which may be in a block already. Returns its serialized
/// message.
///
/// Cost: about 35 us a signature.
pub fn verify_signatures(transaction: &VersionedTransaction) -> Result<Vec<u8>, VerifyError> {
    transaction.sanitize().map_err(|err| VerifyError::Sanitize(err.to_string()))?;
    // Lists of a length that no message has do not serialize.
    let message = wincode::serialize(&transaction.message);
    let message = message.map_err(|err| VerifyError::Sanitize(err.to_string()))?;
    if signatures::verify(transaction, &message) {
        Ok(message)
    } else {
        Err(VerifyError::Signature)
    }
}

/// Computes the replacement of a signer's missing signature: two hashes of the message and the signer's index.
fn substitute(message: &[u8], index: usize) -> Signature {
    let mut bytes = [0; SIGNATURE_BYTES];
    for (part, half) in bytes.chunks_exact_mut(SIGNATURE_BYTES / 2).enumerate() {
        let hashed = [message, &[part as u8, index as u8]].concat();
        half.copy_from_slice(VersionedMessage::hash_raw_message(&hashed).as_ref());
    }
    Signature::from(bytes)
}

#[cfg(test)]
mod tests {
    use solana_message::{Message, MessageHeader};

    use super::*;

    /// A transaction of two signers without signatures.
    fn unsigned_transaction(signers: [Pubkey; 2]) -> VersionedTransaction {
        let header = MessageHeader {
            num_required_signatures: 2,
            num_readonly_signed_accounts: 0,
            num_readonly_unsigned_accounts: 0,
        };
        let message = Message { header, account_keys: signers.to_vec(), ..Message::default() };
        let signatures = vec![Signature::default(); 2];
        VersionedTransaction { signatures, message: VersionedMessage::Legacy(message) }
    }

    #[test]
    fn exempt_signers_need_no_signature_and_others_do() {
        let signers = [Pubkey::new_from_array([1; 32]), Pubkey::new_from_array([2; 32])];
        let only_first = |signer: &Pubkey| *signer == signers[0];
        let refused = VerifiedTransaction::verify_except(unsigned_transaction(signers), only_first);
        assert_eq!(refused.err(), Some(VerifyError::Signature));
        let verified = VerifiedTransaction::verify_except(unsigned_transaction(signers), |_| true);
        let verified = verified.expect("both are exempt");
        let [first, second] = verified.transaction().signatures[..] else { panic!("two") };
        assert!(first != second && first != Signature::default());
        assert_eq!(verified.signature(), first);
        let again = VerifiedTransaction::verify_except(unsigned_transaction(signers), |_| true);
        assert_eq!(again.expect("the same").signature(), first);
        let other = unsigned_transaction([signers[1], signers[0]]);
        let other = VerifiedTransaction::verify_except(other, |_| true).expect("another");
        assert_ne!(other.signature(), first);
        // An existing signature is not replaced.
        let mut given = unsigned_transaction(signers);
        given.signatures[0] = Signature::from([7; 64]);
        let given = VerifiedTransaction::verify_except(given, |_| true).expect("exempt");
        assert_eq!(given.signature(), Signature::from([7; 64]));
        let mut broken = unsigned_transaction(signers);
        broken.signatures.pop();
        let broken = VerifiedTransaction::verify_except(broken, |_| true);
        assert!(matches!(broken, Err(VerifyError::Sanitize(_))));
    }
}

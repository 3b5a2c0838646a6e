//! A transaction whose shape and signatures are valid: the only kind that a ledger accepts.

use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;

use crate::signatures;

/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// A well-formed transaction with valid signatures: a ledger accepts no other. The verification is
/// expensive (about 50 us a signature) and belongs on the CPU pool.
#[derive(Clone, Debug)]
pub struct VerifiedTransaction {
    transaction: VersionedTransaction,
    message_hash: Hash,
    message_bytes: usize,
}

/// Why a transaction is refused before execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It contradicts itself: counts, indices, duplicate accounts.
    #[error("invalid transaction: {0}")]
    Sanitize(String),
    /// A signature is not valid for its key and message.
    #[error("Transaction signature verification failure")]
    Signature,
}

impl VerifiedTransaction {
    /// Checks shape and signatures.
    pub fn verify(transaction: VersionedTransaction) -> Result<Self, VerifyError> {
        transaction.sanitize().map_err(|err| VerifyError::Sanitize(err.to_string()))?;
        let message = transaction.message.serialize();
        if !signatures::verify(&transaction, &message) {
            return Err(VerifyError::Signature);
        }
        let message_hash = VersionedMessage::hash_raw_message(&message);
        Ok(Self { transaction, message_hash, message_bytes: message.len() })
    }

    /// The transaction.
    pub fn transaction(&self) -> &VersionedTransaction {
        &self.transaction
    }

    /// The hash of its message. It identifies duplicates whatever their signatures.
    pub fn message_hash(&self) -> Hash {
        self.message_hash
    }

    /// The transaction, to be executed.
    pub fn into_transaction(self) -> VersionedTransaction {
        self.transaction
    }

    /// The first signature, which identifies it.
    pub fn signature(&self) -> Signature {
        self.transaction.signatures.first().copied().unwrap_or_default()
    }

    /// The key that pays its fee: the first one.
    pub fn fee_payer(&self) -> Pubkey {
        self.transaction.message.static_account_keys().first().copied().unwrap_or_default()
    }

    /// Estimated bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.message_bytes + self.transaction.signatures.len() * SIGNATURE_BYTES
    }
}

//! The hashes of a UTXO set that was received: its product, and a digest over its bytes in the file.
//!
//! The product is compared with the commitment of a block. The digest says at the load that the file still has the
//! UTXOs of the product, at a fiftieth of the product's cost.

use std::io::{self, Read};

use blake2b_simd::{Params, State};
use muhash::MuHash;

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// A digest over the bytes of UTXOs.
pub(crate) type SetDigest = [u8; DIGEST_BYTES];

/// The hashes of a UTXO set.
pub(crate) struct HashedSet {
    pub(crate) product: MuHash,
    pub(crate) digest: SetDigest,
}

/// Computes a digest over bytes.
pub(crate) struct DigestHasher(State);

impl DigestHasher {
    pub(crate) fn new() -> Self {
        Self(Params::new().hash_length(DIGEST_BYTES).to_state())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> SetDigest {
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(self.0.finalize().as_bytes());
        digest
    }
}

impl Default for DigestHasher {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads bytes, and computes their digest.
pub(crate) struct DigestReader<R> {
    source: R,
    hasher: DigestHasher,
}

impl<R: Read> DigestReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, hasher: DigestHasher::new() }
    }

    /// Returns the source, and the digest over the bytes so far.
    pub(crate) fn finish(self) -> (R, SetDigest) {
        (self.source, self.hasher.finish())
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buffer)?;
        self.hasher.write(&buffer[..len]);
        Ok(len)
    }
}

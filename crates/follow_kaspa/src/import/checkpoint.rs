//! The product over the first UTXOs of a set that is being received. A later transfer need not hash them again.
//!
//! It is in a small file next to that of the UTXOs (`chunk_store`), which a restart reads. A transfer brings these
//! UTXOs again, and a digest says whether they are the same. So the two files need not belong together.

use std::fs;
use std::io;
use std::path::Path;

use kaspa::Hash;
use muhash::{MU_HASH_BYTES, MuHash};

use crate::hashed_set::{DigestHasher, SetDigest};

/// The first bytes of the file, with the version of the layout.
const MAGIC: [u8; 8] = *b"HYIMPRT1";

/// The first UTXOs of a set, and their product.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    pub(crate) utxos: u64,
    /// Their bytes in the file.
    pub(crate) bytes: u64,
    /// The digest over these bytes.
    pub(crate) digest: SetDigest,
    pub(crate) product: MuHash,
}

impl Checkpoint {
    /// Before the first UTXO.
    pub(crate) const START: Self =
        Self { utxos: 0, bytes: 0, digest: [0; 32], product: MuHash::EMPTY };

    /// Reads the checkpoint of the set of a block. `None` if there is none, or only that of another block.
    pub(crate) fn read(path: &Path, block: &Hash) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let fields = bytes.strip_prefix(&MAGIC)?;
        let (fields, check) = fields.split_last_chunk::<32>()?;
        if *check != digest_fields(fields) {
            return None;
        }
        let fields = fields.strip_prefix(&block.0)?;
        let (utxos, fields) = fields.split_first_chunk::<8>()?;
        let (bytes, fields) = fields.split_first_chunk::<8>()?;
        let (digest, fields) = fields.split_first_chunk::<32>()?;
        let product: &[u8; MU_HASH_BYTES] = fields.try_into().ok()?;
        Some(Self {
            utxos: u64::from_le_bytes(*utxos),
            bytes: u64::from_le_bytes(*bytes),
            digest: *digest,
            product: MuHash::from_bytes(product).ok()?,
        })
    }

    /// Writes the checkpoint of the set of a block.
    pub(crate) fn write(&self, path: &Path, block: &Hash) -> io::Result<()> {
        let mut fields = block.0.to_vec();
        fields.extend_from_slice(&self.utxos.to_le_bytes());
        fields.extend_from_slice(&self.bytes.to_le_bytes());
        fields.extend_from_slice(&self.digest);
        fields.extend_from_slice(&self.product.to_bytes());
        let check = digest_fields(&fields);
        let file = [&MAGIC[..], &fields, &check].concat();
        store::durable_file::replace(path, file.as_slice())
    }
}

fn digest_fields(fields: &[u8]) -> SetDigest {
    let mut hasher = DigestHasher::new();
    hasher.write(fields);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use muhash::Element;

    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("checkpoint");
        let block = Hash([3; 32]);
        assert!(Checkpoint::read(&path, &block).is_none());
        let mut product = MuHash::EMPTY;
        product.add(&Element::from_bytes(&[1]));
        let written = Checkpoint { utxos: 5, bytes: 500, digest: [9; 32], product };
        written.write(&path, &block).expect("it is written");
        let read = Checkpoint::read(&path, &block).expect("it is there");
        assert_eq!((read.utxos, read.bytes, read.digest), (5, 500, [9; 32]));
        assert_eq!(read.product.finalize(), written.product.finalize());
        assert!(Checkpoint::read(&path, &Hash([4; 32])).is_none());
        let bytes = fs::read(&path).expect("a file");
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).expect("it is written");
            assert!(Checkpoint::read(&path, &block).is_none(), "{at}");
            fs::write(&path, &bytes[..at]).expect("it is written");
            assert!(Checkpoint::read(&path, &block).is_none(), "cut at {at}");
        }
    }
}

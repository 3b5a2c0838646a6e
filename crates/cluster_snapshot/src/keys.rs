//! Names of a snapshot's objects. Numbers have leading zeros, so that the order of names is that of slots.

use ledger::Slot;
use solana_hash::Hash;

/// Directory of all snapshots.
const ROOT: &str = "snap";
/// Name of a manifest. It comes before the names of parts, so a list of one object finds it.
const MANIFEST: &str = "manifest";
/// Start of the names of parts.
const PART: &str = "part-";
/// A name above all others in a directory: a key has no such character. A list after it continues behind the directory.
pub(crate) const AFTER_ALL: &str = "zzzz";

/// The key of a manifest, and the snapshot in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestKey {
    /// The key of the object.
    pub key: String,
    /// The cluster.
    pub cluster: String,
    /// The slot of the snapshot's block.
    pub slot: Slot,
    /// The generation of the log. The snapshot that opens a generation may be of a block that has one in the generation
    /// before.
    pub generation: u64,
    /// The blockhash of the snapshot's block.
    pub blockhash: Hash,
}

impl ManifestKey {
    pub(crate) fn new(cluster: &str, slot: Slot, generation: u64, blockhash: Hash) -> Self {
        let dir = format!("{}/{slot:020}-{generation:010}-{blockhash}", cluster_dir(cluster));
        let key = format!("{dir}/{MANIFEST}");
        Self { key, cluster: cluster.to_owned(), slot, generation, blockhash }
    }

    /// Parses the key of a manifest. Returns `None` for any other object.
    pub fn parse(key: &str) -> Option<Self> {
        Self::parse_object(key).filter(|parsed| parsed.key == key)
    }

    /// Returns the key of the manifest that an object of a snapshot belongs to.
    pub(crate) fn parse_object(key: &str) -> Option<Self> {
        let (dir, _) = key.rsplit_once('/')?;
        let mut names = dir.split('/').skip(1);
        let cluster = names.next()?;
        let mut values = names.next()?.split('-');
        let slot = values.next()?.parse::<Slot>().ok()?;
        let generation = values.next()?.parse::<u64>().ok()?;
        let blockhash = values.next()?.parse::<Hash>().ok()?;
        let parsed = Self::new(cluster, slot, generation, blockhash);
        (parsed.dir() == dir).then_some(parsed)
    }

    /// The directory of the snapshot, without a slash at the end.
    pub(crate) fn dir(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(dir, _)| dir)
    }
}

/// Directory of a cluster's snapshots.
pub(crate) fn cluster_dir(cluster: &str) -> String {
    format!("{ROOT}/{cluster}")
}

/// Key of a part. It is named by its content, so that writers with other limits do not meet.
pub(crate) fn part_key(dir: &str, digest: &[u8; 32]) -> String {
    format!("{dir}/{PART}{}", blake3::Hash::from_bytes(*digest).to_hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_key_is_parsed_as_it_was_made() {
        let key = ManifestKey::new("mainnet", 42, 3, Hash::new_from_array([7; 32]));
        assert_eq!(ManifestKey::parse(&key.key), Some(key.clone()));
        let start = "snap/mainnet/00000000000000000042-0000000003-";
        assert!(key.key.starts_with(start), "{}", key.key);
        let part = part_key(key.dir(), &[1; 32]);
        assert!(MANIFEST < part.rsplit('/').next().unwrap_or_default());
        assert_eq!(ManifestKey::parse_object(&part), Some(key.clone()));
        let other_root = key.key.replace("snap/", "snaps/");
        let dir = key.dir().to_owned();
        let below = format!("{}/x", key.key);
        for other in [part, dir, below, other_root, key.key.replace("00042", "42")] {
            assert_eq!(ManifestKey::parse(&other), None, "{other}");
        }
    }
}

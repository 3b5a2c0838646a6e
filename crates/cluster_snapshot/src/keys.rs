//! Names of a snapshot's objects. A slot has 20 digits, so that the order of names is that of slots.

use ledger::Slot;
use solana_hash::Hash;

/// Directory of all snapshots.
const ROOT: &str = "snap";
/// Name of a manifest. It comes before the names of parts, so a list of one object finds it.
const MANIFEST: &str = "manifest";
/// Start of the names of parts.
const PART: &str = "part-";

/// The key of a manifest, and the block in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestKey {
    /// The key of the object.
    pub key: String,
    /// The cluster.
    pub cluster: String,
    /// The slot of the snapshot's block.
    pub slot: Slot,
    /// The blockhash of the snapshot's block.
    pub blockhash: Hash,
}

impl ManifestKey {
    pub(crate) fn new(cluster: &str, slot: Slot, blockhash: Hash) -> Self {
        let key = format!("{}/{MANIFEST}", snapshot_dir(cluster, slot, &blockhash));
        Self { key, cluster: cluster.to_owned(), slot, blockhash }
    }

    /// Parses the key of a manifest. Returns `None` for any other object.
    pub fn parse(key: &str) -> Option<Self> {
        let name = SnapshotName::parse(key)?;
        let parsed = Self::new(&name.cluster, name.slot, name.blockhash);
        (parsed.key == key).then_some(parsed)
    }

    /// The directory of the snapshot, without a slash at the end.
    pub(crate) fn dir(&self) -> String {
        snapshot_dir(&self.cluster, self.slot, &self.blockhash)
    }
}

/// The snapshot that an object belongs to.
pub(crate) struct SnapshotName {
    pub(crate) cluster: String,
    pub(crate) slot: Slot,
    pub(crate) blockhash: Hash,
}

impl SnapshotName {
    pub(crate) fn parse(key: &str) -> Option<Self> {
        let mut names = key.split('/');
        if names.next()? != ROOT {
            return None;
        }
        let cluster = names.next()?.to_owned();
        let name = names.next()?;
        names.next()?;
        let (slot, blockhash) = name.split_once('-')?;
        let slot = slot.parse::<Slot>().ok().filter(|parsed| format!("{parsed:020}") == slot)?;
        let blockhash = blockhash.parse::<Hash>().ok()?;
        names.next().is_none().then_some(Self { cluster, slot, blockhash })
    }
}

/// Directory of a cluster's snapshots.
pub(crate) fn cluster_dir(cluster: &str) -> String {
    format!("{ROOT}/{cluster}")
}

/// Directory of a snapshot.
pub(crate) fn snapshot_dir(cluster: &str, slot: Slot, blockhash: &Hash) -> String {
    format!("{ROOT}/{cluster}/{slot:020}-{blockhash}")
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
        let key = ManifestKey::new("mainnet", 42, Hash::new_from_array([7; 32]));
        assert_eq!(ManifestKey::parse(&key.key), Some(key.clone()));
        assert!(key.key.starts_with("snap/mainnet/00000000000000000042-"), "{}", key.key);
        let part = part_key(&key.dir(), &[1; 32]);
        assert!(MANIFEST < part.rsplit('/').next().unwrap_or_default());
        for other in [part, key.dir(), format!("{}/x", key.key), key.key.replace("00042", "42")] {
            assert_eq!(ManifestKey::parse(&other), None, "{other}");
        }
    }
}

//! The parts of an archive's file name: its slot, its base slot, and the hash of its accounts.

/// The ends of the names that Agave 4 gives to archives: one for each compression.
const EXTENSIONS: [&str; 2] = [".tar.zst", ".tar.lz4"];

/// The parts of `snapshot-SLOT-HASH.tar.zst` or `incremental-snapshot-BASE-SLOT-HASH.tar.zst`, or of the same with
/// `tar.lz4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveName {
    /// The slot of the full snapshot below; `None` for a full snapshot.
    pub base: Option<u64>,
    /// The slot of the archive.
    pub slot: u64,
    /// The checksum of the accounts' lattice hash, in base 58.
    pub hash: String,
}

impl ArchiveName {
    /// `None` if the file was renamed: then only the archive's content is checked.
    pub fn parse(name: &str) -> Option<Self> {
        let stem = EXTENSIONS.iter().find_map(|extension| name.strip_suffix(extension))?;
        let (base, rest) = match stem.strip_prefix("incremental-snapshot-") {
            Some(rest) => {
                let (base, rest) = rest.split_once('-')?;
                (Some(base.parse().ok()?), rest)
            }
            None => (None, stem.strip_prefix("snapshot-")?),
        };
        let (slot, hash) = rest.split_once('-')?;
        let is_base58 = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_base58.then_some(Self { base, slot: slot.parse().ok()?, hash: hash.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_other_names_are_not() {
        let name = |base, slot| Some(ArchiveName { base, slot, hash: "Abc9".to_owned() });
        assert_eq!(ArchiveName::parse("snapshot-100-Abc9.tar.zst"), name(None, 100));
        assert_eq!(
            ArchiveName::parse("incremental-snapshot-100-150-Abc9.tar.zst"),
            name(Some(100), 150)
        );
        assert_eq!(ArchiveName::parse("snapshot-100-Abc9.tar.lz4"), name(None, 100));
        assert_eq!(
            ArchiveName::parse("incremental-snapshot-100-150-Abc9.tar.lz4"),
            name(Some(100), 150)
        );
        for other in ["snapshot.tar.zst", "snapshot-x-Abc9.tar.zst", "snapshot-1-Abc9.tar.bz2"] {
            assert_eq!(ArchiveName::parse(other), None);
        }
    }
}

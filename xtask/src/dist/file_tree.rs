//! Files by path, and the tar and zip archives of them.
//!
//! Input: files and directories, each with its mode and owner. Output: an archive, or files on the disk.
//! Invariant: the same files give the same bytes. Entries are sorted by path, and have one time and numeric owners.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Mode of a directory, unless it has another one.
const DIRECTORY_MODE: u32 = 0o755;
/// Mode of a file that is read.
pub(crate) const FILE_MODE: u32 = 0o644;
/// Mode of a file that is executed.
pub(crate) const PROGRAM_MODE: u32 = 0o755;
/// The owner of almost everything.
pub(crate) const ROOT: u64 = 0;

/// Files and directories. Paths are relative, and without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileTree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// `None` for a directory.
    bytes: Option<Arc<[u8]>>,
    mode: u32,
    /// Id of the user and of the group.
    owner: u64,
}

impl FileTree {
    /// Inserts a file that is read, and the directories above it.
    pub(crate) fn insert_file(&mut self, path: &str, bytes: impl Into<Arc<[u8]>>) {
        self.insert(path, Some(bytes.into()), FILE_MODE, ROOT);
    }

    /// Inserts a file that is executed, and the directories above it.
    pub(crate) fn insert_program(&mut self, path: &str, bytes: impl Into<Arc<[u8]>>) {
        self.insert(path, Some(bytes.into()), PROGRAM_MODE, ROOT);
    }

    /// Inserts a directory, and those above it.
    pub(crate) fn insert_directory(&mut self, path: &str, mode: u32, owner: u64) {
        self.insert(path, None, mode, owner);
    }

    /// Inserts all entries of another tree below `prefix`, which ends with a slash.
    pub(crate) fn insert_tree(&mut self, prefix: &str, tree: &Self) {
        for (path, Entry { bytes, mode, owner }) in &tree.entries {
            self.insert(&format!("{prefix}{path}"), bytes.clone(), *mode, *owner);
        }
    }

    fn insert(&mut self, path: &str, bytes: Option<Arc<[u8]>>, mode: u32, owner: u64) {
        for (end, _) in path.match_indices('/') {
            let parent = Entry { bytes: None, mode: DIRECTORY_MODE, owner: ROOT };
            self.entries.entry(path[..end].to_owned()).or_insert(parent);
        }
        self.entries.insert(path.to_owned(), Entry { bytes, mode, owner });
    }

    /// Returns the files without directories, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &Arc<[u8]>)> {
        self.entries.iter().filter_map(|(path, entry)| Some((path.as_str(), entry.bytes.as_ref()?)))
    }

    /// Returns the tar archive, in which everything is of `time`, in seconds of the Unix epoch.
    pub(crate) fn tar(&self, time: u64) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(time);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            header.set_mode(entry.mode);
            let bytes = entry.bytes.as_deref().unwrap_or_default();
            header.set_size(bytes.len() as u64);
            let is_directory = entry.bytes.is_none();
            if is_directory {
                header.set_entry_type(tar::EntryType::Directory);
            }
            let slash = if is_directory { "/" } else { "" };
            let appended = archive.append_data(&mut header, format!("{path}{slash}"), bytes);
            appended.with_context(|| format!("archive {path}"))?;
        }
        archive.into_inner().context("end an archive")
    }

    /// Returns the zip archive of the files, without directories. All are of 1980, the first time that the format can
    /// express.
    pub(crate) fn zip(&self) -> Result<Vec<u8>> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (path, entry) in &self.entries {
            let Some(bytes) = &entry.bytes else { continue };
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Deflated)
                .last_modified_time(zip::DateTime::default())
                .unix_permissions(entry.mode);
            archive.start_file(path.as_str(), options).with_context(|| format!("zip {path}"))?;
            archive.write_all(bytes).with_context(|| format!("zip {path}"))?;
        }
        Ok(archive.finish().context("end an archive")?.into_inner())
    }

    /// Writes all entries below `dir`. Their owner is the user of this process.
    pub(crate) fn write_to(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        for (path, entry) in &self.entries {
            let path = dir.join(path);
            let written = match &entry.bytes {
                Some(bytes) => fs::write(&path, bytes),
                None => fs::create_dir_all(&path),
            };
            written.with_context(|| format!("write {}", path.display()))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode))?;
        }
        Ok(())
    }
}

/// Compresses with gzip, without a time in the header.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    writer.write_all(bytes)?;
    writer.finish().context("compress")
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        tree.insert_program("usr/bin/x", *b"program");
        tree.insert_directory("var/lib/x", 0o750, 65_532);
        tree.insert_file("usr/a", *b"a");
        tree
    }

    #[test]
    fn an_archive_has_parents_first_with_modes_and_owners() {
        let archive = tree().tar(7).unwrap();
        let mut found = Vec::new();
        for entry in tar::Archive::new(&archive[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!(
                (header.mtime().unwrap(), header.gid().unwrap()),
                (7, header.uid().unwrap())
            );
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            found.push((path, header.mode().unwrap(), header.uid().unwrap(), text));
        }
        let entry = |path: &str, mode: u32, owner: u64, text: &str| {
            (path.to_owned(), mode, owner, text.to_owned())
        };
        assert_eq!(
            found,
            [
                entry("usr/", 0o755, 0, ""),
                entry("usr/a", 0o644, 0, "a"),
                entry("usr/bin/", 0o755, 0, ""),
                entry("usr/bin/x", 0o755, 0, "program"),
                entry("var/", 0o755, 0, ""),
                entry("var/lib/", 0o755, 0, ""),
                entry("var/lib/x/", 0o750, 65_532, ""),
            ]
        );
    }

    #[test]
    fn a_zip_archive_has_the_files_with_their_modes() {
        let bytes = tree().zip().unwrap();
        assert_eq!(bytes, tree().zip().unwrap());
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut found = Vec::new();
        for index in 0..archive.len() {
            let mut file = archive.by_index(index).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            found.push((file.name().to_owned(), file.unix_mode().unwrap() & 0o777, text));
        }
        let entry = |path: &str, mode: u32, text: &str| (path.to_owned(), mode, text.to_owned());
        let expected = [entry("usr/a", 0o644, "a"), entry("usr/bin/x", 0o755, "program")];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_same_files_in_another_order_are_the_same_bytes() {
        let mut other = FileTree::default();
        other.insert_tree("usr/", &{
            let mut below = FileTree::default();
            below.insert_file("a", *b"a");
            below.insert_program("bin/x", *b"program");
            below
        });
        other.insert_directory("var/lib/x", 0o750, 65_532);
        assert_eq!(gzip(&tree().tar(7).unwrap()).unwrap(), gzip(&other.tar(7).unwrap()).unwrap());
        assert_ne!(tree().tar(7).unwrap(), tree().tar(8).unwrap());
    }

    #[test]
    fn a_digest_has_its_zeros() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}

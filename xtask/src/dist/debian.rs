//! The Debian package: an `ar` archive of two compressed tar archives.
//!
//! Input: the installed files, and those in `packaging/debian`. Output: the bytes of the package.
//! Not here: md5sums. dpkg computes them when it installs a package without.

use anyhow::Result;

use crate::dist::file_tree::{FileTree, ROOT, gzip};
use crate::dist::installed_files::{DOCUMENTS, MANUAL, packaging};
use crate::dist::program::Program;

/// Path of the systemd unit.
pub(crate) const UNIT: &str = "usr/lib/systemd/system/hydrant.service";
/// Files that an upgrade does not overwrite, by the names in `packaging/debian`.
pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("hydrant.env", "etc/hydrant/hydrant.env"), ("hydrant.toml", "etc/hydrant/hydrant.toml")];
/// The directory of the ledger. `postinst` changes its owner.
pub(crate) const STATE_DIR: &str = "var/lib/hydrant";

const SCRIPTS: &[&str] = &["postinst", "postrm", "prerm"];
/// Directories are not counted, each file with its last block.
const BLOCK_BYTES: usize = 1_024;

/// Returns the bytes of the package of a version.
pub(crate) fn package(
    installed: &FileTree,
    program: &Program,
    version: &str,
    time: u64,
) -> Result<Vec<u8>> {
    let data = data(installed)?;
    let control = control(&data, program, version)?;
    let control = gzip(&control.tar(time)?)?;
    let data = gzip(&data.tar(time)?)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    Ok(ar(&members, time))
}

/// Returns the file name of the package.
pub(crate) fn file_name(program: &Program, version: &str) -> String {
    format!("hydrant_{version}_{}.deb", program.architecture.debian)
}

/// Returns the files that the package installs.
fn data(installed: &FileTree) -> Result<FileTree> {
    let mut data = FileTree::default();
    for (path, bytes) in installed.files() {
        if path.starts_with(MANUAL) {
            data.insert_file(&format!("usr/{path}.gz"), gzip(bytes)?);
        } else if path == format!("{DOCUMENTS}LICENSE") {
            data.insert_file(&format!("usr/{DOCUMENTS}copyright"), bytes.clone());
        } else if path.starts_with("bin/") {
            data.insert_program(&format!("usr/{path}"), bytes.clone());
        } else {
            data.insert_file(&format!("usr/{path}"), bytes.clone());
        }
    }
    data.insert_file(UNIT, packaging("debian/hydrant.service")?);
    for (name, path) in SETTINGS {
        data.insert_file(path, packaging(&format!("debian/{name}"))?);
    }
    data.insert_directory(STATE_DIR, 0o750, ROOT);
    Ok(data)
}

fn control(data: &FileTree, program: &Program, version: &str) -> Result<FileTree> {
    let blocks: usize = data.files().map(|(_, bytes)| bytes.len().div_ceil(BLOCK_BYTES)).sum();
    let text = format!(
        "Package: hydrant\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: The Hydrant developers\n\
         Installed-Size: {blocks}\n\
         Depends: libc6 (>= {}), libgcc-s1\n\
         Recommends: ca-certificates\n\
         Section: net\n\
         Priority: optional\n\
         Description: read node for Solana ledgers\n \
         Hydrant holds the state of a ledger in memory and serves it to very many clients,\n \
         over JSON-RPC, PubSub, REST and Yellowstone gRPC. It runs a local Solana ledger in\n \
         place of solana-test-validator, or follows a chain that validators make.\n",
        program.architecture.debian,
        program.glibc_version()?,
    );
    let mut control = FileTree::default();
    control.insert_file("control", text.into_bytes());
    let settings: String = SETTINGS.iter().map(|(_, path)| format!("/{path}\n")).collect();
    control.insert_file("conffiles", settings.into_bytes());
    for name in SCRIPTS {
        control.insert_program(name, packaging(&format!("debian/{name}"))?);
    }
    Ok(control)
}

/// Returns the `ar` archive of `members`, in their order.
fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        // Name, time, user, group, mode and size, each with its width.
        let header =
            format!("{name:<16}{time:<12}{ROOT:<6}{ROOT:<6}{:<8}{:<10}`\n", "100644", bytes.len());
        archive.extend(header.as_bytes());
        archive.extend(*bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_members_start_at_even_offsets() {
        let archive = ar(&[("a", b"123"), ("b", b"45")], 9);
        let text = String::from_utf8(archive).unwrap();
        let header = |name: &str, bytes: u32| {
            format!("{name:<16}9           0     0     100644  {bytes:<10}`\n")
        };
        assert_eq!(text, format!("!<arch>\n{}123\n{}45", header("a", 3), header("b", 2)));
        assert_eq!(header("a", 3).len(), 60);
    }
}

//! The unix socket of the administration: a file that only the node's own user can open, removed with the node.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Readable and writable by the owner only.
const MODE: u32 = 0o600;

/// A bound socket. Its file is removed when it is dropped.
pub(crate) struct SocketFile(PathBuf);

/// Binds a socket. The file of a node that was killed is replaced; that of one that runs is not.
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let shown = path.display();
    if let Ok(metadata) = fs::symlink_metadata(path) {
        ensure!(metadata.file_type().is_socket(), "{shown}: it exists, and is not a socket");
        ensure!(UnixStream::connect(path).is_err(), "{shown}: another process listens there");
        fs::remove_file(path).with_context(|| format!("{shown}: remove the old socket"))?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("{shown}: listen"))?;
    let file = SocketFile(path.to_owned());
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))
        .with_context(|| format!("{shown}: set its mode"))?;
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_of_its_owner_and_replaces_only_one_without_a_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin.sock");
        let (listener, file) = bind(&path).expect("it is bound");
        let mode = fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let err = bind(&path).err().expect("it is in use");
        assert!(err.to_string().ends_with("another process listens there"), "{err}");
        // As after a kill: the file stays.
        drop(listener);
        std::mem::forget(file);
        let (_listener, file) = bind(&path).expect("nothing listens");
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "text").expect("it is written");
        let err = bind(&path).err().expect("it is a file");
        assert!(err.to_string().ends_with("it exists, and is not a socket"), "{err}");
    }
}

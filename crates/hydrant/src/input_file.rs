//! Reading a file that a setting names: a regular file, and no more bytes of it than the setting can use.
//!
//! A device such as `/dev/zero` never ends, and a named pipe may never begin: both are refused unread.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Result, ensure};

/// The bytes of a regular file of at most `bytes_max`. The error names the file.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    check(path, bytes_max)?;
    let named = |err: std::io::Error| anyhow::anyhow!("{}: {err}", path.display());
    let file = File::open(path).map_err(named)?;
    let mut bytes = Vec::new();
    // The file may have grown, and some file systems tell no length.
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(named)? as u64;
    ensure!(read <= bytes_max, "{}: more than {bytes_max} bytes", path.display());
    Ok(bytes)
}

/// Refuses what is no regular file, and a file of more than `bytes_max`. The error names the file.
pub(crate) fn check(path: &Path, bytes_max: u64) -> Result<()> {
    let metadata =
        fs::metadata(path).map_err(|err| anyhow::anyhow!("{}: {err}", path.display()))?;
    ensure!(metadata.is_file(), "{}: {}, not a regular file", path.display(), kind(&metadata));
    let len = metadata.len();
    ensure!(len <= bytes_max, "{}: {len} bytes, at most {bytes_max}", path.display());
    Ok(())
}

fn kind(metadata: &Metadata) -> &'static str {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a named pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path, bytes_max: u64) -> String {
        read(path, bytes_max).expect_err("it cannot be read").to_string()
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, b"12345").expect("it is written");
        assert_eq!(read(&path, 5).expect("it fits"), b"12345");
        assert!(refusal(&path, 4).ends_with("file: 5 bytes, at most 4"));
        assert!(refusal(&dir.path().join("none"), 4).contains("none: No such file"));
    }

    #[test]
    fn what_never_ends_or_never_begins_is_refused_unread() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(refusal(dir.path(), 4).ends_with("a directory, not a regular file"));
        let zeros = refusal(Path::new("/dev/zero"), 4);
        assert_eq!(zeros, "/dev/zero: a device, not a regular file");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        assert!(refusal(&pipe, 4).ends_with("a named pipe, not a regular file"));
        // Such a file says that it is empty, and is not.
        assert_eq!(
            refusal(Path::new("/proc/self/status"), 4),
            "/proc/self/status: more than 4 bytes"
        );
    }
}

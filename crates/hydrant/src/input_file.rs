//! Reads files that settings name: only regular files, and only up to a maximum length.
//!
//! A device such as `/dev/zero` never ends, and a named pipe may block forever: both are refused without a read.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Result, ensure};

/// Bytes of a file with a token or a key.
const SECRET_BYTES_MAX: u64 = 4_096;

/// The bytes of a regular file of at most `bytes_max`. The error names the file.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    check(path, bytes_max)?;
    let with_path = |err: std::io::Error| anyhow::anyhow!("{}: {err}", path.display());
    let file = File::open(path).map_err(with_path)?;
    let mut bytes = Vec::new();
    // The file may have grown, and some file systems report no length.
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(with_path)? as u64;
    ensure!(read <= bytes_max, "{}: more than {bytes_max} bytes", path.display());
    Ok(bytes)
}

/// The one line of a file with a token or a key, without white space around it. The error has nothing of it.
pub(crate) fn read_secret(path: &Path) -> Result<String> {
    let bytes = read(path, SECRET_BYTES_MAX)?;
    let text =
        String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{}: not UTF-8", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Refuses anything but a regular file, and a file of more than `bytes_max`. The error names the file.
pub(crate) fn check(path: &Path, bytes_max: u64) -> Result<()> {
    let metadata =
        fs::metadata(path).map_err(|err| anyhow::anyhow!("{}: {err}", path.display()))?;
    ensure!(metadata.is_file(), "{}: {}, not a regular file", path.display(), kind(&metadata));
    let len = metadata.len();
    ensure!(len <= bytes_max, "{}: {len} bytes, the maximum is {bytes_max}", path.display());
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
        assert!(refusal(&path, 4).ends_with("file: 5 bytes, the maximum is 4"));
        assert!(refusal(&dir.path().join("none"), 4).contains("none: No such file"));
    }

    #[test]
    fn devices_and_pipes_are_refused_without_a_read() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(refusal(dir.path(), 4).ends_with("a directory, not a regular file"));
        let zeros = refusal(Path::new("/dev/zero"), 4);
        assert_eq!(zeros, "/dev/zero: a device, not a regular file");
        let pipe = dir.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(status.success());
        assert!(refusal(&pipe, 4).ends_with("a named pipe, not a regular file"));
        // The reported length of such a file is 0, but it is not empty.
        assert_eq!(
            refusal(Path::new("/proc/self/status"), 4),
            "/proc/self/status: more than 4 bytes"
        );
    }
}

//! Reads files that settings name: only regular files, and only up to a maximum length.
//!
//! A device such as `/dev/zero` never ends, and a named pipe may block forever: both are refused without a read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes of a file with a token or a key.
const SECRET_BYTES_MAX: u64 = 4_096;

/// Why a file is not read. The message names the file, and has nothing of its content.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct InputFileError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}, not a regular file")]
    Kind(&'static str),
    #[error("{bytes} bytes, the maximum is {bytes_max}")]
    TooLong { bytes: u64, bytes_max: u64 },
    #[error("more than {bytes_max} bytes")]
    MoreThan { bytes_max: u64 },
    #[error("not UTF-8")]
    NotUtf8,
}

/// Returns the bytes of a regular file of at most `bytes_max`.
///
/// # Errors
///
/// The file cannot be read, is not a regular file, or is longer.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, InputFileError> {
    check(path, bytes_max)?;
    let with_path = |err| refuse(path, Reason::Io(err));
    let file = File::open(path).map_err(with_path)?;
    let mut bytes = Vec::new();
    // The file may have grown, and some file systems report no length.
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(with_path)? as u64;
    if read > bytes_max {
        return Err(refuse(path, Reason::MoreThan { bytes_max }));
    }
    Ok(bytes)
}

/// Returns the text of a regular file of at most `bytes_max`.
///
/// # Errors
///
/// Those of [`read`], and a file that is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, InputFileError> {
    let bytes = read(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| refuse(path, Reason::NotUtf8))
}

/// Returns the one line of a file with a token or a key, without white space around it.
///
/// # Errors
///
/// Those of [`read_text`].
pub fn read_secret(path: &Path) -> Result<String, InputFileError> {
    Ok(read_text(path, SECRET_BYTES_MAX)?.trim().to_owned())
}

/// Refuses anything but a regular file, and a file of more than `bytes_max`.
///
/// # Errors
///
/// Those of [`read`], except those of the read itself.
pub fn check(path: &Path, bytes_max: u64) -> Result<(), InputFileError> {
    let metadata = fs::metadata(path).map_err(|err| refuse(path, Reason::Io(err)))?;
    if !metadata.is_file() {
        return Err(refuse(path, Reason::Kind(kind(&metadata))));
    }
    let bytes = metadata.len();
    if bytes > bytes_max {
        return Err(refuse(path, Reason::TooLong { bytes, bytes_max }));
    }
    Ok(())
}

fn refuse(path: &Path, reason: Reason) -> InputFileError {
    InputFileError { path: path.to_owned(), reason }
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

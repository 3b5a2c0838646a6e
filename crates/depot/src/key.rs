//! Names of objects: the key, and the URL of a depot.

use std::path::PathBuf;

use crate::DepotError;
use crate::redact::redact;

/// Bytes of a key, with the depot's prefix. S3 allows 1,024.
const KEY_BYTES_MAX: usize = 900;

/// The location of a depot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A directory.
    Directory(PathBuf),
    /// A bucket, and the prefix of all keys, which may be empty.
    Bucket { bucket: String, prefix: String },
    /// The memory of this process.
    Memory,
}

/// Checks a key: names that are not empty, separated by `/`.
pub(crate) fn check_key(key: &str) -> Result<(), DepotError> {
    if key.len() <= KEY_BYTES_MAX && key.split('/').all(is_name) {
        Ok(())
    } else {
        Err(DepotError::Key { key: key.chars().take(KEY_BYTES_MAX).collect() })
    }
}

/// Checks a prefix, which is a key or empty, and removes a slash at its end.
pub(crate) fn check_prefix(prefix: &str) -> Result<&str, DepotError> {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if !prefix.is_empty() {
        check_key(prefix)?;
    }
    Ok(prefix)
}

/// Returns whether a name stays within its directory, and is the same in a path and in a URL. A name that starts with a
/// dot is reserved for unfinished files.
fn is_name(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_valid)
}

/// Parses the URL of a depot.
pub(crate) fn parse_url(url: &str) -> Result<Location, DepotError> {
    let refuse = |why: &str| DepotError::Url { url: redact(url), why: why.to_owned() };
    if url == "memory:" {
        return Ok(Location::Memory);
    }
    let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("has no scheme"))?;
    if rest.contains(['?', '#']) {
        return Err(refuse("has a query"));
    }
    match scheme {
        "file" if rest.starts_with('/') => Ok(Location::Directory(PathBuf::from(rest))),
        "file" => Err(refuse("needs an absolute path (three slashes)")),
        "s3" => {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.contains('@') {
                return Err(refuse("has a user; credentials come from AWS_ACCESS_KEY_ID"));
            }
            let prefix = check_prefix(prefix).map_err(|err| refuse(&err.to_string()))?;
            if !is_name(bucket) {
                return Err(refuse("has no valid bucket"));
            }
            Ok(Location::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
        }
        _ => Err(refuse("has an unknown scheme")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_within_the_depot() {
        for key in ["a", "a/b-1_c.d", "snap/mainnet/00-x/part-00"] {
            check_key(key).expect("it is valid");
        }
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for key in ["", "/a", "a/", "a//b", "..", "a/../b", ".a", "a b", "a%2f", "ä", &long] {
            check_key(key).expect_err("it is invalid");
        }
    }

    #[test]
    fn urls_are_read_and_a_password_is_not_repeated() {
        let bucket = |bucket: &str, prefix: &str| Location::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(parse_url("s3://b"), Ok(bucket("b", "")));
        assert_eq!(parse_url("s3://b/p/q/"), Ok(bucket("b", "p/q")));
        assert_eq!(parse_url("file:///a/b"), Ok(Location::Directory("/a/b".into())));
        assert_eq!(parse_url("memory:"), Ok(Location::Memory));
        for url in ["s3://u:SECRET@b/p", "s3://", "file://a", "http://b", "b", "s3://b?k=SECRET"] {
            let err = parse_url(url).expect_err("it is invalid").to_string();
            assert!(!err.contains("SECRET"), "{err}");
            assert!(err.contains("valid: file:///directory"), "{err}");
        }
    }
}

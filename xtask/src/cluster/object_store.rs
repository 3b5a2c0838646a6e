//! The store of snapshots: a bucket of an S3 server behind a proxy, or a directory.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::programs::S3Program;
use crate::cluster::proxies::Proxies;
use crate::directories::remove_directory;
use crate::rig::child_process::ChildProcess;
use crate::rig::http_client::{Request, exchange};

/// The bucket of the run.
const BUCKET: &str = "hydrant";

/// The credentials of this program, in the second version of the signatures.
const AUTHORIZATION: &str = "AWS hydrant:none";
/// The link to the directory of a store, and its targets.
const LINK: &str = "store";
const FULL: &str = "store-full";
const EMPTY: &str = "store-empty";

/// A running store.
pub(crate) enum ObjectStore {
    /// A link to a directory. A fault replaces it by one to an empty directory, as if the disk were not mounted.
    Directory(PathBuf),
    Bucket {
        server: SocketAddr,
        proxy: SocketAddr,
        process: ChildProcess,
    },
}

impl ObjectStore {
    /// Creates a store in a directory.
    pub(crate) fn in_directory(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir.join(FULL))?;
        let link = dir.join(LINK);
        set_link(&link, FULL)?;
        Ok(Self::Directory(link))
    }

    /// Starts an S3 server, whose objects are lost when it ends.
    pub(crate) fn start_server(
        program: &S3Program,
        dir: &Path,
        server: SocketAddr,
        proxies: &mut Proxies,
    ) -> Result<Self> {
        let command = match program {
            S3Program::GoFakeS3(program) => {
                let mut command = Command::new(program);
                command.args(["-backend", "memory", "-initialbucket", BUCKET, "-quiet"]);
                command.args(["-host", &server.to_string()]);
                command
            }
            S3Program::Moto(program) => {
                let mut command = Command::new(program);
                command.args(["-H", &server.ip().to_string(), "-p", &server.port().to_string()]);
                command
            }
        };
        let process = ChildProcess::start(dir, "s3", command)?;
        Ok(Self::Bucket { server, proxy: proxies.open(server)?, process })
    }

    /// Whether the store responds. The bucket is created if the server has none.
    pub(crate) fn is_ready(&self) -> bool {
        let Self::Bucket { server, .. } = self else { return true };
        let created = exchange(*server, &Request::put(&format!("/{BUCKET}"), b""));
        // 409: it exists.
        created.is_ok_and(|response| response.status == 200 || response.status == 409)
    }

    /// Returns the URL of a prefix.
    pub(crate) fn url(&self, prefix: &str) -> String {
        match self {
            Self::Directory(dir) => format!("file://{}/{prefix}", dir.display()),
            Self::Bucket { .. } => format!("s3://{BUCKET}/{prefix}"),
        }
    }

    /// Returns the environment of a process that uses the store.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Directory(_) => Vec::new(),
            Self::Bucket { proxy, .. } => vec![
                ("AWS_ENDPOINT_URL", format!("http://{proxy}")),
                ("AWS_ALLOW_HTTP", "true".to_owned()),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_ACCESS_KEY_ID", "hydrant".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "hydrant".to_owned()),
            ],
        }
    }

    /// Returns an error if the server has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Bucket { process, .. } => process.check(),
        }
    }

    /// Takes the objects away.
    pub(crate) fn take_away(&self, proxies: &mut Proxies) -> Result<()> {
        match self {
            Self::Directory(link) => {
                let empty = link.with_file_name(EMPTY);
                remove_directory(&empty)?;
                fs::create_dir_all(&empty)?;
                set_link(link, EMPTY)
            }
            Self::Bucket { proxy, .. } => proxies.cut(*proxy),
        }
    }

    /// Gives the objects back that [`Self::take_away`] took.
    pub(crate) fn give_back(&self, proxies: &mut Proxies) -> Result<()> {
        match self {
            Self::Directory(link) => set_link(link, FULL),
            Self::Bucket { proxy, .. } => proxies.pass(*proxy),
        }
    }

    /// Returns the keys below a prefix, sorted.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = match self {
            Self::Directory(dir) => {
                let mut keys = Vec::new();
                list_files(&dir.join(prefix), dir, &mut keys)?;
                keys
            }
            Self::Bucket { server, .. } => {
                let path = format!("/{BUCKET}?list-type=2&prefix={}", prefix.replace('/', "%2F"));
                let response = exchange(*server, &Request::get(&path))?;
                ensure!(response.status == 200, "list {prefix}: {}", response.status);
                parse_keys(&String::from_utf8_lossy(&response.body))
            }
        };
        keys.sort();
        Ok(keys)
    }

    /// Flips a bit in the middle of an object.
    pub(crate) fn damage(&self, key: &str) -> Result<()> {
        match self {
            Self::Directory(dir) => {
                let file = dir.join(key);
                let mut bytes = fs::read(&file)?;
                flip_bit(&mut bytes);
                fs::write(&file, bytes).with_context(|| file.display().to_string())
            }
            Self::Bucket { server, .. } => {
                let path = format!("/{BUCKET}/{key}");
                let mut body = exchange(*server, &Request::get(&path))?.body;
                flip_bit(&mut body);
                // moto lets no anonymous client replace an object. Neither server checks the signature.
                let request = Request::put(&path, &body);
                let request = request.with_header("authorization", AUTHORIZATION.to_owned());
                let response = exchange(*server, &request)?;
                ensure!(response.status == 200, "put {key}: {}", response.status);
                Ok(())
            }
        }
    }
}

/// Creates a link to a directory of the same parent, or replaces the existing link.
fn set_link(link: &Path, target: &str) -> Result<()> {
    let new = link.with_extension("new");
    symlink(target, &new).with_context(|| new.display().to_string())?;
    fs::rename(&new, link).with_context(|| link.display().to_string())
}

fn flip_bit(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
}

fn list_files(dir: &Path, base: &Path, keys: &mut Vec<String>) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            list_files(&path, base, keys)?;
        } else {
            keys.push(path.strip_prefix(base)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Returns the keys in a response to ListObjectsV2.
fn parse_keys(xml: &str) -> Vec<String> {
    let parts = xml.split("<Key>").skip(1);
    parts.filter_map(|part| Some(part.split_once("</Key>")?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_list_are_read() {
        let xml = "<R><Contents><Key>a/1</Key></Contents><Contents><Key>a/2</Key></Contents></R>";
        assert_eq!(parse_keys(xml), ["a/1", "a/2"]);
        assert!(parse_keys("<R/>").is_empty());
    }

    #[test]
    fn an_object_in_a_directory_is_damaged_in_one_bit() {
        let dir = std::env::temp_dir().join(format!("xtask-object-store-{}", std::process::id()));
        let store = ObjectStore::in_directory(&dir).unwrap();
        fs::create_dir_all(dir.join("store/snap/x")).unwrap();
        fs::write(dir.join("store/snap/x/manifest"), [7, 8, 9]).unwrap();
        assert_eq!(store.list("snap").unwrap(), ["snap/x/manifest"]);
        store.damage("snap/x/manifest").unwrap();
        assert_eq!(fs::read(dir.join("store/snap/x/manifest")).unwrap(), [7, 9, 9]);
        fs::remove_dir_all(&dir).unwrap();
    }
}

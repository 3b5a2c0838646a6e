//! The image: read as a runtime reads it, unpacked, and started as its user in a root that cannot be written to.
//!
//! Shape: each blob is compared with its digest and its size. The root is mounted without write access, and only the
//! volume is writable.
//! Not here: the other namespaces and the system call filter of a container runtime.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::dist::check::running_node::RunningNode;
use crate::dist::file_tree::sha256;
use crate::shell::Cmd;

/// Prefix of each digest.
const DIGEST_PREFIX: &str = "sha256:";

/// Starts the image of the layout in `image`, in a root below `scratch`.
pub(crate) fn check(image: &Path, scratch: &Path) -> Result<()> {
    let version: Value = serde_json::from_slice(&fs::read(image.join("oci-layout"))?)?;
    ensure!(version["imageLayoutVersion"] == "1.0.0", "{version}");
    let index: Value = serde_json::from_slice(&fs::read(image.join("index.json"))?)?;
    let manifest: Value = serde_json::from_slice(&blob(image, &index["manifests"][0])?)?;
    let config: Value = serde_json::from_slice(&blob(image, &manifest["config"])?)?;
    fs::create_dir_all(scratch)?;
    mount(&["-t", "tmpfs", "-o", "mode=0755", "none"], scratch)?;
    unpack(image, &manifest, &config, scratch)?;
    let config = &config["config"];
    let user = config["User"].as_str().context("a user")?;
    ensure!(user != "0:0" && user != "root", "the image runs as {user}");
    let has_cheatcodes = !strings(&config["Cmd"]).any(|arg| arg == "--no-cheatcodes");
    ensure!(!has_cheatcodes, "by default the image has cheat codes for every client");
    let volumes = config["Volumes"].as_object().context("volumes")?;
    mount(&["-o", "remount,ro"], scratch)?;
    ensure!(fs::write(scratch.join("x"), "").is_err(), "the root can be written to");
    for volume in volumes.keys() {
        let (uid, gid) = user.split_once(':').context("a user and a group")?;
        let options = format!("uid={uid},gid={gid},mode=0750");
        let target = scratch.join(volume.trim_start_matches('/'));
        mount(&["-t", "tmpfs", "-o", &options, "none"], &target)?;
    }
    for dir in ["proc", "dev"] {
        mount(&["--rbind", &format!("/{dir}")], &scratch.join(dir))?;
    }
    let chroot = Cmd::new("sh").args(["-c", "command -v chroot"]).output()?;
    let node = RunningNode::start(|socket| {
        Cmd::new("env")
            .args(["-i", &format!("NOTIFY_SOCKET={socket}")])
            .args(strings(&config["Env"]))
            .args([chroot.trim(), &format!("--userspec={user}"), &scratch.to_string_lossy()])
            .args(strings(&config["Entrypoint"]))
            .args(strings(&config["Cmd"]))
            .args(["--rpc-port", "0"])
    })?;
    node.check_health()?;
    node.stop()?;
    println!("image: unpacked, started as {user} in a root that is read-only, healthy, stopped");
    Ok(())
}

/// Unpacks the layers in their order, with modes and owners.
fn unpack(image: &Path, manifest: &Value, config: &Value, root: &Path) -> Result<()> {
    let layers = manifest["layers"].as_array().context("layers")?;
    let diff_ids = config["rootfs"]["diff_ids"].as_array().context("diff_ids")?;
    ensure!(layers.len() == diff_ids.len(), "{} layers, {} ids", layers.len(), diff_ids.len());
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let mut archive = Vec::new();
        GzDecoder::new(&blob(image, layer)?[..]).read_to_end(&mut archive)?;
        let digest = format!("{DIGEST_PREFIX}{}", sha256(&archive));
        ensure!(*diff_id == digest, "a layer has the digest {digest} and the id {diff_id}");
        let mut archive = tar::Archive::new(&archive[..]);
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(true);
        archive.unpack(root).context("unpack a layer")?;
    }
    Ok(())
}

/// Reads the blob that a descriptor names, and checks its digest.
fn blob(image: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let digest = descriptor["digest"].as_str().context("a digest")?;
    let name = digest.strip_prefix(DIGEST_PREFIX).context("another digest than SHA-256")?;
    let bytes = fs::read(image.join("blobs/sha256").join(name)).context(name.to_owned())?;
    ensure!(sha256(&bytes) == name, "blob {name} has another digest");
    ensure!(descriptor["size"] == bytes.len(), "blob {name} has {} bytes", bytes.len());
    Ok(bytes)
}

fn strings(array: &Value) -> impl Iterator<Item = &str> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn mount(args: &[&str], target: &Path) -> Result<()> {
    Cmd::new("mount").args(args).args([target.to_string_lossy()]).run()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_blob_that_is_not_its_digest_is_refused() {
        let dir = std::env::temp_dir().join(format!("hydrant-blob-{}", std::process::id()));
        fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        let digest = sha256(b"abc");
        fs::write(dir.join("blobs/sha256").join(&digest), "abc").unwrap();
        let named = |size: u64| json!({ "digest": format!("sha256:{digest}"), "size": size });
        assert_eq!(blob(&dir, &named(3)).unwrap(), b"abc");
        assert!(blob(&dir, &named(4)).is_err());
        fs::write(dir.join("blobs/sha256").join(&digest), "abd").unwrap();
        assert!(blob(&dir, &named(3)).unwrap_err().to_string().contains("another digest"));
        fs::remove_dir_all(dir).unwrap();
    }
}

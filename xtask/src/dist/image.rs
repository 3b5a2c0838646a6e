//! The container image: an OCI image layout, made without a container daemon.
//!
//! Input: the program, and the libraries that it needs, of this machine. Output: the files of the layout.
//! Shape: two layers. The lower one has the libraries, the user and the root certificates; the upper one the program,
//! which is all that an upgrade downloads. There is no shell.
//! Invariant: the program runs as an ordinary user, and writes only to its volume.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::dist::file_tree::{FileTree, ROOT, gzip, sha256};
use crate::dist::installed_files::license;
use crate::dist::program::Program;
use crate::dist::timestamp::rfc_3339;

/// The user and the group, as in other images without a shell.
pub(crate) const USER: u64 = 65_532;
/// The volume, where a ledger may be stored.
pub(crate) const STATE_DIR: &str = "var/lib/hydrant";
/// Path of the program in the image.
const PROGRAM: &str = "usr/bin/hydrant";
/// The root certificates, for sources and upstreams over TLS.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Licences of the libraries, if this machine has them.
const LICENSES: &[&str] = &["usr/share/doc/libc6/copyright", "usr/share/doc/libgcc-s1/copyright"];
/// JSON-RPC, PubSub, QUIC and gRPC.
const PORTS: &[&str] = &["8899/tcp", "8900/tcp", "8901/udp", "10000/tcp"];

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// A layer, as the manifest names it.
struct Layer {
    descriptor: Value,
    /// The digest before compression.
    diff_id: String,
}

/// Returns the image layout of a version.
pub(crate) fn layout(program: &Program, version: &str, time: u64) -> Result<FileTree> {
    let mut layout = FileTree::default();
    let layers = [system_files(program)?, program_files(program)?];
    let layers = layers.iter().map(|files| insert_layer(&mut layout, files, time));
    let layers = layers.collect::<Result<Vec<Layer>>>()?;
    let labels = labels(version);
    let architecture = program.architecture.debian;
    let created = rfc_3339(time)?;
    let config = json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": PORTS.iter().map(|port| ((*port).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>(),
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                format!("HOME=/{STATE_DIR}"),
                format!("SSL_CERT_FILE=/{CERTIFICATES}"),
            ],
            "Entrypoint": [format!("/{PROGRAM}")],
            // Ports of a container are reached from outside it, so the default has no cheat codes.
            "Cmd": ["dev", "--bind-address", "0.0.0.0", "--no-cheatcodes"],
            "Volumes": { format!("/{STATE_DIR}"): {} },
            "WorkingDir": format!("/{STATE_DIR}"),
            "Labels": labels,
            "StopSignal": "SIGTERM",
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| layer.diff_id.as_str()).collect::<Vec<_>>(),
        },
        "history": [
            { "created": created, "created_by": "cargo xtask dist: libraries of the system" },
            { "created": created, "created_by": "cargo xtask dist: hydrant" },
        ],
    });
    let config = insert_blob(&mut layout, CONFIG_TYPE, config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config,
        "layers": layers.iter().map(|layer| &layer.descriptor).collect::<Vec<_>>(),
        "annotations": labels,
    });
    let mut manifest = insert_blob(&mut layout, MANIFEST_TYPE, manifest.to_string().into_bytes());
    manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
    // The second one is what `docker load` names the image.
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        "io.containerd.image.name": format!("docker.io/library/hydrant:{version}"),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [manifest] });
    layout.insert_file("index.json", index.to_string().into_bytes());
    layout.insert_file("oci-layout", *br#"{"imageLayoutVersion":"1.0.0"}"#);
    Ok(layout)
}

fn labels(version: &str) -> Value {
    json!({
        "org.opencontainers.image.title": "Hydrant",
        "org.opencontainers.image.description": "A read node for ledgers",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn program_files(program: &Program) -> Result<FileTree> {
    let mut files = FileTree::default();
    files.insert_program(PROGRAM, program.bytes.clone());
    files.insert_file("usr/share/doc/hydrant/copyright", license()?);
    Ok(files)
}

fn system_files(program: &Program) -> Result<FileTree> {
    let mut files = FileTree::default();
    for (path, bytes) in program.libraries()? {
        files.insert_program(path.trim_start_matches('/'), bytes);
    }
    let account = |fields: &str| format!("root:x:0:{fields}\n");
    let user = format!("hydrant:x:{USER}:{USER}:hydrant:/{STATE_DIR}:/sbin/nologin\n");
    let group = format!("hydrant:x:{USER}:\n");
    files.insert_file("etc/passwd", (account("0:root:/root:/sbin/nologin") + &user).into_bytes());
    files.insert_file("etc/group", (account("") + &group).into_bytes());
    files.insert_file("etc/nsswitch.conf", *b"hosts: files dns\n");
    for path in LICENSES.iter().chain(&[CERTIFICATES]) {
        let on_machine = Path::new("/").join(path);
        if on_machine.exists() {
            files.insert_file(path, fs::read(&on_machine)?);
        } else {
            println!("the image has no {}: this machine has none", on_machine.display());
        }
    }
    // Mount points that a runtime needs.
    for path in ["dev", "proc", "sys"] {
        files.insert_directory(path, 0o755, ROOT);
    }
    files.insert_directory("tmp", 0o1777, ROOT);
    files.insert_directory(STATE_DIR, 0o750, USER);
    Ok(files)
}

fn insert_layer(layout: &mut FileTree, files: &FileTree, time: u64) -> Result<Layer> {
    let archive = files.tar(time)?;
    let diff_id = format!("sha256:{}", sha256(&archive));
    let descriptor = insert_blob(layout, LAYER_TYPE, gzip(&archive)?);
    Ok(Layer { descriptor, diff_id })
}

/// Inserts a blob under its digest, and returns its descriptor.
fn insert_blob(layout: &mut FileTree, media_type: &str, bytes: Vec<u8>) -> Value {
    let digest = sha256(&bytes);
    let size = bytes.len();
    layout.insert_file(&format!("blobs/sha256/{digest}"), bytes);
    json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_stored_under_its_digest() {
        let mut layout = FileTree::default();
        let descriptor = insert_blob(&mut layout, "text/plain", b"abc".to_vec());
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(descriptor["digest"], format!("sha256:{digest}"));
        assert_eq!(descriptor["size"], 3);
        let paths: Vec<&str> = layout.files().map(|(path, _)| path).collect();
        assert_eq!(paths, [format!("blobs/sha256/{digest}")]);
    }
}

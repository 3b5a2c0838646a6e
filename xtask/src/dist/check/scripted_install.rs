//! The install script: run with a release on the loopback address, as `sh` runs it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist::check::file_server::FileServer;
use crate::dist::check::running_node::RunningNode;
use crate::dist::file_tree::{FileTree, gzip, sha256};
use crate::dist::install_script::{FILE_NAME, script};
use crate::dist::packages::PackageSources;
use crate::dist::program::VERSION;
use crate::shell::Cmd;

/// Name of the file with the digests of a release.
const DIGESTS: &str = "SHA256SUMS";
/// As one behaves that needs a newer C library.
const FAILING_PROGRAM: &[u8] = b"#!/bin/sh\nexit 1\n";

/// The script, and where it installs.
struct Installation {
    script: PathBuf,
    prefix: PathBuf,
}

/// Installs `packages` below `scratch`, and starts the program.
pub(crate) fn check(sources: &PackageSources, packages: &FileTree, scratch: &Path) -> Result<()> {
    let dir = scratch.join("script");
    fs::create_dir_all(&dir)?;
    let installation = Installation { script: dir.join(FILE_NAME), prefix: dir.join("prefix") };
    let server = FileServer::bind()?;
    fs::write(&installation.script, script(Some(&server.release_url()))?)?;
    server.serve(packages);
    installation.check_refusals(sources)?;

    // Twice: the second run replaces a program that runs.
    installation.command().run()?;
    let program = installation.program();
    let program = program.to_string_lossy();
    let node = RunningNode::start(|socket| {
        Cmd::new(&program).args(["dev", "--rpc-port", "0"]).env("NOTIFY_SOCKET", socket)
    })?;
    installation.command().args(["--version", &format!("v{VERSION}")]).run()?;
    node.check_health()?;
    node.stop()?;
    let version = Cmd::new(&program).args(["--version"]).output()?;
    ensure!(version.trim() == format!("hydrant {VERSION}"), "{version}");
    let manual = installation.prefix.join("share/man/man1/hydrant-dev.1");
    ensure!(manual.is_file(), "no {}", manual.display());
    println!("install script: installed, started, healthy, replaced while it ran, stopped");
    Ok(())
}

impl Installation {
    fn program(&self) -> PathBuf {
        self.prefix.join("bin/hydrant")
    }

    fn command(&self) -> Cmd {
        let [script, prefix] = [&self.script, &self.prefix].map(|path| path.to_string_lossy());
        Cmd::new("sh").args([&*script, "--prefix", &prefix]).env("no_proxy", "127.0.0.1")
    }

    /// Checks that another version, an archive with another digest, and a program that does not start are not
    /// installed.
    fn check_refusals(&self, sources: &PackageSources) -> Result<()> {
        let missing = self.command().args(["--version", "0.0.0-none"]).failure()?;
        ensure!(missing.contains("could not be downloaded"), "{missing}");
        let mut failing = FileTree::default();
        failing.insert_program(&format!("{}/bin/hydrant", sources.tarball_dir()), FAILING_PROGRAM);
        let archive = gzip(&failing.tar(sources.time)?)?;
        let refusals = [
            (sha256(b"another file"), "has another SHA-256"),
            (sha256(&archive), "does not start here"),
        ];
        for (digest, expected) in refusals {
            let name = sources.tarball_name();
            let mut files = FileTree::default();
            files.insert_file(DIGESTS, format!("{digest}  {name}\n").into_bytes());
            files.insert_file(&name, archive.as_slice());
            let server = FileServer::bind()?;
            let url = server.release_url();
            server.serve(&files);
            let refused = self.command().args(["--release-url", &url]).failure();
            let refused = refused.context("a broken release was installed")?;
            ensure!(refused.contains(expected), "{refused}");
        }
        ensure!(!self.program().exists(), "a refused release left a program");
        Ok(())
    }
}

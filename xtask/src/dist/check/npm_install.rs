//! The npm packages: installed from their files without a network, and from a release on the loopback address.
//!
//! Shape: npm has a cache and settings of its own here. Its registry is the loopback address, which has no package by a
//! name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::dist::check::file_server::FileServer;
use crate::dist::check::running_node::RunningNode;
use crate::dist::check::skipped_checks::SkippedChecks;
use crate::dist::file_tree::FileTree;
use crate::dist::npm::{self, LAUNCHER};
use crate::dist::packages::PackageSources;
use crate::dist::program::{ARCHITECTURES, VERSION};
use crate::shell::Cmd;

/// Scripts that npm runs when a package is installed.
const INSTALL_SCRIPTS: &[&str] = &["preinstall", "install", "postinstall", "prepare"];

/// A directory in which packages are installed.
struct Project {
    dir: PathBuf,
    /// URL from which npm requests packages by name.
    registry: String,
}

/// Installs the packages, which have been written to `out`, and runs their command.
pub(crate) fn check(
    sources: &PackageSources,
    packages: &FileTree,
    out: &Path,
    skipped: &mut SkippedChecks,
) -> Result<()> {
    if Cmd::new("npm").args(["--version"]).output().is_err() {
        skipped.add("the npm packages", "this machine has no npm");
        return Ok(());
    }
    let scratch = sources.scratch.join("npm");
    fs::create_dir_all(&scratch)?;
    let server = FileServer::bind()?;
    let registry = server.url();
    let url = server.release_url();
    server.serve(&release(sources, packages, &url)?);
    let project = |name: &str| Project::new(scratch.join(name), &registry);
    let platform = npm::platform_name(sources.program.architecture);
    // The packages in `out` may be those of a release.
    let launcher = scratch.join(npm::file_name(LAUNCHER));
    fs::write(&launcher, sources.npm_launcher(None)?)?;
    let program = out.join(npm::file_name(&platform));
    check_files(&project("files")?, &launcher, &program, &platform)?;
    check_missing_platform(&project("launcher")?, &launcher, &platform)?;
    check_release(&project("release")?, &url, &platform)
}

/// Makes the packages of a release: a launcher, and one for each platform. The program of another platform is a text
/// here.
fn release(sources: &PackageSources, packages: &FileTree, url: &str) -> Result<FileTree> {
    let mut files = packages.clone();
    files.insert_file(&npm::file_name(LAUNCHER), sources.npm_launcher(Some(url))?);
    for architecture in ARCHITECTURES {
        if architecture != sources.program.architecture {
            let package = npm::platform(architecture, b"of another machine", sources.time)?;
            files.insert_file(&npm::file_name(&npm::platform_name(architecture)), package);
        }
    }
    Ok(files)
}

/// Checks `npm install FILE FILE`, offline, and `npx hydrant dev`.
fn check_files(project: &Project, launcher: &Path, program: &Path, platform: &str) -> Result<()> {
    let [launcher, program] = [launcher, program].map(Path::to_string_lossy);
    project.npm(&["install", "--offline", &launcher, &program]).run()?;
    let modules = project.dir.join("node_modules");
    for package in [LAUNCHER, platform] {
        check_manifest(&modules.join(package))?;
    }
    project.check_version(project.npx(&["--offline", LAUNCHER, "--version"]))?;
    let node = RunningNode::start(|socket| {
        let node = project.npx(&["--offline", LAUNCHER, "dev", "--rpc-port", "0"]);
        node.env("NOTIFY_SOCKET", socket)
    })?;
    node.check_health()?;
    node.stop_launcher()?;
    // The launcher itself passes the signal on, and has the status of the node.
    let node = RunningNode::start(|socket| {
        let node = project.command().args(["dev", "--rpc-port", "0"]);
        node.env("NOTIFY_SOCKET", socket)
    })?;
    node.check_health()?;
    node.stop()?;
    let status = project.command().args(["dev", "--no-such-flag"]).failure()?;
    ensure!(status.contains("no-such-flag"), "{status}");
    println!("npm packages: installed from files, started with npx, healthy, stopped");
    Ok(())
}

/// Checks that the launcher alone names the missing package.
fn check_missing_platform(project: &Project, launcher: &Path, platform: &str) -> Result<()> {
    let launcher = launcher.to_string_lossy();
    project.npm(&["install", "--offline", "--omit=optional", &launcher]).run()?;
    let said = project.command().failure()?;
    ensure!(said.contains(platform), "the launcher without a program says {said:?}");
    Ok(())
}

/// Checks `npx --package URL hydrant`: npm downloads the launcher and installs only the package of this platform.
fn check_release(project: &Project, url: &str, platform: &str) -> Result<()> {
    let launcher = format!("{url}/v{VERSION}/{}", npm::file_name(LAUNCHER));
    let command = ["--yes", "--package", &launcher, LAUNCHER, "--version"];
    project.check_version(project.npx(&command))?;
    let installed = project.dir.join("cache/_npx");
    let runs = fs::read_dir(&installed).with_context(|| installed.display().to_string())?;
    let mut packages = Vec::new();
    for run in runs {
        for package in fs::read_dir(run?.path().join("node_modules"))? {
            packages.push(package?.file_name().to_string_lossy().into_owned());
        }
    }
    packages.retain(|name| name.starts_with(LAUNCHER));
    packages.sort();
    ensure!(packages == [LAUNCHER, platform], "npx has installed {packages:?}");
    println!("npm packages: installed from a release with npx, for this platform alone");
    Ok(())
}

/// Checks that an installed package has this version and runs no script during installation.
fn check_manifest(package: &Path) -> Result<()> {
    let path = package.join("package.json");
    let text = fs::read(&path).with_context(|| path.display().to_string())?;
    let manifest: Value = serde_json::from_slice(&text)?;
    ensure!(manifest["version"] == VERSION, "{manifest}");
    for script in INSTALL_SCRIPTS {
        ensure!(manifest["scripts"][script].is_null(), "{} has a {script}", path.display());
    }
    Ok(())
}

impl Project {
    fn new(dir: PathBuf, registry: &str) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        // Without one, npm would use a directory above.
        fs::write(dir.join("package.json"), "{ \"private\": true }\n")?;
        Ok(Self { dir, registry: registry.to_owned() })
    }

    fn npm(&self, args: &[&str]) -> Cmd {
        self.configure(Cmd::new("npm")).args(args)
    }

    fn npx(&self, args: &[&str]) -> Cmd {
        self.configure(Cmd::new("npx")).args(args)
    }

    /// Returns the command that the launcher has installed.
    fn command(&self) -> Cmd {
        let command = self.dir.join("node_modules/.bin").join(LAUNCHER);
        self.configure(Cmd::new(&command.to_string_lossy()))
    }

    /// Replaces the settings of this machine and of its user for a command.
    fn configure(&self, command: Cmd) -> Cmd {
        let file = |name: &str| self.dir.join(name);
        command
            .dir(&self.dir)
            .env("npm_config_cache", file("cache"))
            .env("npm_config_userconfig", file("userconfig"))
            .env("npm_config_globalconfig", file("globalconfig"))
            .env("npm_config_registry", &self.registry)
            .env("npm_config_audit", "false")
            .env("npm_config_fund", "false")
            .env("npm_config_update_notifier", "false")
            .env("no_proxy", "127.0.0.1")
    }

    fn check_version(&self, command: Cmd) -> Result<()> {
        let version = command.output()?;
        let dir = self.dir.display();
        ensure!(version.trim() == format!("hydrant {VERSION}"), "in {dir}: {version}");
        Ok(())
    }
}

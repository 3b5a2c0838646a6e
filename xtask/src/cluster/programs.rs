//! The programs of a run: Hydrant and the proxies, which are built, and those that are left out if they are absent.

use std::path::PathBuf;

use anyhow::Result;

use crate::cluster::options::{LogKind, Options};
use crate::foreign_programs::find_program;
use crate::rig::build::{build_hydrant, find_or_build};
use crate::shell::cargo;
use crate::workspace::{root, target_dir};

/// An S3 server.
#[derive(Clone, Debug)]
pub(crate) enum S3Program {
    GoFakeS3(PathBuf),
    Moto(PathBuf),
}

/// Paths of the programs that the run starts.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) hydrant: PathBuf,
    pub(crate) proxies: PathBuf,
    pub(crate) nats_server: Option<PathBuf>,
    pub(crate) s3: Option<S3Program>,
    pub(crate) haproxy: Option<PathBuf>,
}

impl Programs {
    /// Finds or builds the programs, and prints those that are left out.
    pub(crate) fn find(options: &Options) -> Result<Self> {
        let nats_server = match &options.nats_server {
            Some(file) => Some(file.canonicalize()?),
            None => find_program("nats-server")?,
        };
        let s3 = match find_program("gofakes3")? {
            Some(program) => Some(S3Program::GoFakeS3(program)),
            None => find_on_path("moto_server").map(S3Program::Moto),
        };
        let programs = Self {
            hydrant: find_or_build(&options.hydrant, build_hydrant)?,
            proxies: build_proxies()?,
            nats_server,
            s3,
            haproxy: find_on_path("haproxy"),
        };
        for line in programs.left_out() {
            println!("{line}");
        }
        Ok(programs)
    }

    /// Returns the kind of the log: the requested one, or NATS if its server is there.
    pub(crate) fn choose_log(&self, requested: Option<LogKind>) -> LogKind {
        let default = if self.nats_server.is_some() { LogKind::Nats } else { LogKind::Directory };
        requested.unwrap_or(default)
    }

    /// Returns a line for each program that this machine lacks.
    fn left_out(&self) -> Vec<&'static str> {
        let mut lines = Vec::new();
        if self.nats_server.is_none() {
            lines.push(
                "nats-server is left out: `cargo xtask tools` builds it. The log is a directory",
            );
        }
        if self.s3.is_none() {
            lines.push(
                "the S3 server is left out: `cargo xtask tools` builds gofakes3, or `pip install 'moto[server]'`. \
                 The store of snapshots is a directory",
            );
        }
        if self.haproxy.is_none() {
            lines.push(
                "HAProxy is left out: `apt-get install haproxy`. No replica is killed behind a balancer",
            );
        }
        lines
    }
}

/// Builds the proxies as CI does, for its tests: a release build would compile every crate that these need again.
fn build_proxies() -> Result<PathBuf> {
    let package = ["build", "--package", "testkit", "--features", "tcp-proxy"];
    cargo().args(package).args(["--example", "tcp_proxies"]).dir(&root()).run()?;
    Ok(target_dir().join("debug/examples/tcp_proxies"))
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = [PathBuf::from("/usr/sbin")];
    let mut files = std::env::split_paths(&path).chain(sbin).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_programs_are_named_and_nats_is_the_default_log() {
        let none = Programs {
            hydrant: "hydrant".into(),
            proxies: "tcp_proxies".into(),
            nats_server: None,
            s3: None,
            haproxy: None,
        };
        assert_eq!(none.left_out().len(), 3);
        assert_eq!(none.choose_log(None), LogKind::Directory);
        let all = Programs {
            nats_server: Some("nats-server".into()),
            s3: Some(S3Program::Moto("moto_server".into())),
            haproxy: Some("haproxy".into()),
            ..none
        };
        assert!(all.left_out().is_empty());
        assert_eq!(all.choose_log(None), LogKind::Nats);
        assert_eq!(all.choose_log(Some(LogKind::Bucket)), LogKind::Bucket);
    }
}

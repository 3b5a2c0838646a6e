//! The proxies between the processes of a run: one program, which obeys commands on its standard input.
//!
//! A partition holds the bytes of one direction: neither side notices anything but silence.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A direction of a proxy's connections, in the words of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyDirection {
    ToServer,
    ToClient,
}

impl ProxyDirection {
    fn word(self) -> &'static str {
        match self {
            Self::ToServer => "to-server",
            Self::ToClient => "to-client",
        }
    }
}

/// The running program. The proxies end with it.
pub(crate) struct Proxies {
    child: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Proxies {
    /// Starts the program. Its errors go to a file in `dir`.
    pub(crate) fn start(program: &Path, dir: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("proxies.log"))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let commands = child.stdin.take().context("a pipe")?;
        let replies = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, commands, replies })
    }

    /// Starts a proxy of a server. Returns its address.
    pub(crate) fn open(&mut self, server: SocketAddr) -> Result<SocketAddr> {
        let reply = self.send(&format!("open {server}"))?;
        reply.parse().with_context(|| format!("the proxies replied `{reply}`"))
    }

    /// Holds a direction of a proxy.
    pub(crate) fn hold(&mut self, proxy: SocketAddr, direction: ProxyDirection) -> Result<()> {
        self.set(&format!("{} hold {proxy}", direction.word()))
    }

    /// Ends the connections of a proxy, and those that come until [`Self::pass`].
    pub(crate) fn cut(&mut self, proxy: SocketAddr) -> Result<()> {
        self.set(&format!("both cut {proxy}"))
    }

    /// Lets a proxy pass everything on.
    pub(crate) fn pass(&mut self, proxy: SocketAddr) -> Result<()> {
        self.set(&format!("both pass {proxy}"))
    }

    fn set(&mut self, command: &str) -> Result<()> {
        let reply = self.send(command)?;
        ensure!(reply == "ok", "the proxies replied `{reply}` to `{command}`");
        Ok(())
    }

    fn send(&mut self, command: &str) -> Result<String> {
        writeln!(self.commands, "{command}").context("the proxies have ended")?;
        let mut reply = String::new();
        self.replies.read_line(&mut reply)?;
        Ok(reply.trim().to_owned())
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

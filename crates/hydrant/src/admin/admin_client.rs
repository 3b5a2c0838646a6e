//! `hydrant admin`: one command to a running node, and its response on standard output.
//!
//! Bounds: a response has at most 64 MiB and 70 s, more than the node takes for any command.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::console::print_line;

const TIMEOUT: Duration = Duration::from_secs(70);
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// The flags of `hydrant admin`.
#[derive(Args, Debug)]
pub(crate) struct AdminFlags {
    #[command(subcommand)]
    command: AdminCommand,
    /// Connect to this socket of the node: its --admin-socket, or admin.sock in its ledger directory.
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "address")]
    socket: Option<PathBuf>,
    /// Connect to this --admin-address of the node.
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
}

#[derive(Subcommand, Debug)]
enum AdminCommand {
    /// Finish the requests that run, refuse others, and end the node, as SIGTERM does.
    Drain,
    /// Read files again: all of them, or those with this name.
    Reload {
        /// The name of a reload hook, such as tls [default: all].
        name: Option<String>,
    },
    /// Print the filter of the log, or replace it.
    LogLevel {
        /// The new filter, in the syntax of RUST_LOG.
        filter: Option<String>,
    },
    /// Print the memory of each part of the node.
    Memory,
    /// Print the counts of connections and bytes.
    Clients,
    /// Print the metrics in Prometheus' text format.
    Metrics,
    /// Print a report of the node; without a name, the names of all reports.
    Report {
        /// The name of a report, such as memory.
        name: Option<String>,
    },
}

impl AdminCommand {
    /// Method, path and body of its request.
    fn request(&self) -> (&'static str, String, String) {
        let get = |path: &str| ("GET", path.to_owned(), String::new());
        match self {
            Self::Drain => ("POST", "/drain".to_owned(), String::new()),
            Self::Reload { name: None } => ("POST", "/reload".to_owned(), String::new()),
            Self::Reload { name: Some(name) } => ("POST", format!("/reload/{name}"), String::new()),
            Self::LogLevel { filter: None } => get("/log-level"),
            Self::LogLevel { filter: Some(filter) } => {
                ("PUT", "/log-level".to_owned(), json!({ "filter": filter }).to_string())
            }
            Self::Memory => get("/memory"),
            Self::Clients => get("/clients"),
            Self::Metrics => get("/metrics"),
            Self::Report { name: None } => get("/"),
            Self::Report { name: Some(name) } => get(&format!("/{name}")),
        }
    }
}

/// Runs the command. An error that the node reports is an error.
pub(crate) fn run_client(flags: &AdminFlags) -> Result<()> {
    let (method, path, body) = flags.command.request();
    ensure!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?} is not a name");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = match (&flags.socket, flags.address) {
        (Some(socket), _) => over_socket(socket, &request),
        (None, Some(address)) => over_tcp(address, &request),
        (None, None) => {
            bail!("name the node's socket with --socket, or its address with --address")
        }
    }?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response is not HTTP")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    let status = status.context("the response is not HTTP")?;
    ensure!((200..300).contains(&status), "the node refused it ({status}): {}", body.trim_end());
    print_line(body.trim_end());
    Ok(())
}

fn over_socket(path: &Path, request: &str) -> Result<String> {
    let socket = UnixStream::connect(path);
    let socket = socket.with_context(|| format!("connect to --socket {}", path.display()))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    exchange(socket, request)
}

fn over_tcp(address: SocketAddr, request: &str) -> Result<String> {
    let socket = TcpStream::connect_timeout(&address, TIMEOUT);
    let socket = socket.with_context(|| format!("connect to --address {address}"))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    exchange(socket, request)
}

fn exchange(mut socket: impl Read + Write, request: &str) -> Result<String> {
    socket.write_all(request.as_bytes()).context("send the command")?;
    let mut response = String::new();
    let read = socket.take(RESPONSE_BYTES_MAX).read_to_string(&mut response);
    read.context("read the response")?;
    Ok(response)
}

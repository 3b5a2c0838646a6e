//! Three nats-servers, configured by the file that operators get (`packaging/cluster/nats-server.conf`).
//!
//! Shape: the servers reach each other through proxies, as their clients reach them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::rig::child_process::ChildProcess;
use crate::rig::json_rpc;
use crate::rig::ports::local;
use crate::workspace::root;

/// Number of servers.
pub(crate) const SERVERS: usize = 3;
/// Ports of a server.
pub(crate) const PORTS: usize = 3;
/// The user of `packaging/cluster/nats-server.conf`, with the password of the run.
pub(crate) const CREDENTIALS: &str = "hydrant:local";
const PASSWORD: &str = "local";
/// Size of a server's store: that of the log, and of one that replaces it.
const STORE_LOGS: u64 = 4;

/// A server.
pub(crate) struct LogServer {
    name: String,
    dir: PathBuf,
    pub(crate) client: SocketAddr,
    monitor: SocketAddr,
    pub(crate) routes: SocketAddr,
    process: Option<ChildProcess>,
}

/// The servers of a log.
pub(crate) struct LogServers {
    program: PathBuf,
    log_bytes: u64,
    pub(crate) servers: Vec<LogServer>,
}

impl LogServers {
    /// Prepares servers, which are not started.
    pub(crate) fn new(
        program: &Path,
        dir: &Path,
        log_bytes: u64,
        ports: [[u16; PORTS]; SERVERS],
    ) -> Self {
        let servers =
            ports.iter().enumerate().map(|(index, [client, monitor, routes])| LogServer {
                name: format!("nats{index}"),
                dir: dir.to_owned(),
                client: local(*client),
                monitor: local(*monitor),
                routes: local(*routes),
                process: None,
            });
        Self { program: program.to_owned(), log_bytes, servers: servers.collect() }
    }

    /// Starts a server. `routes` are the addresses at which it reaches the others.
    pub(crate) fn start(&mut self, index: usize, routes: &[SocketAddr]) -> Result<()> {
        let server = &mut self.servers[index];
        let routes: Vec<String> =
            routes.iter().map(|address| format!("\"nats://{address}\"")).collect();
        let quoted = |value: &dyn std::fmt::Display| format!("\"{value}\"");
        let store = server.dir.join(&server.name);
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(root().join("packaging/cluster/nats-server.conf"))
            .env("NATS_NAME", quoted(&server.name))
            .env("NATS_LISTEN", quoted(&server.client))
            .env("NATS_MONITOR", quoted(&server.monitor))
            .env("NATS_ROUTES_LISTEN", quoted(&server.routes))
            .env("NATS_ROUTES", format!("[ {} ]", routes.join(", ")))
            .env("NATS_STORE", quoted(&store.display()))
            .env("NATS_STORE_BYTES", (STORE_LOGS * self.log_bytes).to_string())
            .env("NATS_PASSWORD", quoted(&PASSWORD));
        server.process = Some(ChildProcess::start(&server.dir, &server.name, command)?);
        Ok(())
    }

    /// Kills a server, as `kill -9` does.
    pub(crate) fn kill(&mut self, index: usize) -> Result<()> {
        let server = &mut self.servers[index];
        let process = server.process.take();
        process.with_context(|| format!("{} does not run", server.name))?.kill()
    }

    /// Whether all servers run and are healthy.
    pub(crate) fn are_healthy(&self) -> bool {
        self.servers.iter().all(|server| json_rpc::get(server.monitor, "/healthz").is_ok())
    }

    /// Returns an error if a server that should run has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        let mut processes = self.servers.iter_mut().filter_map(|it| it.process.as_mut());
        processes.try_for_each(ChildProcess::check)
    }

    /// Returns the first sequence of the newest generation's stream.
    pub(crate) fn first_sequence(&self) -> Result<u64> {
        self.newest_stream()?["state"]["first_seq"].as_u64().context("a stream without first_seq")
    }

    /// Returns the index of the server that leads the newest generation's stream.
    pub(crate) fn leader(&self) -> Result<usize> {
        let stream = self.newest_stream()?;
        let name = stream["cluster"]["leader"].as_str().context("a stream without a leader")?;
        let index = self.servers.iter().position(|server| server.name == name);
        index.with_context(|| format!("no server is named {name}"))
    }

    /// Returns the name of the newest generation's stream.
    pub(crate) fn stream_name(&self) -> Result<String> {
        let stream = self.newest_stream()?;
        Ok(stream["name"].as_str().context("a stream without name")?.to_owned())
    }

    /// Returns the stream of the newest generation, as the first server that responds knows it.
    fn newest_stream(&self) -> Result<Value> {
        let page = "/jsz?accounts=true&streams=true";
        let mut pages = self.servers.iter().map(|server| json_rpc::get(server.monitor, page));
        let page = pages.find_map(Result::ok).context("no server responds")?;
        newest_stream(&serde_json::from_str(&page)?).context("there is no stream of the log")
    }
}

/// Returns the stream of the newest generation on a page `/jsz`.
fn newest_stream(page: &Value) -> Option<Value> {
    let accounts = page["account_details"].as_array()?;
    let streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array());
    let generation = |stream: &Value| -> Option<u64> {
        let name = stream["name"].as_str()?;
        name.strip_prefix("hydrant-")?.rsplit('-').next()?.parse().ok()
    };
    streams
        .flatten()
        .filter(|stream| generation(stream).is_some())
        .max_by_key(|it| generation(it))
        .cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_generation_is_found_on_the_page_of_a_server() {
        let stream = |name: &str, first: u64| json!({"name": name, "state": {"first_seq": first}});
        let streams = json!([
            stream("hydrant-local-9", 5),
            stream("hydrant-local-10", 6),
            stream("KV_other", 7),
        ]);
        let page = json!({"account_details": [{"name": "SYS"}, {"stream_detail": streams}]});
        assert_eq!(newest_stream(&page).unwrap()["state"]["first_seq"], 6);
        assert_eq!(newest_stream(&json!({})), None);
    }
}

//! nats-servers of a test: one, or a cluster of several, in a temporary directory.
//!
//! Shape: each server has its ports and its store, and the configuration that operators get
//! (`packaging/cluster/nats-server.conf`). It can be killed, stopped, paused and started again with the same store.
//! Clients learn no other address than those of [`NatsServers::url`], so that a proxy in front of a server is not passed
//! by.
//! Bounds: [`eventually::TIMEOUT`](crate::eventually::TIMEOUT) for a start, 1 GB for a store.
//! Not here: the program (`cargo xtask tools` builds it).

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::eventually::eventually;

/// Below the ports that the system gives to connections: a killed server finds its ports free when it starts again.
const PORTS: std::ops::Range<u16> = 11_000..30_000;
const PORT_TRIES: usize = 1_000;
/// Time limit of the response of a server that is paused.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);

/// The file of all servers.
const CONFIG_FILE: &str = "nats-server.conf";
/// The configuration. Its values come from the environment.
const CONFIG: &str = include_str!("../../../packaging/cluster/nats-server.conf");
/// Its section about other servers, which is the last one.
const CLUSTER_SECTION: &str = "\ncluster {";
/// The user of the configuration, and the password of the tests.
const USER: &str = "hydrant";
const PASSWORD: &str = "a/b";
/// [`PASSWORD`] in a URL.
const PASSWORD_IN_URL: &str = "a%2Fb";
const STORE_BYTES: u64 = 1_000_000_000;

/// Number and settings of the servers.
#[derive(Clone, Copy, Debug)]
pub struct NatsOptions {
    /// Number of servers: 1, or 3 and more for a cluster.
    pub servers: usize,
    /// `sync_interval: always`. Otherwise the server's default of two minutes.
    pub syncs_always: bool,
    /// The account of the clients may ask for the servers' settings.
    pub exports_settings: bool,
}

impl NatsOptions {
    /// Servers that lose nothing, and prove it.
    pub fn safe(servers: usize) -> Self {
        Self { servers, syncs_always: true, exports_settings: true }
    }
}

/// Running servers. They are killed with the value.
pub struct NatsServers {
    program: PathBuf,
    servers: Vec<NatsServer>,
    dir: TempDir,
}

struct NatsServer {
    name: String,
    client: SocketAddr,
    monitor: SocketAddr,
    routes: SocketAddr,
    dir: PathBuf,
    process: Option<Child>,
}

impl NatsServers {
    /// Starts servers, and waits until they are healthy.
    pub async fn start(program: &Path, options: NatsOptions) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let servers = (0..options.servers).map(|index| NatsServer::new(dir.path(), index));
        let servers: Vec<NatsServer> = servers.collect();
        fs::write(dir.path().join(CONFIG_FILE), config(options)).expect("a configuration");
        let mut servers = Self { program: program.to_owned(), servers, dir };
        for index in 0..options.servers {
            servers.spawn(index);
        }
        for index in 0..options.servers {
            servers.wait_until_healthy(index).await;
        }
        servers
    }

    /// Returns the URLs of all servers with user and password, as a client takes them.
    pub fn url(&self) -> String {
        let urls = self.servers.iter().map(|server| Self::server_url(server.client));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Returns the URL of a server or of a proxy in front of it, with user and password.
    pub fn server_url(address: SocketAddr) -> String {
        format!("nats://{USER}:{PASSWORD_IN_URL}@{address}")
    }

    /// Returns the user and the password of an administrator's client.
    pub fn user_and_password(&self) -> [String; 2] {
        [USER, PASSWORD].map(str::to_owned)
    }

    /// Returns the address of a server's port for clients.
    pub fn client_address(&self, index: usize) -> SocketAddr {
        self.servers[index].client
    }

    /// Returns the index of the server with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|server| server.name == name)
    }

    /// Starts a server that is not running. Does not wait for it.
    pub fn spawn(&mut self, index: usize) {
        let others = self.servers.iter().enumerate().filter(|(at, _)| *at != index);
        let routes = others.map(|(_, other)| format!("\"nats://{}\"", other.routes));
        let routes = routes.collect::<Vec<_>>().join(", ");
        let config = self.dir.path().join(CONFIG_FILE);
        let server = &mut self.servers[index];
        assert!(server.process.is_none(), "{} runs", server.name);
        let log = File::options().create(true).append(true).open(server.log_path());
        let quoted = |value: &dyn Display| format!("\"{value}\"");
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(config)
            .env("NATS_NAME", quoted(&server.name))
            .env("NATS_LISTEN", quoted(&server.client))
            .env("NATS_MONITOR", quoted(&server.monitor))
            .env("NATS_ROUTES_LISTEN", quoted(&server.routes))
            .env("NATS_ROUTES", format!("[ {routes} ]"))
            .env("NATS_STORE", quoted(&server.store_dir().display()))
            .env("NATS_STORE_BYTES", STORE_BYTES.to_string())
            .env("NATS_PASSWORD", quoted(&PASSWORD))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        server.process = Some(child.expect("nats-server starts"));
    }

    /// Waits until a server says that it is healthy: it has recovered its streams, and its cluster has a leader.
    pub async fn wait_until_healthy(&self, index: usize) {
        let server = &self.servers[index];
        eventually(|| server.is_healthy(), || server.log()).await;
    }

    /// Kills a server, as `kill -9` does.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Ends a server with a signal that lets it write its files.
    pub fn stop(&mut self, index: usize) {
        self.servers[index].signal(Signal::TERM);
        let process = self.servers[index].process.take();
        process.expect("it runs").wait().expect("it ends");
    }

    /// Stops a server from running without ending it.
    pub fn pause(&self, index: usize) {
        self.servers[index].signal(Signal::STOP);
    }

    /// Lets a paused server run again.
    pub fn resume(&self, index: usize) {
        self.servers[index].signal(Signal::CONT);
    }

    /// Returns the directory with the streams of a server.
    pub fn store_dir(&self, index: usize) -> PathBuf {
        self.servers[index].store_dir()
    }

    /// Returns the log of a server.
    pub fn log(&self, index: usize) -> String {
        self.servers[index].log()
    }
}

impl NatsServer {
    fn new(dir: &Path, index: usize) -> Self {
        let name = format!("n{index}");
        let dir = dir.join(&name);
        fs::create_dir_all(&dir).expect("a directory");
        Self {
            name,
            client: free_address(),
            monitor: free_address(),
            routes: free_address(),
            dir,
            process: None,
        }
    }

    fn store_dir(&self) -> PathBuf {
        self.dir.join("store")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("nats.log")
    }

    fn is_healthy(&self) -> bool {
        self.read_health().is_ok_and(|response| response.contains(" 200 OK"))
    }

    fn read_health(&self) -> std::io::Result<String> {
        let mut socket = TcpStream::connect(self.monitor)?;
        socket.set_read_timeout(Some(HEALTH_TIMEOUT))?;
        socket.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        socket.read_to_string(&mut response)?;
        Ok(response)
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("a signal");
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended already. Then the kill fails, and the wait still has to be done.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.log_path());
        format!("{}: {}", self.name, log.unwrap_or_else(|err| err.to_string()))
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the configuration of the servers: that of operators without the settings that the options leave out.
fn config(options: NatsOptions) -> String {
    let is_left_out = |line: &str| {
        let is_sync = line.contains("sync_interval:");
        let is_export = line.contains("{ service:");
        !options.syncs_always && is_sync || !options.exports_settings && is_export
    };
    // A single server has no routes.
    let (single, _) = CONFIG.split_once(CLUSTER_SECTION).expect("a section about other servers");
    let used = if options.servers == 1 { single } else { CONFIG };
    let lines = used.lines().filter(|line| !is_left_out(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns an address that is free now. The server does not choose it itself, since the other ones and its clients need
/// it after a restart too.
fn free_address() -> SocketAddr {
    for _ in 0..PORT_TRIES {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS)));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port in {PORTS:?}")
}

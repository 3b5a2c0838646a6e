//! nats-servers of a test: one, or a cluster of several, in a temporary directory.
//!
//! Shape: each server has its ports, its configuration and its store. It can be killed, stopped, paused and started
//! again with the same store. Clients need no credentials, and learn no other address than those of
//! [`NatsServers::url`], so that a proxy in front of a server is not passed by.
//! Bounds: [`eventually::TIMEOUT`](crate::eventually::TIMEOUT) for a start, 1 GB for a store.
//! Not here: the program (`cargo xtask tools` builds it).

use std::fs;
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

/// Lets the account of the clients request the settings of JetStream from the system account.
const EXPORT: &str = r#"exports: [ { service: "$SYS.REQ.SERVER.PING.JSZ", response: stream } ]"#;
const IMPORT: &str =
    r#"imports: [ { service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } } ]"#;

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
    _dir: TempDir,
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
        let routes: Vec<SocketAddr> = servers.iter().map(|server| server.routes).collect();
        for server in &servers {
            server.write_config(options, &routes);
        }
        let mut servers = Self { program: program.to_owned(), servers, _dir: dir };
        for index in 0..options.servers {
            servers.spawn(index);
        }
        for index in 0..options.servers {
            servers.wait_until_healthy(index).await;
        }
        servers
    }

    /// Returns the URLs of all servers, as a client takes them.
    pub fn url(&self) -> String {
        let urls = self.servers.iter().map(|server| format!("nats://{}", server.client));
        urls.collect::<Vec<_>>().join(",")
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
        let program = &self.program;
        let server = &mut self.servers[index];
        assert!(server.process.is_none(), "{} runs", server.name);
        let child = Command::new(program)
            .arg("--config")
            .arg(server.config_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
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

    fn config_path(&self) -> PathBuf {
        self.dir.join("nats.conf")
    }

    fn store_dir(&self) -> PathBuf {
        self.dir.join("store")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("nats.log")
    }

    fn write_config(&self, options: NatsOptions, routes: &[SocketAddr]) {
        fs::write(self.config_path(), self.config(options, routes)).expect("a configuration");
    }

    fn config(&self, options: NatsOptions, routes: &[SocketAddr]) -> String {
        let sync = if options.syncs_always { "sync_interval: always" } else { "" };
        let exports_settings = options.exports_settings;
        let export = if exports_settings { EXPORT } else { "" };
        let import = if exports_settings { IMPORT } else { "" };
        let mut config = format!(
            r#"server_name: {name}
listen: "{client}"
http: "{monitor}"
log_file: "{log}"
jetstream {{
  store_dir: "{store}"
  max_memory_store: 64MB
  max_file_store: 1GB
  {sync}
}}
accounts {{
  SYS {{ {export} }}
  LOG {{
    jetstream: enabled
    users: [ {{ user: test, password: test }} ]
    {import}
  }}
}}
system_account: SYS
no_auth_user: test
"#,
            name = self.name,
            client = self.client,
            monitor = self.monitor,
            log = self.log_path().display(),
            store = self.store_dir().display(),
        );
        if routes.len() > 1 {
            let others = routes.iter().filter(|address| **address != self.routes);
            let others = others.map(|address| format!("\"nats://{address}\""));
            let others = others.collect::<Vec<_>>().join(", ");
            let listen = self.routes;
            let cluster = format!(
                "cluster {{\n  name: test\n  listen: \"{listen}\"\n  no_advertise: true\n  routes: [ {others} ]\n}}\n"
            );
            config.push_str(&cluster);
        }
        config
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

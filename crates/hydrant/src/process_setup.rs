//! Setup of a node's process: ports, log, CPU pool, signals, files that other programs read.

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jsonrpc::SystemClock;

use crate::log_filter;
use crate::log_format::LogFormat;

/// Attempts when the system chooses the ports: two consecutive ports must be free.
const PORT_TRIES: usize = 64;

/// The filter of the log without `RUST_LOG`. h2 warns of each PING frame that acknowledges nothing, so a client of gRPC
/// could fill the log.
const LOG_FILTER: &str = "info,h2=error";

/// At the limit of a file's size (`ulimit -f`) a write then fails with an error that is reported, and SIGXFSZ does not
/// end the process without a message.
pub(crate) fn ignore_file_size_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let number = rustix::process::Signal::XFSZ.as_raw();
    // The runtime's handler stays until the process ends, and only receives the signal.
    signal(SignalKind::from_raw(number)).map(drop).context("listen for SIGXFSZ")
}

pub(crate) struct BoundListeners {
    pub(crate) rpc: TcpListener,
    pub(crate) pubsub: TcpListener,
    pub(crate) grpc: Option<TcpListener>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrpcPort {
    /// This port only; 0 is a free one.
    Exactly(u16),
    /// This port, or a free one if it is in use, so that a second node needs no flag.
    Preferably(u16),
}

/// The ports of JSON-RPC and of WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RpcPorts {
    /// 0: two consecutive free ports.
    pub(crate) rpc: u16,
    /// `None`: the port after `rpc`.
    pub(crate) pubsub: Option<u16>,
}

/// Binds the ports of JSON-RPC and WebSocket, and that of gRPC.
pub(crate) fn bind(ip: IpAddr, ports: RpcPorts, grpc: Option<GrpcPort>) -> Result<BoundListeners> {
    let (rpc, pubsub) = bind_rpc(ip, ports)?;
    Ok(BoundListeners { rpc, pubsub, grpc: grpc.map(|port| bind_grpc(ip, port)).transpose()? })
}

fn bind_grpc(ip: IpAddr, port: GrpcPort) -> Result<TcpListener> {
    let listen = |port: u16| TcpListener::bind(SocketAddr::new(ip, port));
    let (bound, port) = match port {
        GrpcPort::Exactly(port) => (listen(port), port),
        GrpcPort::Preferably(port) => (listen(port).or_else(|_| listen(0)), port),
    };
    bound.with_context(|| {
        format!("listen on {ip}:{port} for gRPC (--bind-address, --grpc-port, --no-grpc)")
    })
}

fn bind_rpc(ip: IpAddr, ports: RpcPorts) -> Result<(TcpListener, TcpListener)> {
    let listen = |port: u16| TcpListener::bind(SocketAddr::new(ip, port));
    let RpcPorts { rpc: port, pubsub } = ports;
    if port != 0 {
        let context = |port: u16| format!("listen on {ip}:{port} (--bind-address, --rpc-port)");
        let next = pubsub.or_else(|| port.checked_add(1));
        let next =
            next.with_context(|| format!("--rpc-port {port}: no port is left for WebSocket"))?;
        let rpc = listen(port).with_context(|| context(port))?;
        return Ok((rpc, listen(next).with_context(|| context(next))?));
    }
    for _ in 0..PORT_TRIES {
        let rpc = listen(0).with_context(|| format!("listen on {ip} (--bind-address)"))?;
        let Some(next) = rpc.local_addr()?.port().checked_add(1) else { continue };
        if let Ok(pubsub) = listen(next) {
            return Ok((rpc, pubsub));
        }
    }
    bail!("no two consecutive free ports on {ip} (--rpc-port)")
}

/// Converts a listener for the runtime.
pub(crate) fn tokio_listener(listener: TcpListener) -> Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

/// Starts the log on standard error.
pub(crate) fn start_log(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
    // Colours only on a terminal, not in a file or a collector.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let log = log.with_filter_reloading();
            log_filter::install(log.reload_handle());
            log.init();
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            log_filter::install(log.reload_handle());
            log.init();
        }
    }
}

/// Whether the system's clock is not before 1970.
#[expect(clippy::disallowed_methods, reason = "only the program reads the clock")]
pub(crate) fn has_date() -> bool {
    std::time::SystemTime::now() >= std::time::UNIX_EPOCH
}

/// The lowest priority: the largest nice value.
const NICE_MAX: i32 = 19;

/// The CPU pool. Its threads have a lower priority than the I/O threads, so that on a machine with few cores an
/// inline request does not wait for the end of a time slice. The difference remains if the process was started with
/// another priority, as by `nice` or by `Nice=` of a systemd unit.
pub(crate) fn cpu_pool(config: &cpu_pool::Config) -> std::io::Result<cpu_pool::Pool> {
    // It fails only for a process that does not exist.
    let inherited = rustix::process::getpriority_process(None).unwrap_or(0);
    let nice = (inherited + i32::from(config.nice)).min(NICE_MAX);
    cpu_pool::Pool::new(config.clone(), Arc::new(SystemClock::new()), move || {
        // On Linux this sets only this thread's priority. Raising the value is always allowed.
        let result = rustix::process::setpriority_process(None, nice);
        if let Err(err) = result {
            tracing::warn!(%err, nice, "could not lower the priority of the CPU threads");
        }
    })
}

/// The allocator's own switch for huge pages. If it is set, it decides.
const ALLOCATOR_SWITCH: &str = "MIMALLOC_ALLOW_THP";

/// Keeps the system from backing the heap with huge pages. A small ledger has more resident memory with them than it
/// uses: 26 MiB when it is ready. A large one is read some 15 % quicker with them.
///
/// Affects memory that is written for the first time after this call.
pub(crate) fn avoid_huge_pages() {
    if std::env::var_os(ALLOCATOR_SWITCH).is_some() {
        return;
    }
    #[cfg(target_os = "linux")]
    if let Err(err) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%err, "huge pages stay as the system gives them");
    }
}

/// An IP address, or the first one of a name.
pub(crate) fn resolve_address(text: &str) -> Result<IpAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = (text, 0).to_socket_addrs().map_err(|err| err.to_string())?.next();
    found.map(|address| address.ip()).ok_or_else(|| "the name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_second_node_gets_another_port_for_grpc_unless_it_names_one() {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = bind_grpc(ip, GrpcPort::Exactly(0)).expect("a free port");
        let taken = first.local_addr().expect("it is bound").port();
        let second = bind_grpc(ip, GrpcPort::Preferably(taken)).expect("another port");
        assert_ne!(second.local_addr().expect("it is bound").port(), taken);
        let refused = bind_grpc(ip, GrpcPort::Exactly(taken)).expect_err("it is taken");
        assert!(format!("{refused:#}").contains("--grpc-port"), "{refused:#}");
    }

    #[test]
    fn the_last_port_has_none_after_it_for_websocket() {
        let last = RpcPorts { rpc: u16::MAX, pubsub: None };
        let refused = bind_rpc(IpAddr::V4(Ipv4Addr::LOCALHOST), last).expect_err("no port is left");
        assert!(refused.to_string().starts_with("--rpc-port 65535: "), "{refused:#}");
    }
}

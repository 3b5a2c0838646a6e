//! Settings of every node's servers: the drain at its end, TLS, the admin listeners, the address of metrics.

use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_server::AllowedOrigins;
use localnet::ADMIN_SOCKET;

use crate::node::flags::ServingFlags;
use crate::tls_files::TlsFiles;

/// Seconds that requests have when the node ends.
const DRAIN_SECONDS_DEFAULT: u64 = 10;
/// An hour: what no request needs.
pub(crate) const DRAIN_SECONDS_MAX: u64 = 3_600;

pub(crate) struct ServingOptions {
    /// Time after the first signal in which everything is still served.
    pub(crate) drain_delay: Duration,
    /// Time that requests have to finish when the node ends.
    pub(crate) drain: Duration,
    pub(crate) admin_socket: Option<AdminSocketPath>,
    pub(crate) admin_address: Option<SocketAddr>,
    /// The address of `/metrics`. `None`: the port of JSON-RPC.
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) tls: Option<Arc<TlsFiles>>,
}

/// The path of the admin socket.
pub(crate) enum AdminSocketPath {
    /// The user named it: the node does not start without it.
    Named(PathBuf),
    /// The default of a ledger in a directory: a node starts without it.
    Default(PathBuf),
}

impl Default for ServingOptions {
    /// No administration and no TLS, with the default drain.
    fn default() -> Self {
        Self {
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(DRAIN_SECONDS_DEFAULT),
            admin_socket: None,
            admin_address: None,
            metrics_address: None,
            tls: None,
        }
    }
}

impl ServingOptions {
    /// The settings of flags, checked, for a node whose ledger is in the directory, if it is in one. Reads the files of
    /// TLS.
    pub(crate) fn from_flags(flags: &ServingFlags, ledger: Option<&Path>) -> Result<Self> {
        let seconds = flags.drain_seconds.unwrap_or(DRAIN_SECONDS_DEFAULT);
        let delay = flags.drain_delay.unwrap_or(0);
        if let Some(address) = flags.admin_address {
            ensure!(
                address.ip().is_loopback(),
                "--admin-address {address}: must be a loopback address, because a program that reaches it can end the node"
            );
        }
        if let Some(path) = &flags.admin_socket {
            // It has a maximum length.
            UnixAddress::from_pathname(path)
                .with_context(|| format!("--admin-socket {}", path.display()))?;
        }
        let tls = TlsFiles::from_flags(flags.tls_cert.as_deref(), flags.tls_key.as_deref())?;
        let named = flags.admin_socket.clone().map(AdminSocketPath::Named);
        let default = || ledger.map(|dir| AdminSocketPath::Default(dir.join(ADMIN_SOCKET)));
        Ok(Self {
            drain_delay: Duration::from_secs(delay),
            drain: Duration::from_secs(seconds),
            admin_socket: named.or_else(default),
            admin_address: flags.admin_address,
            metrics_address: flags.metrics_address,
            tls: tls.map(Arc::new),
        })
    }
}

/// The origins and names of `--allow-origin` and `--allow-host`, and the name of the machine.
pub(crate) fn allowed_origins(origins: &[String], hosts: &[String]) -> Result<AllowedOrigins> {
    let origins = AllowedOrigins::new(origins).context("--allow-origin")?;
    let mut names = hosts.to_vec();
    let checked = origins.clone().with_hosts(&names).context("--allow-host")?;
    // A machine may have a name that is not the name of a host.
    names.extend(machine_name());
    Ok(origins.with_hosts(&names).unwrap_or(checked))
}

/// Returns the machine's name, which belongs to no site. A service may have no `/proc/sys` to read it from.
fn machine_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok().map(str::to_owned);
    name.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flags: &ServingFlags) -> String {
        match ServingOptions::from_flags(flags, None) {
            Ok(_) => panic!("it was accepted"),
            Err(err) => format!("{err:#}"),
        }
    }

    #[test]
    fn invalid_flags_are_refused_by_name() {
        let some = || Some(PathBuf::from("/nowhere"));
        let none = ServingFlags::default;
        let public = Some(([0, 0, 0, 0], 9_000).into());
        let admin = refusal(&ServingFlags { admin_address: public, ..none() });
        assert!(admin.contains("--admin-address 0.0.0.0:9000: must be a loopback"), "{admin}");
        let cert = refusal(&ServingFlags { tls_cert: some(), ..none() });
        assert_eq!(cert, "--tls-cert needs --tls-key");
        let key = refusal(&ServingFlags { tls_key: some(), ..none() });
        assert_eq!(key, "--tls-key needs --tls-cert");
        let both = refusal(&ServingFlags { tls_cert: some(), tls_key: some(), ..none() });
        assert!(both.contains("--tls-cert: /nowhere: No such file"), "{both}");
        let host = allowed_origins(&[], &["node.example:8899".to_owned()]).expect_err("a port");
        assert!(format!("{host:#}").contains("--allow-host: \"node.example:8899\" is not"));
    }

    #[test]
    fn the_name_of_the_machine_is_that_of_the_kernel() {
        let expected = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        assert_eq!(machine_name().as_deref(), Some(expected.trim()));
    }

    #[test]
    fn a_ledger_in_a_directory_has_a_socket_there() {
        let socket = |flags: &ServingFlags, ledger| {
            ServingOptions::from_flags(flags, ledger).expect("valid").admin_socket
        };
        let none = ServingFlags::default();
        let ledger = Some(Path::new("/ledger"));
        assert!(socket(&none, None).is_none());
        let default = socket(&none, ledger);
        let path = Path::new("/ledger/admin.sock");
        assert!(matches!(default, Some(AdminSocketPath::Default(at)) if at == path));
        let admin_socket = Some(PathBuf::from("/run/node.sock"));
        let named = socket(&ServingFlags { admin_socket: admin_socket.clone(), ..none }, ledger);
        assert!(
            matches!(named, Some(AdminSocketPath::Named(at)) if Some(&at) == admin_socket.as_ref())
        );
    }
}

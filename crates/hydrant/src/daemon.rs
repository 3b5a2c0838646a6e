//! A node that runs in the background: `surfpool start --daemon`.
//!
//! In: the address of its JSON-RPC. Out: a line with its process id, when it accepts connections there.
//! Shape: the program starts itself once more, without [`FLAG`], in a process group of its own, so that a signal of the
//! terminal does not end it. It has no standard streams.
//! Bounds: [`READY_TIMEOUT`].

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::console::{now, print_line};

/// The flag that the process in the background does not have.
const FLAG: &str = "--daemon";
/// Until the process accepts connections.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit of one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts this program in the background. The flags have been checked.
pub(crate) fn start(ip: Option<IpAddr>, port: Option<u16>) -> Result<()> {
    let (Some(ip), Some(port)) = (ip, port.filter(|port| *port != 0)) else {
        bail!("{FLAG} needs a --port that is not 0: there is no output that names another one");
    };
    let address = SocketAddr::new(ip, port);
    ensure!(!is_open(address), "another program listens on {address} (--host, --port)");
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("surfpool"));
    let mut command = Command::new(std::env::current_exe().context("this program's file")?);
    // Scripts find the process by its name.
    command.arg0(name).args(args.filter(|arg| arg != FLAG)).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("start the process in the background")?;
    if let Err(err) = wait_until_ready(&mut child, address) {
        // It may have ended already.
        let _ = child.kill();
        return Err(err);
    }
    print_line(&format!("Runs in the background as process {}", child.id()));
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process is ready when it accepts a connection"
)]
fn wait_until_ready(child: &mut Child, address: SocketAddr) -> Result<()> {
    let started = now();
    while !is_open(address) {
        if let Some(status) = child.try_wait().context("wait for the process")? {
            bail!("the process in the background ended: {status}; without {FLAG} it says why");
        }
        ensure!(started.elapsed() < READY_TIMEOUT, "not ready after {READY_TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()
}

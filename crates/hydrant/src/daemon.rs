//! A node that runs in the background: `surfpool start --daemon`.
//!
//! In: the address of its JSON-RPC. Out: a line with its process id, when its `/ready` responds there; or the error with
//! which it ended.
//! Shape: the program starts itself once more, without [`FLAG`], in a process group of its own, so that a signal of the
//! terminal does not end it. It has no standard streams, except that its standard error is read here until it is ready.
//! Bounds: [`READY_TIMEOUT`], [`OUTPUT_BYTES_MAX`].

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::console::{now, print_line};
use crate::node::flags::ListenFlags;

/// The flag that the process in the background does not have.
const FLAG: &str = "--daemon";
/// Time limit of the start. A fork waits for its cluster.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two requests.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit of a connection, and of a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of the output of a process that has ended.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// The start of the response of a node that is ready.
const READY_HEAD: &[u8; 12] = b"HTTP/1.1 200";

/// Starts this program in the background, and waits until it is ready. The flags have been checked.
pub(crate) fn start(listen: &ListenFlags, is_logged: bool) -> Result<()> {
    let ListenFlags { bind_address: Some(ip), rpc_port: Some(port @ 1..), .. } = *listen else {
        bail!("{FLAG} needs a --port that is not 0: there is no output that names another one");
    };
    let address = SocketAddr::new(ip, port);
    ensure!(!is_open(address), "another program listens on {address} (--host, --port)");
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("surfpool"));
    let mut command = Command::new(std::env::current_exe().context("this program's file")?);
    // Scripts find the process by its name.
    command.arg0(name).args(args.filter(|arg| arg != FLAG)).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // A log has no reader after the start.
    command.stderr(if is_logged { Stdio::null() } else { Stdio::piped() });
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
    reason = "another process is ready when it says so to a request"
)]
fn wait_until_ready(child: &mut Child, address: SocketAddr) -> Result<()> {
    let started = now();
    while !is_ready(address) {
        if let Some(status) = child.try_wait().context("wait for the process")? {
            let Some(err) = read_error(child) else {
                bail!("the process in the background ended: {status}; without {FLAG} it says why");
            };
            bail!("the process in the background ended: {err}");
        }
        ensure!(started.elapsed() < READY_TIMEOUT, "not ready after {READY_TIMEOUT:?}");
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Returns the error with which the process ended: its last line on standard error with the name of the program.
fn read_error(child: &mut Child) -> Option<String> {
    let mut bytes = Vec::new();
    let read = child.stderr.take()?.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    let output = format!("\n{}", String::from_utf8_lossy(&bytes));
    let (_, err) = output.rsplit_once("\nhydrant: ")?;
    read.is_ok().then(|| err.trim_end().to_owned())
}

fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, REQUEST_TIMEOUT).is_ok()
}

/// Whether `/ready` has the status 200. A node that starts accepts connections, and does not respond yet.
fn is_ready(address: SocketAddr) -> bool {
    let status = || {
        let mut socket = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT)?;
        socket.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        write!(socket, "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; READY_HEAD.len()];
        socket.read_exact(&mut head).map(|()| head)
    };
    status().is_ok_and(|head: [u8; READY_HEAD.len()]| head == *READY_HEAD)
}

//! Notifications to the service manager: ready, alive, stopping. The protocol is systemd's sd_notify(3).
//!
//! In: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` of the environment. Out: a datagram for each change.
//! Shape: without `NOTIFY_SOCKET` every call does nothing. `WATCHDOG=1` is sent by an I/O thread, so a node whose I/O
//! threads hang is not reported as alive.
//! Invariant: a datagram that cannot be sent is logged, and the node continues. The socket never blocks.
//! Not here: the decision that the node is alive (`node::running`).

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::console::print_stderr;

/// The variable with the socket of the service manager.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The service manager of the process, if it has one.
pub(crate) struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Watchdog>,
}

/// The time at which the next `WATCHDOG=1` is due.
struct Watchdog {
    interval: Duration,
    sent: Option<Instant>,
}

impl ServiceManager {
    /// The service manager that the environment names. A socket that cannot be opened is reported on standard error.
    pub(crate) fn from_environment() -> Self {
        let Some(name) = std::env::var_os(SOCKET_VARIABLE) else { return Self::none() };
        let socket = match connect(&name) {
            Ok(socket) => Arc::new(socket),
            Err(err) => {
                print_stderr(&format!(
                    "hydrant: {SOCKET_VARIABLE} {}: {err}; the service manager is not notified",
                    name.display()
                ));
                return Self::none();
            }
        };
        let variable = |name: &str| std::env::var(name).ok();
        let usec = variable("WATCHDOG_USEC");
        let pid = variable("WATCHDOG_PID");
        let interval = watchdog_interval(usec.as_deref(), pid.as_deref(), std::process::id());
        let watchdog = interval.map(|interval| Watchdog { interval, sent: None });
        Self { socket: Some(socket), watchdog }
    }

    /// Whether the environment names a service manager.
    pub(crate) fn is_present() -> bool {
        std::env::var_os(SOCKET_VARIABLE).is_some()
    }

    /// Returns a service manager that ignores notifications.
    pub(crate) fn none() -> Self {
        Self { socket: None, watchdog: None }
    }

    /// Reports that the node serves, with a line about it.
    pub(crate) fn notify_ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that the node stops.
    pub(crate) fn notify_stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Stopping");
    }

    /// Reports that the node is alive, if it is and if that is due. It runs in the runtime of the I/O threads.
    pub(crate) fn notify_alive(&mut self, is_alive: bool, now: Instant) {
        let (Some(socket), Some(watchdog)) = (&self.socket, &mut self.watchdog) else { return };
        if is_alive && watchdog.take_due(now) {
            let socket = Arc::clone(socket);
            // Not awaited: a thread that hangs must not make this one hang.
            drop(tokio::spawn(async move { send(&socket, "WATCHDOG=1") }));
        }
    }

    fn send(&self, state: &str) {
        if let Some(socket) = &self.socket {
            send(socket, state);
        }
    }
}

impl Watchdog {
    /// Whether it is due at `now`. If so, it counts as sent.
    fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.sent.is_none_or(|sent| now.duration_since(sent) >= self.interval);
        if is_due {
            self.sent = Some(now);
        }
        is_due
    }
}

fn send(socket: &UnixDatagram, state: &str) {
    if let Err(err) = socket.send(state.as_bytes()) {
        tracing::warn!(%err, state, "the service manager was not notified");
    }
}

/// A socket that sends to `name`: a path, or on Linux an abstract name after `@`.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match name.as_encoded_bytes().strip_prefix(b"@") {
        Some(abstract_name) => connect_abstract(&socket, abstract_name)?,
        None => socket.connect(name)?,
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &[u8]) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &[u8]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract names"))
}

/// Half the time that the service manager waits, as sd_watchdog_enabled(3) recommends. `None`: it does not wait for
/// this process.
fn watchdog_interval(usec: Option<&str>, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    let is_for_other = pid.is_some_and(|pid| pid.parse() != Ok(own_pid));
    let usec: u64 = usec?.parse().ok()?;
    (!is_for_other && usec > 0).then(|| Duration::from_micros(usec) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::now;

    #[test]
    fn the_watchdog_is_due_at_once_and_then_after_half_of_its_time() {
        let interval = watchdog_interval(Some("2000000"), None, 7).expect("it is on");
        let mut watchdog = Watchdog { interval, sent: None };
        let start = now();
        let after = |ms: u64| start + Duration::from_millis(ms);
        let due = [0, 999, 1_000, 1_999, 2_000].map(|ms| watchdog.take_due(after(ms)));
        assert_eq!(due, [true, false, true, false, true]);
    }

    #[test]
    fn a_watchdog_of_another_process_and_a_time_that_is_none_are_ignored() {
        assert_eq!(watchdog_interval(Some("4000000"), Some("7"), 7), Some(Duration::from_secs(2)));
        assert_eq!(watchdog_interval(Some("4000000"), Some("8"), 7), None);
        assert_eq!(watchdog_interval(Some("0"), None, 7), None);
        assert_eq!(watchdog_interval(Some("soon"), None, 7), None);
        assert_eq!(watchdog_interval(None, Some("7"), 7), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_name_is_connected() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("hydrant-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
        let receiver = UnixDatagram::bind_addr(&address).expect("it is free");
        let sender = connect(format!("@{name}").as_ref()).expect("it is bound");
        send(&sender, "READY=1");
        let mut datagram = [0; 64];
        let length = receiver.recv(&mut datagram).expect("it was sent");
        assert_eq!(&datagram[..length], b"READY=1");
    }
}

//! A connection that can be cut: it listens, and passes bytes on to another address and back.
//!
//! Bounds: two threads for each connection; both end with it.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
#[cfg(target_os = "linux")]
use socket2::SockRef;

type Connections = Arc<Mutex<Vec<TcpStream>>>;

/// A proxy between the validator and the follower that can cut their connections.
pub(crate) struct Wire {
    address: SocketAddr,
    connections: Connections,
}

impl Wire {
    /// Listens on a free port, and forwards to `to`.
    pub(crate) fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let connections = Connections::default();
        let of_thread = Arc::clone(&connections);
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                // Without the other side the connection ends: the follower tries again.
                let Ok(other) = TcpStream::connect(to) else { continue };
                let _ = pass_on(&from, &other, &of_thread);
            }
        });
        Ok(Self { address, connections })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections. Returns their number.
    pub(crate) fn cut(&self) -> usize {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.drain(..).filter(|it| it.shutdown(Shutdown::Both).is_ok()).count()
    }
}

/// A connection that acknowledges received bytes at once. A server without `TCP_NODELAY`, such as kaspad, sends its
/// next short message only then, and the system may delay an acknowledgement by 40 ms. The option lasts until the system
/// delays one, so it is set after each read, as on Hydrant's own connections (`http_client`). A failure only
/// delays messages.
struct QuickAckSocket(TcpStream);

impl Read for QuickAckSocket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&self.0).set_tcp_quickack(true);
        Ok(read)
    }
}

fn pass_on(one: &TcpStream, two: &TcpStream, connections: &Connections) -> Result<()> {
    for (from, to) in [(one, two), (two, one)] {
        // As both ends do. Otherwise a short message would wait for an acknowledgement, some 40 ms.
        to.set_nodelay(true)?;
        let mut from = QuickAckSocket(from.try_clone()?);
        let mut to = to.try_clone()?;
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = (from.0.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    let mut all = connections.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|it| it.peer_addr().is_ok());
    all.push(one.try_clone()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_pass_until_the_wire_is_cut() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let wire = Wire::start(listener.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(wire.address()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"there").unwrap();
        server.write_all(b"back!").unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"there");
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"back!");
        assert_eq!(wire.cut(), 1);
        assert_eq!(client.read(&mut bytes).unwrap(), 0);
        assert_eq!(server.read(&mut bytes).unwrap(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn each_read_acknowledges_its_bytes_at_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = QuickAckSocket(listener.accept().unwrap().0);
        for message in [b"first", b"again"] {
            // As the system does once the program has replied to a message.
            SockRef::from(&server.0).set_tcp_quickack(false).unwrap();
            assert!(!SockRef::from(&server.0).tcp_quickack().unwrap());
            client.write_all(message).unwrap();
            let mut bytes = [0; 5];
            server.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, message);
            assert!(SockRef::from(&server.0).tcp_quickack().unwrap());
        }
    }
}

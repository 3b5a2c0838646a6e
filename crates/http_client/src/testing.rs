//! For tests of clients: a small server, and a runtime for one future. Feature `testing`.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Calls `answer` with each short request of each connection and the socket for the response. The
/// connection is closed once `answer` returns false.
pub fn serve(
    answer: impl Fn(&[u8], &mut TcpStream) -> bool + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let answer = answer.clone();
            let mut socket = socket.expect("a connection");
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                // Ends with the client, which sends one short request at a time.
                while let Ok(read @ 1..) = socket.read(&mut request) {
                    if !answer(&request[..read], &mut socket) {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Sends a response of this status and body.
pub fn respond(socket: &mut TcpStream, status: u16, body: &str) -> bool {
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
    std::io::Write::write_all(socket, answer.as_bytes()).is_ok()
}

/// Answers requests over any stream until the client closes it.
pub fn respond_to<S: Read + std::io::Write>(stream: &mut S, answer: impl Fn(&str) -> String) {
    let mut request = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut request) {
        let body = answer(&String::from_utf8_lossy(&request[..read]));
        let length = body.len();
        let text = format!("HTTP/1.1 200 X\r\nContent-Length: {length}\r\n\r\n{body}");
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Runs one future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

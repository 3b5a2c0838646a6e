//! The RPC port of a node that serves snapshot archives, as Agave's does: it redirects to the newest ones.
//!
//! In: files of archives. Out: they are served under their names, and named by `/snapshot.tar.bz2` and
//! `/incremental-snapshot.tar.bz2`.
//! Bounds: one request a connection, one connection at a time; a file is in memory while it is sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The archives that a port serves. Clones are the same port.
#[derive(Clone, Default)]
pub struct ArchiveServer(Arc<Mutex<[Option<PathBuf>; 2]>>);

impl ArchiveServer {
    /// Serves on a free port of the loopback. The thread ends with the process.
    pub fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = self.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(mut socket) = socket else { return };
                let Some(path) = requested_path(&mut socket) else { continue };
                // The client may have gone.
                let _ = socket.write_all(&server.response(&path));
            }
        });
        address
    }

    /// Replaces the newest full and the newest incremental archive.
    pub fn set(&self, full: Option<&Path>, incremental: Option<&Path>) {
        *self.0.lock() = [full, incremental].map(|path| path.map(Path::to_owned));
    }

    fn response(&self, path: &str) -> Vec<u8> {
        let archives = self.0.lock().clone();
        let [full, incremental] = archives.each_ref().map(|file| file.as_deref().and_then(name_of));
        let redirect = |name: Option<&str>| {
            let name = name?;
            Some(response("303 See Other", &format!("Location: /{name}\r\n"), b""))
        };
        let found = match path {
            "/snapshot.tar.bz2" => redirect(full),
            "/incremental-snapshot.tar.bz2" => redirect(incremental),
            _ => {
                let mut files = archives.iter().flatten();
                let file = files.find(|file| path.strip_prefix('/') == name_of(file));
                let body = file.and_then(|file| std::fs::read(file).ok());
                body.map(|body| response("200 OK", "", &body))
            }
        };
        found.unwrap_or_else(|| response("404 Not Found", "", b""))
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn requested_path(socket: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).ok()?;
    request.split(' ').nth(1).map(str::to_owned)
}

fn response(status: &str, header: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{header}\r\n"
    );
    [head.as_bytes(), body].concat()
}

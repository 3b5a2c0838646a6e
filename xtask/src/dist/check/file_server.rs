//! A release on the loopback address, over HTTP/1.1: what users download, without a network.
//!
//! Shape: `GET` of the files of a tree. A thread serves one connection after another, each with one request, until this
//! program ends.
//! Bounds: [`HEAD_BYTES_MAX`] for a request, [`TIMEOUT`] for each read and write.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dist::file_tree::FileTree;
use crate::dist::program::VERSION;

const HEAD_BYTES_MAX: u64 = 16_384;
const TIMEOUT: Duration = Duration::from_secs(20);
/// URL path of the folder of all releases.
const RELEASES: &str = "releases/download";

/// An address at which nothing is served yet.
pub(crate) struct FileServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl FileServer {
    pub(crate) fn bind() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a server")?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the URL of the root.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL below which releases are.
    pub(crate) fn release_url(&self) -> String {
        format!("{}/{RELEASES}", self.url())
    }

    /// Serves `files` as the release of the current version.
    pub(crate) fn serve(self, files: &FileTree) {
        let mut served = FileTree::default();
        served.insert_tree(&format!("{RELEASES}/v{VERSION}/"), files);
        std::thread::spawn(move || {
            for socket in self.listener.incoming().flatten() {
                // A client that has ended early reports that itself.
                let _ = respond(&socket, &served);
            }
        });
    }
}

fn respond(mut socket: &TcpStream, served: &FileTree) -> Result<()> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    let mut lines = BufReader::new(socket.take(HEAD_BYTES_MAX)).lines();
    let request = lines.next().context("no request")??;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let file = served.files().find(|(name, _)| *name == path).map(|(_, bytes)| bytes);
    let status = if file.is_some() { "200 OK" } else { "404 Not Found" };
    let body = file.map(|bytes| &bytes[..]).unwrap_or_default();
    write!(
        socket,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    socket.write_all(body)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::json_rpc;

    #[test]
    fn only_release_files_are_served() {
        let mut files = FileTree::default();
        files.insert_file("a.txt", *b"abc");
        let server = FileServer::bind().unwrap();
        let address = server.address;
        server.serve(&files);
        let path = |name: &str| format!("/{RELEASES}/v{VERSION}/{name}");
        assert_eq!(json_rpc::get(address, &path("a.txt")).unwrap(), "abc");
        let missing = json_rpc::get(address, &path("b.txt")).unwrap_err();
        assert!(missing.to_string().contains("404"), "{missing}");
    }
}

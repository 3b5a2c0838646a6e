//! A request to JetStream's API over one connection: enough to delete a stream.
//!
//! Bounds: [`TIMEOUT`] for each line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::log_servers::CREDENTIALS;

/// Time limit for a server that sends nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The subject of the reply.
const INBOX: &str = "_INBOX.cluster";

/// Deletes a stream.
pub(crate) fn delete_stream(server: SocketAddr, name: &str) -> Result<()> {
    let reply = request(server, &format!("$JS.API.STREAM.DELETE.{name}"))?;
    ensure!(reply["success"] == true, "{name} is not deleted: {reply}");
    Ok(())
}

fn request(server: SocketAddr, subject: &str) -> Result<Value> {
    let mut socket = TcpStream::connect_timeout(&server, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let (user, password) = CREDENTIALS.split_once(':').context("user and password")?;
    let options = json!({"verbose": false, "pedantic": false, "user": user, "pass": password});
    write!(socket, "CONNECT {options}\r\nSUB {INBOX} 1\r\nPUB {subject} {INBOX} 0\r\n\r\n")?;
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "the server closed the connection");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["MSG", .., bytes] => {
                let mut payload = vec![0; bytes.parse().with_context(|| line.clone())?];
                reader.read_exact(&mut payload)?;
                return serde_json::from_slice(&payload).context("the reply of JetStream");
            }
            ["PING"] => write!(socket, "PONG\r\n")?,
            ["-ERR", ..] => bail!("{}", line.trim()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_reply_is_read_after_other_lines() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let reply = r#"{"success":true}"#;
            write!(socket, "INFO {{}}\r\nPING\r\nMSG {INBOX} 1 {}\r\n{reply}\r\n", reply.len())
                .unwrap();
            let mut read = String::new();
            socket.read_to_string(&mut read).unwrap();
            read
        });
        delete_stream(address, "hydrant-local-1").unwrap();
        let sent = server.join().unwrap();
        assert!(
            sent.contains("PUB $JS.API.STREAM.DELETE.hydrant-local-1 _INBOX.cluster 0\r\n"),
            "{sent}"
        );
        assert!(sent.ends_with("PONG\r\n"), "{sent}");
    }
}

//! Archives from an upstream's RPC port, and transactions to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use follow::{DownloadError, DownloadProgress, download};
use loadgen::Endpoint;

/// Answers each request by its first line, one request a connection.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let Some(line) = first_line(&mut socket) else { continue };
            // The client may have gone.
            let _ = socket.write_all(&answer(&line));
        }
    });
    address
}

fn first_line(socket: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    String::from_utf8(request).ok()?.lines().next().map(str::to_owned)
}

fn response(status: &str, header: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{header}\r\n"
    );
    [head.as_bytes(), body].concat()
}

const NAME: &str = "snapshot-100-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.zst";

#[tokio::test]
async fn an_archive_is_downloaded_through_its_redirect_and_not_twice() {
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let served = body.clone();
    let address = serve(move |line| match line {
        "GET /snapshot.tar.bz2 HTTP/1.1" => {
            response("303 See Other", &format!("Location: /{NAME}\r\n"), b"")
        }
        _ => response("200 OK", "", &served),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let progress = DownloadProgress::default();
    for _ in 0..2 {
        let path = download(&Endpoint::from(address), dir.path(), &progress).await;
        let path = path.expect("an archive");
        assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(NAME));
        assert_eq!(std::fs::read(path).expect("the file"), body);
        assert_eq!((progress.bytes(), progress.bytes_total()), (1_000_000, 1_000_000));
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

#[tokio::test]
async fn an_upstream_without_archives_or_with_other_files_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let progress = DownloadProgress::default();
    let none = serve(|_| response("404 Not Found", "", b""));
    let found = download(&Endpoint::from(none), dir.path(), &progress).await;
    assert!(matches!(found, Err(DownloadError::Status { status: 404, .. })), "{found:?}");
    let other = serve(|_| response("303 See Other", "Location: /../../etc/passwd\r\n", b""));
    let found = download(&Endpoint::from(other), dir.path(), &progress).await;
    assert!(matches!(found, Err(DownloadError::Name { .. })), "{found:?}");
    let circle = serve(|_| response("303 See Other", &format!("Location: /{NAME}\r\n"), b""));
    let found = download(&Endpoint::from(circle), dir.path(), &progress).await;
    assert!(matches!(found, Err(DownloadError::Name { .. })), "{found:?}");
}

#[tokio::test]
async fn half_an_archive_is_an_error_and_leaves_no_file() {
    let address = serve(move |line| match line {
        "GET /snapshot.tar.bz2 HTTP/1.1" => {
            response("303 See Other", &format!("Location: /{NAME}\r\n"), b"")
        }
        _ => response("200 OK", "", &[7; 1_000])[..500].to_vec(),
    });
    let dir = tempfile::tempdir().expect("a directory");
    let found = download(&Endpoint::from(address), dir.path(), &DownloadProgress::default()).await;
    assert!(matches!(found, Err(DownloadError::Http { .. })), "{found:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

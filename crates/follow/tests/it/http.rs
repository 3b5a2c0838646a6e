//! Archives from an upstream's RPC port, and transactions to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use follow::{ArchiveKind, DownloadError, DownloadLimits, DownloadProgress, UpstreamFacts};

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

async fn download(
    upstream: SocketAddr,
    dir: &Path,
    progress: &DownloadProgress,
) -> Result<PathBuf, DownloadError> {
    download_within(upstream, dir, DownloadLimits::default(), progress).await
}

async fn download_within(
    upstream: SocketAddr,
    dir: &Path,
    limits: DownloadLimits,
    progress: &DownloadProgress,
) -> Result<PathBuf, DownloadError> {
    follow::download(&upstream.into(), ArchiveKind::Full, dir, &limits, progress).await
}

#[test]
fn an_upstream_whose_genesis_hash_is_long_is_refused_without_printing_it() {
    let error = |body: Vec<u8>| {
        let upstream = serve(move |_| response("200 OK", "", &body));
        let err = UpstreamFacts::request(&upstream.into()).expect_err("it is no hash");
        err.to_string()
    };
    assert_eq!(error(vec![b'x'; 1 << 20]), "the response has more than 65536 bytes");
    let text = error(vec![b'x'; 60_000]);
    assert!(text.starts_with("getGenesisHash: HTTP 200: xxx") && text.len() < 5_000, "{text}");
    let hash = format!(r#"{{"result":"{}"}}"#, "y".repeat(60_000));
    let text = error(hash.into_bytes());
    assert!(text.starts_with("getGenesisHash: no hash: \"yyy") && text.len() < 400, "{text}");
    let refusal = format!(r#"{{"error":{{"code":1,"message":"{}"}}}}"#, "z".repeat(60_000));
    let text = error(refusal.into_bytes());
    assert!(text.contains("zzz") && text.len() < 5_000, "{text}");
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
        let path = download(address, dir.path(), &progress).await;
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
    let found = download(none, dir.path(), &progress).await;
    assert!(matches!(found, Err(DownloadError::Status { status: 404, .. })), "{found:?}");
    let other = serve(|_| response("303 See Other", "Location: /../../etc/passwd\r\n", b""));
    let found = download(other, dir.path(), &progress).await;
    assert!(matches!(found, Err(DownloadError::Name { .. })), "{found:?}");
    let circle = serve(|_| response("303 See Other", &format!("Location: /{NAME}\r\n"), b""));
    let found = download(circle, dir.path(), &progress).await;
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
    let found = download(address, dir.path(), &DownloadProgress::default()).await;
    assert!(matches!(found, Err(DownloadError::Http { .. })), "{found:?}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

/// A server that redirects, and then responds with this head, and with this body in a loop until the client has gone.
fn serve_endless(head: &'static str, body: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let Some(line) = first_line(&mut socket) else { continue };
            if line.starts_with("GET /snapshot.tar.bz2") {
                let redirect = response("303 See Other", &format!("Location: /{NAME}\r\n"), b"");
                let _ = socket.write_all(&redirect);
                continue;
            }
            let mut sent = socket.write_all(head.as_bytes());
            while sent.is_ok() && !body.is_empty() {
                sent = socket.write_all(body);
            }
            // It says nothing more until the client has gone.
            let _ = socket.read(&mut [0]);
        }
    });
    address
}

#[tokio::test]
async fn an_archive_without_end_is_refused_at_the_limit() {
    const CHUNK: &[u8] = &{
        let mut chunk = [b'x'; 4_096 + 8];
        (chunk[0], chunk[1], chunk[2], chunk[3]) = (b'1', b'0', b'0', b'0');
        (chunk[4], chunk[5]) = (b'\r', b'\n');
        (chunk[4_102], chunk[4_103]) = (b'\r', b'\n');
        chunk
    };
    let limits = DownloadLimits { bytes_max: 1 << 20, ..DownloadLimits::default() };
    let dir = tempfile::tempdir().expect("a directory");
    for (head, bytes_min) in [
        // A declared length of a terabyte, and endless chunks.
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", 1_000_000_000_000),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 1 << 20),
    ] {
        let address = serve_endless(head, CHUNK);
        let progress = DownloadProgress::default();
        match download_within(address, dir.path(), limits, &progress).await {
            Err(DownloadError::TooLarge { bytes, limit, .. }) => {
                assert!(bytes >= bytes_min && limit == 1 << 20, "{bytes}");
            }
            other => panic!("{other:?}"),
        }
        assert!(progress.bytes() < 2 << 20, "{}", progress.bytes());
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
}

#[tokio::test]
async fn a_download_that_stalls_ends() {
    let limits =
        DownloadLimits { stall_timeout: Duration::from_millis(200), ..DownloadLimits::default() };
    let dir = tempfile::tempdir().expect("a directory");
    for head in ["HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin", ""] {
        let address = serve_endless(head, b"");
        let progress = DownloadProgress::default();
        let found = download_within(address, dir.path(), limits, &progress).await;
        assert!(matches!(found, Err(DownloadError::Stalled { .. })), "{found:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }
}

#[tokio::test]
async fn an_incremental_archive_is_no_full_one() {
    let name = "incremental-snapshot-100-150-4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi.tar.zst";
    let address = serve(move |_| response("303 See Other", &format!("Location: /{name}\r\n"), b""));
    let dir = tempfile::tempdir().expect("a directory");
    let found = download(address, dir.path(), &DownloadProgress::default()).await;
    assert!(matches!(found, Err(DownloadError::Name { .. })), "{found:?}");
    let limits = DownloadLimits::default();
    let found = follow::newest_archive(&address.into(), ArchiveKind::Incremental, &limits).await;
    let found = found.expect("a name");
    assert_eq!((found.base, found.slot), (Some(100), 150));
}

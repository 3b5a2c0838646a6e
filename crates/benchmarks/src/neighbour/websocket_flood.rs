//! A flood over WebSocket: sockets that send calls without waiting for replies, and count those.
//!
//! Shape: two threads for each socket. One writes the same frames until the socket is shut down; when the node does not read,
//! it waits. The other reads replies and counts those of refused calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use testkit::clock::now;

/// Frames of one write.
const FRAMES: usize = 32;
/// A socket on which nothing comes for so long has a node that hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The opcode of a text frame that is whole, and the bit of a mask.
const TEXT: u8 = 0x81;
const MASK: u8 = 0x80;
/// The code of a refused call in its reply.
const REFUSED: &[u8] = b"-32005";

/// Sockets that flood until they are stopped.
pub(super) struct WebSocketFlood {
    sockets: Vec<(TcpStream, JoinHandle<()>, JoinHandle<[u64; 2]>)>,
    started: Instant,
}

pub(super) struct Flooded {
    pub(super) admitted_per_s: f64,
    pub(super) refused_per_s: f64,
}

impl WebSocketFlood {
    /// Opens a number of sockets with a key, and sends a message on each again and again, from threads with a nice value.
    pub(super) fn start(
        address: SocketAddr,
        key: &str,
        message: &str,
        (sockets, nice): (usize, u8),
    ) -> Result<Self> {
        let frames = frame(message)?.repeat(FRAMES);
        let sockets = (0..sockets).map(|_| {
            let socket = connect(address, key)?;
            let mut writing = socket.try_clone()?;
            let reading = socket.try_clone()?;
            let frames = frames.clone();
            let writer = std::thread::spawn(move || {
                be_nice(nice);
                // It ends when the socket is shut down.
                while writing.write_all(&frames).is_ok() {}
            });
            let reader = std::thread::spawn(move || {
                be_nice(nice);
                count_replies(reading)
            });
            anyhow::Ok((socket, writer, reader))
        });
        let sockets = sockets.collect::<Result<_>>()?;
        Ok(Self { sockets, started: now() })
    }

    /// Ends all sockets.
    pub(super) fn stop(self) -> Result<Flooded> {
        let seconds = self.started.elapsed().as_secs_f64().max(f64::EPSILON);
        let mut sums = [0, 0];
        for (socket, ..) in &self.sockets {
            // It may be closed already: then its counts say so.
            let _ = socket.shutdown(Shutdown::Both);
        }
        let has_sockets = !self.sockets.is_empty();
        for (_, writer, reader) in self.sockets {
            writer.join().map_err(|_| anyhow!("a writing thread panicked"))?;
            let counts = reader.join().map_err(|_| anyhow!("a reading thread panicked"))?;
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        ensure!(!has_sockets || sums[1] > 0, "no message over WebSocket was refused");
        let [admitted_per_s, refused_per_s] = sums.map(|sum| sum as f64 / seconds);
        Ok(Flooded { admitted_per_s, refused_per_s })
    }
}

fn be_nice(nice: u8) {
    // On Linux this applies to this thread only. Raising the value is always allowed.
    let _ = rustix::process::setpriority_process(None, nice.into());
}

/// A socket after the handshake.
fn connect(address: SocketAddr, key: &str) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(address).context("connect to WebSocket")?;
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    socket.set_nodelay(true)?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nx-api-key: {key}\r\n\r\n"
    );
    socket.write_all(request.as_bytes())?;
    // The node sends nothing after its head before it gets a message.
    let mut head = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    head.read_line(&mut line)?;
    ensure!(line.starts_with("HTTP/1.1 101"), "no WebSocket: {line}");
    while line != "\r\n" {
        line.clear();
        ensure!(head.read_line(&mut line)? > 0, "the handshake ends within its head");
    }
    Ok(socket)
}

/// A message as a frame with the mask 0.
fn frame(message: &str) -> Result<Vec<u8>> {
    let length = u16::try_from(message.len()).context("a short message")?;
    let mut frame = vec![TEXT];
    match u8::try_from(length) {
        Ok(length @ ..126) => frame.push(MASK | length),
        _ => {
            frame.push(MASK | 126);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(message.as_bytes());
    Ok(frame)
}

/// Replies to admitted calls, and to refused ones, until the socket ends.
fn count_replies(socket: TcpStream) -> [u64; 2] {
    let mut socket = BufReader::with_capacity(64 << 10, socket);
    let mut counts = [0, 0];
    let mut payload = Vec::new();
    while let Ok(opcode) = read_frame(&mut socket, &mut payload) {
        if opcode == TEXT {
            let is_refused = payload.windows(REFUSED.len()).any(|bytes| bytes == REFUSED);
            counts[usize::from(is_refused)] += 1;
        }
    }
    counts
}

/// The first byte of the next frame.
fn read_frame(socket: &mut impl Read, payload: &mut Vec<u8>) -> std::io::Result<u8> {
    let mut head = [0; 2];
    socket.read_exact(&mut head)?;
    let length = match head[1] & !MASK {
        126 => {
            let mut length = [0; 2];
            socket.read_exact(&mut length)?;
            u16::from_be_bytes(length).into()
        }
        127 => {
            let mut length = [0; 8];
            socket.read_exact(&mut length)?;
            u64::from_be_bytes(length)
        }
        length => length.into(),
    };
    payload.clear();
    socket.take(length).read_to_end(payload)?;
    Ok(head[0])
}

//! A blocking HTTP/1.1 client: one request, one response, whole or in chunks, over the same connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http;

pub(crate) struct Client {
    address: SocketAddr,
    socket: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let socket =
            TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        socket.set_nodelay(true)?;
        let socket = BufReader::with_capacity(64 * 1024, socket);
        Ok(Self { address, socket, body: Vec::new() })
    }

    pub(crate) fn request(&self, method: &str, params: &Value) -> Vec<u8> {
        http::call(self.address, method, params)
    }

    /// Sends a request and returns the body of its response.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.socket.get_mut().write_all(request)?;
        self.body.clear();
        let status = self.line()?;
        let mut bytes = None;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", length)) => bytes = Some(length.trim().parse::<u64>()?),
                Some(_) => {}
            }
        }
        match bytes {
            Some(bytes) => self.read(bytes)?,
            None => self.read_chunks()?,
        }
        ensure!(status.contains(" 200 "), "{status}: {}", String::from_utf8_lossy(&self.body));
        Ok(&self.body)
    }

    fn read_chunks(&mut self) -> Result<()> {
        loop {
            let length = self.line()?;
            let length = length.split(';').next().unwrap_or_default();
            let length = u64::from_str_radix(length.trim(), 16).context("the length of a chunk")?;
            self.read(length)?;
            ensure!(self.line()?.is_empty(), "a chunk is longer than its length");
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn read(&mut self, bytes: u64) -> Result<()> {
        let read = self.socket.by_ref().take(bytes).read_to_end(&mut self.body)?;
        ensure!(read as u64 == bytes, "the connection was closed before its response was complete");
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.socket.read_line(&mut line)? == 0 {
            bail!("the connection was closed before its response was complete");
        }
        Ok(line.trim_end().to_owned())
    }
}

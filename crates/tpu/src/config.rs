//! The limits of the TPU port, each with its unit, its default and its cost.

use std::path::PathBuf;
use std::time::Duration;

/// The memory of an idle connection: the state of QUIC and TLS. Measured over 1,000 of them.
pub const CONNECTION_BYTES: u64 = 45_000;
/// The approximate memory of a stream's state. A connection has one for each stream that it had open at once.
pub const STREAM_BYTES: u64 = 400;

/// Limits of the port. Traffic that exceeds a limit is refused and counted by cause (see [`crate::DropReason`]).
///
/// Fields with `serde(skip)` have no key in the configuration file: only tests and benchmarks change them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Threads that read sockets, each with its own socket on the same port. Default 1. Memory: about
    /// 2 MiB each for the datagrams of one read, and the receive buffers below.
    pub shards: usize,
    /// Threads that check signatures. Default 1; a core checks some 20,000 a second.
    pub verify_threads: usize,

    /// Connections at once. Default 4,000. Memory: [`CONNECTION_BYTES`] each when idle; busy ones add the memory of
    /// `streams_max`.
    pub connections_max: usize,
    /// Connections from one address. Default 4,000: in a local network many clients share one
    /// address. A public node should set about 100.
    pub connections_per_address_max: usize,
    /// Connections of one identity (the key of the client's certificate). Default 16.
    pub connections_per_identity_max: usize,

    /// Streams open at once on one connection, at most. Default 512. Memory: [`STREAM_BYTES`] for each
    /// that was granted and used, for as long as the connection lives.
    #[serde(skip)]
    pub window_max: u32,
    /// Streams that a new connection may have open at once. Default 64: with transactions of 215 bytes or more, the
    /// first flight of a client's congestion control has no more. A quarter of its share if that is less, while
    /// connections are too many for a share of `window_max`. Smaller values slow the first burst of a client;
    /// larger ones cost memory and cache for each connection that sends. Identities in the weights file do not need it:
    /// they have their whole share at once.
    #[serde(skip)]
    pub window_initial: u32,
    /// Streams open at once on one connection, at least, however many connections share them. Default 16.
    #[serde(skip)]
    pub window_min: u32,
    /// Streams open at once on all connections. Default 131,072. Identities in the weights file
    /// share three quarters by weight, all others the rest. Without a file all share everything.
    /// Memory: [`STREAM_BYTES`] each, so 52 MB; `window_min` comes first. A connection keeps the states that it has used when
    /// its share shrinks, so clients that connect one after another and use their shares at once have up to
    /// four times as much (with 4,000 connections), until they disconnect.
    pub streams_max: usize,
    /// Bytes in flight to us on one connection. Default 1,048,576. Memory: in the worst case, where
    /// all data waits for a lost first packet, this for each connection.
    #[serde(skip)]
    pub receive_window_bytes: u32,

    /// Bytes of a transaction of version 1. Default 4,096. Older versions have 1,232.
    pub transaction_bytes_max: usize,
    /// Bytes of unfinished transactions of one shard. Default 33,554,432. One connection may use as
    /// much as is still free; a stream beyond that is stopped. Memory: as many bytes.
    pub unfinished_bytes_max: usize,
    /// Milliseconds from a stream's first frame to its end; it is then stopped. Default 10,000: a
    /// client on a bad line with 512 open streams needs some seconds to finish all of them.
    #[serde(skip)]
    pub stream_timeout_ms: u64,
    /// Broken or stalled streams in a minute, after which a connection is closed. Default 256.
    #[serde(skip)]
    pub broken_streams_max: u32,
    /// Milliseconds without a packet after which a connection is closed. Default 30,000.
    pub idle_timeout_ms: u64,

    /// Handshakes a second, all addresses together. Default 2,000: one costs 0.4 ms of a core.
    pub handshakes_per_second: u32,
    /// Handshakes a minute from one address, after a burst of the same number. Default 6,000. A
    /// public node should set about 60.
    pub handshakes_per_address_per_minute: u32,
    /// Handshakes under way at once. Default 1,024. Memory: about 45 KB each.
    #[serde(skip)]
    pub handshakes_max: usize,
    /// Handshakes under way above which a client must first prove its address with a retry token.
    /// Default 128; 0 requires a token of every client.
    #[serde(skip)]
    pub retry_above: usize,
    /// Milliseconds in which a handshake must be complete. Default 2,000.
    #[serde(skip)]
    pub handshake_timeout_ms: u64,

    /// Datagram buffers that one shard retains for reuse. Default 8,192. Memory: 2 KiB each, so 16
    /// MiB; released while idle. A buffer that still has live slices when it would be reused is
    /// replaced.
    #[serde(skip)]
    pub buffers_max: usize,
    /// Bytes of a socket's receive buffer to request; the system may grant less
    /// (`net.core.rmem_max`). Default 8,388,608. Memory: this for each shard, in the kernel.
    pub socket_bytes: usize,
    /// Microseconds in which datagrams gather while there is traffic. Default 150: adds this
    /// latency and saves a third of the CPU time. 0 reads at once.
    #[serde(skip)]
    pub gather_us: u64,
    /// Whether the kernel may hand over many datagrams of one sender as one. Default true.
    pub receive_offload: bool,

    /// Transactions that wait for signature verification. Default 16,384. When full, the newest
    /// transaction of the peer that has most waiting for its weight is refused. Memory: 2 KiB each,
    /// so 32 MiB.
    pub queue_max: usize,
    /// Milliseconds in which an equal transaction is refused unchecked. Default 10,000.
    #[serde(skip)]
    pub repeat_ms: u64,
    /// Transactions that this filter remembers by their hashes. Default 262,144. Memory: two generations of
    /// 16 bytes each, so 8 MiB.
    #[serde(skip)]
    pub repeats_max: usize,
    /// Milliseconds that a checked transaction waits for space in the ledger's queue. Default 1,000. Then it
    /// is refused.
    #[serde(skip)]
    pub hand_over_ms: u64,

    /// Transactions that wait for, or are in flight to, one destination of the forwarder. Default
    /// 16,384. Memory: their bytes, so up to 64 MiB for all destinations together.
    pub forward_max: usize,

    /// A file of identities and weights, read again when it changes: lines `PUBKEY WEIGHT`. All
    /// other identities have the weight 1. Default none. Memory: 100 bytes a line; at most 100,000
    /// lines are read.
    pub weights: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 1,
            verify_threads: 1,
            connections_max: 4_000,
            connections_per_address_max: 4_000,
            connections_per_identity_max: 16,
            window_max: 512,
            window_initial: 64,
            window_min: 16,
            streams_max: 131_072,
            receive_window_bytes: 1 << 20,
            transaction_bytes_max: 4_096,
            unfinished_bytes_max: 32 << 20,
            stream_timeout_ms: 10_000,
            broken_streams_max: 256,
            idle_timeout_ms: 30_000,
            handshakes_per_second: 2_000,
            handshakes_per_address_per_minute: 6_000,
            handshakes_max: 1_024,
            retry_above: 128,
            handshake_timeout_ms: 2_000,
            buffers_max: 8_192,
            socket_bytes: 8 << 20,
            gather_us: 150,
            receive_offload: true,
            queue_max: 16_384,
            repeat_ms: 10_000,
            repeats_max: 262_144,
            hand_over_ms: 1_000,
            forward_max: 16_384,
            weights: None,
        }
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quic.{name} is {value}: {expected}")]
pub struct ConfigError {
    /// Name of the setting, without the table.
    pub name: &'static str,
    /// Value of the setting in the file.
    pub value: u64,
    /// Description of the valid values.
    pub expected: &'static str,
}

impl Config {
    /// Checks that every number is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let at_least_one: [(&'static str, u64); 14] = [
            ("shards", self.shards as u64),
            ("verify_threads", self.verify_threads as u64),
            ("connections_max", self.connections_max as u64),
            ("connections_per_address_max", self.connections_per_address_max as u64),
            ("connections_per_identity_max", self.connections_per_identity_max as u64),
            ("window_min", self.window_min.into()),
            ("window_initial", self.window_initial.into()),
            ("stream_timeout_ms", self.stream_timeout_ms),
            ("handshakes_per_second", self.handshakes_per_second.into()),
            ("handshakes_per_address_per_minute", self.handshakes_per_address_per_minute.into()),
            ("handshakes_max", self.handshakes_max as u64),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("buffers_max", self.buffers_max as u64),
            ("queue_max", self.queue_max as u64),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return Err(ConfigError { name, value, expected: "at least 1" });
            }
        }
        let error = |name, value, expected| Err(ConfigError { name, value, expected });
        if self.shards > 256 {
            return error(
                "shards",
                self.shards as u64,
                "at most 256: a connection id has one byte for it",
            );
        }
        if self.window_max < self.window_min {
            return error("window_max", self.window_max.into(), "at least window_min");
        }
        if self.window_max > 100_000 {
            return error("window_max", self.window_max.into(), "at most 100000");
        }
        if self.transaction_bytes_max < PACKET_BYTES_MAX || self.transaction_bytes_max > 65_536 {
            let value = self.transaction_bytes_max as u64;
            return error("transaction_bytes_max", value, "1232 to 65536");
        }
        if self.receive_window_bytes < 65_536 {
            return error(
                "receive_window_bytes",
                self.receive_window_bytes.into(),
                "at least 65536",
            );
        }
        if self.gather_us > 10_000 {
            return error("gather_us", self.gather_us, "at most 10000");
        }
        Ok(())
    }

    pub(crate) fn stream_timeout(&self) -> Duration {
        Duration::from_millis(self.stream_timeout_ms)
    }
}

/// Bytes of a transaction below version 1: the size of a packet.
pub(crate) const PACKET_BYTES_MAX: usize = 1_232;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_an_invalid_setting_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let err = Config { shards: 0, ..Config::default() }.check().map_err(|err| err.to_string());
        assert_eq!(err, Err("quic.shards is 0: at least 1".into()));
        let err =
            Config { window_max: 8, ..Config::default() }.check().map_err(|err| err.to_string());
        assert_eq!(err, Err("quic.window_max is 8: at least window_min".into()));
    }
}

//! The banner that is printed when the node is ready: its addresses and identity.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use chain_solana::ClusterInfo;
use rpc_solana::NodeMemory;
use solana_pubkey::Pubkey;

use crate::memory_report::MemoryLine;

/// Whose words the banner and the status line use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStyle {
    Hydrant,
    /// Those of `solana-test-validator`, which scripts search for.
    TestValidator,
}

/// The facts that a user needs first.
pub(crate) struct Banner<'a> {
    pub(crate) style: OutputStyle,
    pub(crate) cluster_info: &'a ClusterInfo,
    /// Whether blocks are made on request only.
    pub(crate) is_manual: bool,
    pub(crate) vote_account: Pubkey,
    pub(crate) faucet: Pubkey,
    pub(crate) mint: Option<Pubkey>,
    /// Whether the mint is a wallet from `--mint` or the Solana CLI.
    pub(crate) has_wallet: bool,
    pub(crate) ledger: Option<&'a Path>,
    pub(crate) rpc: SocketAddr,
    pub(crate) pubsub: SocketAddr,
    pub(crate) tpu: SocketAddr,
    /// The URL of gRPC.
    pub(crate) grpc: Option<String>,
    /// The faucet over TCP.
    pub(crate) faucet_server: Option<SocketAddr>,
    pub(crate) console: bool,
    /// The schemes of the URLs of HTTP and of WebSocket.
    pub(crate) schemes: [&'static str; 2],
    pub(crate) ready_after: Duration,
    pub(crate) usage: NodeMemory,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            OutputStyle::Hydrant => self.fmt_own(f),
            OutputStyle::TestValidator => self.fmt_test_validator(f),
        }
    }
}

impl Banner<'_> {
    fn fmt_test_validator(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster_info;
        if let Some(dir) = self.ledger {
            writeln!(f, "Ledger location: {}", dir.display())?;
            writeln!(f, "Log: {}", dir.join(localnet::LOG_FILE).display())?;
        }
        writeln!(f, "Identity: {}", cluster.identity)?;
        writeln!(f, "Genesis Hash: {}", cluster.genesis_hash)?;
        writeln!(f, "Version: {}", rpc_solana::api_version())?;
        writeln!(f, "Vote Account: {}", self.vote_account)?;
        writeln!(f, "Shred Version: {}", cluster.shred_version)?;
        writeln!(f, "TPU QUIC Address: {}", self.tpu)?;
        writeln!(f, "JSON RPC URL: {}://{}", self.schemes[0], self.rpc)?;
        write!(f, "WebSocket PubSub URL: {}://{}", self.schemes[1], self.pubsub)
    }

    fn fmt_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster_info;
        writeln!(f, "Hydrant {}, ready in {:?}", env!("CARGO_PKG_VERSION"), self.ready_after)?;
        writeln!(f, "  JSON-RPC   {}://{}", self.schemes[0], self.rpc)?;
        writeln!(f, "  WebSocket  {}://{}", self.schemes[1], self.pubsub)?;
        writeln!(f, "  TPU        {} (QUIC)", self.tpu)?;
        if let Some(grpc) = &self.grpc {
            writeln!(f, "  gRPC       {grpc} (Yellowstone)")?;
        }
        if self.console {
            writeln!(f, "  Console    {}://{}/ (in a browser)", self.schemes[0], self.rpc)?;
        }
        match self.ledger {
            Some(dir) => writeln!(f, "  Ledger     {}", dir.display())?,
            None => writeln!(f, "  Ledger     in memory (use --ledger DIR to store it)")?,
        }
        writeln!(f, "  Memory     {}", MemoryLine(self.usage))?;
        writeln!(f, "  Genesis    {}", cluster.genesis_hash)?;
        writeln!(f, "  Identity   {}", cluster.identity)?;
        writeln!(f, "  Vote       {}", self.vote_account)?;
        match self.faucet_server {
            Some(address) => writeln!(f, "  Faucet     {} (TCP {address})", self.faucet)?,
            None => writeln!(f, "  Faucet     {}", self.faucet)?,
        }
        if let Some(mint) = self.mint {
            let note = if self.has_wallet { "" } else { " (no wallet: its key is not stored)" };
            writeln!(f, "  Mint       {mint}{note}")?;
        }
        match cluster.slot_ms {
            0 if self.is_manual => write!(f, "  Slots      on request (hydrant_mine)"),
            0 => write!(f, "  Slots      one per transaction"),
            ms => write!(f, "  Slots      {ms} ms"),
        }
    }
}

//! The banner that is printed when the node is ready: its addresses and identity.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use chain_solana::ClusterInfo;
use rpc_solana::NodeMemory;
use solana_pubkey::Pubkey;

use crate::console::{bold, has_terminal, print_line};
use crate::memory_report::MemoryLine;
use crate::node::NodeAddresses;
use crate::node::solana::front_end::ReadyNode;

/// Whose words the banner and the status line use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputStyle {
    #[default]
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
    pub(crate) addresses: &'a NodeAddresses,
    pub(crate) console: bool,
    pub(crate) ready_after: Duration,
    pub(crate) usage: NodeMemory,
}

/// Returns the lines of a node that does not make its chain: its ports, its memory and its identity.
pub(crate) fn node_lines(node: &ReadyNode<'_>) -> String {
    let api = &node.server.api;
    let info = &api.cluster_info;
    let usage = NodeMemory::new(&api.reader, &api.history);
    let line = |name: &str, value: String| format!("\n  {name:<10} {value}");
    let mut text = line("JSON-RPC", node.addresses.rpc_url());
    text += &line("WebSocket", node.addresses.pubsub_url());
    if let Some(tpu) = node.addresses.tpu {
        text += &line("TPU", format!("{tpu} (QUIC)"));
    }
    if let Some(grpc) = node.addresses.grpc_url() {
        text += &line("gRPC", format!("{grpc} (Yellowstone)"));
    }
    text += &line("Memory", MemoryLine(usage).to_string());
    text += &line("Genesis", info.genesis_hash.to_string());
    text += &line("Identity", info.identity.to_string());
    text
}

/// Prints the lines of `solana-test-validator` before its start: where the ledger and the log are. On
/// a pipe its progress is lines, too.
pub(crate) fn print_start(ledger: &Path) {
    print_line(&format!("{} {}", bold("Ledger location:"), ledger.display()));
    let log = ledger.join(localnet::LOG_FILE);
    print_line(&format!("{} {}", bold("Log:"), log.display()));
    if !has_terminal() {
        print_line("Initializing...");
    }
}

/// Prints the notice of `solana-test-validator` that no wallet has the key of the mint.
pub(crate) fn print_no_wallet() {
    let notice = bold("\nNotice!");
    print_line(&format!(
        "{notice} No wallet available. `solana airdrop` localnet SOL after creating one\n"
    ));
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
        writeln!(f, "{} {}", bold("Identity:"), cluster.identity)?;
        writeln!(f, "{} {}", bold("Genesis Hash:"), cluster.genesis_hash)?;
        writeln!(f, "{} {}", bold("Version:"), rpc_solana::api_version())?;
        writeln!(f, "{} {}", bold("Shred Version:"), cluster.shred_version)?;
        if let Some(tpu) = self.addresses.tpu {
            writeln!(f, "{} {tpu}", bold("TPU QUIC Address:"))?;
        }
        writeln!(f, "{} {}", bold("JSON RPC URL:"), self.addresses.rpc_url())?;
        write!(f, "{} {}", bold("WebSocket PubSub URL:"), self.addresses.pubsub_url())
    }

    fn fmt_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster_info;
        writeln!(f, "Hydrant {}, ready in {:?}", env!("CARGO_PKG_VERSION"), self.ready_after)?;
        writeln!(f, "  JSON-RPC   {}", self.addresses.rpc_url())?;
        writeln!(f, "  WebSocket  {}", self.addresses.pubsub_url())?;
        if let Some(tpu) = self.addresses.tpu {
            writeln!(f, "  TPU        {tpu} (QUIC)")?;
        }
        if let Some(grpc) = self.addresses.grpc_url() {
            writeln!(f, "  gRPC       {grpc} (Yellowstone)")?;
        }
        if self.console {
            writeln!(f, "  Console    {}/ (in a browser)", self.addresses.rpc_url())?;
        }
        match self.ledger {
            Some(dir) => writeln!(f, "  Ledger     {}", dir.display())?,
            None => writeln!(f, "  Ledger     in memory (use --ledger DIR to store it)")?,
        }
        writeln!(f, "  Memory     {}", MemoryLine(self.usage))?;
        writeln!(f, "  Genesis    {}", cluster.genesis_hash)?;
        writeln!(f, "  Identity   {}", cluster.identity)?;
        writeln!(f, "  Vote       {}", self.vote_account)?;
        match self.addresses.faucet {
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

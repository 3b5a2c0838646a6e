//! `hydrant inspect`: the contents of a snapshot archive.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use chain_solana::View;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use ledger::KeyKind;
use snapshot_solana::{Snapshot, Summary};
use solana::key_kind;
use solana_native_token::LAMPORTS_PER_SOL;
use solana_pubkey::Pubkey;

use crate::console::print_line;
use crate::snapshot_file::SnapshotFile;

/// The flags of `hydrant inspect`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InspectFlags {
    /// Inspect this full snapshot archive (snapshot-SLOT-HASH.tar.zst or .tar.lz4).
    #[arg(value_name = "FILE")]
    pub(crate) full: PathBuf,
    /// Apply this incremental archive to the full one.
    #[arg(long, value_name = "FILE")]
    pub(crate) incremental: Option<PathBuf>,
    /// List this many of the largest accounts, and of the programs with the most data.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) largest: usize,
    /// Parse and hash with this many threads, in addition to the one that decompresses [default: the number
    /// of cores].
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
    /// Print no progress on standard error.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The main indices by name; all others are small.
const INDICES: [(&str, KeyKind); 5] = [
    ("program-id", key_kind::PROGRAM),
    ("spl-token-owner", key_kind::OWNER),
    ("spl-token-mint", key_kind::MINT),
    ("spl-token-delegate", key_kind::DELEGATE),
    ("lockups", key_kind::LOCKUP),
];

/// Loads and checks the archive, and prints a summary.
pub(crate) fn run(flags: &InspectFlags) -> Result<()> {
    ensure!(flags.threads != Some(0), "--threads must be at least 1");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let file = SnapshotFile {
        full: flags.full.clone(),
        incremental: flags.incremental.clone(),
        threads: flags.threads.unwrap_or(cores),
    };
    let loaded = file.load(&localnet::Config::default().ledger(), flags.quiet)?;
    let snapshot = loaded.snapshot().clone();
    let view = loaded.into_view()?;
    let accounts = view.all().filter_map(|(address, account)| {
        // Every address of a snapshot is a pubkey.
        Some((Pubkey::try_from(address.as_bytes()).ok()?, account.0.clone()))
    });
    let summary = Summary::from_accounts(accounts, flags.largest);
    let mut out = text(&snapshot, &summary, flags.largest);
    out.push_str(&memory_table(&view, snapshot.accounts_len));
    print_line(out.trim_end());
    Ok(())
}

/// The memory that each part uses for these accounts. It is measured, because they are loaded into a real ledger.
fn memory_table(view: &View, accounts: usize) -> String {
    let bytes = view.bytes();
    let mut out =
        format!("\n{:<24} {:>12} {:>12} {:>12}\n", "In memory", "count", "bytes", "per account");
    let mut line = |name: &str, count: Option<usize>, bytes: usize| {
        let count = count.map_or(String::new(), |count| HumanCount(count as u64).to_string());
        let each = bytes as f64 / accounts.max(1) as f64;
        let bytes = HumanBytes(bytes as u64).to_string();
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name:<24} {count:>12} {bytes:>12} {each:>12.2}");
    };
    line("Addresses", Some(view.addresses_len()), bytes.addresses);
    line("Indices", None, bytes.indices);
    for (name, key_kind) in INDICES {
        let index = view.index_usage(key_kind);
        line(&format!("  {name}"), Some(index.entries), index.bytes);
    }
    line("Accounts, packed", None, bytes.packed);
    line("Accounts, unpacked", None, bytes.unpacked);
    line("Ranks", None, bytes.ranks);
    line("Total", None, bytes.total());
    out
}

fn text(snapshot: &Snapshot, summary: &Summary, largest: usize) -> String {
    let bank = &snapshot.bank;
    let sol = |lamports: u64| lamports as f64 / LAMPORTS_PER_SOL as f64;
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name:<14} {value}");
    };
    line(
        "Slot",
        format!("{}, parent {}, block height {}", bank.slot, bank.parent_slot, bank.block_height),
    );
    line("Bank hash", bank.bank_hash.to_string());
    line("Blockhash", bank.blockhashes.last().copied().unwrap_or_default().to_string());
    line("Transactions", bank.transaction_count.to_string());
    line(
        "Epoch",
        format!(
            "{}, {} slots per epoch",
            bank.epoch_schedule.get_epoch(bank.slot),
            bank.epoch_schedule.slots_per_epoch
        ),
    );
    line("Accounts", snapshot.accounts_len.to_string());
    line("Lamports", format!("{} ({:.3} SOL)", snapshot.lamports, sol(snapshot.lamports)));
    line("Data", format!("{} bytes", summary.data_bytes));
    line("Accounts hash", format!("{} (checked)", snapshot.accounts_hash));

    let _ = writeln!(out, "\n{:<44} {:>12} {:>12} {:>18}", "Program", "accounts", "data", "SOL");
    for (program, total) in summary.programs.iter().take(largest) {
        let _ = writeln!(
            out,
            "{:<44} {:>12} {:>12} {:>18.3}",
            program.to_string(),
            HumanCount(total.accounts).to_string(),
            HumanBytes(total.data_bytes).to_string(),
            sol(total.lamports)
        );
    }
    let more = summary.programs.len().saturating_sub(largest);
    if more > 0 {
        let _ = writeln!(out, "and {more} more (--largest)");
    }
    let _ = writeln!(out, "\n{:<44} {:>12} owner", "Largest account", "data");
    for account in &summary.largest {
        let _ = writeln!(
            out,
            "{:<44} {:>12} {}",
            account.address.to_string(),
            account.data_bytes,
            account.owner
        );
    }
    out
}

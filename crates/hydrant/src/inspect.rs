//! `hydrant inspect`: what is in a snapshot archive.

use std::fmt::Write;

use anyhow::{Result, ensure};
use indicatif::{HumanBytes, HumanCount};
use query::LedgerUsage;
use snapshot::{Snapshot, Summary};
use solana_native_token::LAMPORTS_PER_SOL;
use solana_pubkey::Pubkey;

use crate::cli::InspectFlags;
use crate::dev::say;
use crate::snapshot_file::SnapshotFile;

/// Loads and checks the archive, and prints what is in it.
pub(crate) fn run(flags: &InspectFlags) -> Result<()> {
    ensure!(flags.threads != Some(0), "--threads is at least 1");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let file = SnapshotFile {
        full: flags.full.clone(),
        incremental: flags.incremental.clone(),
        threads: flags.threads.unwrap_or(cores),
    };
    let loaded = file.load(&localnet::Config::default(), flags.quiet)?;
    let (snapshot, usage) = (loaded.snapshot().clone(), loaded.usage());
    let view = loaded.into_view()?;
    let accounts = view.all().filter_map(|(address, account)| {
        // Every address of a snapshot is a pubkey.
        Some((Pubkey::try_from(address.as_bytes()).ok()?, account.0.clone()))
    });
    let summary = Summary::of(accounts, flags.largest);
    say(text(&snapshot, &summary, &usage, flags.largest).trim_end());
    Ok(())
}

fn text(snapshot: &Snapshot, summary: &Summary, usage: &LedgerUsage, largest: usize) -> String {
    let bank = &snapshot.bank;
    let sol = |lamports: u64| lamports as f64 / LAMPORTS_PER_SOL as f64;
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // A string takes all that is written.
        let _ = writeln!(out, "{name:<14} {value}");
    };
    line(
        "Slot",
        format!("{} on {}, block height {}", bank.slot, bank.parent_slot, bank.block_height),
    );
    line("Bank hash", bank.bank_hash.to_string());
    line("Blockhash", bank.blockhashes.last().copied().unwrap_or_default().to_string());
    line("Transactions", bank.transaction_count.to_string());
    line(
        "Epoch",
        format!(
            "{}, {} slots an epoch",
            bank.epoch_schedule.get_epoch(bank.slot),
            bank.epoch_schedule.slots_per_epoch
        ),
    );
    line("Accounts", snapshot.accounts_len.to_string());
    line("Lamports", format!("{} ({:.3} SOL)", snapshot.lamports, sol(snapshot.lamports)));
    line("Data", format!("{} bytes", summary.data_bytes));
    line("Accounts hash", format!("{} (checked)", snapshot.accounts_hash));
    line("Addresses", usage.addresses.to_string());
    line("Index", format!("{} keys, {} entries", usage.index_keys, usage.index_entries));

    let _ = writeln!(out, "\n{:<44} {:>12} {:>12} {:>18}", "Program", "accounts", "data", "SOL");
    for (program, held) in summary.programs.iter().take(largest) {
        let _ = writeln!(
            out,
            "{:<44} {:>12} {:>12} {:>18.3}",
            program.to_string(),
            HumanCount(held.accounts).to_string(),
            HumanBytes(held.data_bytes).to_string(),
            sol(held.lamports)
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

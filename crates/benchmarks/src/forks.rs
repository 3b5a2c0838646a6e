//! Snapshots and reverts of a local ledger, as it grows: `forks [--toy]`.
//!
//! Shape: a ledger of wallets in this process, which makes blocks on request. In each round: a snapshot, a block with
//! airdrops, and the revert. A call's time is that of its client: it includes the way to the executing thread and back.
//! A revert ends the open block, goes back, makes a block, and opens the next one.
//! Bounds: 1 M accounts, about 200 MB.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use chain_solana::{ForkControl, Reader};
use clients::ClientId;
use ledger::{Address, Commitment};
use localnet::{Config, GenesisAccount};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use testkit::clock::now;

use crate::median::median;
use crate::threshold;

const CLIENT: ClientId = ClientId(1);

/// Accounts of the ledgers, and rounds.
const SIZES: ([u32; 2], usize) = ([100_000, 1_000_000], 100);
const SIZES_TOY: ([u32; 2], usize) = ([1_000, 2_000], 3);
/// Accounts that are written between a snapshot and its revert.
const WRITES: u64 = 1_000;
const LAMPORTS: u64 = 1_000_000_000;
/// "Snapshot and revert of a ledger of 1 M accounts in under 1 ms."
const MS_MAX: f64 = 1.0;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (sizes, rounds) = match args {
        [] => SIZES,
        [toy] if toy == "--toy" => SIZES_TOY,
        _ => bail!("usage: forks [--toy]"),
    };
    println!("accounts   snapshot ms   revert ms of a block with 1 account   of {WRITES}");
    let mut last = [f64::NAN; 3];
    for accounts in sizes {
        let ledger = RunningLedger::start(accounts)?;
        let (snapshot, one) = ledger.measure(rounds, 1)?;
        let (_, many) = ledger.measure(rounds.min(20), WRITES)?;
        println!("{accounts:>8} {snapshot:>13.3} {one:>12.3} {many:>12.3}");
        last = [snapshot, one, many];
        ledger.handle.stop().context("the ledger")?;
    }
    let [snapshot, one, _] = last;
    threshold::at_most("forks_snapshot", snapshot, "ms", MS_MAX);
    threshold::at_most("forks_revert", one, "ms", MS_MAX);
    Ok(())
}

struct RunningLedger {
    handle: localnet::LocalnetHandle,
    reader: Reader,
    faucet: std::sync::Arc<dyn chain_solana::Faucet>,
    forks: std::sync::Arc<dyn ForkControl>,
}

impl RunningLedger {
    fn start(accounts: u32) -> Result<Self> {
        let config = Config { slot_ms: 0, is_manual: true, finalize_after: 0, ..Config::default() };
        let owner = solana_sdk_ids::system_program::ID;
        let mut all = (0..accounts).map(|n| {
            let account = AccountSharedData::new(LAMPORTS, 0, &owner);
            Ok(GenesisAccount { address: wallet(1, n.into()), account })
        });
        let localnet = localnet::open_with(&config, &mut all).context("create the ledger")?;
        let reader = localnet.reader().clone();
        let faucet = localnet.faucet();
        let forks = localnet.fork_control();
        let handle = localnet.start(Vec::new()).context("start the ledger")?;
        forks.mine(CLIENT, 2).wait()?;
        ensure!(reader.view(Commitment::Confirmed).len() > accounts as usize);
        Ok(Self { handle, reader, faucet, forks })
    }

    /// The median of the times of a snapshot and of a revert, after a block that writes `writes` accounts.
    fn measure(&self, rounds: usize, writes: u64) -> Result<(f64, f64)> {
        let mut snapshots = Vec::new();
        let mut reverts = Vec::new();
        for _ in 0..rounds {
            let started = now();
            let id = self.forks.snapshot(CLIENT).wait()?;
            snapshots.push(ms(started.elapsed()));
            let blockhash = self.reader.view(Commitment::Processed).meta().last_blockhash();
            for n in 0..writes {
                self.faucet.airdrop(CLIENT.into(), wallet(2, n), LAMPORTS, blockhash)?;
            }
            self.forks.mine(CLIENT, 1).wait()?;
            ensure!(self.lamports(writes - 1) == LAMPORTS, "the airdrops are in the block");
            let started = now();
            self.forks.revert(CLIENT, id).wait()?;
            reverts.push(ms(started.elapsed()));
            ensure!(self.lamports(writes - 1) == 0, "the airdrops were taken back");
        }
        Ok((median(snapshots), median(reverts)))
    }

    fn lamports(&self, n: u64) -> u64 {
        let address = Address::from(wallet(2, n).to_bytes());
        let account = self.reader.view(Commitment::Confirmed).record(&address);
        account.map_or(0, |account| account.0.lamports())
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn wallet(group: u8, n: u64) -> Pubkey {
    let mut bytes = [group; 32];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    Pubkey::new_from_array(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_ledger_reverts_its_blocks() -> Result<()> {
        run(&["--toy".to_owned()])
    }
}

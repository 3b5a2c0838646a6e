//! The reads within methods, on the calling thread, without the methods.

use anyhow::{Result, ensure};
use chain_solana::Reader;
use hdrhistogram::Histogram;
use ledger::{Address, Commitment};
use solana::key_kind;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use testkit::clock::now;
use testkit::synthetic::{KnownOwner, Synthetic};

use crate::metric::print_metric;

/// Reads of each kind; a tenth of them of the owner of ten thousand.
const READS: usize = 2_000;

pub(crate) fn run(ledger: &Synthetic, reader: &Reader) -> Result<()> {
    let of = |accounts: u64| -> Vec<Address> {
        let known = KnownOwner::all().filter(|known| known.accounts() == accounts);
        known.map(|known| address(&ledger.known_owner(known))).collect()
    };
    for (accounts, reads) in [(1, READS), (100, READS), (10_000, READS / 10)] {
        let owners = of(accounts);
        let by_owner = measured(reads, |nth| {
            let view = reader.view(Commitment::Finalized);
            let keys = [(key_kind::OWNER, owners[nth % owners.len()])];
            view.records_by_keys(&keys).map(|(_, account)| account.0.data().len().min(1)).sum()
        })?;
        ensure!(by_owner.found == accounts as usize * reads, "{} found", by_owner.found);
        print_metric(&format!("state_owner_{accounts}_us"), by_owner.us(0.5));
    }
    let mint = address(&ledger.largest_mint());
    let largest = measured(READS, |_| {
        let view = reader.view(Commitment::Finalized);
        view.highest(Some((key_kind::MINT, &mint)), 20, |_, _| true).len()
    })?;
    ensure!(largest.found == 20 * READS, "20 hold the most");
    print_metric("state_largest_holders_us", largest.us(0.5));
    let largest = measured(READS, |_| {
        reader.view(Commitment::Finalized).highest(None, 20, |_, _| true).len()
    })?;
    print_metric("state_largest_us", largest.us(0.5));
    let stake = address(&solana_sdk_ids::stake::id());
    let locked = measured(READS, |_| {
        reader.view(Commitment::Finalized).records_by_key(key_kind::LOCKUP, &stake).count()
    })?;
    print_metric("state_lockups", (locked.found / READS) as f64);
    print_metric("state_lockups_us", locked.us(0.5));
    Ok(())
}

struct Measured {
    found: usize,
    times: Histogram<u64>,
}

impl Measured {
    fn us(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64 / 1e3
    }
}

fn measured(reads: usize, mut read: impl FnMut(usize) -> usize) -> Result<Measured> {
    let mut measured = Measured { found: 0, times: Histogram::new(3)? };
    for nth in 0..reads {
        let began = now();
        measured.found += std::hint::black_box(read(nth));
        measured.times.record(began.elapsed().as_nanos() as u64)?;
    }
    Ok(measured)
}

fn address(pubkey: &Pubkey) -> Address {
    Address::from(pubkey.to_bytes())
}

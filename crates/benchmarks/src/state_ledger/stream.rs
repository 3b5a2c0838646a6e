//! The stream of writes in slots of 400 ms, at three rates: each slot is opened, written at once, completed,
//! published, and finalized 32 slots later.
//!
//! Writes are computed before their slot is due, so that only the ledger is timed: its CPU time in all five steps, and
//! the time of a slot's write. Resident memory is read at the end of each quarter. The stream opens an account for
//! each one that it closes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use cpu_time::ThreadTime;
use hdrhistogram::Histogram;
use ledger::{BlockId, Commitment};
use process_usage::Process;
use testkit::clock::now;
use testkit::synthetic::{Synthetic, Updates};

use crate::fixture::{LedgerFixture, ROOT, bank};
use crate::metric::print_metric;

const SLOT: Duration = Duration::from_millis(400);
const RATES: [usize; 3] = [1_000, 10_000, 50_000];
/// Number of slots after which a block is finalized.
const FINAL_AFTER: u64 = 32;

/// Runs `slots` slots at each rate.
pub(crate) fn run(synthetic: &Synthetic, built: LedgerFixture, slots: u32) -> Result<()> {
    let mut stream = Stream { built, updates: Updates::new(synthetic), block: ROOT };
    println!(
        "writes/s   slots  apply p50/p99/max ms  publish p99 ms  writer's CPU  resident MiB by quarter"
    );
    for rate in RATES {
        stream.run(rate, slots)?;
    }
    Ok(())
}

struct Stream {
    built: LedgerFixture,
    updates: Updates,
    block: BlockId,
}

struct Times {
    apply: Histogram<u64>,
    publish: Histogram<u64>,
    cpu: Duration,
}

impl Stream {
    fn run(&mut self, rate: usize, slots: u32) -> Result<()> {
        let writes = (rate as f64 * SLOT.as_secs_f64()) as usize;
        let mut times =
            Times { apply: Histogram::new(3)?, publish: Histogram::new(3)?, cpu: Duration::ZERO };
        let mut resident = Vec::new();
        let began = now();
        for slot in 0..slots {
            let changes = self.updates.slot(writes);
            sleep_until(began + SLOT * slot);
            self.slot(changes, &mut times)?;
            if (slot + 1) % (slots / 4).max(1) == 0 {
                resident.push(Process::current().resident_bytes()? as f64);
            }
        }
        let took = began.elapsed().max(SLOT * slots);
        let share = times.cpu.as_secs_f64() / took.as_secs_f64();
        let ms = |of: &Histogram<u64>, quantile| of.value_at_quantile(quantile) as f64 / 1e6;
        let mib: Vec<String> =
            resident.iter().map(|bytes| format!("{:.1}", bytes / f64::from(1 << 20))).collect();
        println!(
            "{rate:8} {slots:7} {:8.2} /{:7.2} /{:7.2} {:11.2} {:12.1} %  {}",
            ms(&times.apply, 0.5),
            ms(&times.apply, 0.99),
            times.apply.max() as f64 / 1e6,
            ms(&times.publish, 0.99),
            share * 100.0,
            mib.join(" "),
        );
        print_metric(&format!("stream_{rate}_cpu_share"), share);
        print_metric(&format!("stream_{rate}_apply_p99_ms"), ms(&times.apply, 0.99));
        // The first quarter writes each account for the first time, and fills the unrooted blocks.
        if let [_, second, .., last] = resident.as_slice() {
            print_metric(&format!("stream_{rate}_growth"), last / second);
        }
        Ok(())
    }

    fn slot(
        &mut self,
        changes: Vec<ledger::Change<solana::Account>>,
        times: &mut Times,
    ) -> Result<()> {
        let ledger = &mut self.built.ledger;
        let parent = self.block;
        let block = BlockId { slot: parent.slot + 1, version: 0 };
        let view = self.built.reader.view(Commitment::Processed);
        let meta = Arc::new(bank(block, view.meta().capitalization));
        drop(view);
        let cpu = ThreadTime::now();
        ledger.open(block, parent, Arc::clone(&meta))?;
        let began = now();
        ledger.apply(block, changes, Arc::clone(&meta))?;
        times.apply.record(began.elapsed().as_nanos() as u64)?;
        ledger.complete(block, meta)?;
        ledger.confirm(block)?;
        if block.slot > ROOT.slot + FINAL_AFTER {
            ledger.finalize(BlockId { slot: block.slot - FINAL_AFTER, version: 0 })?;
        }
        let began = now();
        ledger.publish();
        times.publish.record(began.elapsed().as_nanos() as u64)?;
        times.cpu += cpu.elapsed();
        self.block = block;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "slots come at their time")]
fn sleep_until(due: Instant) {
    if let Some(left) = due.checked_duration_since(now()) {
        std::thread::sleep(left);
    }
}

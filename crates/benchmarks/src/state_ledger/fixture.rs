//! A published ledger that is filled at its root, as a start from a snapshot does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use chain_solana::{BankHashComponents, BlockInfo, BlockhashQueue, Reader};
use cpu_time::ThreadTime;
use ledger::BlockId;
use process_usage::Process;
use query::{Ledger, LedgerConfig};
use solana::Account;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use testkit::clock::now;
use testkit::synthetic::Synthetic;

use crate::metric::print_metric;

/// Accounts that are applied at a time.
const CHUNK: usize = 8_192;

pub(crate) const ROOT: BlockId = BlockId { slot: 1_000, version: 0 };

/// The root's time, in seconds since 1970.
const ROOT_TIME: i64 = 1_750_000_000;

pub(crate) struct LedgerFixture {
    pub(crate) ledger: Ledger<Account, BlockInfo>,
    pub(crate) reader: Reader,
    /// Time in `Ledger::apply`, without the computation of accounts.
    applying: Duration,
    applying_cpu: Duration,
    data_bytes: u64,
    /// Bytes of large accounts.
    large_bytes: u64,
}

impl LedgerFixture {
    pub(crate) fn new(synthetic: &Synthetic) -> Result<Self> {
        let config = LedgerConfig::new(synthetic.addresses_max());
        let (ledger, reader) = Ledger::new(config, ROOT, Arc::new(bank(ROOT, 0)));
        let mut built = Self {
            ledger,
            reader,
            applying: Duration::ZERO,
            applying_cpu: Duration::ZERO,
            data_bytes: 0,
            large_bytes: 0,
        };
        let large_bytes_min = synthetic.config().large_bytes as usize;
        let mut capitalization = 0;
        let mut changes = synthetic.changes();
        loop {
            let chunk: Vec<_> = changes.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            for account in chunk.iter().filter_map(|change| change.record.as_ref()) {
                let bytes = account.0.data().len();
                built.data_bytes += bytes as u64;
                built.large_bytes += if bytes >= large_bytes_min { bytes as u64 } else { 0 };
                capitalization += account.0.lamports();
            }
            let meta = Arc::new(bank(ROOT, capitalization));
            let began = now();
            let began_cpu = ThreadTime::now();
            built.ledger.apply(ROOT, chunk, meta)?;
            built.applying += began.elapsed();
            built.applying_cpu += began_cpu.elapsed();
        }
        // Versions that the last publish but one may still see are released by the next.
        for _ in 0..3 {
            built.ledger.publish();
        }
        Ok(built)
    }

    /// Reports memory and rate.
    pub(crate) fn print_metrics(&self, synthetic: &Synthetic) -> Result<()> {
        let accounts = f64::from(synthetic.config().accounts);
        let usage = self.ledger.usage();
        print_metric("resident", Process::current().resident_bytes()? as f64);
        print_metric("resident_max", Process::current().peak_resident_bytes()? as f64);
        print_metric("accounts", accounts);
        print_metric("token_accounts", synthetic.counts().tokens as f64);
        print_metric("data_bytes", self.data_bytes as f64);
        print_metric("large_bytes", self.large_bytes as f64);
        print_metric("addresses", usage.addresses as f64);
        print_metric("index_entries", usage.index_entries as f64);
        print_metric("index_keys", usage.index_keys as f64);
        let bytes = self.ledger.bytes();
        print_metric("addresses_bytes", bytes.addresses as f64);
        print_metric("indices_bytes", bytes.indices as f64);
        print_metric("packed_bytes", bytes.packed as f64);
        print_metric("unpacked_bytes", bytes.unpacked as f64);
        print_metric("ranks_bytes", bytes.ranks as f64);
        print_metric("applied_per_second", accounts / self.applying.as_secs_f64());
        print_metric("applied_cpu_ns", self.applying_cpu.as_nanos() as f64 / accounts);
        Ok(())
    }
}

/// The facts of a block. 400 ms a slot.
pub(crate) fn bank(block: BlockId, capitalization: u64) -> BlockInfo {
    let slots = block.slot - ROOT.slot;
    BlockInfo {
        block,
        parent: BlockId { slot: block.slot.saturating_sub(1), version: 0 },
        block_height: block.slot,
        blockhashes: Arc::new(BlockhashQueue::new(Hash::new_from_array([7; 32]))),
        transaction_count: 0,
        unix_timestamp: ROOT_TIME + slots as i64 * 2 / 5,
        capitalization,
        bank_hash: Hash::default(),
        hash_components: BankHashComponents::default(),
        complete: true,
    }
}

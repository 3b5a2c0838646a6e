//! The memory of a ledger of Solana: in the banner, and in the log.
//!
//! Not here: when it is logged (`process_memory`).

use std::fmt;

use indicatif::{HumanBytes, HumanCount};
use ledger::{Commitment, Slot};
use process_usage::Process;
use rpc_solana::{NodeMemory, SolanaServer};

use crate::process_memory::MeasuredLedger;

/// The memory of a node's parts, formatted as one line.
pub(crate) struct MemoryLine(pub(crate) NodeMemory);

impl fmt::Display for MemoryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeMemory { addresses, accounts, ledger, history_bytes } = self.0;
        let count = |count: usize| HumanCount(count as u64);
        let bytes = |bytes: usize| HumanBytes(bytes as u64);
        write!(
            f,
            "addresses {} ({}), indices {}, accounts {} packed and {} unpacked ({}), ranks {}, history {}",
            bytes(ledger.addresses),
            count(addresses),
            bytes(ledger.indices),
            bytes(ledger.packed),
            bytes(ledger.unpacked),
            count(accounts),
            bytes(ledger.ranks),
            HumanBytes(history_bytes),
        )
    }
}

impl MeasuredLedger for SolanaServer {
    fn root(&self) -> Slot {
        self.api.reader.view(Commitment::Finalized).block().slot
    }

    fn log_memory(&self) {
        log(&NodeMemory::new(&self.api.reader, &self.api.history));
    }
}

fn log(usage: &NodeMemory) {
    tracing::info!(
        addresses_bytes = usage.ledger.addresses,
        indices_bytes = usage.ledger.indices,
        packed_bytes = usage.ledger.packed,
        unpacked_bytes = usage.ledger.unpacked,
        ranks_bytes = usage.ledger.ranks,
        history_bytes = usage.history_bytes,
        resident_bytes = Process::current().resident_bytes().ok(),
        "memory: {}",
        MemoryLine(*usage)
    );
}

#[cfg(test)]
mod tests {
    use query::LedgerMemory;

    use super::*;

    #[test]
    fn a_line_names_every_part() {
        let ledger = LedgerMemory {
            addresses: 1 << 20,
            indices: 2 << 20,
            packed: 3 << 30,
            unpacked: 4_096,
            ranks: 5,
        };
        let usage =
            NodeMemory { addresses: 12_345, accounts: 10_000, ledger, history_bytes: 6 << 20 };
        assert_eq!(
            MemoryLine(usage).to_string(),
            "addresses 1.00 MiB (12,345), indices 2.00 MiB, accounts 3.00 GiB packed and 4.00 KiB \
             unpacked (10,000), ranks 5 B, history 6.00 MiB"
        );
    }
}

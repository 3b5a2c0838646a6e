//! The jump of the ledger to the block of a snapshot.
//!
//! Input: the bank of the snapshot, and the accounts that differ from the confirmed block. Output: the confirmed block is
//! the root, everything above it is reverted, and a block follows with the differences as its writes. It is processed,
//! confirmed and final at once. History does not show it, because its transactions are unknown.
//! Invariant: the state after the jump is that of the snapshot, whose sum was computed when it was loaded. If the sum of
//! the ledger does not agree, the ledger had another state than its sum said, which is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::{Block, BlockInfo, LedgerEvent};
use follow::bank::{Hashing, LandedVotes, PreparedBank};
use ledger::Commitment;
use solana::Account;

use super::write_block::closed_account;
use super::{Frozen, WriteError, Writer, block_key, ledger_error, named_block};
use crate::clock::unix_ms;
use crate::error::ReplicaError;
use crate::fault_kind::FaultKind;
use crate::input_queue::{Jump, JumpRefusal};
use crate::known_blocks::KnownBlocks;

impl Writer {
    pub(super) fn jump(&mut self, jump: Jump) -> Result<(), WriteError> {
        let Jump { from, bank, changes, done } = jump;
        let to = bank.id();
        let confirmed = self.ledger.tip(Commitment::Confirmed);
        let refusal = if from != confirmed {
            Some(JumpRefusal::Moved { from: from.slot })
        } else if to.slot <= confirmed.slot {
            Some(JumpRefusal::NotNewer { slot: to.slot, confirmed: confirmed.slot })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            // The reader may have ended.
            let _ = done.send(Err(refusal));
            return Ok(());
        }
        let timestamp_ms = unix_ms();
        self.revert_all_but(from, timestamp_ms)?;
        self.history.set_tip(from);
        self.ledger.set_tip(from).map_err(|err| ledger_error(from, err))?;
        self.root_chain(from, timestamp_ms)?;
        self.publish();
        let Some(parent) = self.banks.get(&from) else {
            let _ = done.send(Err(JumpRefusal::Moved { from: from.slot }));
            return Ok(());
        };
        let parent_info = Arc::clone(&parent.info);
        let parent_sum = parent.lt_hash.clone();
        let opened = PreparedBank::open(&mut self.ledger, to, from, parent_info);
        let mut prepared = opened.map_err(|err| ledger_error(to, err))?;
        let status = Arc::clone(&self.status);
        let hashing = Hashing { nanos: &status.hash_nanos, is_open: false };
        let accounts = changes.into_iter();
        let writes = accounts
            .map(|(pubkey, account)| (pubkey, account.map_or_else(closed_account, Account)));
        let written = prepared.write(&mut self.ledger, writes, Some(hashing));
        written.map_err(|err| WriteError::Fatal(ReplicaError::Bank(err)))?;
        if prepared.change().add_to(&parent_sum) != bank.lt_hash {
            tracing::error!(slot = from.slot, "the state was not the one that its sum says");
            status.count_fault(FaultKind::StateSum);
        }
        let fields = bank.fields();
        let info = Arc::new(BlockInfo { parent: from, ..BlockInfo::clone(&bank.info) });
        self.ledger.complete(to, Arc::clone(&info)).map_err(|err| ledger_error(to, err))?;
        let writes = prepared.into_writes();
        let block = Arc::new(Block { parent: from, writes, ..Block::clone(&bank.block) });
        let accounts = block.writes.len();
        tracing::warn!(slot = to.slot, from = from.slot, accounts, "jumped to a snapshot");
        self.known = KnownBlocks::new(bank.position.number, block_key(&block), named_block(&block));
        let frozen = Frozen {
            block: Arc::clone(&block),
            info: Arc::clone(&info),
            lt_hash: bank.lt_hash,
            position: bank.position,
            votes: LandedVotes::default(),
            is_executed: true,
            is_confirmed: true,
            level: bank.level,
        };
        self.banks.insert(to, frozen);
        self.level = bank.level;
        self.proof.start_from_snapshot(to.slot, bank.level);
        self.chain = bank.chain;
        self.hard_forks = bank.hard_forks;
        self.history.record_jump(&block);
        self.history.set_tip(to);
        self.history.confirm(to);
        self.ledger.set_tip(to).map_err(|err| ledger_error(to, err))?;
        self.ledger.confirm(to).map_err(|err| ledger_error(to, err))?;
        self.output.unsent.push(LedgerEvent::Jumped { block: Arc::clone(&block), info });
        self.output.unsent.push(LedgerEvent::TipMoved { block: to });
        self.output.unsent.push(LedgerEvent::Confirmed { block, timestamp_ms });
        self.output.tip = to;
        self.publish();
        // From the published accounts.
        self.cluster.jump(&fields, &self.reader.view(Commitment::Processed));
        self.root_chain(to, timestamp_ms)?;
        self.publish();
        self.is_halted = false;
        self.status.jumps.fetch_add(1, Ordering::Relaxed);
        self.status.restart_window(to.slot);
        let _ = done.send(Ok(()));
        Ok(())
    }
}

//! An update of a bank, in the order of publication.

use std::sync::Arc;

use chain_solana::{AccountUpdate, Block, BlockFooter, ExecutedTransaction};
use ledger::{Commitment, Slot};
use solana::Entry;
use solana_account::ReadableAccount;
use yellowstone_grpc_proto::geyser::SlotStatus;

/// Bytes of an update without its content: the update, its reference counts, its entries in the log and in its bank.
pub(crate) const UPDATE_BYTES: usize = size_of::<Update>() + 48;
/// Bytes of a transaction's record besides its lists.
const TRANSACTION_BYTES: usize = size_of::<ExecutedTransaction>() + 128;
/// Bytes of an instruction besides those that its lists count.
const INSTRUCTION_BYTES: usize = 8;

#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) slot: Slot,
    /// Names one replay of the slot; never 0.
    pub(crate) bank_id: u64,
    /// Creation time in milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) kind: UpdateKind,
}

#[derive(Debug)]
pub(crate) enum UpdateKind {
    Slot(SlotUpdate),
    Account(AccountUpdate),
    Transaction(Arc<ExecutedTransaction>),
    Entry {
        /// Index of the entry in the block.
        index: u64,
        entry: Entry,
    },
    /// The leader's statement about the block.
    Footer(Arc<BlockFooter>),
    Block(Arc<FrozenBlock>),
    BlockMeta(Arc<FrozenBlock>),
}

#[derive(Debug)]
pub(crate) struct SlotUpdate {
    pub(crate) parent: Option<Slot>,
    pub(crate) status: SlotStatus,
    pub(crate) dead_error: Option<String>,
}

#[derive(Debug)]
pub(crate) struct FrozenBlock {
    pub(crate) block: Arc<Block>,
    /// The last write of each account, by write version.
    pub(crate) accounts: Vec<AccountUpdate>,
}

impl Update {
    /// Whether a client of the commitment gets it when it happens. Above processed, content comes with its bank.
    pub(crate) fn is_at(&self, commitment: Commitment) -> bool {
        commitment == Commitment::Processed || matches!(self.kind, UpdateKind::Slot(_))
    }

    /// Shows the statuses of the transactions that it names, before it is sent.
    pub(crate) fn show_statuses(&self) {
        match &self.kind {
            UpdateKind::Account(account) => {
                account.executed.iter().for_each(|executed| executed.show_status());
            }
            UpdateKind::Transaction(executed) => executed.show_status(),
            UpdateKind::Block(frozen) => frozen.block.show_statuses(),
            UpdateKind::Slot(_)
            | UpdateKind::Entry { .. }
            | UpdateKind::Footer(_)
            | UpdateKind::BlockMeta(_) => {}
        }
    }

    pub(crate) fn account_bytes(&self) -> usize {
        match &self.kind {
            UpdateKind::Account(account) => account.account.0.data().len(),
            _ => 0,
        }
    }

    /// Returns the estimated bytes, including those shared with the ledger's state and history.
    pub(crate) fn bytes(&self) -> usize {
        UPDATE_BYTES
            + match &self.kind {
                UpdateKind::Slot(slot) => slot.dead_error.as_ref().map_or(0, String::len),
                UpdateKind::Account(_) => self.account_bytes(),
                UpdateKind::Transaction(executed) => transaction_bytes(executed),
                UpdateKind::Entry { .. } => 0,
                UpdateKind::Footer(footer) => footer.bytes(),
                UpdateKind::Block(frozen) => {
                    let block = &frozen.block;
                    frozen.accounts.len() * size_of::<AccountUpdate>()
                        + block.writes.len() * 128
                        + block.transactions.len() * 8
                        + block.rewards.len() * 128
                        + block.entries.len() * size_of::<Entry>()
                }
                // It shares the block.
                UpdateKind::BlockMeta(_) => 0,
            }
    }
}

/// Estimated bytes of a transaction with its results.
fn transaction_bytes(executed: &ExecutedTransaction) -> usize {
    let instructions = executed.transaction.message.instructions().len();
    TRANSACTION_BYTES
        + executed.lists_bytes()
        + instructions * INSTRUCTION_BYTES
        + executed.account_keys.len() * (64 + 16)
}

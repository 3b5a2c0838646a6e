//! The bank of a snapshot: everything of it that is not in an account.

use std::sync::Arc;

use chain_solana::wire::codec;
use chain_solana::{Block, BlockInfo, BlockhashQueue};
use snapshot_solana::stored_rows::{BankRow, ChainRow, ChainRowError, read_epochs, write_epochs};
use solana::{EpochStakes, VerificationLevel};
use store::{ByteReader, ByteWriter, DecodeError};

/// The bank of a snapshot.
#[derive(Clone, Debug)]
pub struct ManifestFields {
    /// The constant properties of the chain.
    pub chain: ChainRow,
    /// Blockhashes, the sum over all accounts with the hard forks, and the last jump of the ledger.
    pub bank: BankRow,
    /// The stakes of the newest epochs.
    pub epochs: Vec<EpochStakes>,
    /// The block. Its transactions, rewards, entries and writes are not stored.
    pub block: Block,
    /// Seconds since 1970, from the clock sysvar of the block.
    pub unix_timestamp: i64,
    /// Sum of the lamports of all accounts.
    pub capitalization: u64,
    /// The level of proof that the ingesters required that logged the block and made it final; the lower one of two.
    pub level: Option<VerificationLevel>,
}

impl ManifestFields {
    /// Returns the block as readers see it, or `None` if the bank has no blockhash.
    pub fn block_info(&self) -> Option<BlockInfo> {
        let blockhashes = BlockhashQueue::restore(self.bank.blockhashes.iter().copied())?;
        let block = &self.block;
        Some(BlockInfo {
            block: block.id,
            parent: block.parent,
            block_height: block.block_height,
            blockhashes: Arc::new(blockhashes),
            transaction_count: block.transaction_count,
            unix_timestamp: self.unix_timestamp,
            capitalization: self.capitalization,
            bank_hash: block.bank_hash,
            hash_components: block.hash_components,
            complete: true,
        })
    }

    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.bytes(&self.chain.to_bytes());
        out.bytes(&self.bank.to_bytes());
        out.bytes(&write_epochs(self.epochs.iter()));
        out.bytes(&codec::write_block(&self.block.without_content()));
        // The codec of blocks does not have it.
        out.u64(self.block.parent.version);
        out.i64(self.unix_timestamp);
        out.u64(self.capitalization);
        codec::write_level(out, self.level);
    }

    pub(crate) fn read(from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let chain = ChainRow::from_bytes(from.bytes("chain")?).map_err(|err| match err {
            ChainRowError::Format(_) => DecodeError { what: "format of the chain" },
            ChainRowError::Field(what) => DecodeError { what },
        })?;
        let bank = BankRow::from_bytes(from.bytes("bank")?)?;
        let epochs = read_epochs(from.bytes("epochs")?)?;
        let mut block = codec::read_block(from.bytes("block")?)?;
        block.parent.version = from.u64("version of the parent")?;
        let unix_timestamp = from.i64("time of the clock")?;
        let capitalization = from.u64("capitalization")?;
        let level = codec::read_level(from)?;
        if bank.blockhashes.last() != Some(&block.blockhash) {
            return Err(DecodeError { what: "newest blockhash" });
        }
        Ok(Self { chain, bank, epochs, block, unix_timestamp, capitalization, level })
    }
}

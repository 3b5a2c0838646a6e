//! Chains of two depths above their root: a virtual block, a root in the block log, and the memory of a changed record.
//!
//! Shape: a block has 375 transactions with two inputs and two outputs: it creates 750 UTXOs and spends 750, of scripts
//! chosen at random among a million. Above each chain block the virtual block is replaced: by one that accepts as many
//! transactions where none were accepted, four times by one that retains three quarters of them, once by one that
//! retains none. Then a chain block accepts the transactions of the last one, and the oldest block becomes the root.
//!
//! A virtual block costs its message, its publication, and the release of the state before. Notifications are not in
//! it: the block log of `subscriptions` gets the events as from the publisher, without any client. A root costs the move
//! of the finalized commitment in that log. The memory is the growth of the process while the chain gets its depth: the
//! records above the root, the blocks with their headers and changes, the products, and the block log. The first blocks
//! are not counted: they use memory that the allocator retained from the load. History has limits of its own, and is
//! one block here.
//!
//! Rounds alternate between the depths. Times are CPU time of the one thread.
//! Bounds: about 1.2 GB.

use std::sync::Arc;

use anyhow::{Result, ensure};
use chain_kaspa::{Chain, ChainEvent, HistoryLimits, LedgerBlock, TemplateCheck, VirtualMode};
use cpu_time::ThreadTime;
use ledger::{BlockId, Commitment};
use muhash::MuHash;
use process_usage::Process;
use subscriptions::{Limits, Message, Subscriptions};
use testkit::kaspa_chain::{BlockBuilder, UtxoPool};

use crate::loaded_chain::{hash_pool, load_pool};
use crate::median::median;
use crate::metric::print_metric;
use crate::size::Size;
use crate::virtual_block::VirtualBlock;

/// The part of the depth that is added before memory is measured: one in this number of blocks.
const UNCOUNTED_PART: usize = 4;
/// Virtual blocks that retain three quarters, above each chain block.
const VIRTUAL_BLOCKS: usize = 4;

struct MeasuredChain {
    depth: usize,
    chain: Chain,
    virtual_block: VirtualBlock,
    log: BlockLog,
    /// Records that blocks of the chain changed so far.
    changed_records: usize,
    /// CPU times in milliseconds: of virtual blocks that retain most, of those that retain nothing, of chain blocks.
    retaining_ms: Vec<f64>,
    other_ms: Vec<f64>,
    chain_ms: Vec<f64>,
    /// CPU times of a root in microseconds.
    root_us: Vec<f64>,
}

pub(crate) fn run(size: &Size) -> Result<()> {
    let product = hash_pool(size.scripts);
    let utxos = 2 * size.deep_transactions;
    println!("{utxos} UTXOs created and {utxos} spent by a block, {} scripts:", size.scripts);
    println!(
        "depth   virtual block ms   that retains nothing   chain block   root us   B a changed record"
    );
    let mut chains = Vec::new();
    let mut record_bytes = Vec::new();
    for depth in size.depths {
        let mut measured = MeasuredChain::new(size, &product, depth)?;
        record_bytes.push(measured.fill(size)?);
        chains.push(measured);
    }
    for _ in 0..size.rounds {
        chains.iter_mut().try_for_each(|measured| measured.add_round(size))?;
    }
    for ((name, measured), bytes) in ["shallow", "deep"].into_iter().zip(chains).zip(record_bytes) {
        measured.check()?;
        let depth = measured.depth;
        let retaining = median(measured.retaining_ms);
        let other = median(measured.other_ms);
        let chain = median(measured.chain_ms);
        let root = median(measured.root_us);
        println!(
            "{depth:>5} {retaining:>18.2} {other:>22.2} {chain:>13.2} {root:>9.2} {bytes:>20.1}"
        );
        print_metric(&format!("virtual_ms_{name}"), retaining);
        print_metric(&format!("other_virtual_ms_{name}"), other);
        print_metric(&format!("root_us_{name}"), root);
        print_metric(&format!("record_bytes_{name}"), bytes);
    }
    Ok(())
}

impl MeasuredChain {
    fn new(size: &Size, product: &MuHash, depth: usize) -> Result<Self> {
        let builder = BlockBuilder::new(product.clone());
        let history = HistoryLimits { blocks_max: 1, bytes_max: 0 };
        let mut chain = load_pool(&builder, product, size.scripts, depth, history)?;
        join_virtual(&mut chain, &builder)?;
        let (_, start) = chain.reader().utxos.version_and_block(Commitment::Confirmed);
        let pool = UtxoPool::new(depth as u64, size.scripts);
        Ok(Self {
            depth,
            chain,
            virtual_block: VirtualBlock::new(builder, pool),
            log: BlockLog::new(start),
            changed_records: 0,
            retaining_ms: Vec::new(),
            other_ms: Vec::new(),
            chain_ms: Vec::new(),
            root_us: Vec::new(),
        })
    }

    /// Adds blocks until the chain has its depth. Returns the bytes of a changed record.
    fn fill(&mut self, size: &Size) -> Result<f64> {
        let process = Process::current();
        let uncounted = self.depth.div_ceil(UNCOUNTED_PART);
        self.add_blocks(size, uncounted)?;
        let before = process.anonymous_bytes()?;
        let records_before = self.changed_records;
        self.add_blocks(size, self.depth - uncounted)?;
        let bytes = process.anonymous_bytes()?.saturating_sub(before);
        let records = self.changed_records - records_before;
        self.chain_ms.clear();
        self.root_us.clear();
        ensure!(self.chain.usage().unrooted_blocks >= self.depth, "the chain has its depth");
        // A toy may fit into memory that the allocator retained.
        ensure!(bytes > 0 || size.is_toy, "the process did not grow by {records} records");
        Ok(bytes as f64 / records as f64)
    }

    fn add_blocks(&mut self, size: &Size, blocks: usize) -> Result<()> {
        for _ in 0..blocks {
            self.replace_virtual(size, |_| false)?;
            self.add_chain_block()?;
        }
        Ok(())
    }

    fn add_round(&mut self, size: &Size) -> Result<()> {
        self.replace_virtual(size, |_| false)?;
        for nth in 0..VIRTUAL_BLOCKS {
            let ms = self.replace_virtual(size, |at| at % 4 != nth % 4)?;
            self.retaining_ms.push(ms);
        }
        let ms = self.replace_virtual(size, |_| false)?;
        self.other_ms.push(ms);
        self.add_chain_block()
    }

    /// Replaces the virtual block. Returns the CPU time in milliseconds.
    fn replace_virtual(&mut self, size: &Size, is_retained: impl Fn(usize) -> bool) -> Result<f64> {
        let message = self.virtual_block.replace(size.deep_transactions, is_retained);
        let started = ThreadTime::now();
        self.chain.apply_utxos_changed(&message);
        let publication = self.chain.publish()?;
        let before_events = started.elapsed();
        self.log.publish(&publication.events)?;
        let started = ThreadTime::now();
        drop(publication);
        self.chain.reclaim();
        Ok((before_events + started.elapsed()).as_secs_f64() * 1e3)
    }

    /// Adds a chain block that accepts the transactions of the virtual block.
    fn add_chain_block(&mut self) -> Result<()> {
        let block = self.virtual_block.build_chain_block();
        let started = ThreadTime::now();
        let mut step = self.chain.start_step(&[])?;
        step.add_block(block)?;
        step.commit();
        let publication = self.chain.publish()?;
        let took = started.elapsed();
        self.chain_ms.push(took.as_secs_f64() * 1e3);
        for event in &publication.events {
            if let ChainEvent::BlockAdded(block) = event
                && !block.info.is_virtual
            {
                self.changed_records += count_scripts(block);
            }
        }
        if let Some(us) = self.log.publish(&publication.events)? {
            self.root_us.push(us);
        }
        drop(publication);
        self.chain.reclaim();
        Ok(())
    }

    /// Checks that the virtual state was exact to the end, and the sums of the sink's UTXOs.
    fn check(&self) -> Result<()> {
        let status = self.chain.status();
        ensure!(status.virtual_state.mode == VirtualMode::Exact, "{:?}", status.virtual_state);
        ensure!(status.virtual_state.losses == 0, "{:?}", status.virtual_state);
        ensure!(status.counters.refused == 0, "a block was refused");
        Ok(())
    }
}

/// Starts the virtual state, which is exact because the virtual block accepts nothing.
pub(crate) fn join_virtual(chain: &mut Chain, builder: &BlockBuilder) -> Result<()> {
    chain.join_virtual();
    let template = builder.empty_template(chain.status().virtual_daa_score);
    let check = chain.check_template(&template);
    ensure!(check == TemplateCheck::Matched, "{check:?}");
    Ok(())
}

/// Counts the records of scripts that a block changes.
fn count_scripts(block: &LedgerBlock) -> usize {
    let changes = &block.changes;
    let mut ids: Vec<u32> =
        changes.created_utxos().chain(changes.spent_utxos()).map(|utxo| utxo.script_id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

#[derive(Clone)]
struct NoMessage;

impl Message for NoMessage {
    type Conflated = ();

    fn conflate(self, (): &mut ()) -> usize {
        0
    }
}

/// The block log of subscriptions that no client has.
struct BlockLog {
    subscriptions: Subscriptions<u32, NoMessage, LedgerBlock>,
    start: BlockId,
}

impl BlockLog {
    fn new(start: BlockId) -> Self {
        let subscriptions = Subscriptions::new(Limits {
            listeners_max: 1,
            subscriptions_max: 1,
            subscriptions_per_listener_max: 1,
            addresses_max: 1,
            address_pairs_max: 1,
            addresses_per_owner_max: 1,
            addresses_per_listener_max: 1,
            retained_steps: 150,
            retained_bytes: 256 << 20,
            unrooted_max: 4_096,
            queue_messages_max: 1,
            queue_bytes_max: 1,
            queues_bytes_max: 1,
        });
        subscriptions.start_at(|_| start);
        Self { subscriptions, start }
    }

    /// Applies the events of a publication as `rpc_kaspa`'s publisher does. Returns the CPU time of the root in
    /// microseconds, if it moved.
    fn publish(&self, events: &[ChainEvent]) -> Result<Option<f64>> {
        let mut root_us = None;
        for event in events {
            match event {
                ChainEvent::BlockAdded(block) => {
                    let bytes = block.bytes();
                    let body = Arc::clone(block);
                    self.subscriptions.add_block(block.id, block.parent, body, bytes)?;
                }
                ChainEvent::TipsMoved(tips) => {
                    drop(self.subscriptions.advance(Commitment::Processed, tips.processed)?);
                    if tips.finalized.slot > self.start.slot {
                        let is_moved =
                            self.subscriptions.tip(Commitment::Finalized) != Some(tips.finalized);
                        let started = ThreadTime::now();
                        drop(self.subscriptions.advance(Commitment::Finalized, tips.finalized)?);
                        let took = started.elapsed();
                        root_us = is_moved.then_some(took.as_secs_f64() * 1e6);
                    }
                }
                ChainEvent::BlockDropped(block) => self.subscriptions.drop_fork(*block)?,
                _ => {}
            }
        }
        Ok(root_us)
    }
}

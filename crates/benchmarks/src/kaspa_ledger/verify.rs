//! Ten chain blocks and 2,000 transactions a second, as a follower gets them: the CPU time of its writer.
//!
//! Shape: every 100 ms comes a message about the virtual block, and then a chain block that accepts the same transactions.
//! The message and the page of the chain are decoded from Borsh, the block is verified, both are published, and the state
//! before is released. The chain has a hundred blocks above its root, a million scripts, and the default history. A
//! transaction has two inputs and two outputs, and a header 200 parents.
//! Not here: sockets, and notifications of clients.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chain_kaspa::{Chain, DEPTH_DEFAULT, HistoryLimits, VirtualMode};
use cpu_time::ThreadTime;
use kaspa::{ChainReply, Notification};
use muhash::MuHash;
use testkit::kaspa_chain::{BlockBuilder, UtxoPool, dust_utxo};
use testkit::kaspa_node::encode_chain_page;

use crate::depth::join_virtual;
use crate::loaded_chain::{hash_pool, load_pool};
use crate::metric::print_metric;
use crate::size::Size;
use crate::virtual_block::{VirtualBlock, decode_utxos_changed};

/// Chain blocks a second.
const BLOCKS_PER_S: f64 = 10.0;
/// Elements of the set's hash that are timed, to compare machines.
const ELEMENTS: u32 = 20_000;

pub(crate) fn run(size: &Size) -> Result<()> {
    let product = hash_pool(size.scripts);
    let builder = BlockBuilder::new(product.clone());
    let history = HistoryLimits::default();
    let mut chain = load_pool(&builder, &product, size.scripts, DEPTH_DEFAULT, history)?;
    join_virtual(&mut chain, &builder)?;
    let mut virtual_block = VirtualBlock::new(builder, UtxoPool::new(1, size.scripts));
    // The chain has its depth before blocks are measured.
    let mut first = Times::default();
    let mut times = Times::default();
    for nth in 0..DEPTH_DEFAULT + size.verified_blocks {
        let into = if nth < DEPTH_DEFAULT { &mut first } else { &mut times };
        add_block(&mut chain, &mut virtual_block, size.verified_transactions, into)?;
    }
    let status = chain.status();
    ensure!(status.counters.refused == 0, "a block was refused");
    // A virtual state that is off costs nothing.
    ensure!(status.virtual_state.mode == VirtualMode::Exact, "{:?}", status.virtual_state);
    let seconds = size.verified_blocks as f64 / BLOCKS_PER_S;
    let percent = |time: Duration| time.as_secs_f64() / seconds * 100.0;
    let all = times.message + times.virtual_block + times.page + times.chain_block;
    println!(
        "{} chain blocks of {} transactions, {BLOCKS_PER_S} a second: {:.1} % of a core",
        size.verified_blocks,
        size.verified_transactions,
        percent(all)
    );
    println!(
        "  messages decoded {:.2} %, virtual blocks {:.2} %, pages decoded {:.2} %, chain blocks verified {:.2} %",
        percent(times.message),
        percent(times.virtual_block),
        percent(times.page),
        percent(times.chain_block)
    );
    println!("  on this machine {:.2} us for each element of the UTXO set's hash", element_us());
    print_metric("cores", percent(all) / 100.0);
    Ok(())
}

/// CPU times of the writer.
#[derive(Default)]
struct Times {
    message: Duration,
    virtual_block: Duration,
    page: Duration,
    chain_block: Duration,
}

fn add_block(
    chain: &mut Chain,
    virtual_block: &mut VirtualBlock,
    transactions: usize,
    times: &mut Times,
) -> Result<()> {
    let message = Notification::UtxosChanged(virtual_block.replace(transactions, |_| false));
    let frame = message.encode_borsh();
    let page = encode_chain_page(&[virtual_block.build_chain_block()]);

    let started = ThreadTime::now();
    let changes = decode_utxos_changed(&frame)?;
    times.message += started.elapsed();

    let started = ThreadTime::now();
    chain.apply_utxos_changed(&changes);
    drop(changes);
    drop(chain.publish()?);
    chain.reclaim();
    times.virtual_block += started.elapsed();

    let started = ThreadTime::now();
    let mut page = ChainReply::parse(&page)?;
    let block = page.next_block()?.context("a block was encoded")?;
    times.page += started.elapsed();

    let started = ThreadTime::now();
    let mut step = chain.start_step(&[])?;
    step.add_block(block)?;
    step.commit();
    drop(chain.publish()?);
    chain.reclaim();
    times.chain_block += started.elapsed();
    Ok(())
}

/// The CPU time of an element and its multiplication, in microseconds.
fn element_us() -> f64 {
    let utxos: Vec<_> = (0..ELEMENTS).map(|number| dust_utxo(number, 1)).collect();
    let mut product = MuHash::EMPTY;
    let started = ThreadTime::now();
    for (outpoint, entry) in &utxos {
        product.add(&entry.element(outpoint));
    }
    let took = started.elapsed();
    std::hint::black_box(&product);
    took.as_secs_f64() * 1e6 / f64::from(ELEMENTS)
}

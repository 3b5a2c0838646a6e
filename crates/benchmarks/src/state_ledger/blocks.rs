//! Tips that are replaced, and deep chains, for `bench blocks`: `state-ledger blocks [--toy]`.
//!
//! Shape: a chain whose tip is a virtual block. A sibling replaces the virtual block four times for each block of the
//! chain, as in a ledger of a block DAG. Each block of the chain roots the oldest one, so the chain keeps its depth. A
//! block creates 750 UTXOs and spends 750: it writes 1,500 scripts, whose records have 45 bytes for each of their UTXOs.
//! A virtual block repeats three quarters of the one before, because it accepts what that did and a block more. One of
//! five repeats nothing.
//! Parts: the ledger (`query::Ledger`: state and what readers see), and the block log of `subscriptions`.
//! Rounds alternate between the depths. Times are CPU time of the one thread. Bounds: about 1.5 GB.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cpu_time::ThreadTime;
use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record};
use process_usage::Process;
use query::{Ledger, LedgerConfig, Reader};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use subscriptions::{Limits, Message, Subscriptions};

use self::median::median;
use crate::metric::print_metric;

#[path = "../median.rs"]
mod median;

struct Size {
    scripts: u32,
    /// UTXOs that a block creates, and as many that it spends.
    utxos: usize,
    depths: [usize; 2],
    rounds: usize,
}

const FULL: Size = Size { scripts: 1_000_000, utxos: 750, depths: [100, 1_000], rounds: 100 };
const TOY: Size = Size { scripts: 3_000, utxos: 50, depths: [5, 20], rounds: 4 };

/// Virtual blocks for each block of the chain.
const VIRTUAL_BLOCKS: usize = 4;
/// Roots of one measurement of the block log.
const ROOTS: usize = 20;
/// Bytes of a UTXO in the record of its script.
const UTXO_BYTES: usize = 45;
/// UTXOs in the record of one script.
const UTXOS_MAX: u8 = 6;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let size = match args {
        [] => FULL,
        [toy] if toy == "--toy" => TOY,
        _ => bail!("usage: state-ledger blocks [--toy]"),
    };
    measure_ledger(&size)?;
    measure_log(&size)
}

/// The UTXOs of a script.
struct Script(Box<[u8]>);

impl Record for Script {
    fn keys(&self, _: &mut dyn FnMut(KeyKind, Address)) {}

    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        packed.extend_from_slice(&self.0);
        true
    }

    fn unpack(_: &[(KeyKind, Address)], packed: &[u8], _: &dyn Fn() -> Address) -> Option<Self> {
        Some(Self(packed.into()))
    }

    fn weight(&self) -> usize {
        size_of_val(self) + self.0.len()
    }
}

/// A chain of one depth above its root, with its virtual block.
struct Chain {
    ledger: Ledger<Script, ()>,
    reader: Reader<Script, ()>,
    log: BlockLog,
    rng: StdRng,
    /// The UTXOs of each script at the newest block of the chain.
    utxos: Vec<u8>,
    unrooted: VecDeque<BlockId>,
    virtual_block: Option<BlockId>,
    /// The scripts that the virtual block writes, and their UTXOs after it.
    accepted: Vec<(u32, u8)>,
    versions: u64,
}

/// Whether a block repeats the writes of the virtual block before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepted {
    /// Three quarters of it.
    Most,
    Nothing,
}

impl Chain {
    fn new(size: &Size) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(1);
        let config = LedgerConfig::new(4 * size.scripts);
        let (mut ledger, reader) =
            Ledger::new(config, BlockId { slot: 0, version: 0 }, Arc::new(()));
        let utxos: Vec<u8> = (0..size.scripts).map(|_| rng.random_range(1..=3)).collect();
        for first in (0..size.scripts).step_by(10_000) {
            let scripts = first..size.scripts.min(first + 10_000);
            let changes = scripts.map(|n| change(n, utxos[n as usize], 0)).collect();
            ledger.apply(ledger.root(), changes, Arc::new(()))?;
        }
        ledger.publish();
        let log = BlockLog::new();
        let unrooted = VecDeque::new();
        Ok(Self {
            ledger,
            reader,
            log,
            rng,
            utxos,
            unrooted,
            virtual_block: None,
            accepted: Vec::new(),
            versions: 0,
        })
    }

    fn newest(&self) -> BlockId {
        self.unrooted.back().copied().unwrap_or_else(|| self.ledger.root())
    }

    fn new_block(&mut self, parent: BlockId) -> BlockId {
        self.versions += 1;
        BlockId { slot: parent.slot + 1, version: self.versions }
    }

    /// The changes of a block: `accepted` has the scripts afterwards, and their UTXOs after the block.
    fn changes(&mut self, size: &Size, repeated: Accepted) -> Vec<Change<Script>> {
        let before = std::mem::take(&mut self.accepted);
        let is_repeated =
            |at: usize| repeated == Accepted::Most && at % 4 != (self.versions % 4) as usize;
        let mut chosen: HashSet<u32> = before.iter().map(|(script, _)| *script).collect();
        let mut after = Vec::with_capacity(2 * size.utxos);
        while after.len() < 2 * size.utxos {
            let at = after.len();
            if let Some(accepted) = before.get(at).filter(|_| is_repeated(at)) {
                after.push(*accepted);
                continue;
            }
            let script = self.rng.random_range(0..size.scripts);
            let utxos = self.utxos[script as usize];
            let is_spent = at >= size.utxos;
            if is_spent && utxos == 0 || !chosen.insert(script) {
                continue;
            }
            after.push((script, if is_spent { utxos - 1 } else { UTXOS_MAX.min(utxos + 1) }));
        }
        let change = |(script, utxos): &(u32, u8)| change(*script, *utxos, self.versions);
        let changes = after.iter().map(change).collect();
        self.accepted = after;
        changes
    }

    /// Replaces the virtual block by a sibling. Returns the CPU time in milliseconds.
    fn replace_virtual_block(&mut self, size: &Size, repeated: Accepted) -> Result<f64> {
        let parent = self.newest();
        let block = self.new_block(parent);
        let changes = self.changes(size, repeated);
        let before = self.virtual_block.replace(block);
        let started = ThreadTime::now();
        self.ledger.open_hidden(block, parent, Arc::new(()))?;
        let ids = self.ledger.apply(block, changes, Arc::new(()))?;
        self.ledger.complete(block, Arc::new(()))?;
        self.ledger.set_tip(block)?;
        if let Some(before) = before {
            self.ledger.drop_fork(before)?;
        }
        self.ledger.publish();
        let took = started.elapsed();
        self.log.add(block, parent, ids.iter().map(|id| id.0).collect())?;
        self.log.advance(Commitment::Processed, block)?;
        if let Some(before) = before {
            self.log.subscriptions.drop_fork(before)?;
        }
        Ok(took.as_secs_f64() * 1e3)
    }

    /// Adds a block to the chain, without a virtual block on it. Roots the oldest one above `depth`. Returns the CPU time
    /// in milliseconds.
    fn add_block(&mut self, size: &Size, depth: usize) -> Result<f64> {
        let parent = self.newest();
        let block = self.new_block(parent);
        let changes = self.changes(size, Accepted::Most);
        for (script, utxos) in std::mem::take(&mut self.accepted) {
            self.utxos[script as usize] = utxos;
        }
        self.unrooted.push_back(block);
        let root = (self.unrooted.len() > depth).then(|| self.unrooted.pop_front()).flatten();
        let before = self.virtual_block.take();
        let started = ThreadTime::now();
        self.ledger.open_hidden(block, parent, Arc::new(()))?;
        let ids = self.ledger.apply(block, changes, Arc::new(()))?;
        self.ledger.complete(block, Arc::new(()))?;
        self.ledger.set_tip(block)?;
        self.ledger.confirm(block)?;
        if let Some(before) = before {
            self.ledger.drop_fork(before)?;
        }
        if let Some(root) = root {
            self.ledger.finalize(root)?;
        }
        self.ledger.publish();
        let took = started.elapsed();
        self.log.add(block, parent, ids.iter().map(|id| id.0).collect())?;
        self.log.advance(Commitment::Confirmed, block)?;
        if let Some(before) = before {
            self.log.subscriptions.drop_fork(before)?;
        }
        if let Some(root) = root {
            self.log.advance(Commitment::Finalized, root)?;
        }
        Ok(took.as_secs_f64() * 1e3)
    }

    /// Compares a sample of the scripts with what readers see at the newest block of the chain.
    fn check(&mut self) -> Result<()> {
        let view = self.reader.view(Commitment::Confirmed);
        for _ in 0..1_000 {
            let script = self.rng.random_range(0..self.utxos.len());
            let found = view.record(&address(script as u32));
            let len = found.map_or(0, |script| script.0.len());
            let expected = usize::from(self.utxos[script]) * UTXO_BYTES;
            anyhow::ensure!(len == expected, "script {script} has {len} of {expected} bytes");
        }
        Ok(())
    }
}

fn address(script: u32) -> Address {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&script.to_le_bytes());
    Address::from(bytes)
}

/// A script with some UTXOs, as `version` writes it; removed without any.
fn change(script: u32, utxos: u8, version: u64) -> Change<Script> {
    let bytes = |n: u8| {
        let mut utxo = [n; UTXO_BYTES];
        utxo[..8].copy_from_slice(&version.to_le_bytes());
        utxo
    };
    let record = (utxos > 0).then(|| Arc::new(Script((0..utxos).flat_map(bytes).collect())));
    Change { address: address(script), record }
}

fn measure_ledger(size: &Size) -> Result<()> {
    let changes = 2 * size.utxos;
    println!("a block of {changes} changed records among {} scripts:", size.scripts);
    println!(
        "depth   virtual block ms   that repeats nothing   block of the chain   B a changed record"
    );
    let mut chains = Vec::new();
    for depth in size.depths {
        let mut chain = Chain::new(size)?;
        let before = Process::current().anonymous_bytes()?;
        for _ in 0..depth {
            chain.add_block(size, depth)?;
        }
        let bytes = Process::current().anonymous_bytes()?.saturating_sub(before);
        chains.push(MeasuredChain {
            depth,
            chain,
            record_bytes: bytes as f64 / (depth * changes) as f64,
            virtual_ms: Vec::new(),
            other_virtual_ms: Vec::new(),
            chain_ms: Vec::new(),
        });
    }
    for _ in 0..size.rounds {
        for measured in &mut chains {
            let chain = &mut measured.chain;
            for _ in 0..VIRTUAL_BLOCKS {
                measured.virtual_ms.push(chain.replace_virtual_block(size, Accepted::Most)?);
            }
            measured.other_virtual_ms.push(chain.replace_virtual_block(size, Accepted::Nothing)?);
            measured.chain_ms.push(chain.add_block(size, measured.depth)?);
        }
    }
    for (name, mut measured) in ["shallow", "deep"].into_iter().zip(chains) {
        measured.chain.check()?;
        let depth = measured.depth;
        let virtual_ms = median(measured.virtual_ms);
        let other_ms = median(measured.other_virtual_ms);
        let chain_ms = median(measured.chain_ms);
        let bytes = measured.record_bytes;
        println!("{depth:>5} {virtual_ms:>18.2} {other_ms:>17.2} {chain_ms:>20.2} {bytes:>20.1}");
        print_metric(&format!("virtual_ms_{name}"), virtual_ms);
        print_metric(&format!("other_virtual_ms_{name}"), other_ms);
        print_metric(&format!("record_bytes_{name}"), bytes);
    }
    Ok(())
}

struct MeasuredChain {
    depth: usize,
    chain: Chain,
    record_bytes: f64,
    virtual_ms: Vec<f64>,
    other_virtual_ms: Vec<f64>,
    chain_ms: Vec<f64>,
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
    subscriptions: Subscriptions<u32, NoMessage, Vec<u32>>,
}

impl BlockLog {
    fn new() -> Self {
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
            unrooted_max: 1 << 13,
            queue_messages_max: 1,
            queue_bytes_max: 1,
            queues_bytes_max: 1,
        });
        subscriptions.start_at(|_| BlockId { slot: 0, version: 0 });
        Self { subscriptions }
    }

    fn add(&self, block: BlockId, parent: BlockId, written: Vec<u32>) -> Result<()> {
        let bytes = 4 * written.len();
        self.subscriptions.add_block(block, parent, Arc::new(written), bytes)?;
        Ok(())
    }

    fn advance(&self, commitment: Commitment, to: BlockId) -> Result<()> {
        drop(self.subscriptions.advance(commitment, to)?);
        Ok(())
    }
}

/// A chain in the block log alone.
struct LoggedChain {
    log: BlockLog,
    unrooted: VecDeque<BlockId>,
    versions: u64,
    /// Whether replaced virtual blocks are dropped. Otherwise they stay until a root passes them.
    drops_replaced: bool,
}

impl LoggedChain {
    /// A block of the chain, after the virtual blocks on the one before.
    fn add_block(&mut self) -> Result<()> {
        let parent = self.unrooted.back().copied().unwrap_or(BlockId { slot: 0, version: 0 });
        let mut before = None;
        for at in 0..=VIRTUAL_BLOCKS {
            self.versions += 1;
            let block = BlockId { slot: parent.slot + 1, version: self.versions };
            self.log.add(block, parent, Vec::new())?;
            self.log.advance(Commitment::Processed, block)?;
            if let Some(before) = before.replace(block).filter(|_| self.drops_replaced) {
                self.log.subscriptions.drop_fork(before)?;
            }
            if at == VIRTUAL_BLOCKS {
                self.log.advance(Commitment::Confirmed, block)?;
                self.unrooted.push_back(block);
            }
        }
        Ok(())
    }

    /// Adds some blocks and roots as many. Returns the CPU time of a root in microseconds.
    fn root_some(&mut self) -> Result<f64> {
        for _ in 0..ROOTS {
            self.add_block()?;
        }
        let started = ThreadTime::now();
        for _ in 0..ROOTS {
            let root = self.unrooted.pop_front().context("they were added")?;
            self.log.advance(Commitment::Finalized, root)?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e6 / ROOTS as f64)
    }
}

fn measure_log(size: &Size) -> Result<()> {
    println!(
        "a root in the block log, {VIRTUAL_BLOCKS} virtual blocks for each block of the chain:"
    );
    println!("depth   replaced ones are dropped: us   stay until the root: us");
    let mut chains = Vec::new();
    for depth in size.depths {
        for drops_replaced in [true, false] {
            let log = BlockLog::new();
            let unrooted = VecDeque::new();
            let mut chain = LoggedChain { log, unrooted, versions: 0, drops_replaced };
            for _ in 0..depth {
                chain.add_block()?;
            }
            chains.push((chain, Vec::new()));
        }
    }
    for _ in 0..size.rounds {
        for (chain, us) in &mut chains {
            us.push(chain.root_some()?);
        }
    }
    let us: Vec<f64> = chains.into_iter().map(|(_, us)| median(us)).collect();
    let names = ["shallow", "deep"].into_iter();
    for ((name, depth), us) in names.zip(size.depths).zip(us.chunks(2)) {
        println!("{depth:>5} {:>31.2} {:>25.2}", us[0], us[1]);
        print_metric(&format!("root_us_{name}"), us[0]);
        print_metric(&format!("root_us_staying_{name}"), us[1]);
    }
    Ok(())
}

//! `rig kaspa`: a real kaspad on simnet, followed by `hydrant follow-kaspa`, and compared with it.
//!
//! Input: options (`options`). Output: tables of the run: commitments checked, equal and different replies by method,
//! reorganizations by depth, notifications by subscriber, and times and resources of both. Logs and the first
//! differences remain in the rig's directory.
//! Shape: each round mines blocks with transactions and siblings, makes a reorganization of the next depth, and on
//! request a fault. After each part nothing is mined until Hydrant has the position of kaspad, and both are compared:
//! replies (`comparison`) and their times (`call_times`), Hydrant's own methods (`own_methods`), and the states that
//! the notifications of subscribers add up to (`subscribers`). On request unmodified clients in Rust are compared, too
//! (`rust_clients`).
//! Bounds: blocks and minutes, whichever is reached first. All processes end with this program's run.
//! Not here: replies while blocks are mined; load by other programs, such as rothschild; the model node of tests
//! (`testkit`).

mod arrivals;
mod call_times;
mod comparison;
mod depths;
mod faults;
mod hydrant;
mod kaspad;
mod metrics;
mod miner;
mod node_clients;
mod nodes;
mod notification_times;
mod options;
mod own_methods;
mod programs;
mod report;
mod requests;
mod resources;
mod resuming_client;
mod rust_clients;
mod statistics;
mod stream_state;
mod subscriber;
mod subscribers;
mod time_tables;
mod wallet;
mod wrpc_client;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kaspa::{Encoding, Hash, KaspaAddress, Method};

use crate::kaspa_rig::comparison::Comparison;
use crate::kaspa_rig::depths::Depths;
use crate::kaspa_rig::faults::Faults;
use crate::kaspa_rig::hydrant::Endpoints;
use crate::kaspa_rig::nodes::{ComparedClients, Nodes};
use crate::kaspa_rig::notification_times::MeasuredBlock;
use crate::kaspa_rig::options::{Options, USAGE};
use crate::kaspa_rig::own_methods::compare_own_methods;
use crate::kaspa_rig::report::Report;
use crate::kaspa_rig::requests::Request;
use crate::kaspa_rig::resources::ComparedResources;
use crate::kaspa_rig::resuming_client::ResumingClient;
use crate::kaspa_rig::rust_clients::{ClientPorts, RustClients};
use crate::kaspa_rig::stream_state::NodeState;
use crate::kaspa_rig::subscribers::Subscribers;
use crate::rig::clock::now;

/// The name of this rig among the arguments of `rig`.
pub(crate) const NAME: &str = "kaspa";

/// Blocks of a round without a reorganization.
const ROUND_BLOCKS: usize = 10;
/// Addresses that one comparison requests with all methods. Each comparison has the next ones.
const COMPARED_ADDRESSES: usize = 12;
/// Addresses of the subscribers that are not subscribed to all UTXOs.
const SUBSCRIBED_ADDRESSES: usize = 40;
/// The UTXOs of all addresses are compared in JSON in every comparison of this number.
const WHOLE_JSON_INTERVAL: u64 = 10;
/// Time that Hydrant has to show a reorganization before the next block.
const TIPS_TIMEOUT: Duration = Duration::from_secs(10);
/// The deepest reorganization while a node does not run.
const FAULT_DEPTH_MAX: usize = 20;
/// The difference between the depths of two such reorganizations. It has no common divisor with [`FAULT_DEPTH_MAX`].
const FAULT_DEPTH_DISTANCE: usize = 7;
/// Time between two reports of the state.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// A run.
struct KaspaRig {
    options: Options,
    nodes: Nodes,
    subscribers: Subscribers,
    resuming_client: ResumingClient,
    /// The program with kaspa-grpc-client and kaspa-wrpc-client, if they are compared.
    client_program: Option<PathBuf>,
    rust_clients: Option<RustClients>,
    client_addresses: Vec<KaspaAddress>,
    comparison: Comparison,
    comparisons: u64,
    /// Comparisons after a reorganization that were left out, because Hydrant was not level in time.
    skipped_comparisons: u64,
    depths: Depths,
    /// The reorganizations that were made, by their depth.
    reorganizations: BTreeMap<usize, u64>,
    faults: Faults,
    /// An older chain block: changes of the chain since then are compared.
    base: Hash,
    started: Instant,
    last_report: Instant,
    last_fault: Instant,
}

/// Runs the rig with the arguments after its name.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.iter().any(|arg| arg == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let home = std::env::var("HOME").context("HOME is not set: name --dir")?;
    let mut options = Options::parse(args, PathBuf::from(home))?;
    std::fs::create_dir_all(&options.dir)?;
    options.dir = options.dir.canonicalize()?;
    let programs = programs::find_programs(&options)?;
    let nodes = Nodes::start(&options, &programs)?;
    let mut rig = KaspaRig::new(options, nodes, programs.rust_client)?;
    let end = rig.run_rounds();
    let report = rig.report(end.as_ref().map_or_else(|error| format!("{error:#}"), Clone::clone));
    println!("{}", report.tables(&rig.comparison));
    let file = rig.nodes.dir().join("differences.txt");
    std::fs::write(&file, format!("{}\n{}", rig.comparison.examples(), report.examples()))?;
    println!("logs and differences: {}", rig.nodes.dir().display());
    end?;
    report.check(&rig.comparison)
}

impl KaspaRig {
    /// Waits until Hydrant has caught up, and connects the subscribers.
    fn new(options: Options, mut nodes: Nodes, client_program: Option<PathBuf>) -> Result<Self> {
        let started = now();
        let base = nodes.settle()?.sink;
        println!("Hydrant has caught up after {:.1} s", started.elapsed().as_secs_f64());
        let addresses = nodes.miner.addresses();
        // Keys and scripts alike.
        let distance = addresses.len().div_ceil(SUBSCRIBED_ADDRESSES);
        let some: Vec<KaspaAddress> = addresses.iter().step_by(distance).copied().collect();
        let faults = Faults::new(if options.faults.is_some() { options.kills } else { 0 });
        let mut rig = Self {
            options,
            nodes,
            subscribers: Subscribers::new(&some),
            resuming_client: ResumingClient::new(some.clone()),
            client_program,
            rust_clients: None,
            client_addresses: some,
            comparison: Comparison::default(),
            comparisons: 0,
            skipped_comparisons: 0,
            depths: Depths::default(),
            reorganizations: BTreeMap::new(),
            faults,
            base,
            started,
            last_report: started,
            last_fault: started,
        };
        rig.connect_subscribers()?;
        Ok(rig)
    }

    /// Mines and compares until a bound of the options is reached. Returns the reason for the end.
    fn run_rounds(&mut self) -> Result<String> {
        let end = loop {
            let submission = self.nodes.miner.mine(ROUND_BLOCKS)?;
            self.settle_and_compare()?;
            self.subscribers.record_change(MeasuredBlock::OneParent, submission);
            self.make_due_fault()?;
            self.reorganize()?;
            if self.last_report.elapsed() > REPORT_INTERVAL {
                self.last_report = now();
                println!("{}", self.line());
            }
            if self.started.elapsed() > self.options.time {
                break "the time is over";
            }
            let is_mined = self.nodes.miner.counters.blocks >= self.options.blocks;
            if is_mined && self.faults.is_finished() {
                break "the blocks are mined";
            }
        };
        self.settle_and_compare()?;
        self.compare_whole_set(Encoding::Json)?;
        Ok(end.to_owned())
    }

    /// Makes the next fault if its time has come.
    fn make_due_fault(&mut self) -> Result<()> {
        let Some(interval) = self.options.faults else { return Ok(()) };
        if self.last_fault.elapsed() < interval {
            return Ok(());
        }
        let Some(fault) = self.faults.next_fault() else { return Ok(()) };
        self.subscribers.report_lost_connections(&mut self.comparison);
        // Their connections may end with their servers.
        self.rust_clients = None;
        let depth = self.faults.count() as usize * FAULT_DEPTH_DISTANCE % FAULT_DEPTH_MAX + 1;
        let cut_off = self.nodes.make_fault(fault, depth)?;
        println!("{fault:?}, {} of {}", self.faults.count(), self.options.kills);
        let started = now();
        let state = self.nodes.settle()?;
        println!("Hydrant has caught up after {:.1} s", started.elapsed().as_secs_f64());
        if let Some(server) = cut_off {
            self.subscribers.disconnect(server);
        }
        self.compare(&state)?;
        self.connect_subscribers()?;
        self.last_fault = now();
        Ok(())
    }

    /// Makes a reorganization of the next depth, and compares before and after the block that merges both branches.
    fn reorganize(&mut self) -> Result<()> {
        let depth = self.depths.next_depth();
        let removed = self.nodes.miner.reorganize(depth)?;
        *self.reorganizations.entry(removed).or_default() += 1;
        let is_level = self.nodes.wait_until_level(TIPS_TIMEOUT)?;
        if is_level {
            let state = self.nodes.state()?;
            self.compare(&state)?;
        } else {
            self.skipped_comparisons += 1;
        }
        let submission = self.nodes.miner.mine(1)?;
        self.settle_and_compare()?;
        if is_level {
            self.subscribers.record_change(MeasuredBlock::Merging, submission);
        }
        Ok(())
    }

    fn settle_and_compare(&mut self) -> Result<()> {
        let state = self.nodes.settle()?;
        self.compare(&state)
    }

    /// Compares the nodes, and the subscribers with them, while nothing is mined.
    fn compare(&mut self, state: &NodeState) -> Result<()> {
        let addresses = self.next_addresses();
        let ComparedClients { kaspad, hydrant } = self.nodes.compared_clients()?;
        self.comparison.compare_methods(kaspad, hydrant, self.base, &addresses)?;
        self.compare_whole_set(Encoding::Borsh)?;
        if self.comparisons.is_multiple_of(WHOLE_JSON_INTERVAL) {
            self.compare_whole_set(Encoding::Json)?;
        }
        let change = self.nodes.miner.main.chain_change(self.base)?;
        let endpoints = self.nodes.hydrant.endpoints()?;
        compare_own_methods(&mut self.comparison, endpoints.rpc, state, &addresses, &change)?;
        self.resuming_client.compare(&mut self.comparison, endpoints, state.sink)?;
        if let Some(clients) = &mut self.rust_clients {
            clients.compare(&mut self.comparison)?;
        }
        self.subscribers.compare(&mut self.comparison, state);
        self.nodes.miner.set_utxos(&state.utxos, state.virtual_daa_score);
        self.base = state.sink;
        self.comparisons += 1;
        Ok(())
    }

    /// Compares the UTXOs of all addresses.
    fn compare_whole_set(&mut self, encoding: Encoding) -> Result<()> {
        let addresses = self.nodes.miner.addresses().to_vec();
        let request = Request::Addresses(Method::GetUtxosByAddresses, &addresses);
        let ComparedClients { kaspad, hydrant } = self.nodes.compared_clients()?;
        self.comparison.compare(kaspad, hydrant, encoding, &request)
    }

    /// Connects the subscribers that are not connected, while nothing is mined.
    fn connect_subscribers(&mut self) -> Result<()> {
        let state = self.nodes.state()?;
        let endpoints = self.nodes.hydrant.endpoints()?;
        let main = &self.nodes.miner.main;
        self.subscribers.connect(endpoints, main, &state)?;
        if let Some(program) = &self.client_program
            && self.rust_clients.is_none()
        {
            let kaspad = ClientPorts { grpc: main.grpc(), borsh: main.borsh(), json: main.json() };
            let Endpoints { grpc, wrpc_borsh: borsh, wrpc_json: json, .. } = endpoints;
            let hydrant = ClientPorts { grpc, borsh, json };
            let addresses = &self.client_addresses;
            let clients = RustClients::start(program, kaspad, hydrant, addresses)?;
            self.rust_clients = Some(clients);
        }
        Ok(())
    }

    /// Returns the addresses of the next comparison.
    fn next_addresses(&self) -> Vec<KaspaAddress> {
        let all = self.nodes.miner.addresses();
        let first = self.comparisons as usize * COMPARED_ADDRESSES;
        (first..first + COMPARED_ADDRESSES).map(|at| all[at % all.len()]).collect()
    }

    fn line(&self) -> String {
        let totals = self.comparison.totals();
        format!(
            "{:.0} s: {} blocks, {} transactions, {} comparisons with {} equal and {} different replies, {} faults",
            self.started.elapsed().as_secs_f64(),
            self.nodes.miner.counters.blocks,
            self.nodes.miner.counters.transactions,
            self.comparisons,
            totals.equal + totals.repeated,
            totals.different,
            self.faults.count(),
        )
    }

    fn report(&self, end: String) -> Report {
        Report {
            end,
            miner: self.nodes.miner.counters,
            // A Hydrant that has ended has no counters; the verdict then says so.
            hydrant: self.nodes.hydrant.counters().unwrap_or_default(),
            comparisons: self.comparisons,
            skipped_comparisons: self.skipped_comparisons,
            completing_blocks: self.nodes.completing_blocks,
            faults: self.faults.count(),
            missing_faults: self.faults.missing(),
            reorganizations: self.reorganizations.clone(),
            streams: self.subscribers.stream_reports(),
            resuming_client: self.resuming_client.counters,
            notification_times: self.subscribers.notification_times(),
            resources: ComparedResources {
                kaspad: self.nodes.miner.main.resources().ok(),
                hydrant: self.nodes.hydrant.resources().ok(),
            },
        }
    }
}

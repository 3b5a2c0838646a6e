//! One set-up: a node with its ledger, the transactions, the clients, and all that is observed of them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use process_usage::Process;
use serde_json::json;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::{Node, NodeCommand};
use testkit::scenario::{Client, Scenario, SendStats, Task, send_at_rate, task};
use testkit::transfers::fund_payers;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::block_reader::{Block, Blocks};
use super::client::{Period, Schedule, Subscriber};
use super::comparison::Comparison;
use super::samples::{Sample, Samples, parse_allocator_stats};
use super::size::{SetUp, Size};
use crate::node;
use crate::report::Progress;
use crate::subs::observations::{ListenerThread, Observations};
use crate::subs::runtime::runtime;
use crate::subs::transfers::Transfers;

const SLOT_MS: &str = "200";
/// Slots of history: enough for the reader of blocks, and full long before samples count.
const HISTORY_SLOTS: &str = "100";
/// Number of payers: no two transfers in a row have the same.
const PAYERS: usize = 64;
/// Transfers a second to the probe: at least one in a slot.
const PROBE_RATE: f64 = 10.0;
/// Time limit for the last transactions, notifications and cycles, after the planned end of a set-up.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);

/// All that was observed in a set-up.
pub(super) struct Observed {
    pub(super) periods: Vec<Period>,
    pub(super) blocks: Vec<Block>,
    pub(super) samples: Vec<Sample>,
    /// Notifications of the probe, and confirmations.
    pub(super) probe: Observations,
    pub(super) allocator: Vec<(String, f64)>,
    pub(super) ready_seconds: f64,
}

/// Runs a set-up over the ledger of an archive.
pub(super) fn run(
    size: &Size,
    set_up: &SetUp,
    archive: &Path,
    progress: &Arc<Mutex<Progress>>,
) -> Result<Observed> {
    let runtime = runtime()?;
    let mut node = start_node(archive)?;
    let ready_seconds = node.started.elapsed().as_secs_f64();
    let mut caller = JsonRpcClient::open(node.rpc)?;
    let transfers = Transfers::new(fund_payers(&mut caller, PAYERS)?, caller.latest_blockhash()?);
    let first_slot = caller.call("getSlot", json!([{ "commitment": "confirmed" }]))?;
    let first_slot = first_slot.as_u64().context("no slot")?;
    let probe = Observations::default();
    let probe_set = size.probe()..size.probe() + 1;
    let listening = ListenerThread::start(node.ws, vec![probe_set], &probe)?;
    let blocks = Blocks::default();
    let samples = Samples::default();
    let clients = SharedClients::default();
    let run = async {
        let mut scenario = Scenario::default();
        scenario.add(transfers.refresh(node.rpc));
        scenario.add(blocks.read(node.rpc, first_slot, &transfers));
        let mut subscribers = Vec::new();
        for set in size.sets.ranges() {
            subscribers.push(Subscriber { client: Client::connect(node.ws).await?, set });
        }
        let start = Instant::now();
        let schedule = Schedule { start, cycles: size.cycles(set_up).into() };
        for subscriber in subscribers {
            scenario.add(clients.task(subscriber, &schedule));
        }
        let process = Process::with_id(node.pid());
        let every = Duration::from_secs_f64(size.sample_seconds);
        scenario.add(samples.record(process, node.rpc, every, progress));
        let sent = SendStats::default();
        let requests = transfers.requests(size.recipients());
        scenario.add(send_at_rate(node.rpc, size.rate, &sent, requests));
        let requests = transfers.requests(std::iter::repeat(size.probe()));
        scenario.add(send_at_rate(node.rpc, PROBE_RATE, &SendStats::default(), requests));
        let end = start + Duration::from_secs_f64(size.seconds());
        let until = async {
            sleep_until(end).await;
            let is_done = || {
                clients.count_finished() == size.sets.clients
                    && blocks.count_without(size.probe()) >= size.transactions as usize
            };
            let done = async {
                while !is_done() {
                    sleep(Duration::from_millis(100)).await;
                }
            };
            // Transactions and notifications that have not arrived by then count as missing.
            let _ = timeout(DRAIN_TIMEOUT, done).await;
        };
        scenario.run(until).await
    };
    runtime.block_on(run)?;
    drop(listening);
    Ok(Observed {
        periods: clients.take_periods(),
        blocks: blocks.take_blocks(),
        samples: samples.take_samples(),
        probe,
        allocator: parse_allocator_stats(&stop_node(&mut node)?)?,
        ready_seconds,
    })
}

impl Observed {
    /// Compares all notifications with the blocks.
    pub(super) fn compare(&self) -> Comparison {
        let mut comparison = Comparison::default();
        self.periods.iter().for_each(|period| comparison.add(period, &self.blocks));
        comparison
    }

    /// The number of transactions to any recipient but one.
    pub(super) fn count_transactions(&self, probe: u32) -> usize {
        let all = self.blocks.iter().flat_map(|block| &block.recipients);
        all.filter(|recipient| **recipient != probe).count()
    }
}

fn start_node(archive: &Path) -> Result<Node> {
    let mut hydrant = Command::new(node::program()?);
    hydrant.env("MIMALLOC_SHOW_STATS", "1");
    let command = NodeCommand::dev(hydrant)
        .args(["--slot-ms", SLOT_MS, "--history-slots", HISTORY_SLOTS, "--from-snapshot"])
        .args([archive]);
    // It ends by SIGTERM, and its allocator prints to the log.
    command.with_ready_timeout(node::LOAD_TIMEOUT).logged().watched().start()
}

/// Ends a node. Returns its log.
fn stop_node(node: &mut Node) -> Result<String> {
    drop(node.process().stdin.take());
    let status = node.process().wait()?;
    ensure!(status.success(), "the node ended with {status}: {}", node.log_end());
    Ok(node.log())
}

/// State that the clients of a set-up share.
#[derive(Clone, Default)]
struct SharedClients {
    periods: Arc<Mutex<Vec<Period>>>,
    finished: Arc<AtomicUsize>,
}

impl SharedClients {
    /// A client that runs its cycles, and stays connected until the scenario is over.
    fn task(&self, mut subscriber: Subscriber, schedule: &Schedule) -> Task {
        let clients = self.clone();
        let schedule = schedule.clone();
        task(async move |mut stop| {
            let periods = subscriber.run(&schedule, &mut stop).await?;
            clients.periods.lock().extend(periods);
            clients.finished.fetch_add(1, Ordering::Release);
            tokio::select! {
                () = stop.stopped() => Ok(()),
                err = subscriber.expect_silence() => Err(err),
            }
        })
    }

    /// Returns the number of clients that have completed their cycles.
    fn count_finished(&self) -> usize {
        self.finished.load(Ordering::Acquire)
    }

    fn take_periods(&self) -> Vec<Period> {
        std::mem::take(&mut *self.periods.lock())
    }
}

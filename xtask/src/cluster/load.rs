//! The load on the producer: airdrops, edits of accounts by cheat codes, and forks.
//!
//! Shape: a thread that the run can stop. It reports the addresses that it wrote, for the comparison of responses.
//! Behaviour on errors: a refused call is counted. The producer may be killed meanwhile.
//! Not here: every kind of transaction, which `rig` sends by clients/js-web3/load.js.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::options::Options;
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc::call;
use crate::rig::random::Random;

/// Time between two rounds of calls.
const INTERVAL: Duration = Duration::from_millis(200);
/// Airdrops of a round. Each is a transaction.
const AIRDROPS: usize = 4;
/// Bytes of an edited account.
pub(crate) const ACCOUNT_BYTES: usize = 20_000;
/// Accounts that are edited again and again.
pub(crate) const ACCOUNTS: usize = 200;
/// Addresses that are reported: those of the last ten seconds, so that the oldest ones are final.
const ADDRESSES_MAX: usize = 512;
/// The deepest fork. The producer's newest 31 blocks are not final.
const FORK_DEPTH_MAX: usize = 5;
/// Lamports of an airdrop: more than the rent-exempt minimum.
const LAMPORTS: u64 = 1_000_000;

/// The calls of the load so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadCounters {
    pub(crate) airdrops: u64,
    pub(crate) edits: u64,
    pub(crate) forks: u64,
    pub(crate) refused: u64,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    airdrops: AtomicU64,
    edits: AtomicU64,
    forks: AtomicU64,
    refused: AtomicU64,
    addresses: Mutex<VecDeque<String>>,
}

/// The running load.
pub(crate) struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(producer: SocketAddr, options: &Options) -> Self {
        let shared = Arc::new(Shared::default());
        let seconds = INTERVAL.as_secs_f64();
        let edits = (options.write_bytes as f64 * seconds / ACCOUNT_BYTES as f64).ceil() as usize;
        let mut worker = Worker {
            producer,
            shared: Arc::clone(&shared),
            random: Random::with_seed(options.seed),
            edits,
            fork_interval: Duration::from_millis(options.slot_ms * options.fork_interval),
        };
        let thread = std::thread::spawn(move || worker.run());
        Self { shared, thread: Some(thread) }
    }

    /// Returns the addresses that were written last, the newest last.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let addresses = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.iter().cloned().collect()
    }

    pub(crate) fn counters(&self) -> LoadCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LoadCounters {
            airdrops: get(&self.shared.airdrops),
            edits: get(&self.shared.edits),
            forks: get(&self.shared.forks),
            refused: get(&self.shared.refused),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

struct Worker {
    producer: SocketAddr,
    shared: Arc<Shared>,
    random: Random,
    /// Edits of a round.
    edits: usize,
    /// Time between two forks; zero makes none.
    fork_interval: Duration,
}

impl Worker {
    fn run(&mut self) {
        let mut last_fork = now();
        while !self.shared.ends.load(Ordering::Relaxed) {
            let began = now();
            for _ in 0..AIRDROPS {
                let address = self.next_address(usize::MAX);
                let params = json!([address, LAMPORTS]);
                self.request("requestAirdrop", &params, &self.shared.airdrops, Some(address));
            }
            for _ in 0..self.edits {
                let address = self.next_address(ACCOUNTS);
                let params =
                    json!([address, {"lamports": 1_000_000_000, "data": self.next_data()}]);
                self.request("surfnet_setAccount", &params, &self.shared.edits, Some(address));
            }
            if !self.fork_interval.is_zero() && last_fork.elapsed() > self.fork_interval {
                last_fork = now();
                let depth = 1 + self.random.next_below(FORK_DEPTH_MAX);
                let params = json!([{"depth": depth, "transactions": "keep"}]);
                self.request("hydrant_reorg", &params, &self.shared.forks, None);
            }
            pause(INTERVAL.saturating_sub(began.elapsed()));
        }
    }

    fn request(&self, method: &str, params: &Value, done: &AtomicU64, address: Option<String>) {
        let is_done = call(self.producer, method, params).is_ok_and(|it| it["error"].is_null());
        let counter = if is_done { done } else { &self.shared.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(address) = address.filter(|_| is_done) {
            let reported = self.shared.addresses.lock();
            let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
            reported.push_back(address);
            if reported.len() > ADDRESSES_MAX {
                reported.pop_front();
            }
        }
    }

    /// Returns one of `count` addresses.
    fn next_address(&mut self, count: usize) -> String {
        let number = self.random.next_below(count) as u64;
        let mut bytes = [0xA5; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bs58::encode(bytes).into_string()
    }

    /// Returns data in hexadecimal that does not compress.
    fn next_data(&mut self) -> String {
        let bytes = (0..ACCOUNT_BYTES).map(|_| self.random.next_below(256));
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

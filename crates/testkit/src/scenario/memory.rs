//! A process' resident memory, sampled from outside.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use process_usage::Process;

use super::{Task, task};
use crate::node::Node;

/// Samples of a process. A clone shares them.
#[derive(Clone)]
pub struct MemorySampler {
    process: Process,
    interval: Duration,
    samples: Arc<Mutex<Vec<u64>>>,
}

impl MemorySampler {
    /// No samples yet.
    pub fn new(node: &Node, interval: Duration) -> Self {
        Self { process: Process::with_id(node.pid()), interval, samples: Arc::default() }
    }

    /// Samples until the scenario is over.
    pub fn task(&self) -> Task {
        let memory = self.clone();
        task(async move |mut stop| {
            loop {
                let bytes = memory.process.resident_bytes()?;
                memory.samples.lock().push(bytes);
                tokio::select! {
                    () = stop.stopped() => return Ok(()),
                    () = tokio::time::sleep(memory.interval) => {}
                }
            }
        })
    }

    /// All samples, in bytes, one for each interval.
    pub fn samples(&self) -> Vec<u64> {
        self.samples.lock().clone()
    }

    /// The mean of the newest part of all samples, without those of the warm-up.
    pub fn mean_of_last(&self, part: f64) -> f64 {
        let samples = self.samples.lock();
        let first = (samples.len() as f64 * (1.0 - part)) as usize;
        let counted = &samples[first.min(samples.len().saturating_sub(1))..];
        counted.iter().sum::<u64>() as f64 / counted.len() as f64
    }
}

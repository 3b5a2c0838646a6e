//! Whole-node scenarios: tasks around a [`Node`](crate::node::Node) that run until a condition is met. A scenario is a
//! few lines:
//!
//! ```text
//! let node = NodeCommand::dev(program).args(["--slot-ms", "200"]).start()?;
//! let mut scenario = Scenario::default();
//! scenario.add(send_at(node.rpc, 100.0, transfers));
//! for n in 0..500 {
//!     scenario.add(wallet(&node, n));
//! }
//! scenario.run(tokio::time::sleep(Duration::from_secs(30))).await?;
//! println!("{} bytes", node.resident_bytes()?);
//! ```
//!
//! Shape: a task is a future with a [`Stop`] signal. The first error of a task ends the scenario with that error.
//! Bounds: those of the tasks.
//! Not here: measurements and their bars (`benchmarks`), the parts of a node.

mod client;
mod metrics;
mod sender;
mod storm;

use std::future::Future;
use std::pin::Pin;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use client::{Client, SeenNotification};
pub use metrics::ScrapedMetrics;
pub use sender::{SendStats, send_at_rate};
pub use storm::Storm;

/// A task of a scenario. It ends soon after its [`Stop`] signal.
pub type Task = Box<dyn FnOnce(Stop) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send>;

/// The stop signal of a scenario.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the scenario is over.
    pub async fn stopped(&mut self) {
        // A dropped scenario is over too.
        let _ = self.0.wait_for(|is_over| *is_over).await;
    }

    /// Whether it is over.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

/// Tasks that run together.
#[derive(Default)]
pub struct Scenario {
    tasks: Vec<Task>,
}

/// A task from a function that gets the stop signal.
pub fn task<F>(run: impl FnOnce(Stop) -> F + Send + 'static) -> Task
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Box::new(|stop| Box::pin(run(stop)))
}

impl Scenario {
    /// Adds a task.
    pub fn add(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Runs all tasks until `until` is ready or a task fails. Then it signals all tasks to stop, and waits for
    /// them.
    pub async fn run(self, until: impl Future<Output = ()>) -> Result<()> {
        let (over, is_over) = watch::channel(false);
        let mut running: JoinSet<Result<()>> = JoinSet::new();
        for task in self.tasks {
            running.spawn(task(Stop(is_over.clone())));
        }
        let mut until = std::pin::pin!(until);
        let mut failed = None;
        loop {
            tokio::select! {
                () = &mut until => break,
                Some(ended) = running.join_next() => {
                    if let Err(err) = ended.context("a task panicked").flatten() {
                        failed = Some(err);
                        break;
                    }
                }
            }
        }
        // Every receiver may be gone by now.
        let _ = over.send(true);
        while let Some(ended) = running.join_next().await {
            if let Err(err) = ended.context("a task panicked").flatten() {
                failed.get_or_insert(err);
            }
        }
        match failed {
            Some(err) => Err(err),
            None => Ok(()),
        }
    }
}

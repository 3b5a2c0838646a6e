//! How much the pool takes on at once, each bound with its default and what it may cost.

use std::time::Duration;

use crate::{Class, Limits};

/// Bounds of the pool.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Threads; at least 1.
    pub threads: usize,
    /// Microseconds after which a task lets another have its turn. Default 1,000. With 0 there are
    /// no slices and no turns: each task runs to its end, in the order of arrival.
    pub slice_us: u64,
    /// Light tasks.
    pub light: ClassConfig,
    /// Medium tasks.
    pub medium: ClassConfig,
    /// Heavy tasks.
    pub heavy: ClassConfig,
    /// Heavy tasks of one client at once. Default 128; 0 is no limit but the class'.
    pub client_heavy_max: usize,
    /// What each client may have in a second. Default: no limits.
    pub clients: Limits,
}

/// Bounds of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Tasks at once, those that wait included. One more is refused. Memory: what a waiting task
    /// holds, which is its request.
    pub tasks_max: usize,
    /// Tasks that share the threads at once; the others wait until one of these is done, or has to
    /// wait for its client. Memory: what a task holds that has begun, which is some pieces of its answer.
    pub active_max: usize,
    /// Milliseconds from arrival in which a task must be done. Memory: a task that has begun keeps
    /// the state that it reads for so long.
    pub deadline_ms: u64,
    /// Its share of the threads while other classes want them as well.
    pub weight: u32,
}

impl Default for Config {
    fn default() -> Self {
        let class = |tasks_max, active_max, deadline_ms, weight| ClassConfig {
            tasks_max,
            active_max,
            deadline_ms,
            weight,
        };
        Self {
            threads: 1,
            slice_us: 1_000,
            light: class(4_096, 64, 10_000, 16),
            medium: class(1_024, 32, 30_000, 4),
            heavy: class(256, 16, 120_000, 1),
            client_heavy_max: 128,
            clients: Limits::default(),
        }
    }
}

impl Config {
    /// The bounds of a class.
    pub fn class(&self, class: Class) -> &ClassConfig {
        match class {
            Class::Light => &self.light,
            Class::Medium => &self.medium,
            Class::Heavy => &self.heavy,
        }
    }

    /// How long a step may run.
    pub(crate) fn slice(&self) -> Duration {
        match self.slice_us {
            0 => Duration::MAX,
            us => Duration::from_micros(us),
        }
    }
}

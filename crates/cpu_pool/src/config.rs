//! The bounds of the pool, each with its default and its cost.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use clients::Limits;

use crate::Class;

/// Bounds of the pool.
///
/// Fields with `serde(skip)` have no key in the configuration file: only tests and benchmarks change them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Threads; at least 1. Not in the configuration file: a flag of the binary sets it.
    #[serde(skip)]
    pub threads: usize,
    /// Microseconds after which a task yields to another. Default 500. With 0 there are no time slices, no
    /// round-robin and no weights: each task, whatever its class, runs in the order of arrival until it finishes or
    /// must wait for its client. The bounds are the same.
    #[serde(skip)]
    pub slice_us: u64,
    /// Priority of the threads for the system's scheduler, relative to that of the process: the difference of the nice
    /// values, 0 to 19. Default 10. The code that starts the threads sets it.
    #[serde(skip)]
    pub nice: u8,
    /// Light tasks.
    #[serde(deserialize_with = "light")]
    pub light: ClassConfig,
    /// Medium tasks.
    #[serde(deserialize_with = "medium")]
    pub medium: ClassConfig,
    /// Heavy tasks.
    #[serde(deserialize_with = "heavy")]
    pub heavy: ClassConfig,
    /// Maximum heavy tasks of one client. Default 128. 0: no limit except the client's part of the class
    /// (see [`ClassConfig::tasks_max`]).
    pub client_heavy_max: usize,
    /// Rate limits of each client. Default: no limits.
    pub clients: Limits,
}

/// Bounds of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Maximum tasks, queued ones included. One more is refused, and so is a task of a client that has as many
    /// as are still free: a single client may have half of them. Memory: a queued task holds its request; a
    /// started one also holds some chunks of its response.
    pub tasks_max: usize,
    /// Maximum active tasks: those that share the threads. Others wait until an active one finishes, or blocks
    /// on its client or on the result of another task. A client without an active task may start one
    /// nevertheless, until four times as many clients have active tasks.
    pub active_max: usize,
    /// Milliseconds from arrival in which a task must finish. Memory: a started task keeps the state that it
    /// reads alive until then.
    pub deadline_ms: u64,
    /// Share of the threads while other classes have tasks too. It has no key in the configuration file.
    pub weight: u32,
}

const LIGHT: ClassConfig =
    ClassConfig { tasks_max: 8_192, active_max: 64, deadline_ms: 10_000, weight: 16 };
const MEDIUM: ClassConfig =
    ClassConfig { tasks_max: 2_048, active_max: 32, deadline_ms: 30_000, weight: 4 };
const HEAVY: ClassConfig =
    ClassConfig { tasks_max: 256, active_max: 16, deadline_ms: 120_000, weight: 1 };

impl Default for Config {
    fn default() -> Self {
        Self {
            threads: 1,
            slice_us: 500,
            nice: 10,
            light: LIGHT,
            medium: MEDIUM,
            heavy: HEAVY,
            client_heavy_max: 128,
            clients: Limits::default(),
        }
    }
}

/// The settings of a class in a file. Missing ones have their defaults.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PartialClassConfig {
    tasks_max: Option<usize>,
    active_max: Option<usize>,
    deadline_ms: Option<u64>,
}

fn light<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(LIGHT, deserializer)
}

fn medium<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(MEDIUM, deserializer)
}

fn heavy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(HEAVY, deserializer)
}

fn deserialize_with_defaults<'de, D: Deserializer<'de>>(
    default: ClassConfig,
    deserializer: D,
) -> Result<ClassConfig, D::Error> {
    let partial = PartialClassConfig::deserialize(deserializer)?;
    Ok(ClassConfig {
        tasks_max: partial.tasks_max.unwrap_or(default.tasks_max),
        active_max: partial.active_max.unwrap_or(default.active_max),
        deadline_ms: partial.deadline_ms.unwrap_or(default.deadline_ms),
        weight: default.weight,
    })
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

    /// Maximum duration of a poll.
    pub(crate) fn time_slice(&self) -> Duration {
        match self.slice_us {
            0 => Duration::MAX,
            us => Duration::from_micros(us),
        }
    }
}

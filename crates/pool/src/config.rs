//! How much the pool takes on at once, each bound with its default and what it may cost.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::{Class, Limits};

/// Bounds of the pool.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Threads; at least 1. Not of a file's table: a flag of the binary says it.
    #[serde(skip)]
    pub threads: usize,
    /// Microseconds after which a task lets another have its turn. Default 500. With 0 there are
    /// no slices, no turns and no weights: whatever its class, each task runs to its end or until it has
    /// to wait for its client, in the order of arrival. Bounds are the same.
    pub slice_us: u64,
    /// By how much the threads stand behind others when the system shares out its cores: the nice
    /// value, 0 to 19. Default 10. It is whoever starts the threads who sets it.
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
    /// Heavy tasks of one client at once. Default 128; 0 is no limit but what others leave of the class'
    /// (see [`ClassConfig::tasks_max`]).
    pub client_heavy_max: usize,
    /// What each client may have in a second. Default: no limits.
    pub clients: Limits,
}

/// Bounds of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Tasks at once, those that wait included. One more is refused, and so is one of a client that has
    /// as many as places are left: alone it may have half of them. Memory: what a task holds, which is
    /// its request while it waits and some pieces of its answer once it has begun.
    pub tasks_max: usize,
    /// Tasks that share the threads at once; the others wait until one of these is done, or has to
    /// wait for its client, or for what another task makes. A client that has none among them begins one nevertheless, up to four times
    /// as many clients.
    pub active_max: usize,
    /// Milliseconds from arrival in which a task must be done. Memory: a task that has begun keeps
    /// the state that it reads for so long.
    pub deadline_ms: u64,
    /// Its share of the threads while other classes want them as well.
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

/// What a file says of a class; the rest is as it is by default.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PartialClassConfig {
    tasks_max: Option<usize>,
    active_max: Option<usize>,
    deadline_ms: Option<u64>,
    weight: Option<u32>,
}

fn light<'de, D: Deserializer<'de>>(given: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(LIGHT, given)
}

fn medium<'de, D: Deserializer<'de>>(given: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(MEDIUM, given)
}

fn heavy<'de, D: Deserializer<'de>>(given: D) -> Result<ClassConfig, D::Error> {
    deserialize_with_defaults(HEAVY, given)
}

fn deserialize_with_defaults<'de, D: Deserializer<'de>>(
    default: ClassConfig,
    given: D,
) -> Result<ClassConfig, D::Error> {
    let given = PartialClassConfig::deserialize(given)?;
    Ok(ClassConfig {
        tasks_max: given.tasks_max.unwrap_or(default.tasks_max),
        active_max: given.active_max.unwrap_or(default.active_max),
        deadline_ms: given.deadline_ms.unwrap_or(default.deadline_ms),
        weight: given.weight.unwrap_or(default.weight),
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

    /// How long a step may run.
    pub(crate) fn time_slice(&self) -> Duration {
        match self.slice_us {
            0 => Duration::MAX,
            us => Duration::from_micros(us),
        }
    }
}

//! Admission: how many tasks a class and each of its clients have, and whether a client may have one more.
//!
//! A client may have as many tasks of a class as the class has free, and no more. So a single client gets half
//! of the class, `n` greedy clients get one of `n + 1` parts each, and a new client always finds free capacity.
//! Started and queued tasks count alike, so a client that does not read its responses does not exclude others.
//! Bounds: an entry for each client that has a task. Cost: constant.

use std::collections::HashMap;

use clients::ClientId;

use crate::{Class, Config};

/// A bound was reached. Fix: send less, or raise the setting that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the CPU pool is full: {tasks} {class} requests{} are in it, at most {limit} may ({})",
    .bound.scope_suffix(),
    .bound.knob(*.class)
)]
pub struct PoolFull {
    /// The class that is full.
    pub class: Class,
    /// Number of tasks now.
    pub tasks: usize,
    /// Maximum number of tasks.
    pub limit: usize,
    /// The bound that was reached.
    pub bound: LimitKind,
}

/// The bounds on the number of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// The bound of the class, over all clients.
    Class,
    /// The part of the class that one client may have: as many tasks as are still free for others.
    Share,
    /// The bound of one client.
    Client,
}

impl LimitKind {
    fn scope_suffix(self) -> &'static str {
        match self {
            Self::Class => "",
            Self::Share | Self::Client => " of this client",
        }
    }

    fn knob(self, class: Class) -> &'static str {
        match (self, class) {
            (Self::Client, _) => "pool.client_heavy_max",
            (_, Class::Light) => "pool.light.tasks_max",
            (_, Class::Medium) => "pool.medium.tasks_max",
            (_, Class::Heavy) => "--heavy-max",
        }
    }
}

/// The tasks of one class, per client.
#[derive(Default)]
pub(crate) struct TaskQuota {
    tasks: usize,
    /// Values are never 0.
    tasks_by_client: HashMap<ClientId, usize>,
}

impl TaskQuota {
    /// Counts one more task of a client, or returns the bound that was reached.
    pub(crate) fn try_acquire(
        &mut self,
        config: &Config,
        class: Class,
        client: ClientId,
    ) -> Result<(), PoolFull> {
        let full = |bound, tasks, limit| Err(PoolFull { class, tasks, limit, bound });
        let limit = config.class(class).tasks_max;
        if self.tasks >= limit {
            return full(LimitKind::Class, self.tasks, limit);
        }
        let tasks = self.tasks_by_client.get(&client).copied().unwrap_or_default();
        let client_max = if class == Class::Heavy { config.client_heavy_max } else { 0 };
        if client_max > 0 && tasks >= client_max {
            return full(LimitKind::Client, tasks, client_max);
        }
        let left = limit - self.tasks;
        if tasks >= left {
            return full(LimitKind::Share, tasks, left);
        }
        self.tasks += 1;
        self.tasks_by_client.insert(client, tasks + 1);
        Ok(())
    }

    /// Returns the capacity of one task.
    pub(crate) fn release(&mut self, client: ClientId) {
        let Some(tasks) = self.tasks_by_client.get_mut(&client) else { return };
        self.tasks -= 1;
        *tasks -= 1;
        if *tasks == 0 {
            self.tasks_by_client.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of tasks that each client gets if the clients come one after another and take all they can.
    fn shares(class: Class, config: &Config, clients: u128) -> Vec<usize> {
        let mut quota = TaskQuota::default();
        let all = |client| {
            std::iter::from_fn(|| quota.try_acquire(config, class, ClientId(client)).ok()).count()
        };
        (0..clients).map(all).collect()
    }

    #[test]
    fn a_new_client_is_admitted_however_greedy_the_others_are() {
        let config = Config::default();
        assert_eq!(shares(Class::Light, &config, 4), [4_096, 2_048, 1_024, 512]);
        assert_eq!(shares(Class::Medium, &config, 4), [1_024, 512, 256, 128]);
        assert_eq!(shares(Class::Heavy, &config, 4), [128, 64, 32, 16]);
    }

    #[test]
    fn freed_quota_goes_to_the_clients_that_have_less() {
        let config = Config::default();
        let mut quota = TaskQuota::default();
        let class = Class::Medium;
        for client in 0..3 {
            while quota.try_acquire(&config, class, ClientId(client)).is_ok() {}
        }
        // Each time a task of the greediest client ends, every client tries again, the greediest first.
        for _ in 0..4_000 {
            let most = (0..3).max_by_key(|client| quota.tasks_by_client[&ClientId(*client)]);
            quota.release(ClientId(most.expect("there are three")));
            for client in 0..3 {
                while quota.try_acquire(&config, class, ClientId(client)).is_ok() {}
            }
        }
        let shares = [0, 1, 2].map(|client| quota.tasks_by_client[&ClientId(client)]);
        assert!(shares.iter().all(|share| (511..=513).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_refusal_names_the_capacity_that_was_left() {
        let mut config = Config::default();
        config.medium.tasks_max = 4;
        let mut quota = TaskQuota::default();
        let mut take = |client| quota.try_acquire(&config, Class::Medium, ClientId(client));
        assert_eq!((take(1), take(1)), (Ok(()), Ok(())));
        let full = take(1).expect_err("half of them");
        assert_eq!(full.bound, LimitKind::Share);
        assert_eq!(
            full.to_string(),
            "the CPU pool is full: 2 medium requests of this client are in it, at most 2 may \
             (pool.medium.tasks_max)"
        );
        assert_eq!((take(2), take(3)), (Ok(()), Ok(())));
        assert_eq!(take(4).expect_err("there is none").bound, LimitKind::Class);
    }
}

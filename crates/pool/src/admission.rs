//! How many tasks a class has, and each client of them: who may have one more.
//!
//! A client may have as many places of a class as are left, and no more: one alone gets half of them, of `n`
//! that all want more each gets one of `n + 1`, and whoever comes next finds a place. It is so with tasks
//! that have begun as with those that wait, so that a client who does not read keeps nobody out either.
//! Bounds: an entry for each client that has a task. Cost: constant.

use std::collections::HashMap;

use crate::{Class, ClientId, Config};

/// A bound was reached. Fix: send less, or raise the knob that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the CPU pool is full: {tasks} {class} requests{} are in it, at most {limit} may ({})",
    .bound.scope_suffix(),
    .bound.knob(*.class)
)]
pub struct PoolFull {
    /// Of which class.
    pub class: Class,
    /// How many there are.
    pub tasks: usize,
    /// How many may be.
    pub limit: usize,
    /// Which bound it is.
    pub bound: LimitKind,
}

/// Whose bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// That of all clients together.
    Class,
    /// What others leave of it to one client: as many as it would leave to them.
    Share,
    /// That of one client.
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

/// The places of one class.
#[derive(Default)]
pub(crate) struct TaskQuota {
    tasks: usize,
    /// Never 0.
    tasks_by_client: HashMap<ClientId, usize>,
}

impl TaskQuota {
    /// Gives a client one more, or says why not.
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

    /// Takes a place back.
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

    /// How many places clients get who one after another take all that they can.
    fn shares(class: Class, config: &Config, clients: u128) -> Vec<usize> {
        let mut places = TaskQuota::default();
        let all = |client| {
            std::iter::from_fn(|| places.try_acquire(config, class, ClientId(client)).ok()).count()
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
        let (mut places, class) = (TaskQuota::default(), Class::Medium);
        for client in 0..3 {
            while places.try_acquire(&config, class, ClientId(client)).is_ok() {}
        }
        // Each time one of the greediest ends, everybody asks again, the greediest first.
        for _ in 0..4_000 {
            let most = (0..3).max_by_key(|client| places.tasks_by_client[&ClientId(*client)]);
            places.release(ClientId(most.expect("there are three")));
            for client in 0..3 {
                while places.try_acquire(&config, class, ClientId(client)).is_ok() {}
            }
        }
        let shares = [0, 1, 2].map(|client| places.tasks_by_client[&ClientId(client)]);
        assert!(shares.iter().all(|share| (511..=513).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_refusal_says_what_was_left() {
        let mut config = Config::default();
        config.medium.tasks_max = 4;
        let mut places = TaskQuota::default();
        let mut take = |client| places.try_acquire(&config, Class::Medium, ClientId(client));
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

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
    .bound.whose(),
    .bound.knob(*.class)
)]
pub struct Full {
    /// Of which class.
    pub class: Class,
    /// How many there are.
    pub tasks: usize,
    /// How many may be.
    pub limit: usize,
    /// Which bound it is.
    pub bound: Bound,
}

/// Whose bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// That of all clients together.
    Class,
    /// What others leave of it to one client: as many as it would leave to them.
    Share,
    /// That of one client.
    Client,
}

impl Bound {
    fn whose(self) -> &'static str {
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
pub(crate) struct Places {
    taken: usize,
    /// Never 0.
    of: HashMap<ClientId, usize>,
}

impl Places {
    /// Gives a client one more, or says why not.
    pub(crate) fn take(
        &mut self,
        config: &Config,
        class: Class,
        client: ClientId,
    ) -> Result<(), Full> {
        let full = |bound, tasks, limit| Err(Full { class, tasks, limit, bound });
        let limit = config.class(class).tasks_max;
        if self.taken >= limit {
            return full(Bound::Class, self.taken, limit);
        }
        let tasks = self.of.get(&client).copied().unwrap_or_default();
        let client_max = if class == Class::Heavy { config.client_heavy_max } else { 0 };
        if client_max > 0 && tasks >= client_max {
            return full(Bound::Client, tasks, client_max);
        }
        let left = limit - self.taken;
        if tasks >= left {
            return full(Bound::Share, tasks, left);
        }
        self.taken += 1;
        self.of.insert(client, tasks + 1);
        Ok(())
    }

    /// Takes a place back.
    pub(crate) fn leave(&mut self, client: ClientId) {
        let Some(tasks) = self.of.get_mut(&client) else { return };
        self.taken -= 1;
        *tasks -= 1;
        if *tasks == 0 {
            self.of.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many places clients get who one after another take all that they can.
    fn shares(class: Class, config: &Config, clients: u128) -> Vec<usize> {
        let mut places = Places::default();
        let all = |client| {
            std::iter::from_fn(|| places.take(config, class, ClientId(client)).ok()).count()
        };
        (0..clients).map(all).collect()
    }

    #[test]
    fn whoever_comes_next_finds_a_place_however_greedy_the_others_are() {
        let config = Config::default();
        assert_eq!(shares(Class::Light, &config, 4), [4_096, 2_048, 1_024, 512]);
        assert_eq!(shares(Class::Medium, &config, 4), [1_024, 512, 256, 128]);
        assert_eq!(shares(Class::Heavy, &config, 4), [128, 64, 32, 16]);
    }

    #[test]
    fn what_ends_goes_to_those_who_have_less() {
        let config = Config::default();
        let (mut places, class) = (Places::default(), Class::Medium);
        for client in 0..3 {
            while places.take(&config, class, ClientId(client)).is_ok() {}
        }
        // Each time one of the greediest ends, everybody asks again, the greediest first.
        for _ in 0..4_000 {
            let most = (0..3).max_by_key(|client| places.of[&ClientId(*client)]);
            places.leave(ClientId(most.expect("there are three")));
            for client in 0..3 {
                while places.take(&config, class, ClientId(client)).is_ok() {}
            }
        }
        let shares = [0, 1, 2].map(|client| places.of[&ClientId(client)]);
        assert!(shares.iter().all(|share| (511..=513).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_refusal_says_what_was_left() {
        let mut config = Config::default();
        config.medium.tasks_max = 4;
        let mut places = Places::default();
        let mut take = |client| places.take(&config, Class::Medium, ClientId(client));
        assert_eq!((take(1), take(1)), (Ok(()), Ok(())));
        let full = take(1).expect_err("half of them");
        assert_eq!(full.bound, Bound::Share);
        assert_eq!(
            full.to_string(),
            "the CPU pool is full: 2 medium requests of this client are in it, at most 2 may \
             (pool.medium.tasks_max)"
        );
        assert_eq!((take(2), take(3)), (Ok(()), Ok(())));
        assert_eq!(take(4).expect_err("there is none").bound, Bound::Class);
    }
}

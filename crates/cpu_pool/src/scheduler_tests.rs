//! The scheduler under simulated time: fairness, deadlines, cancellation, bounds. No thread, no sleep.

use std::collections::HashMap;
use std::time::Duration;

use clients::ClientId;

use crate::scheduler::{Action, Scheduler};
use crate::task_id::TaskId;
use crate::{Class, ClassConfig, Config, PoolFull, TaskEnd};

const TIME_SLICE: Duration = Duration::from_millis(1);

/// A pool whose threads work in lockstep, one time slice after another.
struct SimulatedPool {
    scheduler: Scheduler<SimulatedTask>,
    now: Duration,
    threads: usize,
    ended: Vec<(&'static str, TaskEnd, Duration)>,
    completed: Vec<(&'static str, Duration)>,
    served: HashMap<&'static str, u32>,
}

#[derive(Debug, PartialEq, Eq)]
struct SimulatedTask {
    name: &'static str,
    slices_left: u32,
    /// Blocks after each time slice.
    blocks: bool,
}

fn config(edit: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    edit(&mut config);
    config
}

impl SimulatedPool {
    fn new(threads: usize, config: Config) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            now: Duration::ZERO,
            threads,
            ended: Vec::new(),
            completed: Vec::new(),
            served: HashMap::new(),
        }
    }

    fn submit(&mut self, class: Class, client: u128, name: &'static str, slices: u32) -> TaskId {
        self.try_submit(class, client, name, slices).expect("there is room")
    }

    fn try_submit(
        &mut self,
        class: Class,
        client: u128,
        name: &'static str,
        slices: u32,
    ) -> Result<TaskId, String> {
        let task = SimulatedTask { name, slices_left: slices, blocks: false };
        self.admit(class, ClientId(client), task).map_err(|full| full.to_string())
    }

    fn admit(
        &mut self,
        class: Class,
        client: ClientId,
        task: SimulatedTask,
    ) -> Result<TaskId, PoolFull> {
        self.scheduler.acquire(class, client)?;
        Ok(self.scheduler.enqueue(self.now, class, client, task))
    }

    /// Every thread runs one time slice.
    fn tick(&mut self) {
        let mut running = Vec::new();
        while running.len() < self.threads {
            match self.scheduler.next_action(self.now) {
                None => break,
                Some(Action::Poll(id, task)) => running.push((id, task)),
                Some(Action::End(task, why)) => self.ended.push((task.name, why, self.now)),
            }
        }
        self.now += TIME_SLICE;
        for (id, mut task) in running {
            *self.served.entry(task.name).or_default() += 1;
            task.slices_left -= 1;
            if task.slices_left == 0 {
                self.completed.push((task.name, self.now));
                self.scheduler.finish(id, TIME_SLICE, false);
            } else {
                let ready = !task.blocks;
                self.scheduler.on_yield(id, task, TIME_SLICE, ready);
            }
        }
    }

    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    fn completed_at(&self, name: &str) -> Option<Duration> {
        self.completed.iter().find(|(done, _)| *done == name).map(|(_, at)| *at)
    }
}

#[test]
fn a_client_with_many_scans_does_not_delay_one_with_a_single_scan() {
    for class in Class::ALL {
        let mut pool = SimulatedPool::new(1, Config::default());
        for _ in 0..100 {
            pool.submit(class, 1, "greedy", 1_000);
        }
        // By now the maximum of tasks is active.
        pool.run(500);
        pool.submit(class, 2, "modest", 100);
        pool.run(2);
        assert_eq!(pool.served.get("modest"), Some(&1), "{class}: after two slices");
        pool.run(200);
        let at = pool.completed_at("modest").expect("it is done");
        assert!(at <= Duration::from_millis(500 + 2 * 100), "every other slice: {at:?}");
    }
}

#[test]
fn many_new_clients_start_one_task_each_alongside_one_that_fills_the_class() {
    let mut pool = SimulatedPool::new(2, Config::default());
    for _ in 0..100 {
        pool.submit(Class::Heavy, 1, "greedy", 1_000);
    }
    pool.run(100);
    for client in 2..50 {
        pool.submit(Class::Heavy, client, "modest", 1);
        pool.submit(Class::Heavy, client, "again", 1_000);
    }
    pool.run(25);
    assert_eq!(pool.served["modest"], 48, "in one round");
    pool.run(1_000);
    // The maximum of one client, and one task of each of the others.
    assert_eq!(pool.scheduler.counters().class(Class::Heavy).active, 16 + 48);
}

#[test]
fn a_flood_of_short_tasks_does_not_starve_a_long_one() {
    for flooding in [1, 2] {
        let mut pool = SimulatedPool::new(1, Config::default());
        pool.submit(Class::Medium, 1, "long", 100);
        pool.run(1);
        for _ in 0..250 {
            pool.submit(Class::Medium, flooding, "short", 1);
            pool.submit(Class::Medium, flooding, "short", 1);
            pool.tick();
        }
        assert!(pool.completed_at("long").is_some(), "{:?}", pool.served);
    }
}

#[test]
fn without_time_slices_a_client_may_have_as_many_heavy_tasks_as_with_them() {
    let mut pool = SimulatedPool::new(
        1,
        config(|config| {
            config.slice_us = 0;
            config.client_heavy_max = 2;
        }),
    );
    pool.submit(Class::Heavy, 1, "a", 1);
    pool.submit(Class::Heavy, 1, "a", 1);
    let refused = pool.try_submit(Class::Heavy, 1, "a", 1).expect_err("two of a client");
    assert!(refused.contains("pool.client_heavy_max"), "{refused}");
    pool.submit(Class::Heavy, 2, "b", 1);
    pool.run(3);
    pool.submit(Class::Heavy, 1, "a", 1);
    pool.run(1);
    assert_eq!(pool.completed.len(), 4);
}

#[test]
fn two_clients_that_do_not_read_leave_quota_for_a_third() {
    let mut pool = SimulatedPool::new(8, Config::default());
    for client in [1, 2] {
        loop {
            let blocking = SimulatedTask { name: "blocks", slices_left: 2, blocks: true };
            if pool.admit(Class::Heavy, ClientId(client), blocking).is_err() {
                break;
            }
        }
    }
    pool.run(100);
    let counters = *pool.scheduler.counters().class(Class::Heavy);
    assert_eq!((counters.active, counters.blocked), (128 + 64, 128 + 64));
    assert_eq!((counters.rejected, counters.rejected_client, counters.rejected_share), (2, 1, 1));
    pool.submit(Class::Heavy, 3, "reads", 1);
    pool.tick();
    assert_eq!(pool.completed_at("reads"), Some(pool.now));
}

#[test]
fn without_time_slices_all_classes_are_one_queue_in_the_order_of_arrival() {
    let mut pool = SimulatedPool::new(1, config(|config| config.slice_us = 0));
    let blocking = SimulatedTask { name: "first", slices_left: 2, blocks: true };
    let first = pool.admit(Class::Heavy, ClientId(1), blocking);
    let Ok(first) = first else { panic!("there is room") };
    pool.run(1);
    pool.submit(Class::Heavy, 1, "heavy", 1);
    pool.submit(Class::Light, 2, "light", 1);
    pool.submit(Class::Medium, 3, "medium", 1);
    pool.submit(Class::Heavy, 3, "last", 1);
    pool.scheduler.wake(first);
    pool.run(5);
    let order: Vec<&str> = pool.completed.iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["first", "heavy", "light", "medium", "last"]);
}

#[test]
fn light_tasks_wait_for_time_slices_and_not_for_scans() {
    let mut pool = SimulatedPool::new(2, Config::default());
    for client in 0..8 {
        pool.submit(Class::Heavy, client, "scan", 1_000);
    }
    pool.run(50);
    for _ in 0..100 {
        pool.submit(Class::Light, 99, "light", 1);
        let before = pool.completed.len();
        pool.tick();
        assert_eq!(pool.completed.len(), before + 1, "in the very next slice");
        pool.run(3);
    }
}

#[test]
fn heavy_tasks_progress_under_a_flood_of_light_ones() {
    let mut pool = SimulatedPool::new(1, Config::default());
    pool.submit(Class::Heavy, 1, "scan", 1_000_000);
    for _ in 0..1_700 {
        let _ = pool.try_submit(Class::Light, 2, "light", 1);
        let _ = pool.try_submit(Class::Light, 2, "light", 1);
        pool.tick();
    }
    let scanned = pool.served["scan"];
    // Its weight is one of seventeen.
    assert!((90..=110).contains(&scanned), "{scanned}");
}

#[test]
fn an_idle_class_does_not_save_up_time() {
    let mut pool = SimulatedPool::new(1, Config::default());
    pool.submit(Class::Heavy, 1, "scan", 1_000_000);
    pool.run(1_000);
    for _ in 0..200 {
        pool.submit(Class::Medium, 2, "medium", 1);
    }
    pool.run(100);
    let medium = pool.served["medium"];
    assert!((75..=85).contains(&medium), "four of five slices: {medium}");
}

#[test]
fn a_task_past_its_deadline_is_ended_wherever_it_is() {
    let mut pool = SimulatedPool::new(
        1,
        config(|config| {
            config.heavy.deadline_ms = 20;
            config.heavy.active_max = 1;
        }),
    );
    let blocking = SimulatedTask { name: "blocked", slices_left: 9, blocks: true };
    assert!(pool.admit(Class::Heavy, ClientId(3), blocking).is_ok());
    pool.run(1);
    pool.submit(Class::Heavy, 1, "running", 1_000);
    pool.submit(Class::Heavy, 1, "waiting", 1_000);
    pool.run(30);
    let ms = Duration::from_millis;
    let mut ended = pool.ended.clone();
    ended.sort_unstable_by_key(|(name, ..)| *name);
    assert_eq!(
        ended,
        [
            ("blocked", TaskEnd::Expired, ms(20)),
            ("running", TaskEnd::Expired, ms(21)),
            ("waiting", TaskEnd::ExpiredWaiting, ms(21)),
        ]
    );
    let counters = *pool.scheduler.counters().class(Class::Heavy);
    assert_eq!((counters.expired, counters.active, counters.queued), (3, 0, 0));
    assert_eq!((counters.blocked, counters.running), (0, 0));
}

#[test]
fn a_cancelled_task_gets_no_further_time_slice() {
    let mut pool = SimulatedPool::new(1, config(|config| config.heavy.active_max = 1));
    let started = pool.submit(Class::Heavy, 1, "started", 100);
    let waiting = pool.submit(Class::Heavy, 1, "waiting", 100);
    pool.run(5);
    pool.scheduler.end(waiting, TaskEnd::Cancelled);
    // The running task is ended after its time slice.
    let Some(Action::End(task, TaskEnd::Cancelled)) = pool.scheduler.next_action(pool.now) else {
        panic!("the queued task is ended first")
    };
    assert_eq!(task.name, "waiting");
    let Some(Action::Poll(id, task)) = pool.scheduler.next_action(pool.now) else {
        panic!("started")
    };
    pool.scheduler.end(started, TaskEnd::Cancelled);
    pool.scheduler.on_yield(id, task, TIME_SLICE, true);
    pool.run(10);
    assert_eq!((pool.served["started"], pool.served.get("waiting")), (5, None));
    assert_eq!(pool.scheduler.counters().class(Class::Heavy).cancelled, 2);
    assert_eq!(pool.ended, [("started", TaskEnd::Cancelled, Duration::from_millis(5))]);
}

#[test]
fn every_bound_refuses_with_its_name_and_lets_in_again() {
    let mut pool = SimulatedPool::new(
        1,
        config(|config| {
            config.heavy.tasks_max = 3;
            config.client_heavy_max = 2;
            config.light = ClassConfig { tasks_max: 1, ..config.light };
        }),
    );
    pool.submit(Class::Heavy, 1, "a", 1);
    pool.submit(Class::Heavy, 1, "a", 1);
    let refused = pool.try_submit(Class::Heavy, 1, "a", 1).expect_err("two of a client");
    assert_eq!(
        refused,
        "the CPU pool is full: 2 heavy requests of this client are in it, at most 2 may \
         (pool.client_heavy_max)"
    );
    pool.submit(Class::Heavy, 2, "b", 1);
    let refused = pool.try_submit(Class::Heavy, 3, "c", 1).expect_err("three in all");
    assert_eq!(
        refused,
        "the CPU pool is full: 3 heavy requests are in it, at most 3 may (--heavy-max)"
    );
    pool.submit(Class::Light, 1, "light", 1);
    assert!(pool.try_submit(Class::Light, 1, "light", 1).is_err());
    assert_eq!(pool.scheduler.counters().sum_over_classes(|class| class.rejected), 3);
    pool.run(4);
    assert_eq!(pool.completed.len(), 4);
    pool.submit(Class::Heavy, 1, "a", 1);
    pool.submit(Class::Heavy, 1, "a", 1);
}

#[test]
fn a_blocked_task_gets_no_time_slice_and_does_not_count_as_active() {
    let mut pool = SimulatedPool::new(1, config(|config| config.heavy.active_max = 1));
    let blocking = SimulatedTask { name: "blocks", slices_left: 2, blocks: true };
    let id = pool.admit(Class::Heavy, ClientId(1), blocking);
    let Ok(id) = id else { panic!("there is room") };
    pool.submit(Class::Heavy, 2, "other", 10);
    pool.run(11);
    assert_eq!(pool.completed, [("other", Duration::from_millis(11))]);
    pool.run(5);
    assert_eq!(pool.served["blocks"], 1);
    pool.scheduler.wake(id);
    pool.scheduler.wake(id);
    pool.tick();
    assert_eq!(pool.completed_at("blocks"), Some(pool.now));
}

#[test]
fn waiting_times_are_counted() {
    let mut pool = SimulatedPool::new(1, config(|config| config.heavy.active_max = 1));
    pool.submit(Class::Heavy, 1, "a", 3);
    pool.submit(Class::Heavy, 1, "b", 1);
    pool.run(10);
    let waited = pool.scheduler.counters().class(Class::Heavy).queue_wait;
    assert_eq!((waited.count(), waited.sum()), (2, Duration::from_millis(3)));
    assert_eq!(pool.scheduler.counters().class(Class::Heavy).time_slices, 4);
}

/// Under any sequence of events the counters add up and no task is lost.
#[test]
fn every_task_ends_exactly_once() {
    for seed in 0..50_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pool = SimulatedPool::new(
            3,
            config(|config| {
                config.heavy =
                    ClassConfig { tasks_max: 9, active_max: 2, deadline_ms: 40, weight: 1 };
                config.client_heavy_max = 4;
            }),
        );
        let mut ids = Vec::new();
        let mut admitted = 0;
        for _ in 0..500 {
            let class = Class::ALL[random.usize(..3)];
            let task = SimulatedTask {
                name: "task",
                slices_left: 1 + random.u32(..9),
                blocks: random.u8(..3) == 0,
            };
            let client = ClientId(random.u128(..4));
            if let Ok(id) = pool.admit(class, client, task) {
                ids.push(id);
                admitted += 1;
            }
            if !ids.is_empty() {
                let at = random.usize(..ids.len());
                match random.u8(..4) {
                    0 => pool.scheduler.end(ids[at], TaskEnd::Cancelled),
                    _ => pool.scheduler.wake(ids[at]),
                }
            }
            pool.tick();
        }
        // By now every deadline has passed.
        pool.now += Duration::from_secs(200);
        pool.run(1_000);
        let counters = pool.scheduler.counters();
        assert_eq!(pool.completed.len() + pool.ended.len(), admitted, "seed {seed}");
        assert_eq!(
            counters.sum_over_classes(|class| class.queued + class.running + class.active),
            0
        );
        assert_eq!(counters.sum_over_classes(|class| class.blocked), 0);
        assert_eq!(
            counters.sum_over_classes(|class| class.completed),
            pool.completed.len() as u64,
            "seed {seed}"
        );
        assert_eq!(pool.scheduler.next_deadline(), None, "seed {seed}");
        // The whole quota is free again.
        for _ in 0..4 {
            pool.submit(Class::Heavy, 1, "again", 1);
        }
        pool.run(4);
        assert_eq!(pool.served["again"], 4, "seed {seed}");
    }
}

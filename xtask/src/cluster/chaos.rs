//! `cluster chaos`: one fault after the other, and after each the check of the log, of the replicas and of the names of
//! damages.
//!
//! Shape: a round makes a fault, undoes it, waits until everything works, and counts. A round that fails is recorded
//! with its reason, and ends the run: the processes remain in no known state.
//! Behaviour meanwhile: the load runs on, and responses are compared while the fault lasts. So a response that is
//! wrong in between counts.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::comparison::Comparison;
use crate::cluster::faults::{Fault, FaultOrder};
use crate::cluster::links::{Cut, Party};
use crate::cluster::load::Load;
use crate::cluster::log_check::LogDamages;
use crate::cluster::log_servers::SERVERS;
use crate::cluster::nats_client::delete_stream;
use crate::cluster::node::Node;
use crate::cluster::options::{LogKind, Options};
use crate::cluster::processes::{CLUSTER, Cluster, REPLICAS, START_TIMEOUT, WITH_COPY};
use crate::cluster::progress::{format_progress, time_left};
use crate::cluster::report::{RoundEnd, RoundReport};
use crate::rig::clock::{now, pause};
use crate::rig::json_rpc;
use crate::rig::nodes::processed_slot;

/// Time that processes stay down after a kill.
const DOWN: Duration = Duration::from_secs(2);
/// Time limit until the log has removed the messages that a replica reads next.
const TRUNCATION_TIMEOUT: Duration = Duration::from_secs(600);
/// Time limit until the replicas are at the same slot as the producer was after the fault: a jump waits for a snapshot.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Slots by which a replica may be behind the others in a comparison.
const LAG_SLOTS_MAX: u64 = 16;
/// The times in which a slow replica runs and does not.
const RUNS: Duration = Duration::from_millis(50);
const STANDS: Duration = Duration::from_millis(450);
/// A message that was delivered again, which readers skip.
const REPEATED: &str = "repeated";
/// A replica without a copy of the snapshot.
const WITHOUT_COPY: usize = 2;
/// The prefix of the keys of the depot in the store.
const DEPOT: &str = "depot/";
/// The line of a replica that has stored a copy of a snapshot.
const COPIED: &str = "copied a snapshot into the local directory";

/// Makes the faults of a run. Returns the reports of all rounds.
pub(crate) fn run_rounds(
    cluster: &mut Cluster,
    options: &Options,
    load: &Load,
    comparison: &mut Comparison,
) -> Vec<RoundReport> {
    let mut order = FaultOrder::new(cluster.log, options.seed);
    let mut reports = Vec::new();
    let started = now();
    while (reports.len() as u64) < options.rounds && started.elapsed() < options.time {
        let fault = order.next_fault();
        let mut round = Round {
            cluster: &mut *cluster,
            options,
            load,
            comparison: &mut *comparison,
            order: &mut order,
            damaged_manifest: None,
        };
        let report = round.run(fault);
        let report = report
            .unwrap_or_else(|err| RoundReport::from_failure(fault.to_string(), format!("{err:#}")));
        let number = reports.len() as u64 + 1;
        let elapsed = started.elapsed();
        let left = time_left(elapsed, number, options.rounds, options.time);
        println!(
            "round {number} of {}: {}; {}",
            options.rounds,
            report.line(),
            format_progress(elapsed, left)
        );
        let has_failed = matches!(report.end, RoundEnd::Failed(_));
        reports.push(report);
        if has_failed {
            break;
        }
    }
    reports
}

/// A round in progress.
struct Round<'a> {
    cluster: &'a mut Cluster,
    options: &'a Options,
    load: &'a Load,
    comparison: &'a mut Comparison,
    order: &'a mut FaultOrder,
    /// The key of the manifest that the fault has damaged.
    damaged_manifest: Option<String>,
}

/// The names of damages so far, of all nodes.
struct Names {
    /// In records of the log.
    records: u64,
    /// Messages or logs that are gone.
    losses: u64,
    /// Lines about panics.
    panics: u64,
}

impl Round<'_> {
    fn run(&mut self, fault: Fault) -> Result<RoundReport> {
        let before = self.comparison.totals();
        let names_before = self.names();
        self.make(fault)?;
        let healed_after = self.cluster.wait_until_healthy()?;
        self.wait_until_level()?;
        let damages = LogDamages::check(
            self.cluster.hydrant(),
            &self.cluster.log_url(),
            CLUSTER,
            self.cluster.store.environment(),
        )?;
        let nodes: Vec<_> = self.cluster.replicas.iter().map(|node| node.rpc).collect();
        let addresses = self.load.addresses();
        self.comparison.compare_all(&nodes, Some(self.cluster.producer()), &addresses);
        let after = self.comparison.totals();
        let names = self.names();
        let was_named = match fault {
            Fault::DamageSnapshot => self.is_manifest_named(),
            _ => names.losses > names_before.losses,
        };
        let panics = names.panics - names_before.panics;
        let unnamed = u64::from(fault.is_damage() && !was_named) + panics;
        Ok(RoundReport {
            fault: fault.to_string(),
            end: RoundEnd::Healed(healed_after),
            compared: after.equal + after.equal_later - before.equal - before.equal_later,
            differences: after.different - before.different,
            wrong: after.wrong - before.wrong,
            record_faults: names.records.saturating_sub(names_before.records),
            unnamed,
            damages,
        })
    }

    /// Makes a fault, and undoes it.
    fn make(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::KillLeader | Fault::KillFollower => {
                let leader = self.cluster.find_leader().context("nobody leads")?;
                let index = if fault == Fault::KillLeader { leader } else { 1 - leader };
                self.cluster.ingesters[index].kill()?;
                self.compare_for(DOWN);
                self.cluster.ingesters[index].start()
            }
            Fault::KillReplica(index) => self.restart_replica(index),
            Fault::KillServers(count) => self.kill_servers(count),
            Fault::PauseLeader => {
                let leader = self.cluster.find_leader().context("nobody leads")?;
                self.cluster.ingesters[leader].pause()?;
                self.compare_for(self.options.pause);
                self.cluster.ingesters[leader].resume()
            }
            Fault::CutOffLeader(cut) => {
                let leader = self.cluster.find_leader().context("nobody leads")?;
                self.cut_off(Party::Ingester(leader), cut)
            }
            Fault::CutOffReplica(index, cut) => self.cut_off(Party::Replica(index), cut),
            Fault::CutOffServer(index, cut) => self.cut_off(Party::LogServer(index), cut),
            Fault::SlowReplica(index) => {
                let started = now();
                while started.elapsed() < self.options.outage {
                    self.cluster.replicas[index].pause()?;
                    pause(STANDS);
                    self.cluster.replicas[index].resume()?;
                    pause(RUNS);
                }
                Ok(())
            }
            Fault::TruncateLog(index) => self.truncate_past(index),
            Fault::DeleteStream => self.delete_stream(),
            Fault::DamageSnapshot => {
                // The one before it must be usable.
                let has_two = |it: &Cluster| it.manifests().is_ok_and(|found| found.len() > 1);
                self.cluster.wait_for("there are two snapshots", START_TIMEOUT, has_two)?;
                let manifests = self.cluster.manifests()?;
                let newest = manifests.last().context("no snapshot")?;
                self.cluster.store.damage(newest)?;
                let key = newest.strip_prefix(DEPOT).unwrap_or(newest);
                self.damaged_manifest = Some(key.to_owned());
                self.restart_replica(WITHOUT_COPY)
            }
            Fault::RemoveStore => self.remove_store(),
        }
    }

    fn restart_replica(&mut self, index: usize) -> Result<()> {
        self.cluster.replicas[index].kill()?;
        self.compare_for(DOWN);
        self.cluster.replicas[index].start()
    }

    /// Takes the snapshots away. A replica with a copy must start meanwhile.
    fn remove_store(&mut self) -> Result<()> {
        self.cluster.replicas[WITH_COPY].kill()?;
        self.cluster.remove_copy()?;
        let copied = |cluster: &Cluster| cluster.replicas[WITH_COPY].log().matches(COPIED).count();
        let before = copied(self.cluster);
        self.cluster.replicas[WITH_COPY].start()?;
        let what = "a replica has copied its snapshot";
        self.cluster.wait_for(what, START_TIMEOUT, |cluster| copied(cluster) > before)?;
        let cluster = &mut *self.cluster;
        cluster.store.take_away(&mut cluster.proxies)?;
        let started = self.start_without_store();
        let cluster = &mut *self.cluster;
        cluster.store.give_back(&mut cluster.proxies)?;
        started
    }

    fn start_without_store(&mut self) -> Result<()> {
        // The log is in the same store.
        if self.cluster.log != LogKind::Bucket {
            self.restart_replica(WITH_COPY)?;
            let what = "a replica starts from its copy of a snapshot";
            let is_ready = |cluster: &Cluster| cluster.replicas[WITH_COPY].is_ready();
            self.cluster.wait_for(what, START_TIMEOUT, is_ready)?;
        }
        self.compare_for(self.options.outage);
        Ok(())
    }

    fn kill_servers(&mut self, count: usize) -> Result<()> {
        let first = self.order.next_below(SERVERS);
        let killed: Vec<usize> = (0..count).map(|at| (first + at) % SERVERS).collect();
        for index in &killed {
            self.cluster.servers.as_mut().context("no servers")?.kill(*index)?;
        }
        if count < SERVERS {
            self.compare_for(DOWN);
        } else {
            self.compare_for(self.options.outage);
            self.check_balancer()?;
        }
        killed.into_iter().try_for_each(|index| self.cluster.start_server(index))
    }

    /// Checks that clients are served, also if no replica is ready.
    fn check_balancer(&self) -> Result<()> {
        let Some(balancer) = &self.cluster.balancer else { return Ok(()) };
        let params = json!([{"commitment": "finalized"}]);
        let response = json_rpc::call(balancer.address, "getSlot", &params);
        let response = response.context("a request through the balancer while the log is down")?;
        let slot = response["result"].as_u64();
        slot.map(drop).with_context(|| format!("the balancer while the log is down: {response}"))
    }

    fn cut_off(&mut self, party: Party, cut: Cut) -> Result<()> {
        let cluster = &mut *self.cluster;
        cluster.links.cut_off(&mut cluster.proxies, party, cut)?;
        self.compare_for(self.options.outage);
        let cluster = &mut *self.cluster;
        cluster.links.reconnect(&mut cluster.proxies, party)
    }

    /// Stops a replica until the log starts after the message that it reads next.
    fn truncate_past(&mut self, index: usize) -> Result<()> {
        let page = self.cluster.replicas[index].metrics()?;
        let position = page.count("hydrant_log_position{of=\"sequence\"}");
        let position = position.context("a replica without a position")?;
        self.cluster.replicas[index].pause()?;
        let started = now();
        let is_past = |cluster: &Cluster| -> Result<bool> {
            let servers = cluster.servers.as_ref().context("no servers")?;
            Ok(servers.first_sequence()? > position + 1)
        };
        let truncated = loop {
            match is_past(self.cluster) {
                Ok(true) => break Ok(()),
                Ok(false) if started.elapsed() < TRUNCATION_TIMEOUT => self.compare_for(DOWN),
                Ok(false) => break Err(anyhow::anyhow!("the log is not truncated in time")),
                Err(err) => break Err(err),
            }
        };
        self.cluster.replicas[index].resume()?;
        truncated
    }

    fn delete_stream(&mut self) -> Result<()> {
        let servers = self.cluster.servers.as_ref().context("no servers")?;
        let name = servers.stream_name()?;
        delete_stream(servers.servers[0].client, &name)?;
        let has_other = |cluster: &Cluster| {
            let servers = cluster.servers.as_ref();
            servers.and_then(|it| it.stream_name().ok()).is_some_and(|newest| newest != name)
        };
        let what = "an ingester has opened a new generation of the log";
        self.cluster.wait_for(what, START_TIMEOUT, has_other).map(drop)
    }

    /// Compares the replicas that respond, for a time.
    fn compare_for(&mut self, time: Duration) {
        let started = now();
        while started.elapsed() < time {
            let level = self.list_level_replicas();
            if level.len() > 1 {
                let addresses = self.load.addresses();
                self.comparison.compare(&level, None, &addresses, started + time);
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Returns the replicas that are ready, without those that a fault holds back: a comparison would wait for them.
    fn list_level_replicas(&self) -> Vec<SocketAddr> {
        let ready = self.cluster.replicas.iter().filter(|node| node.is_ready());
        let slots = ready.filter_map(|node| Some((node.rpc, processed_slot(node.rpc).ok()?)));
        let slots: Vec<(SocketAddr, u64)> = slots.collect();
        let newest = slots.iter().map(|(_, slot)| *slot).max().unwrap_or_default();
        let level = slots.into_iter().filter(|(_, slot)| slot + LAG_SLOTS_MAX >= newest);
        level.map(|(node, _)| node).collect()
    }

    /// Waits until all replicas have the blocks that the producer has now.
    fn wait_until_level(&mut self) -> Result<()> {
        let params = json!([{"commitment": "finalized"}]);
        let slot = |node: &Node| -> Option<u64> {
            json_rpc::call(node.rpc, "getSlot", &params).ok()?["result"].as_u64()
        };
        let target = slot(&self.cluster.ingesters[0]).context("the producer does not respond")?;
        let what = format!("all {REPLICAS} replicas have slot {target}");
        let level = |cluster: &Cluster| {
            cluster.replicas.iter().all(|node| slot(node).is_some_and(|slot| slot >= target))
        };
        self.cluster.wait_for(&what, LEVEL_TIMEOUT, level).map(drop)
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.cluster.ingesters.iter().chain(&self.cluster.replicas)
    }

    /// Whether the replica that started after the damage of a manifest has named it.
    fn is_manifest_named(&self) -> bool {
        let log = self.cluster.replicas[WITHOUT_COPY].log();
        let mut warnings = log.lines().filter(|line| line.contains("WARN"));
        let key = self.damaged_manifest.as_ref();
        key.is_some_and(|key| warnings.any(|line| line.contains(key.as_str())))
    }

    fn names(&self) -> Names {
        let mut names = Names { records: 0, losses: 0, panics: 0 };
        for node in self.nodes() {
            let page = node.metrics().unwrap_or_default();
            let faults = page.read_labelled("hydrant_log_faults_total", "fault");
            let records = faults.iter().filter(|(name, _)| name != REPEATED);
            names.records += records.map(|(_, count)| count).sum::<u64>();
            let losses = page.read_labelled("hydrant_log_losses_total", "loss");
            names.losses += losses.iter().map(|(_, count)| count).sum::<u64>();
            names.panics += node.log().matches("panicked at").count() as u64;
        }
        names
    }
}

//! The processes of a run: the log, the store, two ingesters, three replicas, a node without a log, and the balancer.
//!
//! Shape: the producer is a `hydrant dev`, which makes the chain and appends it. The second ingester is a
//! `hydrant ingest` that follows the producer from its snapshot archive over gRPC, so both have the same blocks. Every
//! process that uses NATS reaches each server through a proxy of its own ([`Links`]).
//! Invariant: all processes end with [`Cluster`].

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cluster::balancer::Balancer;
use crate::cluster::links::{Links, Party};
use crate::cluster::log_servers::{CREDENTIALS, LogServers};
use crate::cluster::node::Node;
use crate::cluster::object_store::ObjectStore;
use crate::cluster::options::{LogKind, Options};
use crate::cluster::programs::Programs;
use crate::cluster::proxies::Proxies;
use crate::directories::remove_directory;
use crate::rig::clock::{now, pause};
use crate::rig::ports::{free_ports, local};

/// Number of replicas.
pub(crate) const REPLICAS: usize = 3;
/// The replica whose reads are measured. It does not archive.
pub(crate) const MEASURED: usize = 0;
/// The replica that has a copy of the snapshot that it loaded last.
pub(crate) const WITH_COPY: usize = 1;
/// The name of the cluster in the log and in the store.
pub(crate) const CLUSTER: &str = "local";
/// Time limit until a process serves.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit until everything works after a fault: two elections of NATS, a lease, a snapshot.
const HEALTHY_TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Seconds between two snapshots of a replica. The log must reach back further.
const SNAPSHOT_INTERVAL_S: u64 = 20;
/// Messages of the log are removed by its size.
const LOG_AGE_S: u64 = 3_600;
/// Blocks until a block is final.
const FINALIZE_AFTER: u64 = 31;
/// Blocks of history that each node retains: all of a run.
const HISTORY_SLOTS: u64 = 1_000_000;

/// The running processes.
pub(crate) struct Cluster {
    dir: PathBuf,
    hydrant: PathBuf,
    pub(crate) log: LogKind,
    pub(crate) proxies: Proxies,
    pub(crate) links: Links,
    pub(crate) servers: Option<LogServers>,
    pub(crate) store: ObjectStore,
    /// The producer of the chain, then the ingester that follows it.
    pub(crate) ingesters: Vec<Node>,
    pub(crate) replicas: Vec<Node>,
    /// Follows the producer, without a log.
    pub(crate) plain: Node,
    pub(crate) balancer: Option<Balancer>,
}

impl Cluster {
    /// Starts all, and returns when the replicas are ready.
    pub(crate) fn start(options: &Options, programs: &Programs) -> Result<Self> {
        let dir = options.dir.join("run");
        remove_directory(&dir)?;
        fs::create_dir_all(&dir)?;
        let [
            client0,
            monitor0,
            routes0,
            client1,
            monitor1,
            routes1,
            client2,
            monitor2,
            routes2,
            s3,
            haproxy,
            producer_rpc,
            producer_grpc,
            ingest,
            plain,
            replica0,
            replica1,
            replica2,
        ] = free_ports()?;
        for command in ["follow", "ingest"] {
            fs::create_dir_all(archives_dir(&dir, command))?;
        }
        let mut proxies = Proxies::start(&programs.proxies, &dir)?;
        let store = match &programs.s3 {
            Some(program) => ObjectStore::start_server(program, &dir, local(s3), &mut proxies)?,
            None => ObjectStore::in_directory(&dir)?,
        };
        let log = programs.choose_log(options.log);
        ensure!(log != LogKind::Bucket || programs.s3.is_some(), "--log s3 needs an S3 server");
        let servers = match (&programs.nats_server, log) {
            (Some(program), LogKind::Nats) => {
                let ports = [
                    [client0, monitor0, routes0],
                    [client1, monitor1, routes1],
                    [client2, monitor2, routes2],
                ];
                Some(LogServers::new(program, &dir, options.log_bytes, ports))
            }
            (None, LogKind::Nats) => anyhow::bail!("--log nats needs nats-server"),
            _ => None,
        };
        let links = Links::open(&mut proxies, servers.as_ref(), REPLICAS)?;
        let setup = Setup { options, dir: &dir, links: &links, store: &store, log };
        let hydrant = &programs.hydrant;
        let producer_grpc = local(producer_grpc);
        let producer_rpc = local(producer_rpc);
        let node = |name: &str, rpc: SocketAddr, args: Vec<String>| {
            Node::new(name, hydrant, &dir, rpc, args, store.environment())
        };
        let ingesters = vec![
            node("producer", producer_rpc, setup.producer_args(producer_grpc)),
            node("ingest", local(ingest), setup.ingest_args(producer_rpc, producer_grpc)),
        ];
        let replicas = [replica0, replica1, replica2].into_iter().enumerate();
        let replicas = replicas.map(|(index, port)| {
            node(&format!("replica{index}"), local(port), setup.replica_args(index))
        });
        let replicas: Vec<Node> = replicas.collect();
        let plain =
            node("plain", local(plain), setup.follow_args("follow", producer_rpc, producer_grpc));
        let mut cluster = Self {
            hydrant: hydrant.clone(),
            log,
            proxies,
            links,
            servers,
            store,
            ingesters,
            replicas,
            plain,
            balancer: None,
            dir,
        };
        cluster.start_all()?;
        if let Some(program) = &programs.haproxy {
            let addresses = [0, 1, 2].map(|index| cluster.replicas[index].rpc);
            let balancer = Balancer::start(program, &cluster.dir, local(haproxy), addresses)?;
            cluster.balancer = Some(balancer);
        }
        Ok(cluster)
    }

    fn start_all(&mut self) -> Result<()> {
        for index in 0..self.servers.as_ref().map_or(0, |it| it.servers.len()) {
            self.start_server(index)?;
        }
        self.wait_for("the servers of the log are healthy", START_TIMEOUT, |cluster| {
            cluster.servers.as_ref().is_none_or(LogServers::are_healthy)
        })?;
        self.wait_for("the store responds", START_TIMEOUT, |cluster| cluster.store.is_ready())?;
        self.ingesters[0].start()?;
        self.wait_for("the producer is ready", START_TIMEOUT, |it| it.ingesters[0].is_ready())?;
        self.ingesters[1].start()?;
        self.plain.start()?;
        // The replicas need the snapshot that opens the first generation.
        self.wait_for("a snapshot exists", START_TIMEOUT, |cluster| {
            cluster.manifests().is_ok_and(|manifests| !manifests.is_empty())
        })?;
        self.replicas.iter_mut().try_for_each(Node::start)?;
        self.wait_until_healthy().map(drop)
    }

    /// Starts a server of the log.
    pub(crate) fn start_server(&mut self, index: usize) -> Result<()> {
        let routes = self.links.routes_from(index);
        self.servers.as_mut().map_or(Ok(()), |servers| servers.start(index, &routes))
    }

    /// Waits until everything runs, one ingester leads, and all replicas are ready. Returns the time.
    pub(crate) fn wait_until_healthy(&mut self) -> Result<Duration> {
        self.wait_for("all are ready and one ingester leads", HEALTHY_TIMEOUT, |cluster| {
            let mut nodes = cluster.ingesters.iter().chain(&cluster.replicas);
            nodes.all(Node::is_ready)
                && cluster.plain.is_ready()
                && cluster.servers.as_ref().is_none_or(LogServers::are_healthy)
                && cluster.find_leader().is_some()
        })
    }

    /// Returns the index of the ingester that appends to the log.
    pub(crate) fn find_leader(&self) -> Option<usize> {
        self.ingesters.iter().position(|node| {
            let page = node.metrics();
            page.is_ok_and(|page| page.count("hydrant_ingest_leader") == Some(1))
        })
    }

    /// Returns the keys of the manifests of snapshots, the oldest first.
    pub(crate) fn manifests(&self) -> Result<Vec<String>> {
        let mut keys = self.store.list(&format!("depot/snap/{CLUSTER}"))?;
        keys.retain(|key| key.ends_with("/manifest"));
        // Slots have different lengths.
        let slot = |key: &String| {
            let name = key.rsplit('/').nth(1).unwrap_or_default();
            name.split('-').next().and_then(|slot| slot.parse::<u64>().ok())
        };
        keys.sort_by_key(slot);
        Ok(keys)
    }

    /// Returns the URL of the log for tools, without proxies.
    pub(crate) fn log_url(&self) -> String {
        match &self.servers {
            Some(servers) => nats_url(servers.servers.iter().map(|server| server.client)),
            None => file_or_bucket_url(self.log, &self.dir, &self.store),
        }
    }

    /// Whether a process has ended that should run.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.servers.as_mut().map_or(Ok(()), LogServers::check)?;
        self.store.check()?;
        self.balancer.as_mut().map_or(Ok(()), Balancer::check)?;
        self.plain.check()?;
        self.ingesters.iter_mut().chain(&mut self.replicas).try_for_each(Node::check)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the copy of a replica that does not run.
    pub(crate) fn remove_copy(&self) -> Result<()> {
        remove_directory(&copy_dir(&self.dir))
    }

    pub(crate) fn hydrant(&self) -> &Path {
        &self.hydrant
    }

    pub(crate) fn producer(&self) -> SocketAddr {
        self.ingesters[0].rpc
    }

    /// Waits for a condition while all processes run. Returns the time.
    pub(crate) fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        is_reached: impl Fn(&Self) -> bool,
    ) -> Result<Duration> {
        let started = now();
        while !is_reached(self) {
            self.check()?;
            ensure!(started.elapsed() < limit, "timed out after {limit:?}: {what}");
            pause(POLL_INTERVAL);
        }
        Ok(started.elapsed())
    }

    /// Ends the nodes, the last one first, so that the log gets the last blocks.
    pub(crate) fn stop(&mut self) {
        self.balancer = None;
        self.replicas.iter_mut().rev().for_each(Node::stop);
        self.plain.stop();
        self.ingesters.iter_mut().rev().for_each(Node::stop);
    }
}

/// The settings of nodes.
struct Setup<'a> {
    options: &'a Options,
    dir: &'a Path,
    links: &'a Links,
    store: &'a ObjectStore,
    log: LogKind,
}

impl Setup<'_> {
    fn producer_args(&self, grpc: SocketAddr) -> Vec<String> {
        let options = self.options;
        let ledger = self.dir.join("producer-ledger").display().to_string();
        let mut args = strings(&["dev", "--ledger", &ledger]);
        args.extend(strings(&["--slot-ms", &options.slot_ms.to_string()]));
        args.extend(strings(&["--finalize-after", &FINALIZE_AFTER.to_string()]));
        args.extend(strings(&["--grpc-port", &grpc.port().to_string()]));
        args.extend(strings(&["--history-slots", &HISTORY_SLOTS.to_string()]));
        args.extend(self.log_args(Party::Ingester(0)));
        args
    }

    fn ingest_args(&self, producer_rpc: SocketAddr, producer_grpc: SocketAddr) -> Vec<String> {
        let mut args = self.follow_args("ingest", producer_rpc, producer_grpc);
        args.extend(self.log_args(Party::Ingester(1)));
        args
    }

    /// The arguments of a node that follows the producer.
    fn follow_args(
        &self,
        command: &str,
        producer_rpc: SocketAddr,
        producer_grpc: SocketAddr,
    ) -> Vec<String> {
        let archives = archives_dir(self.dir, command).display().to_string();
        let source = format!("http://{producer_grpc}");
        let snapshot = format!("http://{producer_rpc}");
        let mut args = strings(&[command, "--source", &source, "--snapshot", &snapshot]);
        args.extend(strings(&["--snapshot-dir", &archives, "--no-grpc"]));
        args.extend(strings(&["--history-slots", &HISTORY_SLOTS.to_string()]));
        args
    }

    fn replica_args(&self, index: usize) -> Vec<String> {
        let mut args = strings(&["replica", "--no-grpc", "--replica-lag-max-slots", "32"]);
        args.extend(strings(&["--history-slots", &HISTORY_SLOTS.to_string()]));
        if index == WITH_COPY {
            let copy = copy_dir(self.dir).display().to_string();
            args.extend(strings(&["--replica-cache-dir", &copy, "--snapshot-interval", "0"]));
        } else {
            args.extend(strings(&["--snapshot-interval", &SNAPSHOT_INTERVAL_S.to_string()]));
        }
        // Two of them: the archive waits for the other one if the blocks after its end were made while one was down.
        if index != MEASURED {
            args.push("--archive".to_owned());
        }
        args.extend(self.log_args(Party::Replica(index)));
        args
    }

    fn log_args(&self, party: Party) -> Vec<String> {
        let url = match self.log {
            LogKind::Nats => nats_url(self.links.list_log_servers(party)),
            log => file_or_bucket_url(log, self.dir, self.store),
        };
        let depot = self.store.url("depot");
        let mut args = strings(&["--log-url", &url, "--depot", &depot, "--log-cluster", CLUSTER]);
        if let Party::Ingester(_) = party {
            args.extend(strings(&["--log-max-bytes", &self.options.log_bytes.to_string()]));
            args.extend(strings(&["--log-max-age", &LOG_AGE_S.to_string()]));
        }
        args
    }
}

/// Returns the directory of the copy of a replica.
fn copy_dir(dir: &Path) -> PathBuf {
    dir.join("replica1-copy")
}

/// Returns the directory of the archives that a node downloads.
fn archives_dir(dir: &Path, command: &str) -> PathBuf {
    dir.join(format!("{command}-archives"))
}

fn nats_url(servers: impl IntoIterator<Item = SocketAddr>) -> String {
    let urls = servers.into_iter().map(|address| format!("nats://{CREDENTIALS}@{address}"));
    urls.collect::<Vec<_>>().join(",")
}

fn file_or_bucket_url(log: LogKind, dir: &Path, store: &ObjectStore) -> String {
    match log {
        LogKind::Bucket => store.url("log"),
        // Not in the directory of the store, which a fault removes.
        _ => format!("file://{}/log", dir.display()),
    }
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

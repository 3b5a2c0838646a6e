//! A ledger that appends to a log, and its replica, as nodes of one program.

use anyhow::{Context, Result, ensure};
use hydrant::{LocalConfig, LocalProducer, Node, NodeConfig, ReplicaNodeConfig, ReplicaProducer};
use serde_json::json;

use crate::replicas::rig::{call, slots};
use crate::world::{WAIT_TIMEOUT, wait_until};

#[test]
fn a_ledger_and_its_replica_are_embedded_in_one_program() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let url = |name| format!("file://{}", dir.path().join(name).display());
    let log = url("log");
    let depot = url("depot");
    let ports = || NodeConfig::default().with_free_ports();
    let producer = LocalProducer::new(LocalConfig::default().with_slot_ms(0));
    let local = Node::builder(producer).serve(ports().with_cluster_log(&log, &depot))?;
    call(local.addresses().rpc, "hydrant_mine", json!([5]))?;

    let config = || ReplicaNodeConfig::new(&log, &depot).with_cache_dir(dir.path().join("cache"));
    let replica = Node::builder(ReplicaProducer::new(config())).serve(ports())?;
    let [local_rpc, replica_rpc] = [&local, &replica].map(|node| node.addresses().rpc);
    wait_until("the replica to be at the newest block", WAIT_TIMEOUT, || {
        Ok((slots(local_rpc)?[1..] == slots(replica_rpc)?[1..]).then_some(()))
    })?;
    let genesis = |node| call(node, "getGenesisHash", json!([]));
    ensure!(genesis(local_rpc)? == genesis(replica_rpc)?);

    // Its blocks come from a log, and do not go to one.
    let looped = ports().with_cluster_log(&log, &depot);
    let refused = Node::builder(ReplicaProducer::new(config())).serve(looped);
    let refused = refused.err().context("it is refused")?;
    ensure!(format!("{refused:?}").contains("does not append"), "{refused:?}");
    replica.stop()?;
    Ok(local.stop()?)
}

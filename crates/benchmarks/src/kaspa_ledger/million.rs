//! One client that subscribes to a million addresses: the CPU time of the process, and the time until the last reply.
//!
//! The messages are encoded before. The client's own work is included: its socket masks and copies 38 MB.

use std::sync::Arc;

use anyhow::Result;
use cpu_time::ProcessTime;
use rpc_kaspa::Publisher;
use testkit::clock::now;
use tokio::runtime::Builder;

use crate::median::median;
use crate::metric::print_metric;
use crate::served_chain::{Client, empty_chain, serve_chain, utxo_scopes};
use crate::size::Size;

/// Bytes of the client's socket.
const BUFFER_BYTES: usize = 256 * 1024;
/// Publications after which the ids of released addresses can be used again.
const PUBLICATIONS: usize = 3;

pub(crate) fn run(size: &Size) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut chain = empty_chain(2 * size.million + 1_000)?;
    let server = serve_chain(chain.reader())?;
    let _publisher = Publisher::new(Arc::clone(&server));
    let mut wall_s = Vec::new();
    let mut cpu_s = Vec::new();
    for round in 0..size.million_rounds {
        let mut client = runtime.block_on(Client::connect(&server, round as u32, BUFFER_BYTES));
        // The client counts its requests from 1.
        let requests: Vec<Vec<u8>> = (1..)
            .zip(utxo_scopes(0..size.million))
            .map(|(id, scope)| scope.encode_borsh_subscribe(id))
            .collect();
        let cpu = ProcessTime::now();
        let started = now();
        runtime.block_on(async {
            for request in requests {
                client.exchange(|_| request).await?;
            }
            anyhow::Ok(())
        })?;
        wall_s.push(started.elapsed().as_secs_f64());
        cpu_s.push(cpu.elapsed().as_secs_f64());
        runtime.block_on(client.unsubscribe())?;
        for _ in 0..PUBLICATIONS {
            drop(chain.publish()?);
            chain.reclaim();
        }
    }
    let cpu_s = median(cpu_s);
    println!(
        "{} addresses of one client: subscribed in {:.2} s, {cpu_s:.2} s of CPU, the client's included",
        size.million,
        median(wall_s)
    );
    print_metric("cpu_s", cpu_s);
    Ok(())
}

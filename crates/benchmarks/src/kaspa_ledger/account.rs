//! A script with a million UTXOs: its memory, its balance, and its list to a client that reads slowly.
//!
//! Shape: the memory is the growth of the process, which served an empty chain before. Calls are wRPC in Borsh on a
//! socket in memory. The slow client reads nothing for a second, and then 16 KiB each millisecond at most, while the
//! resident memory of the process is sampled. No block is added meanwhile.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use chain_kaspa::ChainConfig;
use futures_util::SinkExt;
use hdrhistogram::Histogram;
use kaspa::{KaspaAddress, Method, Operation, ScriptPublicKey, borsh_utxo_bytes};
use process_usage::Process;
use rpc_kaspa::{KaspaServer, Publisher};
use testkit::clock::now;
use testkit::kaspa_chain::{dust_utxo, numbered_payload};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::runtime::Builder;
use tokio_tungstenite::tungstenite::Message;

use crate::loaded_chain::{SPARE_ADDRESSES, load_unhashed};
use crate::metric::print_metric;
use crate::served_chain::{Client, empty_chain, numbered_address, serve_chain};
use crate::size::Size;

/// The script that has all UTXOs.
const SCRIPT: u32 = 0;
/// Bytes that the socket of a client holds.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of a read at most.
const READ_BYTES: usize = 16 * 1024;
/// The time in which the slow client reads nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// The least time between two of its reads.
const READ_INTERVAL: Duration = Duration::from_millis(1);
/// Reads between two samples of the memory.
const SAMPLE_READS: u64 = 16;

pub(crate) fn run(size: &Size) -> Result<()> {
    let process = Process::current();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let empty = empty_chain(SPARE_ADDRESSES)?;
    let _empty_server = serve_chain(empty.reader())?;
    let before = process.resident_bytes()?;

    let utxos = size.account_utxos;
    let script = ScriptPublicKey::from_payload(&numbered_payload(SCRIPT));
    let config = ChainConfig::new(utxos + SPARE_ADDRESSES);
    let chain = load_unhashed(config, utxos, |number| {
        let (outpoint, mut entry) = dust_utxo(number, 1);
        entry.script_public_key = script.clone();
        (outpoint, entry)
    })?;
    let resident = process.resident_bytes()?;
    let utxo_bytes = resident.saturating_sub(before) as f64 / f64::from(utxos);
    println!(
        "one script with {utxos} UTXOs: {utxo_bytes:.1} B each; {:.1} B with the whole process of {:.1} MB",
        resident as f64 / f64::from(utxos),
        resident as f64 / 1e6
    );
    let counted = chain.reader().utxos.bytes();
    let each = |bytes: usize| bytes as f64 / f64::from(utxos);
    println!(
        "  of these addresses {:.1}, packed {:.1}, indices {:.1}",
        each(counted.addresses),
        each(counted.packed),
        each(counted.indices)
    );
    print_metric("utxo_bytes", utxo_bytes);

    let server = serve_chain(chain.reader())?;
    let _publisher = Publisher::new(Arc::clone(&server));
    let address = numbered_address(SCRIPT);
    // First: memory that the allocator retains after other lists would be used again, and hide that of this one.
    runtime.block_on(measure_slow_reader(&server, &address, utxos))?;
    runtime.block_on(measure_balance(&server, &address, size.balance_calls))?;
    runtime.block_on(measure_first_byte(&server, &address, size.list_calls))
}

/// The time from the request of the balance to its reply.
async fn measure_balance(
    server: &Arc<KaspaServer>,
    address: &KaspaAddress,
    calls: u32,
) -> Result<()> {
    let mut client = Client::connect(server, 1, BUFFER_BYTES).await;
    let mut times_ns = Histogram::<u64>::new(3)?;
    for _ in 0..calls {
        let started = now();
        client.exchange(|id| encode_balance_request(id, address)).await?;
        times_ns.record(started.elapsed().as_nanos() as u64)?;
    }
    let ms = |quantile: f64| times_ns.value_at_quantile(quantile) as f64 / 1e6;
    println!("  its balance: p50 {:.4} ms, p99 {:.4} ms", ms(0.5), ms(0.99));
    print_metric("balance_p99_ms", ms(0.99));
    Ok(())
}

/// The time from the request of the list to its first bytes. Then the client leaves.
async fn measure_first_byte(
    server: &Arc<KaspaServer>,
    address: &KaspaAddress,
    calls: u32,
) -> Result<()> {
    let mut most = Duration::ZERO;
    let mut buffer = vec![0; READ_BYTES];
    for _ in 0..calls {
        let started = now();
        let mut stream = request_list(server, address).await?;
        ensure!(stream.read(&mut buffer).await? > 0, "the connection has ended");
        most = most.max(started.elapsed());
    }
    println!("  the first bytes of its list: {:.2} ms at most", most.as_secs_f64() * 1e3);
    print_metric("first_byte_ms", most.as_secs_f64() * 1e3);
    Ok(())
}

/// The memory that the list takes while its client reads slowly.
async fn measure_slow_reader(
    server: &Arc<KaspaServer>,
    address: &KaspaAddress,
    utxos: u32,
) -> Result<()> {
    let process = Process::current();
    let script_bytes = ScriptPublicKey::from_payload(&address.payload).script.len();
    let list_bytes =
        borsh_utxo_bytes(Some(&address.payload), script_bytes, false) as u64 * u64::from(utxos);
    let before = process.resident_bytes()?;
    let mut most = before;
    let mut stream = request_list(server, address).await?;
    tokio::time::sleep(PAUSE).await;
    most = most.max(process.resident_bytes()?);
    let mut buffer = vec![0; READ_BYTES];
    let mut read = 0;
    let mut reads = 0_u64;
    while read < list_bytes {
        let bytes = stream.read(&mut buffer).await?;
        ensure!(bytes > 0, "the connection has ended after {read} of {list_bytes} bytes");
        read += bytes as u64;
        reads += 1;
        if reads.is_multiple_of(SAMPLE_READS) {
            most = most.max(process.resident_bytes()?);
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
    let megabytes = most.saturating_sub(before) as f64 / 1e6;
    println!(
        "  its list of {:.1} MB to a slow reader: {megabytes:.2} MB more at most",
        list_bytes as f64 / 1e6
    );
    print_metric("list_mb", megabytes);
    Ok(())
}

/// Requests the list. Returns the stream that has the reply.
async fn request_list(server: &Arc<KaspaServer>, address: &KaspaAddress) -> Result<DuplexStream> {
    let mut client = Client::connect(server, 2, BUFFER_BYTES).await;
    let request = Method::GetUtxosByAddresses.encode_borsh_addresses(1, &[*address]);
    client.socket.send(Message::Binary(request.into())).await?;
    Ok(client.socket.into_inner())
}

/// Encodes a request of getBalanceByAddress, which `kaspa` only decodes.
fn encode_balance_request(id: u64, address: &KaspaAddress) -> Vec<u8> {
    let mut structure = 1_u16.to_le_bytes().to_vec();
    let payload = address.payload.as_bytes();
    structure.extend([address.prefix as u8, address.payload.version()]);
    structure.extend((payload.len() as u32).to_le_bytes());
    structure.extend(payload);
    let mut request = vec![1];
    request.extend(id.to_le_bytes());
    request.push(Operation::Method(Method::GetBalanceByAddress).code());
    request.extend((structure.len() as u32).to_le_bytes());
    request.extend(structure);
    request
}

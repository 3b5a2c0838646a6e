//! Records a stream: `record stream URL FROM_SLOT SLOTS FILE`. Packs a recording: `record pack FROM TO`.
//! `cargo xtask rig --record` runs it.
//!
//! Out: the messages that a follower gets, each after its length: from a slot until a later one is final. The time of a
//! message and the names of its filters are left out. A packed file is in zstd; an archive (`.zst`) is packed again.
//! Bounds: a recording is packed in memory. The stream is not packed while it is read: its server closes slow clients.
#![expect(clippy::print_stdout, reason = "it reports to its caller")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::pin::Pin;

use anyhow::{Context, Result, ensure};
use futures_util::{Stream, StreamExt};
use prost::Message;
use tonic::transport::Endpoint;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeRequest, SubscribeRequestFilterAccounts, SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterSlots, SubscribeRequestFilterTransactions, SubscribeUpdate,
};

/// A long window: the large sysvars repeat in every slot.
const WINDOW_LOG: u32 = 27;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["stream", url, from_slot, slots, file] => {
            let (from_slot, slots): (u64, u64) = (from_slot.parse()?, slots.parse()?);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(record(url, from_slot, from_slot + slots - 1, file))
        }
        ["pack", from, to] => pack(from.as_ref(), to.as_ref()),
        _ => anyhow::bail!("record stream URL FROM_SLOT SLOTS FILE | record pack FROM TO"),
    }
}

/// Packs a file as small as it gets, and removes it if the other one has another name.
fn pack(from: &Path, to: &Path) -> Result<()> {
    let mut bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
    if from.extension().is_some_and(|it| it == "zst") {
        bytes = zstd::decode_all(&*bytes)?;
    }
    let mut out = zstd::Encoder::new(Vec::new(), 19)?;
    out.long_distance_matching(true)?;
    out.window_log(WINDOW_LOG)?;
    out.write_all(&bytes)?;
    let packed = out.finish()?;
    std::fs::write(to, &packed)?;
    if from != to {
        std::fs::remove_file(from)?;
    }
    println!("{}: {} bytes of {}", to.display(), packed.len(), bytes.len());
    Ok(())
}

async fn record(url: &str, from_slot: u64, last_slot: u64, file: &str) -> Result<()> {
    let channel = Endpoint::from_shared(url.to_owned())?.connect().await?;
    let mut client = GeyserClient::new(channel).max_decoding_message_size(64 << 20);
    let name = || "follow".to_owned();
    let slots = SubscribeRequestFilterSlots {
        interslot_updates: Some(true),
        ..SubscribeRequestFilterSlots::default()
    };
    let request = SubscribeRequest {
        accounts: [(name(), SubscribeRequestFilterAccounts::default())].into(),
        transactions: [(name(), SubscribeRequestFilterTransactions::default())].into(),
        blocks_meta: [(name(), SubscribeRequestFilterBlocksMeta::default())].into(),
        slots: [(name(), slots)].into(),
        commitment: Some(0),
        from_slot: Some(from_slot),
        ..SubscribeRequest::default()
    };
    // The stream of requests stays open: some servers end the updates with it.
    let requests: Pin<Box<dyn Stream<Item = SubscribeRequest> + Send>> =
        Box::pin(futures_util::stream::iter([request]).chain(futures_util::stream::pending()));
    let mut updates = client.subscribe(requests).await?.into_inner();
    let mut out = BufWriter::new(File::create(file).context(file.to_owned())?);
    let mut count = 0_u64;
    let mut bytes = 0_u64;
    loop {
        let update = updates.next().await.context("the stream ended")??;
        let Some(content) = &update.update_oneof else { continue };
        if matches!(content, UpdateOneof::Ping(_)) {
            continue;
        }
        let is_last = matches!(content, UpdateOneof::Slot(it)
            if it.slot >= last_slot && it.status == i32::from(SlotStatus::SlotFinalized));
        let update = SubscribeUpdate { filters: Vec::new(), created_at: None, ..update };
        let message = update.encode_length_delimited_to_vec();
        out.write_all(&message)?;
        (count, bytes) = (count + 1, bytes + message.len() as u64);
        if is_last {
            break;
        }
    }
    out.flush()?;
    ensure!(count > 0, "nothing was recorded");
    println!("recorded {count} messages, {bytes} bytes");
    Ok(())
}

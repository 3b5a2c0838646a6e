//! Records a stream: `record URL FROM_SLOT SLOTS FILE`. `cargo xtask rig --record` runs it.
//!
//! Out: the messages that a follower gets, each after its length, in zstd: from a slot until a later one is final.
//! The time of a message and the names of its filters are left out.
#![expect(clippy::print_stdout, reason = "it reports to its caller")]

use std::fs::File;
use std::io::Write;
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
    let [url, from_slot, slots, file] = args.as_slice() else {
        anyhow::bail!("record URL FROM_SLOT SLOTS FILE");
    };
    let (from_slot, slots): (u64, u64) = (from_slot.parse()?, slots.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(record(url, from_slot, from_slot + slots, file))
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
    let mut out = zstd::Encoder::new(File::create(file).context(file.to_owned())?, 19)?;
    out.long_distance_matching(true)?;
    out.window_log(WINDOW_LOG)?;
    let (mut count, mut bytes) = (0_u64, 0_u64);
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
    out.finish()?;
    ensure!(count > 0, "nothing was recorded");
    println!("recorded {count} messages, {bytes} bytes");
    Ok(())
}

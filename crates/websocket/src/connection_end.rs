//! The end of a connection: its cause, the close frame, and the wait until the client ends its half.
//!
//! Bounds: the caller limits the time of [`close`]; [`DRAIN_BYTES_MAX`] are read from the client meanwhile.
//! Not here: the close codes (`connection`).

use cpu_pool::TaskEnd;
use http_server::DRAIN_BYTES_MAX;
use subscriptions::CloseReason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, OpCode};

use crate::frame_writer::FrameWriter;
use crate::shared_bytes::SharedBytes;

/// Why a connection ends.
pub(crate) enum ConnectionEnd {
    /// The stream ended or broke.
    Gone,
    /// The client sent a close frame, and waits for ours.
    Closing(Option<CloseFrame>),
    /// We close.
    Close(CloseCode, String),
}

/// Returns the close of the connection if the pool ends a task.
pub(crate) fn end_for_task_error(end: TaskEnd) -> ConnectionEnd {
    match end {
        TaskEnd::Panicked => internal_error(),
        TaskEnd::ExpiredWaiting | TaskEnd::Expired => ConnectionEnd::Close(
            CloseCode::Again,
            "the node is busy (pool.medium.deadline_ms)".to_owned(),
        ),
        TaskEnd::Cancelled | TaskEnd::ShutDown => end_for(CloseReason::ShutDown),
    }
}

pub(crate) fn missing_part() -> ConnectionEnd {
    tracing::error!("a task needs a part after its message's end; its connection is closed");
    internal_error()
}

pub(crate) fn internal_error() -> ConnectionEnd {
    ConnectionEnd::Close(CloseCode::Error, "internal error".to_owned())
}

pub(crate) fn end_for(reason: CloseReason) -> ConnectionEnd {
    let (code, setting) = match reason {
        CloseReason::MessagesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_messages_max")),
        CloseReason::BytesFull { .. } => (CloseCode::Policy, Some("pubsub.queue_bytes_max")),
        CloseReason::NodeBytesFull { .. } => (CloseCode::Policy, Some("pubsub.queues_bytes_max")),
        CloseReason::EventsLost => (CloseCode::Again, Some("pubsub.events_max")),
        CloseReason::Revoked => (CloseCode::Policy, None),
        CloseReason::ShutDown => (CloseCode::Away, None),
    };
    ConnectionEnd::Close(
        code,
        match setting {
            Some(setting) => format!("{reason} ({setting})"),
            None => reason.to_string(),
        },
    )
}

/// Returns a close frame as bytes, for a server that refuses all WebSockets. `reason` has at most 123 bytes.
pub fn close_frame(code: u16, reason: &str) -> Vec<u8> {
    let close = CloseFrame { code: code.into(), reason: reason.into() };
    let mut bytes = Vec::new();
    let formatted = Frame::close(Some(close)).format(&mut bytes);
    debug_assert!(formatted.is_ok(), "writing to memory does not fail");
    bytes
}

/// Sends the close frame after the rest of the payload that is partly written. If the rest is gone, none can be sent.
pub(crate) async fn close<IO>(
    io: &mut IO,
    writer: &mut FrameWriter,
    rest: Option<SharedBytes>,
    close_frame: Option<CloseFrame>,
) -> Option<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    if !writer.withdraw_long() {
        let payload = || rest.clone();
        while writer.advance(io, payload).await.ok()?.is_continue() {}
    }
    drop(rest);
    let frame = Frame::close(close_frame);
    writer.add(OpCode::Control(Control::Close), true, frame.payload());
    while writer.advance(io, || None).await.ok()?.is_continue() {}
    half_close(io).await
}

/// Ends our half of the stream, then reads until the client ends its half. If a socket is closed with unread bytes,
/// the system resets it, and the client might never see our close frame.
async fn half_close<IO>(io: &mut IO) -> Option<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    io.shutdown().await.ok()?;
    let mut buffer = [0; 1024];
    let mut bytes_left = DRAIN_BYTES_MAX;
    loop {
        let read = io.read(&mut buffer).await.ok()?;
        if read == 0 {
            return Some(());
        }
        bytes_left = bytes_left.checked_sub(read)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_frame_has_its_code_and_its_reason() {
        assert_eq!(close_frame(1_013, "busy"), b"\x88\x06\x03\xf5busy");
    }
}

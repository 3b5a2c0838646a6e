//! The status of a stream whose session was closed.

use subscriptions::CloseReason;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tonic::Status;

/// Returns the status for the payload of a close frame: a code, then a reason.
pub(crate) fn status_from_close(payload: &[u8]) -> Status {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return Status::unavailable("the session was closed");
    };
    let code = CloseCode::from(u16::from_be_bytes(*code));
    status_from_frame(code, &String::from_utf8_lossy(reason))
}

/// Returns the status for the code and the reason of a close frame.
pub(crate) fn status_from_frame(code: CloseCode, reason: &str) -> Status {
    if reason == CloseReason::Revoked.to_string() {
        // As Yellowstone's streams: a client without a key gets it, too.
        return Status::unauthenticated(reason);
    }
    match code {
        CloseCode::Normal => Status::ok(reason),
        CloseCode::Away => Status::unavailable(reason),
        // A slow client, or one that has used up its memory.
        CloseCode::Policy | CloseCode::Again => Status::resource_exhausted(reason),
        CloseCode::Size => Status::out_of_range(reason),
        CloseCode::Protocol | CloseCode::Unsupported | CloseCode::Invalid => {
            Status::invalid_argument(reason)
        }
        _ => Status::internal(reason),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn each_close_has_a_status() {
        let cases = [
            (1001, Code::Unavailable),
            (1007, Code::InvalidArgument),
            (1008, Code::ResourceExhausted),
            (1009, Code::OutOfRange),
            (1011, Code::Internal),
            (1013, Code::ResourceExhausted),
        ];
        for (close, code) in cases {
            let payload = [&u16::to_be_bytes(close)[..], b"why"].concat();
            let status = status_from_close(&payload);
            assert_eq!((status.code(), status.message()), (code, "why"), "{close}");
        }
        assert_eq!(status_from_close(&[]).code(), Code::Unavailable);
        let reason = CloseReason::Revoked.to_string();
        let payload = [&u16::to_be_bytes(1008)[..], reason.as_bytes()].concat();
        assert_eq!(status_from_close(&payload).code(), Code::Unauthenticated);
    }
}

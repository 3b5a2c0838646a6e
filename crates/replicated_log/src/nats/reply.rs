//! Replies of a server to the messages of a batch, and their meaning for the batch.
//!
//! The reply to a staged message has an empty payload. The reply to the last message has its sequence, or an error.
//! Codes are those of nats-server's `errors.json`.
//! Invariant: only an error that the server finds before it proposes a batch to the other ones is `Fenced`, `Full` or
//! `Refused`. All others are `Unknown`.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{Message, StatusCode};

use super::connection::Connection;
use crate::error::AppendError;

/// The attempt in the errors of an append.
pub(super) const ATTEMPT: &str = "append a batch";

/// Disk, memory or account limits, which a server checks before it stages a message.
const FULL: [ErrorCode; 5] = [
    ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ErrorCode::INSUFFICIENT_RESOURCES,
    ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
];

/// Errors of the message or the stream's settings, which another try does not change.
const REFUSED: [ErrorCode; 10] = [
    ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
    ErrorCode::STREAM_NOT_MATCH,
    ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
    ErrorCode::STREAM_SEALED,
    ErrorCode::ATOMIC_PUBLISH_DISABLED,
    ErrorCode::ATOMIC_PUBLISH_MISSING_SEQ,
    ErrorCode::ATOMIC_PUBLISH_UNSUPPORTED_HEADER,
    ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_ID,
    ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH,
    ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_COMMIT,
];

/// A reply that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The server holds the messages up to this one. They are not in the log yet.
    Staged,
    /// The batch is in the log. Its last message has this sequence.
    Committed(u64),
}

/// Reads the reply to a message of a batch.
pub(super) fn read_reply(connection: &Connection, message: &Message) -> Result<Reply, AppendError> {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        let error = connection.error_with_reason(ATTEMPT, "no server leads the stream");
        return Err(AppendError::Unknown(error));
    }
    if message.payload.is_empty() {
        return Ok(Reply::Staged);
    }
    match serde_json::from_slice::<Response<PublishAck>>(&message.payload) {
        Ok(Response::Ok(ack)) => Ok(Reply::Committed(ack.sequence)),
        Ok(Response::Err { error }) => {
            Err(match classify(error.error_code(), &error.to_string()) {
                Refusal::Fenced { last } => AppendError::Fenced { last },
                Refusal::Full => AppendError::Full(connection.error(ATTEMPT, error)),
                Refusal::Refused => AppendError::Refused(connection.error(ATTEMPT, error)),
                Refusal::Unknown => AppendError::Unknown(connection.error(ATTEMPT, error)),
            })
        }
        Err(err) => Err(AppendError::Unknown(connection.error(ATTEMPT, err))),
    }
}

/// The meaning of an error for the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Fenced { last: u64 },
    Full,
    Refused,
    Unknown,
}

fn classify(code: ErrorCode, text: &str) -> Refusal {
    match code {
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE => {
            parse_last_sequence(text).map_or(Refusal::Unknown, |last| Refusal::Fenced { last })
        }
        // A failure of the store. The stream's own limits are the same on all servers. Other causes are found by one
        // server when the others may have stored the batch.
        ErrorCode::STREAM_STORE_FAILED if text.starts_with("maximum ") => Refusal::Full,
        code if FULL.contains(&code) => Refusal::Full,
        code if REFUSED.contains(&code) => Refusal::Refused,
        _ => Refusal::Unknown,
    }
}

/// Parses the sequence in `wrong last sequence: 12`.
fn parse_last_sequence(text: &str) -> Option<u64> {
    let (_, number) = text.split_once("last sequence: ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify_json(json: &str) -> Refusal {
        match serde_json::from_str::<Response<PublishAck>>(json).expect("a reply") {
            Response::Err { error } => classify(error.error_code(), &error.to_string()),
            Response::Ok(ack) => panic!("{ack:?}"),
        }
    }

    #[test]
    fn errors_have_their_meaning() {
        let cases = [
            (400, 10071, "wrong last sequence: 12", Refusal::Fenced { last: 12 }),
            (400, 10164, "wrong last sequence", Refusal::Unknown),
            (503, 10023, "insufficient resources", Refusal::Full),
            (503, 10077, "maximum bytes exceeded", Refusal::Full),
            (503, 10077, "store is closed", Refusal::Unknown),
            (400, 10054, "message size exceeds maximum allowed", Refusal::Refused),
            (400, 10199, "atomic publish batch is too large: 1000", Refusal::Refused),
            (400, 10176, "atomic publish batch is incomplete", Refusal::Unknown),
            (429, 10210, "atomic publish too many inflight", Refusal::Unknown),
            (503, 10008, "JetStream system temporarily unavailable", Refusal::Unknown),
        ];
        for (code, err_code, description, expected) in cases {
            let error =
                format!(r#"{{"code":{code},"err_code":{err_code},"description":"{description}"}}"#);
            let json = format!(r#"{{"error":{error},"stream":"s","seq":0}}"#);
            assert_eq!(classify_json(&json), expected, "{json}");
        }
    }

    #[test]
    fn a_committed_batch_has_a_sequence() {
        let json = r#"{"stream":"s","seq":42,"batch":"b","count":3}"#;
        let reply = serde_json::from_str::<Response<PublishAck>>(json).expect("a reply");
        assert!(matches!(reply, Response::Ok(ack) if ack.sequence == 42));
    }
}

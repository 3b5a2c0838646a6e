//! The conversion of results into responses: the source of the slot, the buffer of the `ETag`, raw bytes, transforms.

use ledger::{Commitment, Slot};
use rest::{
    AcceptedResponse, CustomResponse, ETagSource, JSON_MEDIA, RawField, SlotSource, ValueResponse,
};
use serde_json::{Value, json};

use crate::signature_page::signature_page;

/// Entries of a list of signatures, as Agave allows.
pub(crate) const SIGNATURES_MAX: u64 = 1_000;

/// Bytes of an account that are buffered: 10 MiB of data in base64 and its envelope. A transaction is shorter.
const ACCOUNT_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) const STATE: ValueResponse = ValueResponse::for_state("account");
pub(crate) const ACCOUNT: ValueResponse = ValueResponse {
    etag: ETagSource::Bytes(ACCOUNT_BYTES_MAX),
    raw: Some(ACCOUNT_FIELDS),
    ..STATE
};
pub(crate) const TRANSACTION_VALUE: ValueResponse = ValueResponse {
    object: "transaction",
    commitment: None,
    slot: SlotSource::Value(read_transaction_slot),
    etag: ETagSource::Bytes(ACCOUNT_BYTES_MAX),
    raw: Some(&[]),
    transform: None,
};
pub(crate) const BLOCK: ValueResponse = ValueResponse { slot: SlotSource::Param("slot"), ..STATE };
pub(crate) const SIGNATURES: ValueResponse = ValueResponse {
    etag: ETagSource::Bytes(ACCOUNT_BYTES_MAX),
    transform: Some(|params| {
        signature_page(params.number("limit").unwrap_or(SIGNATURES_MAX) as usize)
    }),
    ..STATE
};
pub(crate) const STATUS: CustomResponse = CustomResponse {
    media: JSON_MEDIA,
    commitment: Commitment::Processed,
    may_wait: |params| params.number("waitMs").unwrap_or(0) > 0,
};
pub(crate) const SUBMITTED: AcceptedResponse = AcceptedResponse {
    member: "signature",
    location: "/v1/transactions/",
    location_doc: "The path of the transaction.",
};

/// The fields of an account other than its data.
const ACCOUNT_FIELDS: &[RawField] = &[
    RawField {
        name: "Lamports",
        header: || number_header("The account's lamports, if its data is sent as raw bytes."),
    },
    RawField {
        name: "Owner",
        header: || {
            json!({ "description": "The account's owner, if its data is sent as raw bytes.",
                "schema": { "type": "string" } })
        },
    },
    RawField {
        name: "Executable",
        header: || {
            json!({ "description": "Whether the account is a program, if its data is sent as raw bytes.",
                "schema": { "type": "string", "enum": ["true", "false"] } })
        },
    },
    RawField {
        name: "Space",
        header: || {
            number_header(
                "Bytes of all the account's data, if it is sent as raw bytes, even if only a part is sent.",
            )
        },
    },
];

fn number_header(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "string", "pattern": "^[0-9]+$" } })
}

/// The slot of a transaction: its first member, `{"slot":5,…`.
fn read_transaction_slot(json: &[u8]) -> Option<Slot> {
    let rest = json.strip_prefix(br#"{"slot":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

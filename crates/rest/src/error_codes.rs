//! The tables of error codes: the HTTP status and the name of each.

use jsonrpc::error::{FOREIGN_PAGE, MIN_SLOT_NOT_REACHED};

/// Our code for a missing object for which JSON-RPC returns null.
pub(crate) const NOT_FOUND: i64 = -32044;

/// The HTTP status and the name of a code.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    pub(crate) code: i64,
    pub(crate) status: u16,
    pub(crate) name: &'static str,
}

impl ErrorCode {
    /// A code, its HTTP status, and a name that never changes.
    pub const fn new(code: i64, status: u16, name: &'static str) -> Self {
        Self { code, status, name }
    }
}

const COMMON_CODES: &[ErrorCode] = &[
    ErrorCode::new(-32700, 400, "parse_error"),
    ErrorCode::new(-32600, 400, "invalid_request"),
    ErrorCode::new(-32601, 404, "no_such_path"),
    ErrorCode::new(-32602, 400, "invalid_params"),
    ErrorCode::new(-32603, 500, "internal"),
    ErrorCode::new(MIN_SLOT_NOT_REACHED, 409, "min_context_slot_not_reached"),
    ErrorCode::new(FOREIGN_PAGE, 403, "page_not_allowed"),
];

/// The codes of this interface.
const OWN_CODES: &[ErrorCode] = &[ErrorCode::new(NOT_FOUND, 404, "not_found")];

/// Names without a code in the table: errors of HTTP itself, overload, and codes that are not in the table.
pub(crate) const OTHER_NAMES: &[&str] = &[
    "body_too_large",
    "body_too_slow",
    "draining",
    "header_too_long",
    "method_denied",
    "method_not_allowed",
    "not_acceptable",
    "not_implemented",
    "origin_not_allowed",
    "refused",
    "too_busy",
    "unauthorized",
    "unsupported_media_type",
    "uri_too_long",
];

/// Every code, with those of an API, which replace common ones.
pub(crate) fn all_codes(of_api: &[ErrorCode]) -> impl Iterator<Item = &ErrorCode> {
    let is_replaced = move |code: i64| of_api.iter().any(|of_api| of_api.code == code);
    let common = COMMON_CODES.iter().filter(move |common| !is_replaced(common.code));
    common.chain(of_api).chain(OWN_CODES)
}

//! The state that a call reads: its commitment, and `minContextSlot`.
//!
//! In: a method and the text of its parameters. Out: the commitment and the slot in its configuration, or the default
//! of the method. The text is searched, not parsed, because this runs for every call. A member with an escaped name is
//! not found: such a call does not wait, but its method still checks `minContextSlot`.
//! Cost: some nanoseconds for each string in the text.
//! Not here: the check of a slot against a view (`commitment`), the wait for a slot (`jsonrpc`).

use jsonrpc::StateRequest;
use jsonrpc::params::Params;
use ledger::{Commitment, Slot};

/// Finds the state that a call reads.
pub(super) fn find_state_request(method: &str, params: Params<'_>) -> StateRequest {
    let text = params.text().unwrap_or_default();
    let is_send = method == "sendTransaction";
    let commitment_name = if is_send { "preflightCommitment" } else { "commitment" };
    let mut request = StateRequest { commitment: default_commitment(method), min_slot: None };
    let mut skips_preflight = false;
    for (at, _) in text.match_indices('"') {
        let rest = &text[at + 1..];
        if let Some(value) = member_value(rest, commitment_name) {
            request.commitment = read_commitment(value).unwrap_or(request.commitment);
        } else if let Some(value) = member_value(rest, "minContextSlot") {
            request.min_slot = read_slot(value);
        } else if is_send && let Some(value) = member_value(rest, "skipPreflight") {
            skips_preflight = value.starts_with("true");
        }
    }
    if skips_preflight {
        request.commitment = Commitment::Processed;
    }
    request
}

/// The commitment of a call that names none. Methods without this parameter read the newest state or history.
fn default_commitment(method: &str) -> Commitment {
    match method {
        "getSignatureStatuses"
        | "getBlockCommitment"
        | "getBlockTime"
        | "getFirstAvailableBlock"
        | "minimumLedgerSlot"
        | "getEpochSchedule"
        | "getRecentPrioritizationFees"
        | "getPriorityFeeEstimate"
        | "getRecentPerformanceSamples"
        | "getSlotLeaders"
        | "getHighestSnapshotSlot"
        | "getMaxRetransmitSlot"
        | "getMaxShredInsertSlot"
        | "sendBundle"
        | "simulateBundle"
        | "getBundleStatuses"
        | "getInflightBundleStatuses"
        | "getTipAccounts" => Commitment::Processed,
        // Cheat codes.
        _ if method.contains('_') => Commitment::Processed,
        _ => Commitment::Finalized,
    }
}

/// Returns the text that starts with the value of a member. `text` follows a quote; `None` unless it starts with the
/// name of that member.
fn member_value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(name)?.strip_prefix('"')?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn read_commitment(value: &str) -> Option<Commitment> {
    match value.strip_prefix('"')?.split('"').next()? {
        "processed" => Some(Commitment::Processed),
        "confirmed" => Some(Commitment::Confirmed),
        "finalized" => Some(Commitment::Finalized),
        _ => None,
    }
}

fn read_slot(value: &str) -> Option<Slot> {
    let end = value.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    value[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &str, text: &str) -> (Commitment, Option<Slot>) {
        let StateRequest { commitment, min_slot } =
            find_state_request(method, Params::new(Some(text)));
        (commitment, min_slot)
    }

    #[test]
    fn the_configuration_of_a_call_names_its_state() {
        use Commitment::{Confirmed, Finalized, Processed};
        for (method, text, expected) in [
            ("getSlot", "[]", (Finalized, None)),
            ("getSlot", r#"[{"commitment":"processed"}]"#, (Processed, None)),
            (
                "getSlot",
                r#"[{ "commitment" : "confirmed", "minContextSlot" : 7 }]"#,
                (Confirmed, Some(7)),
            ),
            (
                "getBalance",
                r#"["a",{"minContextSlot":18446744073709551615}]"#,
                (Finalized, Some(Slot::MAX)),
            ),
            ("getBalance", r#"["a",{"minContextSlot":18446744073709551616}]"#, (Finalized, None)),
            ("getBalance", r#"["a",{"minContextSlot":null}]"#, (Finalized, None)),
            ("getBalance", r#"["a",{"minContextSlot":-1}]"#, (Finalized, None)),
            ("getBalance", r#"["a",{"commitment":"max"}]"#, (Finalized, None)),
            ("getSignatureStatuses", r#"[["a"]]"#, (Processed, None)),
            ("surfnet_timeTravel", "[]", (Processed, None)),
            (
                "sendTransaction",
                r#"["a",{"preflightCommitment":"confirmed","minContextSlot":3}]"#,
                (Confirmed, Some(3)),
            ),
            (
                "sendTransaction",
                r#"["a",{"skipPreflight":true,"preflightCommitment":"finalized"}]"#,
                (Processed, None),
            ),
            ("sendTransaction", r#"["a",{"skipPreflight":false}]"#, (Finalized, None)),
        ] {
            assert_eq!(find(method, text), expected, "{method} {text}");
        }
    }

    #[test]
    fn a_string_with_the_name_of_a_member_is_not_a_member() {
        let bytes = r#"["a",{"filters":[{"memcmp":{"bytes":"commitment","offset":0}}]}]"#;
        assert_eq!(find("getProgramAccounts", bytes), (Commitment::Finalized, None));
        let escaped = r#"["\"minContextSlot\":9",{"commitment":"confirmed"}]"#;
        assert_eq!(find("getBalance", escaped), (Commitment::Confirmed, None));
        for cut in ["\"minContextSlot\"", "[{\"minContextSlot\":", "[{\"commitment\":\"", "\""] {
            assert_eq!(find("getBalance", cut), (Commitment::Finalized, None), "{cut}");
        }
    }
}

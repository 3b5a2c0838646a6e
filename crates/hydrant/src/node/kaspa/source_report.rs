//! The report of the administration about the sources. It has their addresses, which `/health` does not have.

use std::sync::Arc;

use follow_kaspa::{Agreement, FollowStatus, Mismatch};
use serde_json::{Value, json};

use crate::node::composed::NodeReport;

/// Returns the report `sources`.
pub(super) fn source_report(status: Arc<FollowStatus>) -> NodeReport {
    NodeReport { name: "sources", make: Box::new(move || describe(&status)) }
}

fn describe(status: &FollowStatus) -> Value {
    let refused = status.mismatch().map(|mismatch| {
        let Mismatch { server, block, reason } = mismatch;
        json!({ "server": server, "block": block.to_string(), "reason": reason.to_string() })
    });
    let agreements = status.agreements();
    let agreements =
        agreements.iter().map(|(server, agreement)| describe_agreement(server, agreement));
    json!({
        "source": status.source(),
        "isCaughtUp": status.is_caught_up(),
        "isSynced": status.is_source_synced(),
        "problem": status.problem(),
        "lastSessionEnd": status.last_session_end(),
        "refused": refused,
        "chains": agreements.collect::<Vec<Value>>(),
    })
}

fn describe_agreement(server: &str, agreement: &Agreement) -> Value {
    let mut described = json!({ "server": server, "chain": agreement.label() });
    match agreement {
        Agreement::Fork { blocks } => described["blocks"] = json!(blocks),
        Agreement::Unavailable { reason } => described["reason"] = json!(reason),
        Agreement::Same | Agreement::Unknown => {}
    }
    described
}

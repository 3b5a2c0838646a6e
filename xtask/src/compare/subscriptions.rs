//! The subscriptions: the replies to subscribing and unsubscribing, the notifications of a transfer, and odd messages.
//!
//! Shape: each subscription has a connection of its own. The same transfer is sent to both nodes, and the notifications
//! that come in [`WAIT`] are compared: those of an account, a signature and logs one by one, those of slots by the
//! first.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::compare::keys::{MEMO, SYSTEM, TOKEN, address, plain_address};
use crate::compare::nodes::{ComparedNode, ComparedNodes};
use crate::compare::outcomes::Outcomes;
use crate::compare::transactions;
use crate::compare::websocket::{Received, WebSocket};
use crate::rig::clock::pause;

/// Time limit for the reply to a message.
const REPLY_WAIT: Duration = Duration::from_secs(5);
/// Time in which notifications are collected after the transfer is confirmed.
const WAIT: Duration = Duration::from_millis(2_000);

/// A subscription that is compared.
struct Subscription {
    kind: &'static str,
    variant: &'static str,
    params: Value,
    /// Whether all its notifications are of the transfer, and none is of a slot.
    is_exact: bool,
}

fn subscriptions() -> Vec<Subscription> {
    let of = |kind, variant, params, is_exact| Subscription { kind, variant, params, is_exact };
    let confirmed = json!({ "commitment": "confirmed" });
    let to = plain_address(transactions::NOTIFIED);
    let mut all = vec![
        of("slot", "", json!([]), false),
        of("root", "", json!([]), false),
        of("logs", "all", json!(["all", confirmed]), false),
        of("logs", "mentions", json!([{ "mentions": [to] }, confirmed]), true),
        of("logs", "two mentions", json!([{ "mentions": [to, TOKEN] }, confirmed]), true),
        of("logs", "no mentions", json!([{ "mentions": [] }, confirmed]), true),
        of("account", "absent", json!([plain_address(199), confirmed]), true),
        of("program", "token", json!([TOKEN, confirmed]), true),
        of(
            "program",
            "memo",
            json!([MEMO, { "commitment": "confirmed", "encoding": "base64" }]),
            true,
        ),
        of("signature", "unknown", json!(["1".repeat(64), confirmed]), true),
        of("block", "mentions", json!([{ "mentionsAccountOrProgram": to }, confirmed]), true),
        of("vote", "", json!([]), false),
        of("slotsUpdates", "", json!([]), false),
    ];
    for encoding in ["base58", "base64", "base64+zstd", "jsonParsed"] {
        let config = json!({ "commitment": "confirmed", "encoding": encoding });
        all.push(of("account", encoding, json!([to, config]), true));
        all.push(of("account", "of the payer", json!([address(7), config]), true));
        all.push(of("program", encoding, json!([SYSTEM, config]), false));
    }
    for params in [json!([]), json!([null]), json!([5]), json!(["0OIl"]), json!({}), json!([[]])] {
        for kind in ["account", "program", "logs", "signature", "block"] {
            all.push(of(kind, "bad", params.clone(), true));
        }
    }
    all
}

/// Messages that do not subscribe, each on a connection of its own.
const ODD_MESSAGES: [&str; 12] = [
    "",
    "{",
    "[]",
    "1",
    "{}",
    r#"{"jsonrpc":"2.0","id":1,"method":"noSubscribe"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"slotUnsubscribe"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"slotUnsubscribe","params":[99]}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"slotUnsubscribe","params":["1"]}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"slotSubscribe"}"#,
    r#"{"jsonrpc":"2.0","method":"slotSubscribe"}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"slotUnsubscribe","params":[99]}]"#,
];

/// Compares the notifications of all subscriptions.
pub(crate) fn compare(nodes: &ComparedNodes, outcomes: &mut Outcomes) -> Result<()> {
    for message in ODD_MESSAGES {
        let replies =
            [fetch_reply(&nodes.validator, message)?, fetch_reply(&nodes.hydrant, message)?];
        let [theirs, ours] = replies;
        outcomes.add(&format!("WebSocket {message}"), message, theirs, ours);
    }
    let subscriptions = subscriptions();
    let theirs = notifications(&nodes.validator, &subscriptions)?;
    let ours = notifications(&nodes.hydrant, &subscriptions)?;
    for ((subscription, theirs), ours) in subscriptions.iter().zip(theirs).zip(ours) {
        let Subscription { kind, variant, params, .. } = subscription;
        let name = format!("{kind}Subscribe {variant}");
        outcomes.add(&name, &params.to_string(), theirs, ours);
    }
    Ok(())
}

fn fetch_reply(node: &ComparedNode, message: &str) -> Result<Value> {
    let mut socket = WebSocket::open(node.pubsub())?;
    socket.send(message)?;
    Ok(as_json(socket.receive(REPLY_WAIT / 5)?))
}

/// Returns the reply to each subscription, and the notifications after the transfer.
fn notifications(node: &ComparedNode, subscriptions: &[Subscription]) -> Result<Vec<Value>> {
    let mut open = Vec::new();
    for subscription in subscriptions {
        let mut socket = WebSocket::open(node.pubsub())?;
        let method = format!("{}Subscribe", subscription.kind);
        let params = &subscription.params;
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        socket.send(&message.to_string())?;
        let reply = socket.receive(REPLY_WAIT)?;
        open.push((socket, as_json(reply)));
    }
    transactions::send_notified(node)?;
    pause(WAIT);
    let mut all = Vec::new();
    for (subscription, (mut socket, mut reply)) in subscriptions.iter().zip(open) {
        let id = reply["result"].clone();
        let mut received = Vec::new();
        if id.is_number() {
            let wait = Duration::from_millis(300);
            while let Received::Message(message) = socket.receive(wait)? {
                let update = &message["params"]["result"]["type"];
                if subscription.kind == "slotsUpdates" && update != "frozen" {
                    continue; // each kind of update has a form of its own
                }
                received.push(message);
                if !subscription.is_exact {
                    break;
                }
            }
            reply["result"] = "<id>".into();
            let kind = subscription.kind;
            let method = format!("{kind}Unsubscribe");
            let message = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": [id] });
            socket.send(&message.to_string())?;
            reply["unsubscribed"] = unsubscribe(&mut socket)?;
        }
        received.iter_mut().for_each(|message| message["params"]["subscription"] = "<id>".into());
        if !subscription.is_exact {
            // One of a slot or of another account: its form counts.
            received.iter_mut().for_each(to_form);
        }
        reply["notifications"] = received.into();
        all.push(reply);
    }
    Ok(all)
}

/// Ends a subscription. Returns the reply, after the notifications that come before it.
fn unsubscribe(socket: &mut WebSocket) -> Result<Value> {
    loop {
        match socket.receive(REPLY_WAIT)? {
            Received::Message(message) if message["id"].is_null() => {}
            other => return Ok(as_json(other)),
        }
    }
}

fn as_json(received: Received) -> Value {
    match received {
        Received::Message(message) => message,
        Received::Closed(code) => json!({ "closed": code }),
        Received::Nothing => Value::Null,
    }
}

/// Replaces every value by its kind; lists by their first entry.
fn to_form(value: &mut Value) {
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(_, member)| to_form(member)),
        Value::Array(entries) => {
            entries.truncate(1);
            entries.iter_mut().for_each(to_form);
        }
        Value::Null => {}
        Value::Bool(_) => *value = "<bool>".into(),
        Value::Number(_) => *value = "<number>".into(),
        Value::String(_) => *value = "<text>".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_made_from_members_and_kinds() {
        let mut value = json!({ "a": [1, 2], "b": null, "c": { "d": "x", "e": true } });
        to_form(&mut value);
        let form = json!({ "a": ["<number>"], "b": null, "c": { "d": "<text>", "e": "<bool>" } });
        assert_eq!(value, form);
    }
}

//! What answers look like, as JSON Schema: as much as clients rely on, no more than Agave's crates promise.

use serde_json::{Value, json};

/// Every schema that a route names, under its name.
pub(crate) fn all() -> Value {
    let uint = || json!({ "type": "integer", "minimum": 0 });
    let text = || json!({ "type": "string" });
    let maybe = |kind: &str| json!({ "type": [kind, "null"] });
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let object = |properties: Value| {
        let names: Vec<&String> =
            properties.as_object().into_iter().flat_map(|it| it.keys()).collect();
        json!({ "type": "object", "required": names, "properties": properties })
    };
    let account = || {
        object(json!({
            "lamports": uint(),
            "owner": text(),
            "executable": { "type": "boolean" },
            "rentEpoch": uint(),
            "space": uint(),
            "data": {
                "description": "[text, encoding], or an object if it is parsed.",
                "type": ["array", "object", "string"],
            },
        }))
    };
    json!({
        "Error": crate::error::schema(),
        "Node": object(json!({
            "version": { "type": "object" },
            "identity": { "type": "object" },
            "genesisHash": text(),
            "epochSchedule": { "type": "object" },
            "clusterNodes": { "type": "array", "items": { "type": "object" } },
        })),
        "Ledger": object(json!({
            "epochInfo": { "type": "object" },
            "latestBlockhash": object(json!({
                "blockhash": text(), "lastValidBlockHeight": uint(),
            })),
            "firstAvailableBlock": uint(),
            "processedSlot": uint(),
            "confirmedSlot": uint(),
            "finalizedSlot": uint(),
        })),
        "Supply": object(json!({
            "total": uint(),
            "circulating": uint(),
            "nonCirculating": uint(),
            "nonCirculatingAccounts": { "type": "array", "items": text() },
        })),
        "Amount": object(json!({
            "amount": text(),
            "decimals": uint(),
            "uiAmount": maybe("number"),
            "uiAmountString": text(),
        })),
        "Account": account(),
        "Accounts": {
            "type": "array",
            "items": { "anyOf": [reference("Account"), { "type": "null" }] },
        },
        "AccountsPage": object(json!({
            "accounts": { "type": "array", "items": object(json!({
                "pubkey": text(), "account": reference("Account"),
            })) },
            "paginationKey": maybe("string"),
        })),
        "SignaturesPage": object(json!({
            "transactions": { "type": "array", "items": object(json!({
                "signature": text(),
                "slot": uint(),
                "err": {},
                "memo": maybe("string"),
                "blockTime": maybe("integer"),
                "confirmationStatus": maybe("string"),
            })) },
            "paginationKey": maybe("string"),
        })),
        "Transaction": object(json!({
            "slot": uint(),
            "transaction": {},
            "meta": maybe("object"),
            "blockTime": maybe("integer"),
        })),
        "Block": object(json!({
            "blockhash": text(),
            "previousBlockhash": text(),
            "parentSlot": uint(),
            "blockTime": maybe("integer"),
            "blockHeight": maybe("integer"),
        })),
        "Sent": object(json!({ "signature": text() })),
        "Simulation": object(json!({ "err": {}, "logs": maybe("array") })),
        "Status": object(json!({
            "slot": uint(),
            "confirmations": maybe("integer"),
            "err": {},
            "confirmationStatus": maybe("string"),
        })),
    })
}

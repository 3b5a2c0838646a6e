//! The API as OpenAPI 3.1 tells it, made of the same table that requests are matched against.

use serde_json::{Map, Value, json};

use crate::openapi_document::Examples;
use crate::params::Limits;
use crate::route::{HttpMethod, Param, ParamLocation, ParamType, RequestBody, ResponseKind, Route};
use crate::routes::TAGS;
use crate::{error, params, schema};

/// Addresses that every Solana ledger has, so that whoever tries the API gets an answer.
const EXAMPLE_ADDRESSES: [&str; 2] =
    ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "SysvarC1ock11111111111111111111111111111111"];

/// A mint that every Solana ledger has: lamports as tokens.
const EXAMPLE_MINT: &str = "So11111111111111111111111111111111111111112";

/// A transaction that moves nothing: signed by nobody, so that it is understood and refused.
const EXAMPLE_TRANSACTION: &str = concat!(
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAECAQEBAQEBAQEB",
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAA==",
);

/// The document, with examples that its reader can ask for.
pub(crate) fn document(routes: &[Route], examples: &Examples, limits: Limits) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let verb = match route.method {
            HttpMethod::Get => "get",
            HttpMethod::Post => "post",
        };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[verb] = operation(route, examples, limits);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hydrant",
            "version": "1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "State and history of a Solana ledger over REST. Every answer names the slot and the \
                commitment that it is true for in `Hydrant-Slot` and `Hydrant-Commitment`, and so does a 404 of what is not there. Every GET may be a HEAD; \
                OPTIONS tells what a path allows, and any origin may ask. A path that does not exist is 404 and a verb \
                that it has not is 405 with `Allow`, both in the shape of `Error`.",
        },
        "servers": [{ "url": "/" }],
        "tags": TAGS.iter().map(|group| json!({ "name": group.name })).collect::<Vec<_>>(),
        "paths": paths,
        "components": { "schemas": schema::all(), "headers": headers() },
    })
}

fn operation(route: &Route, examples: &Examples, limits: Limits) -> Value {
    let groups = TAGS.iter().filter(|group| group.contains(route));
    let outside = route.params.iter().filter(|param| param.location != ParamLocation::Body);
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": groups.map(|group| group.name).collect::<Vec<_>>(),
        "parameters": outside.map(|param| parameter(route, param, examples, limits)).collect::<Vec<_>>(),
        "responses": responses(route),
    });
    if route.body != RequestBody::None {
        operation["requestBody"] = body(route, limits);
    }
    operation
}

fn parameter(route: &Route, param: &Param, examples: &Examples, limits: Limits) -> Value {
    let place = if param.location == ParamLocation::Path { "path" } else { "query" };
    let mut told = json!({
        "name": param.name,
        "in": place,
        "required": param.is_required,
        "description": param.doc,
        "schema": params::schema(param.kind, limits),
    });
    match (param.kind, param.location) {
        (ParamType::Addresses(_), _) => {
            (told["style"], told["explode"]) = ("form".into(), false.into());
            told["example"] = json!(EXAMPLE_ADDRESSES);
        }
        (ParamType::Address, ParamLocation::Path) => {
            let is_mint = route.path.starts_with("/v1/mints/");
            told["example"] = if is_mint { EXAMPLE_MINT } else { EXAMPLE_ADDRESSES[0] }.into();
        }
        (ParamType::Signature, ParamLocation::Path) => {
            if let Some(signature) = &examples.signature {
                told["example"] = signature.as_str().into();
            }
        }
        (ParamType::Number(..), ParamLocation::Path) => {
            if let Some(slot) = examples.slot {
                told["example"] = slot.into();
            }
        }
        _ => {}
    }
    told
}

fn body(route: &Route, limits: Limits) -> Value {
    let members: Vec<&Param> =
        route.params.iter().filter(|param| param.location == ParamLocation::Body).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|param| {
            let mut schema = params::schema(param.kind, limits);
            schema["description"] = param.doc.into();
            (param.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> =
        members.iter().filter(|param| param.is_required).map(|param| param.name).collect();
    let object = json!({
        "type": "object", "required": required, "properties": properties,
        "additionalProperties": false,
    });
    let example: Map<String, Value> = members
        .iter()
        .filter_map(|param| Some((param.name.to_owned(), example(param.kind)?)))
        .collect();
    let mut content = json!({ "application/json": { "schema": object, "example": example } });
    if route.body == RequestBody::JsonOrTransaction {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    json!({ "required": true, "content": content })
}

/// What a member of a body may be.
pub(crate) fn example(kind: ParamType) -> Option<Value> {
    match kind {
        ParamType::Addresses(_) => Some(json!(EXAMPLE_ADDRESSES)),
        ParamType::Base64 => Some(EXAMPLE_TRANSACTION.into()),
        ParamType::Filters => Some(json!([{ "dataSize": 165 }])),
        _ => None,
    }
}

/// Every header that an answer may have beside its type and length.
fn headers() -> Value {
    let text = |told: &str| json!({ "description": told, "schema": { "type": "string" } });
    let number = |told: &str| json!({ "description": told, "schema": { "type": "string", "pattern": "^[0-9]+$" } });
    json!({
        "Slot": { "description": "The slot that it is true at.", "required": true,
            "schema": { "type": "integer", "minimum": 0 } },
        "Commitment": { "description": "How sure that slot is.", "required": true,
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "SlotOfNothing": { "schema": { "type": "integer", "minimum": 0 },
            "description": "The slot at which it is not there; a path that does not exist is of no slot." },
        "CommitmentOfNothing": { "description": "How sure that slot is.",
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "CacheControl": { "required": true, "schema": { "type": "string" },
            "description": "no-cache: ask each time, with If-None-Match. immutable: it will never change." },
        "Vary": { "description": "What else the answer depends on.", "required": true,
            "schema": { "type": "string" } },
        "ETag": { "schema": { "type": "string", "pattern": "^\"[0-9a-f]{32}\"$" },
            "description": "A hash of the bytes as they are sent, so that each coding has its own. What is \
                streamed because it is longer than 1 MiB has none, but for accounts, lists that the answer cache keeps, and final blocks." },
        "ContentEncoding": { "schema": { "type": "string", "enum": ["gzip", "zstd"] },
            "description": "If Accept-Encoding asked for it and the answer is long enough." },
        "Link": text("The next page, as rel=\"next\"; the last one has none."),
        "Location": { "description": "Where the transaction will be.", "required": true,
            "schema": { "type": "string" } },
        "NoStore": { "description": "no-store", "required": true,
            "schema": { "type": "string", "const": "no-store" } },
        "RetryAfter": { "description": "Seconds.", "required": true,
            "schema": { "type": "integer", "minimum": 1 } },
        "Lamports": number("Of an account whose data is sent as it is."),
        "Owner": text("As Hydrant-Lamports."),
        "Executable": { "description": "As Hydrant-Lamports.",
            "schema": { "type": "string", "enum": ["true", "false"] } },
        "Space": number("As Hydrant-Lamports: bytes of all data, whatever part of it is sent."),
    })
}

fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

fn responses(route: &Route) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", route.schema) });
    let mut content = json!({ "application/json": { "schema": schema } });
    if route.response.has_raw() {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    let mut headers = json!({
        "Hydrant-Slot": header("Slot"),
        "Hydrant-Commitment": header("Commitment"),
        "Cache-Control": header("CacheControl"),
        "Vary": header("Vary"),
    });
    let is_sent = route.response == ResponseKind::Submitted;
    let unchanged = headers.clone();
    if is_sent {
        headers["Location"] = header("Location");
    } else {
        headers["ETag"] = header("ETag");
        headers["Content-Encoding"] = header("ContentEncoding");
    }
    if route.params.iter().any(|param| param.name == "cursor") && route.method == HttpMethod::Get {
        headers["Link"] = header("Link");
    }
    if route.response == ResponseKind::Account {
        for name in ["Lamports", "Owner", "Executable", "Space"] {
            headers[format!("Hydrant-{name}")] = header(name);
        }
    }
    let mut responses = Map::new();
    let good = if is_sent { "202" } else { "200" };
    let told = if is_sent { "Queued for execution" } else { "The answer" };
    let mut answer = json!({ "description": told, "headers": headers, "content": content });
    if let Some(links) = links(route) {
        answer["links"] = links;
    }
    responses.insert(good.to_owned(), answer);
    if route.method == HttpMethod::Get {
        let mut headers = unchanged;
        headers["ETag"] = header("ETag");
        let same = "The client has it: If-None-Match named its ETag";
        responses.insert("304".to_owned(), json!({ "description": same, "headers": headers }));
    }
    let mut statuses: Vec<u16> = error::CODES.iter().map(|(_, status, _)| *status).collect();
    statuses.extend([403, 406, 414, 415, 429, 431, 501]);
    if route.body != RequestBody::None {
        statuses.extend([408, 413]);
    }
    for status in statuses {
        responses.entry(status.to_string()).or_insert_with(|| refusal(status));
    }
    responses.into()
}

/// What to ask with what was answered.
fn links(route: &Route) -> Option<Value> {
    let given: Map<String, Value> = route
        .params
        .iter()
        .filter(|param| param.location == ParamLocation::Path)
        .map(|param| (param.name.to_owned(), format!("$request.path.{}", param.name).into()))
        .collect();
    if route.response == ResponseKind::Submitted {
        let status = json!({ "operationId": "getTransactionStatus",
            "parameters": { "signature": "$response.body#/signature" } });
        return Some(json!({ "status": status }));
    }
    let link = |name: &str, operation: &str, given: Value| {
        Some(json!({ name: { "operationId": operation, "parameters": given } }))
    };
    match (route.id, &route.response) {
        ("getNode", _) => {
            let identity = json!({ "address": "$response.body#/identity/identity" });
            return link("identity", "getAccountTransactions", identity);
        }
        ("getLedger", _) => {
            return link("block", "getBlock", json!({ "slot": "$response.body#/finalizedSlot" }));
        }
        (_, ResponseKind::Transaction) => {
            return link("status", "getTransactionStatus", given.into());
        }
        (_, ResponseKind::Account) => {
            return link("history", "getAccountTransactions", given.into());
        }
        _ => {}
    }
    let is_page = route.params.iter().any(|param| param.name == "cursor");
    if !is_page || route.method != HttpMethod::Get {
        return None;
    }
    let mut next = given;
    next.insert("cursor".to_owned(), "$response.body#/paginationKey".into());
    let mut links = json!({ "next": { "operationId": route.id, "parameters": next } });
    if route.response == ResponseKind::Signatures {
        let signature = json!({ "signature": "$response.body#/transactions/0/signature" });
        links["newest"] = json!({ "operationId": "getTransaction", "parameters": signature });
    } else {
        let address = json!({ "address": "$response.body#/accounts/0/pubkey" });
        links["first"] = json!({ "operationId": "getAccount", "parameters": address });
    }
    Some(links)
}

fn refusal(status: u16) -> Value {
    let names: Vec<&str> = error::CODES
        .iter()
        .filter(|(_, of_code, _)| *of_code == status)
        .map(|(_, _, name)| *name)
        .collect();
    let description = match status {
        403 => {
            "origin_not_allowed: the page that asks is of an origin that may not (--allow-origin)"
                .to_owned()
        }
        406 => "not_acceptable: Accept has nothing that there is".to_owned(),
        408 => "body_too_slow".to_owned(),
        413 => "body_too_large".to_owned(),
        414 => "uri_too_long".to_owned(),
        415 => "unsupported_media_type".to_owned(),
        429 => "too_busy: come again after Retry-After seconds".to_owned(),
        431 => "header_too_long; a head that is too long as a whole is refused without a body"
            .to_owned(),
        501 => "not_implemented: a Transfer-Encoding other than chunked".to_owned(),
        _ => names.join(", "),
    };
    let mut headers = json!({ "Cache-Control": header("NoStore") });
    if status == 404 {
        headers["Hydrant-Slot"] = header("SlotOfNothing");
        headers["Hydrant-Commitment"] = header("CommitmentOfNothing");
    }
    if status == 429 {
        headers["Retry-After"] = header("RetryAfter");
    }
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    json!({
        "description": description,
        "headers": headers,
        "content": { "application/json": { "schema": schema } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_route_is_described_with_its_variables_and_a_schema() {
        let document = document(ROUTES, &Examples::default(), Limits { accounts_max: 7 });
        for route in ROUTES {
            let verb = if route.method == HttpMethod::Get { "get" } else { "post" };
            let told = &document["paths"][route.path][verb];
            assert_eq!(told["operationId"], route.id);
            assert_eq!(
                told["tags"].as_array().map(Vec::len),
                Some(1),
                "{} is of one group",
                route.id
            );
            assert!(
                document["components"]["schemas"].get(route.schema).is_some(),
                "{}: no schema {}",
                route.id,
                route.schema
            );
            let variables: Vec<&str> = route
                .path
                .split('/')
                .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            let params: Vec<&str> = route
                .params
                .iter()
                .filter(|param| param.location == ParamLocation::Path)
                .map(|param| param.name)
                .collect();
            assert_eq!(variables, params, "{}", route.path);
            let in_body = route.params.iter().any(|param| param.location == ParamLocation::Body);
            assert_eq!(in_body, route.body != RequestBody::None, "{}", route.id);
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut ids: Vec<&str> = ROUTES.iter().map(|route| route.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}

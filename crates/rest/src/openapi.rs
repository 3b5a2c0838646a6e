//! The API as OpenAPI 3.1, built from the table that requests are matched against.

use serde_json::{Map, Value, json};

use crate::openapi_document::Examples;
use crate::params::Limits;
use crate::route::{HttpMethod, Param, ParamLocation, ParamType, RequestBody, ResponseKind, Route};
use crate::routes::TAGS;
use crate::{error, params, schema};

/// Addresses that exist on every Solana ledger, so that the examples work.
const EXAMPLE_ADDRESSES: [&str; 2] =
    ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "SysvarC1ock11111111111111111111111111111111"];

/// A mint that exists on every Solana ledger: lamports as tokens.
const EXAMPLE_MINT: &str = "So11111111111111111111111111111111111111112";

/// A transaction that moves nothing. It has no valid signature, so it is decoded and refused.
const EXAMPLE_TRANSACTION: &str = concat!(
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAECAQEBAQEBAQEB",
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAA==",
);

/// The document, with examples that the node can serve.
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
            "description": "State and history of a Solana ledger over REST. Every response has the slot and the commitment \
                for which it is true in `Hydrant-Slot` and `Hydrant-Commitment`, and so has a 404 for an object that does \
                not exist. Every GET may be a HEAD. OPTIONS returns the methods that a path allows. Requests from any \
                origin are allowed. A path that does not exist gets 404, a method that a path does not have gets 405 \
                with `Allow`, both in the shape of `Error`.",
        },
        "servers": [{ "url": "/" }],
        "tags": TAGS.iter().map(|tag| json!({ "name": tag.name })).collect::<Vec<_>>(),
        "paths": paths,
        "components": { "schemas": schema::all(), "headers": headers() },
    })
}

fn operation(route: &Route, examples: &Examples, limits: Limits) -> Value {
    let tags = TAGS.iter().filter(|tag| tag.contains(route));
    let outside_body = route.params.iter().filter(|param| param.location != ParamLocation::Body);
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": tags.map(|tag| tag.name).collect::<Vec<_>>(),
        "parameters": outside_body
            .map(|param| parameter(route, param, examples, limits))
            .collect::<Vec<_>>(),
        "responses": responses(route),
    });
    if route.body != RequestBody::None {
        operation["requestBody"] = body(route, limits);
    }
    operation
}

fn parameter(route: &Route, param: &Param, examples: &Examples, limits: Limits) -> Value {
    let location = if param.location == ParamLocation::Path { "path" } else { "query" };
    let mut parameter = json!({
        "name": param.name,
        "in": location,
        "required": param.is_required,
        "description": param.doc,
        "schema": params::schema(param.kind, limits),
    });
    match (param.kind, param.location) {
        (ParamType::Addresses(_), _) => {
            (parameter["style"], parameter["explode"]) = ("form".into(), false.into());
            parameter["example"] = json!(EXAMPLE_ADDRESSES);
        }
        (ParamType::Address, ParamLocation::Path) => {
            let is_mint = route.path.starts_with("/v1/mints/");
            parameter["example"] = if is_mint { EXAMPLE_MINT } else { EXAMPLE_ADDRESSES[0] }.into();
        }
        (ParamType::Signature, ParamLocation::Path) => {
            if let Some(signature) = &examples.signature {
                parameter["example"] = signature.as_str().into();
            }
        }
        (ParamType::Number(..), ParamLocation::Path) => {
            if let Some(slot) = examples.slot {
                parameter["example"] = slot.into();
            }
        }
        _ => {}
    }
    parameter
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

/// The example of a member of a body.
pub(crate) fn example(kind: ParamType) -> Option<Value> {
    match kind {
        ParamType::Addresses(_) => Some(json!(EXAMPLE_ADDRESSES)),
        ParamType::Base64 => Some(EXAMPLE_TRANSACTION.into()),
        ParamType::Filters => Some(json!([{ "dataSize": 165 }])),
        _ => None,
    }
}

/// Every header that a response may have, except its type and length.
fn headers() -> Value {
    let text =
        |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    let number = |description: &str| json!({ "description": description, "schema": { "type": "string", "pattern": "^[0-9]+$" } });
    json!({
        "Slot": { "description": "The slot at which the response is true.", "required": true,
            "schema": { "type": "integer", "minimum": 0 } },
        "Commitment": { "description": "The commitment level of that slot.", "required": true,
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "NotFoundSlot": { "schema": { "type": "integer", "minimum": 0 },
            "description": "The slot at which the object does not exist. Missing if the path does not exist." },
        "NotFoundCommitment": { "description": "The commitment level of that slot.",
            "schema": { "type": "string", "enum": ["processed", "confirmed", "finalized"] } },
        "CacheControl": { "required": true, "schema": { "type": "string" },
            "description": "no-cache: revalidate each time, with If-None-Match. immutable: the response never changes." },
        "Vary": { "description": "The request headers on which the response depends.", "required": true,
            "schema": { "type": "string" } },
        "ETag": { "schema": { "type": "string", "pattern": "^\"[0-9a-f]{32}\"$" },
            "description": "A hash of the bytes as they are sent: each content coding has its own. A response \
                of more than 1 MiB is streamed and may have none. Accounts, lists in the response cache and \
                finalized blocks always have one." },
        "ContentEncoding": { "schema": { "type": "string", "enum": ["gzip", "zstd"] },
            "description": "If Accept-Encoding allows it and the response is long enough." },
        "Link": text("The next page, as rel=\"next\". Missing on the last page."),
        "Location": { "description": "The path of the transaction.", "required": true,
            "schema": { "type": "string" } },
        "NoStore": { "description": "no-store", "required": true,
            "schema": { "type": "string", "const": "no-store" } },
        "RetryAfter": { "description": "Seconds until the client should try again.", "required": true,
            "schema": { "type": "integer", "minimum": 1 } },
        "Lamports": number("The account's lamports, if its data is sent as raw bytes."),
        "Owner": text("The account's owner, if its data is sent as raw bytes."),
        "Executable": { "description": "Whether the account is a program, if its data is sent as raw bytes.",
            "schema": { "type": "string", "enum": ["true", "false"] } },
        "Space": number("Bytes of all the account's data, if it is sent as raw bytes, even if only a part is sent."),
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
    let is_submitted = route.response == ResponseKind::Submitted;
    let mut not_modified_headers = headers.clone();
    if is_submitted {
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
    let status = if is_submitted { "202" } else { "200" };
    let description = if is_submitted { "Queued for execution" } else { "The response" };
    let mut response =
        json!({ "description": description, "headers": headers, "content": content });
    if let Some(links) = links(route) {
        response["links"] = links;
    }
    responses.insert(status.to_owned(), response);
    if route.method == HttpMethod::Get {
        not_modified_headers["ETag"] = header("ETag");
        let not_modified = json!({
            "description": "Not modified: If-None-Match lists the ETag",
            "headers": not_modified_headers,
        });
        responses.insert("304".to_owned(), not_modified);
    }
    let mut statuses: Vec<u16> = error::CODES.iter().map(|(_, status, _)| *status).collect();
    statuses.extend([403, 406, 414, 415, 429, 431, 501]);
    if route.body != RequestBody::None {
        statuses.extend([408, 413]);
    }
    for status in statuses {
        responses.entry(status.to_string()).or_insert_with(|| error_response(status));
    }
    responses.into()
}

/// The operations that a member of the response leads to.
fn links(route: &Route) -> Option<Value> {
    let path_params: Map<String, Value> = route
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
    let link = |name: &str, operation: &str, params: Value| {
        Some(json!({ name: { "operationId": operation, "parameters": params } }))
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
            return link("status", "getTransactionStatus", path_params.into());
        }
        (_, ResponseKind::Account) => {
            return link("history", "getAccountTransactions", path_params.into());
        }
        _ => {}
    }
    let is_page = route.params.iter().any(|param| param.name == "cursor");
    if !is_page || route.method != HttpMethod::Get {
        return None;
    }
    let mut next = path_params;
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

fn error_response(status: u16) -> Value {
    let names: Vec<&str> = error::CODES
        .iter()
        .filter(|(_, code_status, _)| *code_status == status)
        .map(|(_, _, name)| *name)
        .collect();
    let description = match status {
        403 => "origin_not_allowed: the origin of the web page is not allowed (--allow-origin)"
            .to_owned(),
        406 => "not_acceptable: Accept has no available media type".to_owned(),
        408 => "body_too_slow".to_owned(),
        413 => "body_too_large".to_owned(),
        414 => "uri_too_long".to_owned(),
        415 => "unsupported_media_type".to_owned(),
        429 => "too_busy: try again after Retry-After seconds".to_owned(),
        431 => {
            "header_too_long; if the whole head is too long, the response has no body".to_owned()
        }
        501 => "not_implemented: a Transfer-Encoding other than chunked".to_owned(),
        _ => names.join(", "),
    };
    let mut headers = json!({ "Cache-Control": header("NoStore") });
    if status == 404 {
        headers["Hydrant-Slot"] = header("NotFoundSlot");
        headers["Hydrant-Commitment"] = header("NotFoundCommitment");
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
            let operation = &document["paths"][route.path][verb];
            assert_eq!(operation["operationId"], route.id);
            assert_eq!(
                operation["tags"].as_array().map(Vec::len),
                Some(1),
                "{} has one tag",
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

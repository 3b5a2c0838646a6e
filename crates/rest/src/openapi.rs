//! The API as OpenAPI 3.1 tells it, made of the same table that requests are matched against.

use serde_json::{Map, Value, json};

use crate::route::{Answer, Body, Param, Place, Route, Verb};
use crate::{error, input, schema};

/// Addresses that every Solana ledger has, so that whoever tries the API gets an answer.
const EXAMPLE_ADDRESSES: [&str; 2] =
    ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "SysvarC1ock11111111111111111111111111111111"];

/// The document.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let verb = match route.verb {
            Verb::Get => "get",
            Verb::Post => "post",
        };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[verb] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hydrant",
            "version": "1",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "State and history of a Solana ledger over REST. Every answer names the slot and the \
                commitment that it is true for in `Hydrant-Slot` and `Hydrant-Commitment`, and has a strong ETag \
                if it is not longer than 1 MiB.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schema::all() },
    })
}

fn operation(route: &Route) -> Value {
    let outside = route.params.iter().filter(|param| param.place != Place::Body);
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": outside.map(parameter).collect::<Vec<_>>(),
        "responses": responses(route),
    });
    if route.body != Body::None {
        operation["requestBody"] = body(route);
    }
    operation
}

fn parameter(param: &Param) -> Value {
    let place = if param.place == Place::Path { "path" } else { "query" };
    let mut told = json!({
        "name": param.name,
        "in": place,
        "required": param.is_required,
        "description": param.doc,
        "schema": input::schema(param.kind),
    });
    match param.kind {
        crate::route::Kind::Addresses => {
            (told["style"], told["explode"]) = ("form".into(), false.into());
            told["example"] = json!(EXAMPLE_ADDRESSES);
        }
        crate::route::Kind::Address if param.place == Place::Path => {
            told["example"] = EXAMPLE_ADDRESSES[0].into();
        }
        _ => {}
    }
    told
}

fn body(route: &Route) -> Value {
    let members: Vec<&Param> =
        route.params.iter().filter(|param| param.place == Place::Body).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|param| {
            let mut schema = input::schema(param.kind);
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
    let mut content = json!({ "application/json": { "schema": object } });
    if route.body == Body::JsonOrTransaction {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    json!({ "required": true, "content": content })
}

fn responses(route: &Route) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{}", route.schema) });
    let mut content = json!({ "application/json": { "schema": schema } });
    if route.answer.has_raw() {
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    let text = || json!({ "schema": { "type": "string" } });
    let mut headers = json!({
        "Hydrant-Slot": { "description": "The slot that it is true at.", "schema": { "type": "integer" } },
        "Hydrant-Commitment": { "description": "How sure that slot is.", "schema": {
            "enum": ["processed", "confirmed", "finalized"] } },
        "Cache-Control": text(),
    });
    let is_sent = route.answer == Answer::Sent;
    if is_sent {
        headers["Location"] = text();
    } else {
        headers["ETag"] =
            json!({ "description": "Of answers up to 1 MiB.", "schema": { "type": "string" } });
    }
    let mut responses = Map::new();
    let good = if is_sent { "202" } else { "200" };
    let told = if is_sent { "Queued for execution" } else { "The answer" };
    let answer = json!({ "description": told, "headers": headers, "content": content });
    responses.insert(good.to_owned(), answer);
    if route.verb == Verb::Get {
        let same = json!({ "description": "The client has it: If-None-Match named its ETag" });
        responses.insert("304".to_owned(), same);
    }
    let mut statuses: Vec<u16> = error::CODES.iter().map(|(_, status, _)| *status).collect();
    statuses.extend([408, 413, 415, 429]);
    for status in statuses {
        responses.entry(status.to_string()).or_insert_with(|| refusal(status));
    }
    responses.into()
}

fn refusal(status: u16) -> Value {
    let names: Vec<&str> = error::CODES
        .iter()
        .filter(|(_, of_code, _)| *of_code == status)
        .map(|(_, _, name)| *name)
        .collect();
    let description = match (status, names.is_empty()) {
        (429, _) => "too_busy: come again after Retry-After seconds".to_owned(),
        (_, false) => names.join(", "),
        (_, true) => "The body is too large, too slow, or of another type".to_owned(),
    };
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_route_is_told_with_its_variables_and_a_schema() {
        let document = document(ROUTES);
        for route in ROUTES {
            let verb = if route.verb == Verb::Get { "get" } else { "post" };
            let told = &document["paths"][route.path][verb];
            assert_eq!(told["operationId"], route.id);
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
                .filter(|param| param.place == Place::Path)
                .map(|param| param.name)
                .collect();
            assert_eq!(variables, params, "{}", route.path);
            let in_body = route.params.iter().any(|param| param.place == Place::Body);
            assert_eq!(in_body, route.body != Body::None, "{}", route.id);
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

//! The differences that the responses of a replica and another node at one slot may have: `clients/replicas.txt`.
//!
//! Names of routes have their verb before them here, and a response has its envelope.
//! Not here: the form of the list (the crate `node_differences`), and the test `equal_responses` of `hydrant`, which
//! reads the same list.

use std::sync::LazyLock;

use node_differences::{NodeDifferences, OwnResponse};
use serde_json::Value;

const LIST: &str = include_str!("../../../clients/replicas.txt");

/// The list of this repository.
static DIFFERENCES: LazyLock<NodeDifferences> =
    LazyLock::new(|| NodeDifferences::parse(LIST).expect("a test parses clients/replicas.txt"));

/// Returns the reason if the responses of a method or a route are about one node.
pub(crate) fn own_reason(name: &str) -> Option<&'static str> {
    DIFFERENCES.own_reason(strip_verb(name))
}

/// Formats the methods that are not compared, with the reasons.
pub(crate) fn describe_own_responses() -> String {
    let own = DIFFERENCES.own_responses().iter();
    let own = own.map(|OwnResponse { name, reason }| format!("{name} ({reason})"));
    own.collect::<Vec<_>>().join(", ")
}

/// Returns the part of a response to a method or a route that must be equal on all replicas. The replicas are compared
/// within the histories of all.
pub(crate) fn normalize_response(name: &str, mut response: Value) -> Value {
    if let Some(fields) = response.as_object_mut() {
        fields.remove("id");
        fields.remove("jsonrpc");
    }
    DIFFERENCES.normalize_response(strip_verb(name), response)
}

fn strip_verb(name: &str) -> &str {
    name.strip_prefix("GET ").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_understood() {
        NodeDifferences::parse(LIST).expect("all lines are of a known kind");
        assert_eq!(own_reason("getIdentity"), Some("each node has a key of its own"));
        assert_eq!(own_reason("GET /v1/node"), Some("it has the identity and the nodes"));
        assert_eq!(own_reason("getBalance"), None);
        assert!(describe_own_responses().contains("getVersion (it is about the node)"));
    }

    #[test]
    fn sets_are_sorted_and_members_of_one_node_are_removed() {
        let response = json!({"id": 1, "result": {"context": {"slot": 3, "apiVersion": "1"},
            "value": [{"pubkey": "b"}, {"pubkey": "a"}], "paginationKey": "x"}});
        let expected = json!({"result": {"context": {"slot": 3}, "value": [{"pubkey": "a"}, {"pubkey": "b"}]}});
        assert_eq!(normalize_response("getProgramAccounts", response.clone()), expected);
        assert_ne!(normalize_response("getMultipleAccounts", response), expected);
        let route = normalize_response("GET /v1/owners/{address}/tokens", json!({"x": [2, 1]}));
        assert_eq!(route, json!({"x": [1, 2]}));
    }
}

//! The differences that the responses of a replica and another node at one slot may have: `clients/replicas.txt`.
//!
//! Not here: the test `equal_responses` of `hydrant`, which reads the same list.

use std::sync::LazyLock;

use serde_json::Value;

const LIST: &str = include_str!("../../../clients/replicas.txt");
/// All lists of a response.
const ALL_LISTS: &str = "*";

/// The list of this repository.
static DIFFERENCES: LazyLock<NodeDifferences> = LazyLock::new(|| NodeDifferences::parse(LIST));

/// A method, or the start of a route, whose responses are about one node.
#[derive(Debug)]
struct Own {
    name: &'static str,
    reason: &'static str,
}

/// Lists without an order.
#[derive(Debug)]
struct Sets {
    name: &'static str,
    /// JSON pointers of the lists, or [`ALL_LISTS`].
    lists: Vec<&'static str>,
}

/// The list, parsed.
#[derive(Debug, Default)]
pub(crate) struct NodeDifferences {
    own: Vec<Own>,
    sets: Vec<Sets>,
    members: Vec<&'static str>,
    /// Lines of no known kind.
    unknown: Vec<&'static str>,
}

impl NodeDifferences {
    /// Returns the list of this repository.
    pub(crate) fn get() -> &'static Self {
        &DIFFERENCES
    }

    fn parse(list: &'static str) -> Self {
        let mut differences = Self::default();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.splitn(3, ' ');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("own"), Some(name), Some(reason)) => {
                    differences.own.push(Own { name, reason });
                }
                // The replicas are compared within the histories of all.
                (Some("history"), Some(_), Some(_)) => {}
                (Some("set"), Some(name), Some(lists)) => {
                    differences.sets.push(Sets { name, lists: lists.split(' ').collect() });
                }
                (Some("member"), Some(name), None) => differences.members.push(name),
                _ => differences.unknown.push(line),
            }
        }
        differences
    }

    /// Returns the reason if the responses of a method or a route are about one node.
    pub(crate) fn own_reason(&self, name: &str) -> Option<&'static str> {
        self.own.iter().find(|own| is_named(own.name, name)).map(|own| own.reason)
    }

    /// Formats the methods that are not compared, with the reasons.
    pub(crate) fn describe_own(&self) -> String {
        let own = self.own.iter().map(|Own { name, reason }| format!("{name} ({reason})"));
        own.collect::<Vec<_>>().join(", ")
    }

    /// Returns the part of a response to a method or a route that must be equal on all replicas.
    pub(crate) fn comparable(&self, name: &str, mut response: Value) -> Value {
        if let Some(fields) = response.as_object_mut() {
            fields.remove("id");
            fields.remove("jsonrpc");
        }
        self.remove_members(&mut response);
        let sets = self.sets.iter().filter(|sets| is_named(sets.name, name));
        for list in sets.flat_map(|sets| &sets.lists) {
            match *list {
                ALL_LISTS => sort_all(&mut response),
                pointer => {
                    if let Some(Value::Array(values)) = response.pointer_mut(pointer) {
                        sort(values);
                    }
                }
            }
        }
        response
    }

    fn remove_members(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !self.members.contains(&name.as_str()));
                members.values_mut().for_each(|value| self.remove_members(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.remove_members(value)),
            _ => {}
        }
    }
}

/// Whether an entry of the list names a method, or the start of a route, which has its verb before it here.
fn is_named(entry: &str, name: &str) -> bool {
    match entry.starts_with('/') {
        true => name.trim_start_matches("GET ").starts_with(entry),
        false => name == entry,
    }
}

fn sort(values: &mut [Value]) {
    values.sort_by_cached_key(Value::to_string);
}

fn sort_all(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.iter_mut().for_each(sort_all);
            sort(values);
        }
        Value::Object(members) => members.values_mut().for_each(sort_all),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_understood() {
        let differences = NodeDifferences::get();
        assert!(differences.unknown.is_empty(), "{:?}", differences.unknown);
        let reason = |name| differences.own_reason(name);
        assert_eq!(reason("getIdentity"), Some("each node has a key of its own"));
        assert_eq!(reason("getBalance"), None);
        assert!(differences.describe_own().contains("getVersion (it is about the node)"));
    }

    #[test]
    fn sets_are_sorted_and_members_of_one_node_are_removed() {
        let differences = NodeDifferences::get();
        let response = json!({"id": 1, "result": {"context": {"slot": 3, "apiVersion": "1"},
            "value": [{"pubkey": "b"}, {"pubkey": "a"}], "paginationKey": "x"}});
        let expected = json!({"result": {"context": {"slot": 3}, "value": [{"pubkey": "a"}, {"pubkey": "b"}]}});
        assert_eq!(differences.comparable("getProgramAccounts", response.clone()), expected);
        assert_ne!(differences.comparable("getMultipleAccounts", response), expected);
        let route = differences.comparable("GET /v1/owners/{address}/tokens", json!({"x": [2, 1]}));
        assert_eq!(route, json!({"x": [1, 2]}));
    }
}

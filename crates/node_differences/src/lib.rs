//! What may differ between the responses of two nodes of one chain at one slot, for tests and tools that compare them.
//!
//! Input: a list of lines, each `own NAME REASON`, `history NAME REASON`, `set NAME LIST...` or `member NAME`, and
//! responses as JSON. Output: the methods and routes that are not compared, and responses without the differences.
//! `clients/replicas.txt` is such a list, and describes the four kinds.
//! Not here: the list itself, which a caller includes, and the comparison of two responses.
#![forbid(unsafe_code)]

use serde_json::Value;

/// All lists of a response.
const ALL_LISTS: &str = "*";

/// A line of a list that is of no known kind.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{line}` is not `own NAME REASON`, `history NAME REASON`, `set NAME LIST...` or `member NAME`"
)]
pub struct UnknownLine {
    /// The line.
    pub line: &'static str,
}

/// A method, or the start of a route, whose responses are about one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnResponse {
    /// The name of the method, or the start of the route.
    pub name: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// Lists without an order.
#[derive(Debug)]
struct UnorderedLists {
    name: &'static str,
    /// JSON pointers of the lists, or [`ALL_LISTS`].
    lists: Vec<&'static str>,
}

/// What may differ between the responses of two nodes.
#[derive(Debug, Default)]
pub struct NodeDifferences {
    own: Vec<OwnResponse>,
    history: Vec<&'static str>,
    sets: Vec<UnorderedLists>,
    members: Vec<&'static str>,
}

impl NodeDifferences {
    /// Parses a list. Lines that start with `#` are comments.
    ///
    /// # Errors
    ///
    /// A line is of no known kind, or lacks a part.
    pub fn parse(list: &'static str) -> Result<Self, UnknownLine> {
        let mut differences = Self::default();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.splitn(3, ' ');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("own"), Some(name), Some(reason)) => {
                    differences.own.push(OwnResponse { name, reason });
                }
                (Some("history"), Some(name), Some(_)) => differences.history.push(name),
                (Some("set"), Some(name), Some(lists)) => {
                    let lists = lists.split(' ').collect();
                    differences.sets.push(UnorderedLists { name, lists });
                }
                (Some("member"), Some(name), None) => differences.members.push(name),
                _ => return Err(UnknownLine { line }),
            }
        }
        Ok(differences)
    }

    /// Returns the methods and routes whose responses are about one node.
    pub fn own_responses(&self) -> &[OwnResponse] {
        &self.own
    }

    /// Returns the names of the methods and routes whose responses are equal as far as the histories of both nodes
    /// reach.
    pub fn history_names(&self) -> &[&'static str] {
        &self.history
    }

    /// Returns the names of the methods and routes whose responses have lists without an order.
    pub fn set_names(&self) -> impl Iterator<Item = &'static str> {
        self.sets.iter().map(|sets| sets.name)
    }

    /// Returns the reason if the responses of a method or a route are about one node.
    pub fn own_reason(&self, name: &str) -> Option<&'static str> {
        self.own.iter().find(|own| is_named(own.name, name)).map(|own| own.reason)
    }

    /// Whether the responses of a method or a route have lists without an order.
    pub fn has_sets(&self, name: &str) -> bool {
        self.sets.iter().any(|sets| is_named(sets.name, name))
    }

    /// Returns the part of a response to a method or a route that must be equal on all nodes: without the members that
    /// belong to one node, and with sorted sets.
    pub fn normalize_response(&self, name: &str, mut response: Value) -> Value {
        self.remove_members(&mut response);
        let sets = self.sets.iter().filter(|sets| is_named(sets.name, name));
        for list in sets.flat_map(|sets| &sets.lists) {
            match *list {
                ALL_LISTS => sort_all_lists(&mut response),
                pointer => {
                    if let Some(Value::Array(values)) = response.pointer_mut(pointer) {
                        sort_values(values);
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

/// Whether an entry of the list names a method, or the start of a route.
fn is_named(entry: &str, name: &str) -> bool {
    match entry.starts_with('/') {
        true => name.starts_with(entry),
        false => name == entry,
    }
}

fn sort_values(values: &mut [Value]) {
    values.sort_by_cached_key(Value::to_string);
}

fn sort_all_lists(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.iter_mut().for_each(sort_all_lists);
            sort_values(values);
        }
        Value::Object(members) => members.values_mut().for_each(sort_all_lists),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: &str = "# A comment.\nown getIdentity each node has a key\nown /v1/node it is about the node\n\
                        history getBlock an older block is unknown\nset getMany /result /result/value\n\
                        set /v1/owners/ *\nmember cursor\n";

    fn differences() -> NodeDifferences {
        NodeDifferences::parse(LIST).expect("all lines are of a known kind")
    }

    #[test]
    fn methods_and_routes_have_the_reasons_of_the_list() {
        let differences = differences();
        assert_eq!(differences.own_reason("getIdentity"), Some("each node has a key"));
        assert_eq!(differences.own_reason("/v1/node/x"), Some("it is about the node"));
        for name in ["getIdentityX", "getBlock", "/v1/nod"] {
            assert_eq!(differences.own_reason(name), None, "{name}");
        }
        let own = differences.own_responses().iter().map(|own| own.name);
        assert_eq!(own.collect::<Vec<_>>(), ["getIdentity", "/v1/node"]);
        assert_eq!(differences.history_names(), ["getBlock"]);
        assert_eq!(differences.set_names().collect::<Vec<_>>(), ["getMany", "/v1/owners/"]);
        assert!(differences.has_sets("/v1/owners/x/tokens") && !differences.has_sets("getBlock"));
    }

    #[test]
    fn sets_are_sorted_and_members_of_one_node_are_removed() {
        let differences = differences();
        let response = json!({"result": {"value": [{"b": 1}, {"a": [2, 1]}], "cursor": "x"}});
        let expected = json!({"result": {"value": [{"a": [2, 1]}, {"b": 1}]}});
        assert_eq!(differences.normalize_response("getMany", response.clone()), expected);
        let unsorted = json!({"result": {"value": [{"b": 1}, {"a": [2, 1]}]}});
        assert_eq!(differences.normalize_response("getBlock", response), unsorted);
        let route = differences.normalize_response("/v1/owners/x", json!({"x": [[2, 1], [0]]}));
        assert_eq!(route, json!({"x": [[0], [1, 2]]}));
    }

    #[test]
    fn a_line_of_no_known_kind_is_named() {
        for line in ["", "own getIdentity", "set getMany", "member a b", "other getMany reason"] {
            let list: &'static str = format!("member cursor\n{line}\nmember x").leak();
            let err = NodeDifferences::parse(list).expect_err("it is not known");
            assert_eq!(err, UnknownLine { line });
        }
    }
}

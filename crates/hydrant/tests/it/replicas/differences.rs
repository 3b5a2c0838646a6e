//! What may differ between the responses of two replicas: `clients/replicas.txt`.

use serde_json::Value;

use crate::methods::{EXTENSIONS, METHODS};

const LIST: &str = include_str!("../../../../../clients/replicas.txt");
/// All lists of a response.
const ALL_LISTS: &str = "*";

/// Lists without an order.
#[derive(Debug)]
struct Sets {
    /// A method, or the start of a route.
    name: &'static str,
    /// JSON pointers of the lists, or [`ALL_LISTS`].
    lists: Vec<&'static str>,
}

/// What may differ between the responses of two replicas.
#[derive(Debug, Default)]
pub(super) struct Differences {
    own: Vec<&'static str>,
    /// Methods and routes that are equal as far as the histories of the nodes reach.
    history: Vec<&'static str>,
    sets: Vec<Sets>,
    members: Vec<&'static str>,
}

impl Differences {
    /// Reads the list.
    pub(super) fn read() -> Self {
        let mut differences = Self::default();
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let kind = words.next().unwrap_or_default();
            let name = words.next().unwrap_or_else(|| panic!("{line}: a name is missing"));
            match kind {
                "own" | "history" => {
                    assert!(words.next().is_some(), "{line}: a reason is missing");
                    match kind {
                        "own" => differences.own.push(name),
                        _ => differences.history.push(name),
                    }
                }
                "set" => {
                    let lists: Vec<_> = words.collect();
                    assert!(!lists.is_empty(), "{line}: a list is missing");
                    differences.sets.push(Sets { name, lists });
                }
                "member" => differences.members.push(name),
                _ => panic!("{line}: not own, history, set or member"),
            }
        }
        differences
    }

    /// Whether the responses of a method or a route are about one node.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.iter().any(|own| is_named(own, name))
    }

    /// Whether a response has lists without an order.
    pub(super) fn has_sets(&self, name: &str) -> bool {
        self.sets.iter().any(|sets| is_named(sets.name, name))
    }

    /// Returns the part of a body that must be equal on all replicas.
    pub(super) fn comparable(&self, name: &str, mut body: Value) -> Value {
        self.remove_members(&mut body);
        let sets = self.sets.iter().filter(|sets| is_named(sets.name, name));
        for list in sets.flat_map(|sets| &sets.lists) {
            match *list {
                ALL_LISTS => sort_all(&mut body),
                pointer => {
                    if let Some(Value::Array(values)) = body.pointer_mut(pointer) {
                        sort(values);
                    }
                }
            }
        }
        body
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

#[test]
fn the_list_names_methods_and_routes() {
    let differences = Differences::read();
    let named = || differences.own.iter().chain(&differences.history);
    for name in named().chain(differences.sets.iter().map(|sets| &sets.name)) {
        let is_method = METHODS.contains(name) || EXTENSIONS.contains(name);
        assert!(is_method || name.starts_with("/v1/"), "{name} is not a method");
    }
    let docs = include_str!("../../../../../docs/cluster.md");
    let undocumented = |name: &&&str| !docs.contains(&format!("`{name}`"));
    let missing: Vec<_> = named().filter(undocumented).collect();
    assert!(missing.is_empty(), "docs/cluster.md does not say that {missing:?} are of one node");
    let both: Vec<_> = differences.history.iter().filter(|name| differences.is_own(name)).collect();
    assert!(both.is_empty(), "{both:?} are of one node, whatever its history is");
}

//! What may differ between the responses of two replicas: `clients/replicas.txt`.

use node_differences::NodeDifferences;

use crate::methods::{EXTENSIONS, METHODS};

const LIST: &str = include_str!("../../../../../clients/replicas.txt");

/// Reads the list.
pub(super) fn read_differences() -> NodeDifferences {
    NodeDifferences::parse(LIST).unwrap_or_else(|err| panic!("clients/replicas.txt: {err}"))
}

#[test]
fn the_list_names_methods_and_routes() {
    let differences = read_differences();
    let own = differences.own_responses().iter().map(|own| own.name);
    let named: Vec<&str> = own.chain(differences.history_names().iter().copied()).collect();
    for name in named.iter().copied().chain(differences.set_names()) {
        let is_method = METHODS.contains(&name) || EXTENSIONS.contains(&name);
        assert!(is_method || name.starts_with("/v1/"), "{name} is not a method");
    }
    let docs = include_str!("../../../../../docs/cluster.md");
    let undocumented = |name: &&&str| !docs.contains(&format!("`{name}`"));
    let missing: Vec<_> = named.iter().filter(undocumented).collect();
    assert!(missing.is_empty(), "docs/cluster.md does not say that {missing:?} are of one node");
    let is_own = |name: &&&str| differences.own_reason(name).is_some();
    let both: Vec<_> = differences.history_names().iter().filter(is_own).collect();
    assert!(both.is_empty(), "{both:?} are of one node, whatever its history is");
}

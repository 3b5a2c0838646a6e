//! The examples of this crate run, and their assertions hold.

#[path = "../../examples/embedded_ledger.rs"]
mod embedded_ledger;

#[test]
fn the_embedded_ledger_example_runs() {
    embedded_ledger::main().expect("its assertions hold");
}

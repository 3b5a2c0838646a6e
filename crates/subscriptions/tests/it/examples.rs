//! The examples of this crate run, and their assertions hold.

#[path = "../../examples/address_set.rs"]
mod address_set;

#[test]
fn the_example_of_an_address_set_runs() {
    address_set::main().expect("its assertions hold");
}

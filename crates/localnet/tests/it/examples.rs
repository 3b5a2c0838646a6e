//! The examples of this crate run, and their assertions hold.

#[path = "../../examples/embedded_localnet.rs"]
mod embedded_localnet;

#[test]
fn the_example_of_an_embedded_localnet_runs() {
    embedded_localnet::main().expect("its assertions hold");
}

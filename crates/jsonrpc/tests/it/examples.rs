//! The examples of this crate run, and their assertions hold.

#[path = "../../examples/custom_api.rs"]
mod custom_api;

#[test]
fn the_example_of_a_custom_api_runs() {
    custom_api::main().expect("its assertions hold");
}

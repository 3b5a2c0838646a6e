//! (room being furnished)
fn main() {}

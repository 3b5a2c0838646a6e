//! REST over a chain in memory: the shapes of api.kaspa.org, headers, pages while blocks arrive, and bad input.

mod bad_input;
mod headers;
mod network;
mod pages;
mod shapes;
mod world;

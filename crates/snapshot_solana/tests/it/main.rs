//! Snapshot archives: the sample that Agave wrote, forged ones, and broken ones.

mod broken;
mod forge;
mod incremental;
mod lt_hash;
mod map;
mod sample;

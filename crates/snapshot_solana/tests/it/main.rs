//! Snapshot archives: the sample that Agave wrote, forged ones, and broken ones.

mod broken;
mod epoch_stakes;
mod forge;
mod incremental;
mod lt_hash;
mod lz4;
mod map;
mod sample;
mod written;

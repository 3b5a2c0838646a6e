//! A chain against a model of a node, against a recorded kaspad, and at its bounds.

mod bounds;
mod lies;
mod model_run;
mod pages;
mod recorded_chain;
mod virtual_state;

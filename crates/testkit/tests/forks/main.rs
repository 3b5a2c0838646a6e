//! Random forks against the model, and readers on threads against an invariant.

mod concurrent;
mod hot_key;
mod model;

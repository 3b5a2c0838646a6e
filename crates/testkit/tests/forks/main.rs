//! Random forks against the model, and readers on threads against an invariant.

mod concurrent;
mod model;

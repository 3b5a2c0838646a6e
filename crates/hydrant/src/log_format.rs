//! The formats of the log.

use clap::ValueEnum;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Lines for people to read.
    #[default]
    Text,
    /// For programs: each line an object, each field a member.
    Json,
}

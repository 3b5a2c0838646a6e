//! Allocations of a program by site, counted by Valgrind's DHAT.
//!
//! Input: the file that DHAT writes when the program ends. Output: allocations and bytes by site, which is the innermost
//! function that does not belong to an allocator, a collection or a buffer.
//! Counts are those of the program's own pace under Valgrind, some fifty times slower: what depends on how many
//! datagrams arrive at once differs from a run without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

/// Parts of the names of functions that allocate for their caller.
const PLUMBING: &[&str] = &[
    "alloc",
    "Alloc",
    "core::",
    "std::",
    "hashbrown::",
    "bytes::",
    "raw_vec",
    "__rust",
    "__rdl",
    "BytesMut",
    "Vec<",
    "VecDeque<",
    "Box<",
    "BTreeMap<",
    "btree::",
    "slab::",
];

/// Frames that DHAT records of each allocation.
const FRAMES: &str = "--num-callers=24";

/// A program that is counted.
pub(super) struct Dhat(TempDir);

/// Allocations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Allocations {
    pub(super) count: f64,
    pub(super) bytes: f64,
}

impl Dhat {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    /// Starts `program` so that it is counted.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("valgrind");
        let out = format!("--dhat-out-file={}", self.file().display());
        command.args(["--tool=dhat", "--quiet", "--fair-sched=yes", FRAMES, &out]).arg(program);
        command
    }

    /// Reads the counts of the program, which has ended.
    pub(super) fn sites(&self) -> Result<BTreeMap<String, Allocations>> {
        let file = self.file();
        let text = std::fs::read_to_string(&file).with_context(|| {
            format!("{}: valgrind is missing, or the program was killed", file.display())
        })?;
        parse(&serde_json::from_str(&text)?)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("counts.json")
    }
}

/// Sums the program points of a DHAT file by site.
fn parse(file: &Value) -> Result<BTreeMap<String, Allocations>> {
    let frames = file["ftbl"].as_array().context("a table of frames")?;
    let mut sites = BTreeMap::<String, Allocations>::new();
    for point in file["pps"].as_array().context("program points")? {
        let stack = point["fs"].as_array().into_iter().flatten();
        let stack = stack.filter_map(|at| frames.get(at.as_u64()? as usize)?.as_str());
        let sum = sites.entry(site(stack)).or_default();
        sum.count += point["tbk"].as_f64().unwrap_or_default();
        sum.bytes += point["tb"].as_f64().unwrap_or_default();
    }
    Ok(sites)
}

/// Returns the site of a stack of frames `0xADDRESS: FUNCTION (in FILE)`, the innermost first.
fn site<'a>(stack: impl Iterator<Item = &'a str>) -> String {
    let functions = stack.filter_map(|frame| {
        let function = frame.split_once(": ")?.1;
        Some(function.rsplit_once(" (").map_or(function, |(name, _)| name))
    });
    let mut functions = functions.peekable();
    let innermost = functions.peek().copied().unwrap_or("unknown");
    let is_own = |function: &&str| {
        // Type arguments name collections, too.
        let name = function.trim_start_matches('<');
        let name = name.split(['<', ' ']).next().unwrap_or(name);
        !PLUMBING.iter().any(|part| name.contains(part.trim_end_matches('<')))
    };
    short(functions.find(is_own).unwrap_or(innermost))
}

/// Shortens a function's name: without its hash and without the arguments of its types. A CSV cell has no comma.
fn short(function: &str) -> String {
    let mut depth = 0_u32;
    let mut name = String::new();
    let is_method = function.starts_with('<');
    for character in function.trim_start_matches('<').chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => name.push(character),
            _ => {}
        }
        // `<Type as Trait>::method` ends its type here.
        if is_method && name.ends_with(" as ") {
            name.truncate(name.len() - 4);
            depth += 1;
        }
    }
    let name = name.split("::h").next().unwrap_or(&name).trim_end_matches(':');
    name.replace(',', ";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_summed_by_the_function_that_asked_for_them() {
        let file = serde_json::json!({
            "pps": [
                { "tb": 64, "tbk": 2, "fs": [1, 2, 3] },
                { "tb": 8, "tbk": 1, "fs": [1, 3] },
                { "tb": 5, "tbk": 1, "fs": [1, 2] },
            ],
            "ftbl": [
                "[root]",
                "0x48465C4: malloc (vg_replace_malloc.c:393)",
                "0x11: alloc::raw_vec::RawVecInner<A>::try_allocate_in (in /bin/server)",
                "0x12: quinn_proto::connection::Connection::read_crypto (in /bin/server)",
            ],
        });
        let sites = parse(&file).unwrap();
        let read_crypto = Allocations { count: 3.0, bytes: 72.0 };
        assert_eq!(sites["quinn_proto::connection::Connection::read_crypto"], read_crypto);
        // Only the allocator is known of the last.
        assert_eq!(sites["malloc"], Allocations { count: 1.0, bytes: 5.0 });
    }

    #[test]
    fn a_site_has_a_short_name() {
        assert_eq!(
            short("<quinn::recv_stream::RecvStream as tokio::io::Read>::poll"),
            "quinn::recv_stream::RecvStream::poll"
        );
        assert_eq!(
            short("quinn_proto::Map<u64, V>::insert::h0123456789abcdef"),
            "quinn_proto::Map::insert"
        );
    }
}

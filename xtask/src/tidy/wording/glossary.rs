//! The glossary of CONTRIBUTING.md as rules: where each of its words is not used.
//!
//! Invariant: the table in CONTRIBUTING.md and [`GLOSSARY`] have the same rows ([`check_table`]).
//! A word of common English is checked in prose only in phrases with its former private meaning.

use std::path::Path;

/// The section that explains the replacements.
pub(super) const GLOSSARY_SECTION: &str = "CONTRIBUTING.md, \"Names and language\"";

/// The heading of that section. The section has to quote the words, so it is not checked.
const HEADING: &str = "## Names and language";

/// First row of the table in CONTRIBUTING.md.
const TABLE_HEAD: &str = "| not | but | source |";

/// A row of the glossary, as rules.
pub(super) struct Entry {
    /// First cell of the row, without spaces around it.
    pub(super) not: &'static str,
    /// The second cell: the replacement.
    pub(super) but: &'static str,
    /// Parts that no name has, in lower case.
    pub(super) name_parts: &'static [&'static str],
    /// Names that are not used for functions.
    pub(super) functions: &'static [&'static str],
    /// Names that are not used for constants.
    pub(super) constants: &'static [&'static str],
    /// Phrases that no comment and no document has, in lower case.
    pub(super) phrases: &'static [&'static str],
    /// Directories to which the names are limited. Empty: the names are checked everywhere.
    dirs: &'static [&'static str],
}

impl Entry {
    /// Whether the names of this row are checked in the file at `path`.
    pub(super) fn applies_to(&self, path: &Path) -> bool {
        self.dirs.is_empty() || self.dirs.iter().any(|dir| path.starts_with(dir))
    }
}

const EMPTY: Entry = Entry {
    not: "",
    but: "",
    name_parts: &[],
    functions: &[],
    constants: &[],
    phrases: &[],
    dirs: &[],
};

pub(super) const GLOSSARY: &[Entry] = &[
    Entry {
        not: "kept, keep, `Kept*`",
        but: "cached, `insert` (cache); retained (history, logs); unpacked (state)",
        name_parts: &["kept", "keep", "keeps"],
        phrases: &["kept"],
        ..EMPTY
    },
    Entry {
        not: "told, tell, `Told`",
        but: "sent, reported, logged, notified; `ResponseMeta`, `Notification`",
        name_parts: &["told", "tell", "tells"],
        phrases: &["told"],
        ..EMPTY
    },
    Entry {
        not: "asker, \"who asks\", `who`, `whose`",
        but: "`RequestContext`, client, caller, owner",
        name_parts: &["asker", "who", "whose"],
        phrases: &["asker", "who asks", "who may", "who gets", "who needs"],
        ..EMPTY
    },
    Entry {
        not: "asked, given, `*Given`",
        but: "request, params, `*Params`, `*Config`",
        name_parts: &["asked", "given"],
        phrases: &["is asked", "are asked", "was asked", "were asked", "is given", "are given"],
        ..EMPTY
    },
    Entry {
        not: "answer",
        but: "response (a whole reply), result (a method's value)",
        name_parts: &["answer", "answers", "answered"],
        phrases: &[
            "an answer",
            "the answer",
            "the answers",
            "its answer",
            "their answers",
            "whose answer",
            "whose answers",
            "each answer",
            "every answer",
            "no answer",
            "all answers",
            "both answers",
            "of answers",
        ],
        ..EMPTY
    },
    Entry {
        not: "held, `Held`, room",
        but: "in use, reserved; `MemoryBudget`, `*Reservation`",
        name_parts: &["held", "room", "rooms"],
        ..EMPTY
    },
    Entry {
        not: "look, looked, `LOOK_EVERY`",
        but: "`lookup`, `poll`, `scan`; `POLL_INTERVAL`",
        name_parts: &["looked", "looks"],
        functions: &["look"],
        ..EMPTY
    },
    Entry {
        not: "turn, turns",
        but: "run queue, round-robin queue, time slice; `Applied`/`Reverted` (blocks)",
        name_parts: &["turn", "turns"],
        phrases: &["a turn", "its turn", "the turn", "one turn", "their turns", "the turns"],
        ..EMPTY
    },
    Entry {
        not: "place, places",
        but: "slot, entry, offset, position, permit: the one that it is",
        name_parts: &["place", "places"],
        phrases: &["a place", "its place", "the place", "their places", "the places"],
        ..EMPTY
    },
    Entry {
        not: "door",
        but: "transaction service; interface",
        name_parts: &["door"],
        phrases: &["door"],
        ..EMPTY
    },
    Entry {
        not: "outlet",
        but: "sink, response channel",
        name_parts: &["outlet"],
        phrases: &["outlet"],
        ..EMPTY
    },
    Entry { not: "figures", but: "metrics", name_parts: &["figures"], ..EMPTY },
    Entry {
        not: "spoken, speaks, `Speaker`",
        but: "WebSocket; `WebSocketHandler`",
        name_parts: &["spoken", "speaks", "speaker"],
        phrases: &["is spoken"],
        ..EMPTY
    },
    Entry {
        not: "stamp, `Stamper`",
        but: "validator, `ETag`",
        name_parts: &["stamp", "stamps", "stamper"],
        phrases: &["stamp", "stamps"],
        ..EMPTY
    },
    Entry { not: "bare", but: "value only, unwrapped", name_parts: &["bare"], ..EMPTY },
    Entry {
        not: "shaper",
        but: "body transform",
        name_parts: &["shaper"],
        phrases: &["shaper"],
        ..EMPTY
    },
    Entry {
        not: "want, wanted, wish",
        but: "`*Options`, `*Request`",
        name_parts: &["want", "wants", "wanted", "wish"],
        phrases: &["wanted", "wish"],
        ..EMPTY
    },
    Entry {
        not: "lane",
        but: "execution path (metrics), class queue (pool)",
        name_parts: &["lane", "lanes"],
        phrases: &["lane", "lanes"],
        ..EMPTY
    },
    Entry {
        not: "lane",
        but: "posting index (subscriptions), peer queue (QUIC)",
        name_parts: &["lane", "lanes"],
        ..EMPTY
    },
    Entry {
        not: "work, job",
        but: "task",
        name_parts: &["work", "job", "jobs"],
        phrases: &["job", "jobs"],
        ..EMPTY
    },
    Entry {
        not: "step, slice (pool)",
        but: "`poll`, time slice",
        name_parts: &["step", "steps"],
        functions: &["slice", "slices", "run_slice"],
        dirs: &["crates/cpu_pool"],
        ..EMPTY
    },
    Entry {
        not: "run (a start of the process)",
        but: "`instance`, `ProcessEpoch`",
        phrases: &["run of the process", "run of the program", "run of the server"],
        functions: &["run_id"],
        ..EMPTY
    },
    Entry {
        not: "moment",
        but: "version (of the published state); response context (REST)",
        name_parts: &["moment", "moments"],
        phrases: &["the moment of"],
        ..EMPTY
    },
    Entry {
        not: "things",
        but: "items",
        name_parts: &["thing", "things"],
        phrases: &["thing", "things"],
        ..EMPTY
    },
    Entry {
        not: "begin, go_on, done, rest, leave, give, let_go",
        but: "start, resume, finish, park, release, free",
        name_parts: &["begin", "begun", "beginning", "done", "leave"],
        functions: &["go_on", "rest", "poll_rest", "give", "let_go"],
        phrases: &["begun"],
        ..EMPTY
    },
    Entry {
        not: "beside, aside",
        but: "alongside, side buffer; background",
        name_parts: &["beside", "aside"],
        phrases: &["beside", "aside"],
        ..EMPTY
    },
    Entry {
        not: "`fn of(..)` as constructor",
        but: "`new`, `from_*`, `for_*`",
        functions: &["of"],
        ..EMPTY
    },
    Entry {
        not: "`fn look`, `fn take` without an object",
        but: "`lookup_entry`, `take_permit`",
        functions: &["look", "take"],
        ..EMPTY
    },
    Entry {
        not: "`REST`, `PATIENCE`, `GRACE` (times)",
        but: "`*_BACKOFF`, `*_TIMEOUT`, `*_INTERVAL`, with the unit in the type",
        name_parts: &["patience", "grace"],
        constants: &["REST"],
        ..EMPTY
    },
    Entry {
        not: "he, who, whoever, nobody for programs",
        but: "it, the client, the caller, the writer",
        name_parts: &["nobody", "somebody", "whoever"],
        phrases: &["he", "his", "him", "whoever", "somebody", "nobody"],
        ..EMPTY
    },
    Entry {
        not: "\"so many\", \"so long\"",
        but: "up to `n`, `n` bytes",
        phrases: &["so many", "so long"],
        ..EMPTY
    },
];

/// Compares the table of CONTRIBUTING.md with [`GLOSSARY`].
pub(crate) fn check_table(contributing: &str) -> Vec<String> {
    let lines = contributing.lines().skip_while(|line| *line != TABLE_HEAD);
    let rows: Vec<(&str, String)> =
        lines.skip(2).take_while(|line| line.starts_with('|')).filter_map(parse_row).collect();
    let mut complaints = Vec::new();
    for (not, but) in &rows {
        if !GLOSSARY.iter().any(|entry| entry.not == *not && entry.but == but) {
            complaints.push(format!(
                "CONTRIBUTING.md: the row \"{not}\" has no equal in xtask/src/tidy/wording/glossary.rs"
            ));
        }
    }
    for entry in GLOSSARY {
        if !rows.iter().any(|(not, but)| entry.not == *not && entry.but == but) {
            let not = entry.not;
            complaints.push(format!(
                "CONTRIBUTING.md: the glossary's table has no row \"{not}\" as in glossary.rs"
            ));
        }
    }
    complaints
}

/// Returns the first two cells of a row. The second one is without the quotes of phrases.
fn parse_row(line: &str) -> Option<(&str, String)> {
    let mut cells = line.split('|').skip(1);
    let not = cells.next()?.trim();
    Some((not, cells.next()?.trim().replace('"', "")))
}

/// Blanks the section of the glossary.
pub(super) fn without_glossary(text: &str) -> String {
    let mut is_glossary = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("## ") {
            is_glossary = line == HEADING;
        }
        prose.push_str(if is_glossary { "" } else { line });
        prose.push('\n');
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_in_only_one_table_is_caught() {
        let mut table = format!("{TABLE_HEAD}\n|---|---|---|\n");
        for entry in GLOSSARY {
            table += &format!("| {} | {} | |\n", entry.not, entry.but);
        }
        assert_eq!(check_table(&table), [""; 0]);
        assert_eq!(check_table(&format!("{table}| new | word | |\n")).len(), 1);
        assert_eq!(
            check_table(&table.replace("| door | transaction service", "| door | service")).len(),
            2
        );
    }

    #[test]
    fn every_row_is_checked_in_at_least_one_form() {
        for entry in GLOSSARY {
            let forms = [entry.name_parts, entry.functions, entry.constants, entry.phrases];
            assert!(forms.iter().any(|words| !words.is_empty()), "{}", entry.not);
        }
    }
}

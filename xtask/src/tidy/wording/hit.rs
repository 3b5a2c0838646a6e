//! Hits: their kinds, and the collection of those in one file.

use std::path::{Path, PathBuf};

/// One use of a word or a form that these rules replace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    /// The text that was found, and its replacement.
    pub(crate) message: String,
}

/// The kind of a hit. A budget is a number for each kind and crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A word of the glossary in a definition or in a path.
    GlossaryName,
    /// A word of the glossary in a comment or a document.
    GlossaryProse,
    /// A statement such as `let (a, b) = (x, y);`.
    TupleLet,
    /// A tuple as the pattern of a parameter.
    TupleParam,
    /// A function that is named by a participle alone.
    FnParticiple,
    /// A form of "to be" before "no" and a noun, in place of "not a".
    IsNo,
    /// A phrase that is translated word by word.
    German,
    /// A comment that cannot be read without the one before it.
    Fragment,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::GlossaryName,
        Self::GlossaryProse,
        Self::TupleLet,
        Self::TupleParam,
        Self::FnParticiple,
        Self::IsNo,
        Self::German,
        Self::Fragment,
    ];

    /// Returns the name of the kind in the list of budgets.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::GlossaryName => "glossary_name",
            Self::GlossaryProse => "glossary_prose",
            Self::TupleLet => "tuple_let",
            Self::TupleParam => "tuple_param",
            Self::FnParticiple => "fn_participle",
            Self::IsNo => "is_no",
            Self::German => "german",
            Self::Fragment => "fragment",
        }
    }
}

/// Collects the hits of one file.
pub(super) struct Hits<'a> {
    path: &'a Path,
    pub(super) found: Vec<Hit>,
}

impl<'a> Hits<'a> {
    pub(super) const fn new(path: &'a Path) -> Self {
        Self { path, found: Vec::new() }
    }

    pub(super) fn push(&mut self, kind: Kind, line: usize, message: String) {
        self.found.push(Hit { kind, path: self.path.to_owned(), line, message });
    }
}

//! The table of launch lines: `[WAIT END] COMMAND`, each after the comment that names its source.

use anyhow::{Context, Result, bail, ensure};

use crate::launch_lines::wait::Wait;

pub(crate) struct LaunchLine {
    /// Its source: the comment before it in the table.
    pub(crate) source: String,
    pub(crate) wait: Wait,
    pub(crate) end: End,
    pub(crate) program: LaunchProgram,
    pub(crate) args: Vec<String>,
}

/// The way in which the source ends the process.
pub(crate) enum End {
    /// The process gets this signal.
    Signal(String),
    /// The process is in the background, and gets SIGKILL.
    Daemon,
}

/// The program that a line starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaunchProgram {
    TestValidator,
    Surfpool,
}

impl LaunchProgram {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TestValidator => "solana-test-validator",
            Self::Surfpool => "surfpool",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::TestValidator, Self::Surfpool].into_iter().find(|program| program.name() == name)
    }
}

impl LaunchLine {
    /// The command as it is in the table.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.program.name(), self.args.join(" "))
    }
}

/// Parses all lines of a table.
pub(crate) fn parse_all(table: &str) -> Result<Vec<LaunchLine>> {
    let mut lines = Vec::new();
    let mut source = "";
    for (number, text) in table.lines().enumerate() {
        if let Some(comment) = text.strip_prefix('#') {
            source = comment.trim();
        } else if !text.is_empty() {
            let line = parse(text, source).with_context(|| format!("line {}", number + 1))?;
            lines.push(line);
            source = "";
        }
    }
    Ok(lines)
}

fn parse(text: &str, source: &str) -> Result<LaunchLine> {
    ensure!(!source.is_empty(), "it has no source");
    let rest = text.strip_prefix('[').context("no [WAIT END]")?;
    let (head, command) = rest.split_once(']').context("no end of [WAIT END]")?;
    let (wait, end) = head.split_once(' ').context("no END")?;
    let end = match end {
        "DAEMON" => End::Daemon,
        "TERM" | "INT" | "KILL" => End::Signal(end.to_owned()),
        _ => bail!("END is {end}"),
    };
    let mut words = command.split_whitespace().map(str::to_owned);
    let program = words.next().context("no program")?;
    let program = LaunchProgram::from_name(&program).with_context(|| program.clone())?;
    let source = source.to_owned();
    Ok(LaunchLine { source, wait: Wait::from_name(wait)?, end, program, args: words.collect() })
}

#[test]
fn a_line_without_a_source_or_with_an_unknown_sign_is_an_error() {
    let error = |table: &str| match parse_all(table) {
        Ok(_) => panic!("{table} is accepted"),
        Err(err) => format!("{err:#}"),
    };
    assert!(error("[health TERM] surfpool start").contains("no source"));
    assert!(error("# a\n[smoke TERM] surfpool start").contains("smoke"));
    assert!(error("# a\n[health STOP] surfpool start").contains("STOP"));
    assert!(error("# a\n[health TERM] agave-validator").contains("agave-validator"));
    let lines = parse_all("# a\n[health TERM] surfpool start --ci").expect("a line");
    assert_eq!((lines[0].source.as_str(), lines[0].text().as_str()), ("a", "surfpool start --ci"));
}

//! The requests of the day as the text of a file, so that quotas survive a restart.
//!
//! Shape: a line that names the format, one with the day, one for each key with its hash and its requests, and one
//! with the SHA-256 of all before it.
//! Bounds: 84 bytes for each key that has been used today. A client without a key is in no file.
//! Invariant: a text that is not whole and valid restores nothing.
//! Not here: when it is written, and where (the caller).

use std::fmt::Write;

use crate::key_hash::KeyHash;
use crate::registry::ApiKeys;
use crate::utc::day_number;

/// The first line of the text.
const FORMAT: &str = "hydrant api key usage 1";

/// Why a text restores nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageTextError {
    /// The text was written by another version, or is not a usage text.
    #[error("the first line is not \"{FORMAT}\"")]
    Format,
    /// A part of the text is missing, or was changed.
    #[error("its last line is not the SHA-256 of the lines before it")]
    Sum,
    /// A line of the text is not valid.
    #[error("line {line} is not valid")]
    Line {
        /// Number of the line, from 1.
        line: usize,
    },
}

impl ApiKeys {
    /// Returns the requests of the current day, of each key that has sent some. Equal texts mean that nothing has
    /// changed.
    pub fn daily_usage(&self) -> String {
        let table = self.table.load();
        let unix_s = self.unix_s();
        let mut text = format!("{FORMAT}\nday {}\n", day_number(unix_s));
        for key in &table.keys {
            let requests = key.state.allowance.requests_today(unix_s);
            if requests > 0 {
                // Writing to a string does not fail.
                let _ = writeln!(text, "key {} {requests}", key.hash());
            }
        }
        let sum = KeyHash::of_key(text.as_bytes());
        let _ = writeln!(text, "sum {sum}");
        text
    }

    /// Restores the requests of the day from a text, and returns the number of keys. A text of another day restores
    /// nothing, and a key that is no longer in the table is skipped.
    pub fn restore_daily_usage(&self, text: &str) -> Result<usize, UsageTextError> {
        let rest = text.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix('\n'));
        let rest = rest.ok_or(UsageTextError::Format)?;
        let head_bytes = text.len() - rest.len();
        let (content, sum) = text.split_at(head_bytes + rest.rfind("sum ").unwrap_or(0));
        let is_whole = sum == format!("sum {}\n", KeyHash::of_key(content.as_bytes()));
        if !is_whole {
            return Err(UsageTextError::Sum);
        }
        let mut lines = content.lines().zip(1..).skip(1);
        let day = lines.next().and_then(|(line, _)| line.strip_prefix("day ")?.parse().ok());
        let day: u64 = day.ok_or(UsageTextError::Line { line: 2 })?;
        let entries: Vec<(KeyHash, u64)> = lines
            .map(|(text, line)| entry(text).ok_or(UsageTextError::Line { line }))
            .collect::<Result<_, _>>()?;
        let unix_s = self.unix_s();
        if day != day_number(unix_s) {
            return Ok(0);
        }
        let table = self.table.load();
        let known = entries.iter().filter_map(|(hash, requests)| {
            table.find_hash(hash)?.state.allowance.restore_today(*requests, unix_s);
            Some(())
        });
        Ok(known.count())
    }
}

/// Returns the key and the requests of a line.
fn entry(line: &str) -> Option<(KeyHash, u64)> {
    let (hash, requests) = line.strip_prefix("key ")?.split_once(' ')?;
    Some((hash.parse().ok()?, requests.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Caller, Charge, Credentials, KeyFile};

    const NOON: u64 = 1_795_478_400 + 43_200;

    fn keys(names: &[&str], unix_s: u64) -> ApiKeys {
        let entry = |name: &&str| {
            let hash = KeyHash::of_key(name.as_bytes());
            format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{hash}\"\ntier = \"t\"\n")
        };
        let entries: String = names.iter().map(entry).collect();
        let text = format!("[tiers.t]\nrequests_per_day = 5\n{entries}");
        ApiKeys::new(KeyFile::parse(&text).expect("it is valid"), unix_s)
    }

    /// Returns how many of `requests` requests of a key are admitted.
    fn count_admitted(keys: &ApiKeys, name: &str, requests: usize) -> usize {
        let credentials = Credentials { key: Some(name.as_bytes()), ..Credentials::default() };
        let found = keys.authenticate(&credentials, 1, Duration::ZERO).expect("it is known");
        let caller = Caller::Key(found.expect("a key"));
        let admit =
            || keys.admit(caller, Charge::requests(1), std::iter::empty(), Duration::ZERO).is_ok();
        (0..requests).filter(|_| admit()).count()
    }

    #[test]
    fn a_quota_continues_after_a_restart_on_the_same_day_only() {
        let before = keys(&["one", "two", "three"], NOON);
        assert_eq!((count_admitted(&before, "one", 3), count_admitted(&before, "two", 9)), (3, 5));
        let text = before.daily_usage();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains("one"), "names and keys are not in it: {text}");

        let after = keys(&["two", "one", "four"], NOON + 100);
        assert_eq!(after.restore_daily_usage(&text), Ok(2));
        assert_eq!((count_admitted(&after, "one", 9), count_admitted(&after, "two", 9)), (2, 0));
        assert_eq!(count_admitted(&after, "four", 9), 5);

        let tomorrow = keys(&["one"], NOON + 43_200);
        assert_eq!(tomorrow.restore_daily_usage(&text), Ok(0));
        assert_eq!(count_admitted(&tomorrow, "one", 9), 5);

        // Later usage is not lost if the text is older.
        assert_eq!(after.restore_daily_usage(&text), Ok(2));
        assert_eq!(count_admitted(&after, "one", 9), 0);
        assert_eq!(after.restore_daily_usage(&keys(&[], NOON).daily_usage()), Ok(0));
    }

    #[test]
    fn a_text_that_is_not_whole_restores_nothing() {
        let before = keys(&["one"], NOON);
        count_admitted(&before, "one", 3);
        let text = before.daily_usage();
        let after = keys(&["one"], NOON);
        for end in 0..text.len() {
            assert!(after.restore_daily_usage(&text[..end]).is_err(), "{end}");
        }
        let more = format!("{text}{}", text.lines().last().expect("a line"));
        let changed = text.replace(" 3\n", " 1\n");
        for (text, err) in [
            ("", UsageTextError::Format),
            (&*text.replace("usage 1", "usage 2"), UsageTextError::Format),
            (&*changed, UsageTextError::Sum),
            (&*more, UsageTextError::Sum),
        ] {
            assert_eq!(after.restore_daily_usage(text), Err(err), "{text}");
        }
        for (from, line) in [("\nday ", 2), ("\nkey ", 3)] {
            let content = text[..text.rfind("sum ").expect("it")].replace(from, "\nwhat ");
            let text = format!("{content}sum {}\n", KeyHash::of_key(content.as_bytes()));
            assert_eq!(after.restore_daily_usage(&text), Err(UsageTextError::Line { line }));
        }
        assert_eq!(count_admitted(&after, "one", 9), 5, "nothing was restored");
    }
}

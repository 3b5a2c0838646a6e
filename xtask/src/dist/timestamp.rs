//! Seconds of the Unix epoch as a date and a time of day.

use anyhow::Result;

use crate::shell::Cmd;

/// Returns the time in the form of RFC 3339.
pub(crate) fn rfc_3339(time: u64) -> Result<String> {
    let date = Cmd::new("date").args(["-u", "-d", &format!("@{time}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    Ok(date.output()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_formatted_as_rfc_3339() {
        assert_eq!(rfc_3339(1_795_435_026).unwrap(), "2026-11-23T11:57:06Z");
    }
}

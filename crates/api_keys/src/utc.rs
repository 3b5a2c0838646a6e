//! Days and times of UTC, from seconds since 1970.

/// Number of seconds in a day.
pub(crate) const DAY_S: u64 = 86_400;

/// Returns the number of the day, from 1970.
pub(crate) fn day_number(unix_s: u64) -> u64 {
    unix_s / DAY_S
}

/// Returns the seconds until the start of the next day.
pub(crate) fn until_next_day(unix_s: u64) -> u64 {
    DAY_S - unix_s % DAY_S
}

/// Returns a time as RFC 3339 writes it: `2026-11-24T00:00:00Z`.
pub fn utc_text(unix_s: u64) -> String {
    let (year, month, day) = civil_date(day_number(unix_s));
    let second = unix_s % DAY_S;
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Returns year, month and day of a day. A year starts in March here, so that a leap day is its last.
fn civil_date(day: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // Days since 0000-03-01.
    let day = day + 719_468;
    let era = day / DAYS_OF_400_YEARS;
    let of_era = day % DAYS_OF_400_YEARS;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_795_478_400, "2026-11-24T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_text(unix_s), text);
        }
        assert_eq!(until_next_day(1_795_478_399), 1);
        assert_eq!(until_next_day(1_795_478_400), DAY_S);
    }
}

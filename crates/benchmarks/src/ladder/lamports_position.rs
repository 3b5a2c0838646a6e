//! The lamports of one account in the responses for a list, at the price of a comparison.

/// The position of one account's lamports in the responses for its list. The text before them always has the same
/// length, so it is searched once.
#[derive(Clone, Default)]
pub(super) struct LamportsPosition(usize);

impl LamportsPosition {
    /// Reads the lamports of an account; 0 if the response does not have the account.
    pub(super) fn read(&mut self, body: &[u8], account: &str) -> u64 {
        const NAME: &[u8] = b"\"lamports\":";
        let find = |text: &[u8], from: usize| {
            let mut windows = body.get(from..)?.windows(text.len());
            let at = windows.position(|window| window == text)?;
            Some(from + at + text.len())
        };
        if !body.get(..self.0).is_some_and(|before| before.ends_with(NAME)) {
            let found = find(account.as_bytes(), 0).and_then(|from| find(NAME, from));
            self.0 = found.unwrap_or(body.len());
        }
        let digits = body[self.0..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accounts_lamports_are_read_from_a_list() {
        let body = |lamports: u64| {
            format!(
                r#"[{{"pubkey":"a","account":{{"lamports":7}}}},{{"pubkey":"bc","account":{{"lamports":{lamports}}}}}]"#
            )
        };
        let mut position = LamportsPosition::default();
        for lamports in [20, 31, 4, 123_456] {
            assert_eq!(position.read(body(lamports).as_bytes(), "bc"), lamports);
        }
        assert_eq!(position.read(b"[]", "bc"), 0);
        assert_eq!(position.read(body(5).as_bytes(), "bc"), 5);
    }
}

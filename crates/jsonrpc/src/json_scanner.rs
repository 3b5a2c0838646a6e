//! Reads the usual forms of JSON in place: texts without escapes, whole numbers, arrays and objects of them.
//!
//! In: JSON. Out: values in the order of the text, borrowed from it. `None` means that the text has another form, or is
//! not JSON: the caller then parses it with `serde_json`, which knows all forms and all errors.
//! Bounds: [`NESTING_MAX`] levels. Nothing is allocated.
//! Invariant: accepted text is valid JSON, and `serde_json` would read the same value.

/// Nesting of arrays and objects.
const NESTING_MAX: usize = 16;

/// A number with more digits may not fit a `u64`.
const DIGITS_MAX: usize = 19;

/// A position in a text.
pub struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> JsonScanner<'a> {
    /// Starts at the first value of `text`.
    pub fn new(text: &'a str) -> Self {
        let mut scanner = Self { text, at: 0, depth: 0 };
        scanner.skip_space();
        scanner
    }

    /// The next byte.
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// A string without escapes.
    pub fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = self.text.as_bytes().get(self.at..)?;
        let len = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let text = self.text.get(self.at..self.at + len)?;
        self.at += len;
        self.expect(b'"')?;
        Some(text)
    }

    /// A whole number from 0 with at most 19 digits.
    pub fn number(&mut self) -> Option<u64> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let mut number = 0_u64;
        let mut len = 0;
        while let Some(&digit) = rest.get(len)
            && digit.is_ascii_digit()
        {
            if len == DIGITS_MAX {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            len += 1;
        }
        let has_end = !matches!(rest.get(len)?, b'.' | b'e' | b'E');
        if !has_end || len == 0 || (len > 1 && rest[0] == b'0') {
            return None;
        }
        self.at += len;
        Some(number)
    }

    /// `null`.
    pub fn null(&mut self) -> Option<()> {
        self.word("null")
    }

    /// Calls `element` at each element of an array.
    pub fn array(&mut self, element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.members(b'[', b']', element)
    }

    /// Calls `member` at the value of each member of an object, with the member's name.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.members(b'{', b'}', |scanner| {
            let name = scanner.string()?;
            scanner.skip_space();
            scanner.expect(b':')?;
            scanner.skip_space();
            member(scanner, name)
        })
    }

    /// The text of a value.
    pub fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        let skipped = match self.peek()? {
            b'"' => self.string().map(drop),
            b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'[' => self.array(|scanner| scanner.value().map(drop)),
            b'{' => self.object(|scanner, _| scanner.value().map(drop)),
            _ => None,
        };
        skipped?;
        self.text.get(start..self.at)
    }

    /// Checks that the text ends here.
    pub fn end(&mut self) -> Option<()> {
        self.skip_space();
        (self.at == self.text.len()).then_some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        Some(())
    }

    /// Members between brackets. What follows a member is checked: nothing but `,` or the end may.
    fn members(
        &mut self,
        start: u8,
        end: u8,
        mut member: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.expect(start)?;
        if self.depth == NESTING_MAX {
            return None;
        }
        self.depth += 1;
        self.skip_space();
        if self.peek()? == end {
            self.at += 1;
            self.depth -= 1;
            return Some(());
        }
        loop {
            member(self)?;
            self.skip_space();
            match self.next()? {
                b',' => self.skip_space(),
                byte if byte == end => break,
                _ => return None,
            }
        }
        self.depth -= 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<&str> {
        let mut scanner = JsonScanner::new(text);
        let value = scanner.value()?;
        scanner.end()?;
        Some(value)
    }

    #[test]
    fn what_is_accepted_is_json() {
        let mut random = fastrand::Rng::with_seed(3);
        let parts =
            ["\"a\"", "12", "0", ",", ":", "[", "]", "{", "}", "null", "true", " ", "\"é\""];
        let mut accepted = 0;
        for _ in 0..200_000 {
            let text: String =
                (0..random.usize(1..8)).map(|_| parts[random.usize(..parts.len())]).collect();
            let Some(value) = value(&text) else { continue };
            accepted += 1;
            assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{text}");
            assert_eq!(value, text.trim_matches(' '));
        }
        assert!(accepted > 5_000, "{accepted}");
    }

    #[test]
    fn a_number_is_whole_and_fits() {
        let number = |text: &str| {
            let mut scanner = JsonScanner::new(text);
            let mut number = None;
            scanner.array(|scanner| {
                number = Some(scanner.number()?);
                Some(())
            })?;
            scanner.end()?;
            number
        };
        assert_eq!(number("[0]"), Some(0));
        assert_eq!(number("[9999999999999999999]"), Some(9_999_999_999_999_999_999));
        for text in ["[01]", "[-1]", "[1.0]", "[1e3]", "[10000000000000000000]", "[]", "[1x]", "[1"]
        {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_not_accepted() {
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(value(&nested(NESTING_MAX)).is_some());
        assert!(value(&nested(NESTING_MAX + 1)).is_none());
    }
}

//! The parts of a bank's hash, from a line "bank frozen" of a log or from a result of `hydrantGetVerification`.

use serde_json::Value;

/// Text that a validator and a follower log before a bank's parts.
const MARK: &str = "bank frozen: ";

/// The parts of a bank's hash, as Agave writes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BankParts {
    hash: String,
    signature_count: String,
    last_blockhash: String,
    /// `None`: the source does not have it.
    capitalization: Option<String>,
    lt_checksum: String,
}

impl BankParts {
    /// Parses the slot and the parts of a line.
    pub(crate) fn parse_line(line: &str) -> Option<(u64, Self)> {
        let text = &line[line.find(MARK)? + MARK.len()..];
        let slot = text.split_whitespace().next()?.parse().ok()?;
        let part = |name: &str| {
            let at = text.find(name)? + name.len();
            Some(text[at..].split_whitespace().next()?.trim_end_matches(',').to_owned())
        };
        let parts = Self {
            hash: part(" hash: ")?,
            signature_count: part("signature_count: ")?,
            last_blockhash: part("last_blockhash: ")?,
            capitalization: Some(part("capitalization: ")?),
            lt_checksum: part("checksum: ")?,
        };
        Some((slot, parts))
    }

    /// Reads `bank` of a result of `hydrantGetVerification`. A missing part is empty or null: it differs from every
    /// bank's.
    pub(crate) fn from_verification(bank: &Value) -> Self {
        let text = |name: &str| bank[name].as_str().unwrap_or_default().to_owned();
        Self {
            hash: text("bankHash"),
            signature_count: bank["signatureCount"].to_string(),
            last_blockhash: text("blockhash"),
            capitalization: None,
            lt_checksum: text("ltHashChecksum"),
        }
    }

    /// Whether all parts are equal that both have.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let Self { hash, signature_count, last_blockhash, capitalization, lt_checksum } = self;
        let has_other_capitalization = match (capitalization, &other.capitalization) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        };
        *hash == other.hash
            && *signature_count == other.signature_count
            && *last_blockhash == other.last_blockhash
            && !has_other_capitalization
            && *lt_checksum == other.lt_checksum
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bank_of_a_result_matches_the_line_of_the_same_bank() {
        let line = "bank frozen: 7 hash: AAA signature_count: 3 last_blockhash: BBB capitalization: 99, \
                    accounts_lt_hash checksum: CCC, stats: x";
        let (slot, parts) = BankParts::parse_line(line).unwrap();
        assert_eq!(slot, 7);
        let bank = json!({
            "slot": 7, "bankHash": "AAA", "signatureCount": 3, "blockhash": "BBB", "ltHashChecksum": "CCC",
        });
        let bank_parts = BankParts::from_verification(&bank);
        assert!(bank_parts.matches(&parts) && parts.matches(&bank_parts));
        for name in ["bankHash", "signatureCount", "blockhash", "ltHashChecksum"] {
            for other in [json!("X"), json!(null)] {
                let mut bank = bank.clone();
                bank[name] = other;
                assert!(!BankParts::from_verification(&bank).matches(&parts), "{name}");
            }
        }
        let (_, other) = BankParts::parse_line(&line.replace("99", "98")).unwrap();
        assert!(!other.matches(&parts));
        assert!(other.matches(&bank_parts), "a result has no capitalization");
    }
}

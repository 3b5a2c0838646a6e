//! The names that Agave 4.2 gives to the programs in gossip.

const NAMES: [&str; 8] = [
    "SolanaLabs",
    "JitoLabs",
    "Frankendancer",
    "Agave",
    "AgavePaladin",
    "Firedancer",
    "AgaveBam",
    "Sig",
];

/// Returns the name of a program by its number in gossip.
pub fn client_name(number: u32) -> String {
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    name.map_or_else(|| format!("Unknown({number})"), |name| (*name).to_owned())
}

/// Returns the number of a program by its name. `None` for an unknown name.
pub fn client_number(name: &str) -> Option<u32> {
    let unknown = || name.strip_prefix("Unknown(")?.strip_suffix(')')?.parse().ok();
    let known = NAMES.iter().position(|known| *known == name);
    known.and_then(|number| u32::try_from(number).ok()).or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_number() {
        for number in [0, 5, 7, 8, 70_000] {
            assert_eq!(client_number(&client_name(number)), Some(number));
        }
        assert_eq!(client_name(5), "Firedancer");
        assert_eq!((client_number("Nobody"), client_number("Unknown(x)")), (None, None));
    }
}

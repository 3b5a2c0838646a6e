//! The ledger's shares and sums, and the consistency of its stream of writes.

use std::collections::{BTreeMap, HashMap};

use ledger::Record;
use solana::key_kind;
use solana_account::{AccountSharedData, ReadableAccount};
use spl_token_2022_interface::extension::{BaseStateWithExtensions, StateWithExtensions};
use spl_token_2022_interface::state::{Account as Token, Mint};

use super::*;

fn mainnet(seed: u64, accounts: u32) -> Synthetic {
    Synthetic::new(SyntheticConfig::mainnet(seed, accounts))
}

type Accounts = HashMap<Address, AccountSharedData>;

fn accounts(ledger: &Synthetic) -> Accounts {
    let changes = ledger.changes();
    changes.map(|change| (change.address, change.record.expect("an account").0.clone())).collect()
}

/// Number of accounts of each key of a kind.
fn keyed(accounts: &Accounts, of: ledger::KeyKind) -> HashMap<Pubkey, u64> {
    let mut counts = HashMap::new();
    for account in accounts.values() {
        Account(account.clone()).keys(&mut |facet, key| {
            if facet == of {
                let key = Pubkey::new_from_array(key.to_array().expect("a pubkey"));
                *counts.entry(key).or_default() += 1;
            }
        });
    }
    counts
}

/// The sum of the balances of each mint.
fn balances(accounts: &Accounts) -> BTreeMap<Pubkey, u64> {
    let mut balances = BTreeMap::new();
    for (mint, amount) in accounts.values().filter_map(solana::holding) {
        *balances.entry(mint).or_default() += amount;
    }
    balances
}

#[track_caller]
fn is_about(what: &str, found: usize, of: usize, expected: f64) {
    let share = found as f64 / of as f64;
    assert!((share / expected - 1.0).abs() < 0.15, "{what}: {share}, not {expected}");
}

#[test]
fn the_same_seed_is_the_same_ledger_and_another_is_another() {
    let one = mainnet(1, 20_000);
    let same = mainnet(1, 20_000);
    let other = mainnet(2, 20_000);
    assert_eq!(accounts(&one), accounts(&same));
    let is_common = |address: &Address| *address != native();
    let others = accounts(&other);
    assert!(accounts(&one).keys().filter(|it| is_common(it)).all(|it| !others.contains_key(it)));
    let mut first = Updates::new(&one);
    let mut second = Updates::new(&same);
    for (one, same) in first.slot(1_000).iter().zip(&second.slot(1_000)) {
        assert_eq!((one.address, &one.record), (same.address, &same.record));
    }
}

fn native() -> Address {
    Address::from(spl_token_interface::native_mint::id().to_bytes())
}

#[test]
fn every_account_has_an_address_of_its_own() {
    for config in [SyntheticConfig::mainnet(3, 50_000), SyntheticConfig::tokens(3, 50_000)] {
        let ledger = Synthetic::new(config);
        assert_eq!(accounts(&ledger).len(), 50_000);
        let Counts { tokens, mints, wallets, programs, stakes, others, .. } = ledger.counts();
        assert_eq!(tokens + mints + wallets + programs + stakes + others, 50_000);
    }
}

#[test]
fn shares_are_those_of_the_shape() {
    const ALL: usize = 100_000;
    let ledger = mainnet(4, ALL as u32);
    let accounts = accounts(&ledger);
    let tokens: Vec<_> = accounts
        .values()
        .filter(|account| is_token_program(account.owner()))
        .filter_map(|it| Some((it, StateWithExtensions::<Token>::unpack(it.data()).ok()?)))
        .collect();
    is_about("token accounts", tokens.len(), ALL, 0.7);
    let of_2022 = tokens.iter().filter(|(it, _)| *it.owner() == spl_token_2022_interface::id());
    is_about("of Token-2022", of_2022.clone().count(), tokens.len(), 0.075);
    let extended = of_2022.filter(|(it, _)| it.data().len() > 165).count();
    assert!(extended > tokens.len() / 25, "{extended} with extensions");
    let with = |has: fn(&Token) -> bool| tokens.iter().filter(|(_, it)| has(&it.base)).count();
    is_about("delegates", with(|it| it.delegate.is_some()), tokens.len(), 0.025);
    is_about("frozen", with(|it| it.is_frozen()), tokens.len(), 0.03);
    is_about("wrapped SOL", with(|it| it.is_native()), tokens.len(), 0.071);
    is_about("with nothing", with(|it| it.amount == 0), tokens.len(), 0.31);
    let mints =
        accounts.values().filter(|it| StateWithExtensions::<Mint>::unpack(it.data()).is_ok());
    is_about("mints", mints.count(), ALL, 0.04);
    let large = accounts.values().filter(|it| it.data().len() >= 1_024 && !it.executable());
    is_about("large", large.count(), ALL, 0.1);
    let bytes: usize = accounts.values().map(|it| it.data().len()).sum();
    assert!((300..500).contains(&(bytes / ALL)), "{} bytes an account", bytes / ALL);

    let programs = keyed(&accounts, key_kind::PROGRAM);
    let most = programs[&spl_token_interface::id()] as usize;
    assert!(most > ALL * 60 / 100, "{most} of one program");
    let owners = keyed(&accounts, key_kind::OWNER);
    let is_account = |key: &&Pubkey| accounts.contains_key(&Address::from(key.to_bytes()));
    is_about(
        "owners that are accounts",
        owners.keys().filter(is_account).count(),
        owners.len(),
        0.667,
    );
    let mints = keyed(&accounts, key_kind::MINT);
    assert!(mints.keys().all(|key| is_account(&key)), "every mint is an account");
    assert!(keyed(&accounts, key_kind::LOCKUP).values().eq([&5]), "of 100 stake accounts");
}

fn is_token_program(program: &Pubkey) -> bool {
    [spl_token_interface::id(), spl_token_2022_interface::id()].contains(program)
}

#[test]
fn zipf_s_heads_and_the_known_owners_have_what_they_should() {
    let ledger = mainnet(5, 100_000);
    let accounts = accounts(&ledger);
    let owners = keyed(&accounts, key_kind::OWNER);
    for known in KnownOwner::all() {
        assert_eq!(owners[&ledger.known_owner(known)], known.accounts(), "{known:?}");
    }
    let mut sizes: Vec<u64> = owners.values().copied().collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(sizes[0], 10_000, "the known one");
    let head = sizes[1] as f64 / sizes[2] as f64;
    assert!((1.6..1.85).contains(&head), "{sizes:?}");
    let mints = keyed(&accounts, key_kind::MINT);
    assert_eq!(mints[&ledger.largest_mint()], 70_000 * 15 / 100);
    for rank in [0, 1, 2, 7, 40] {
        assert_eq!(mints[&ledger.address(Kind::Mint(rank))], ledger.holders(rank), "{rank}");
    }
    assert!(mainnet(5, 10_000_000).holders(0) >= 1_000_000);
}

#[test]
fn what_is_held_of_a_mint_is_its_supply() {
    let ledger = mainnet(6, 50_000);
    let accounts = accounts(&ledger);
    let balances = balances(&accounts);
    assert!(balances.len() > 1_000);
    for (address, account) in &accounts {
        let Some(supply) = solana::supply(account.data()) else { continue };
        let mint = Pubkey::new_from_array(address.to_array().expect("a pubkey"));
        let expected =
            if *address == native() { 0 } else { balances.get(&mint).copied().unwrap_or(0) };
        assert_eq!(supply, expected, "{mint}");
    }
}

#[test]
fn extensions_are_what_their_bytes_say() {
    let ledger = mainnet(7, 20_000);
    let mint = ledger.account(Kind::Mint(7)).0;
    let mint = StateWithExtensions::<Mint>::unpack(mint.data()).expect("a mint");
    let mut types = mint.get_extension_types().expect("a list");
    use spl_token_2022_interface::extension::ExtensionType as Type;
    assert_eq!(types, [Type::TransferFeeConfig, Type::MetadataPointer, Type::TokenMetadata]);
    let token = ledger.token_of(Holding { mint: 7, holder: 0 });
    let token = ledger.account(Kind::Token(token)).0;
    let token = StateWithExtensions::<Token>::unpack(token.data()).expect("a token account");
    types = token.get_extension_types().expect("a list");
    assert_eq!(types, [Type::ImmutableOwner, Type::TransferFeeAmount]);
}

#[test]
fn updates_never_contradict_the_ledger() {
    let ledger = mainnet(8, 20_000);
    let mut accounts = accounts(&ledger);
    let supply = balances(&accounts);
    let mut updates = Updates::new(&ledger);
    let mut writes: HashMap<Address, usize> = HashMap::new();
    let mut closed = 0;
    let mut opened = 0;
    let mut moved = 0;
    const WRITES: usize = 100_000;
    for change in updates.slot(WRITES) {
        *writes.entry(change.address).or_default() += 1;
        let before = match &change.record {
            None => accounts.remove(&change.address),
            Some(account) => accounts.insert(change.address, account.0.clone()),
        };
        let owner = |it: &AccountSharedData| {
            solana::holding(it).and_then(|_| it.data().get(32..64).map(<[u8]>::to_vec))
        };
        match (&before, &change.record) {
            (None, None) => panic!("{:?} was closed twice", change.address),
            (None, Some(_)) => opened += 1,
            (Some(_), None) => closed += 1,
            (Some(before), Some(after)) => {
                assert_eq!(before.owner(), after.0.owner());
                assert_eq!(before.data().len(), after.0.data().len());
                moved += usize::from(owner(before) != owner(&after.0));
            }
        }
    }
    let balances: BTreeMap<_, _> = balances(&accounts).into_iter().collect();
    assert!(balances.iter().all(|(mint, amount)| supply.get(mint) == Some(amount)));
    assert!(
        opened > WRITES / 200 && closed >= opened && closed < opened + 2_000,
        "{opened} {closed}"
    );
    assert!(moved > WRITES / 300, "{moved} owners moved");
    let mut most: Vec<usize> = writes.into_values().collect();
    most.sort_unstable_by(|one, other| other.cmp(one));
    let hot: usize = most.iter().take(100).sum();
    assert!(hot > WRITES / 2, "{hot} writes to a hundred accounts");
}

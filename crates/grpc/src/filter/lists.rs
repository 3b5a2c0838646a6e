//! Counts the lists of a request before it is decoded, because a decoded list has many times its bytes.

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;

use super::common::check_count;
use crate::config::Config;

/// The fields of a request that are lists: number, name, and whether they are filters by name.
const FIELDS: [(u32, &str, bool); 9] = [
    (1, "accounts", true),
    (2, "slots", true),
    (3, "transactions", true),
    (4, "blocks", true),
    (5, "blocks_meta", true),
    (7, "accounts_data_slice", false),
    (8, "entry", true),
    (10, "transactions_status", true),
    (12, "block_footer", true),
];
/// The number of the value in an entry of a map.
const MAP_VALUE: u32 = 2;
/// Fields of one filter. Further ones are unknown, and ignored.
const FILTER_FIELDS: usize = 16;
/// Bytes of an address in a list.
const ADDRESS_BYTES_MIN: usize = 32;
/// Entries of lists that a request may have whatever its length.
const SHORT_ENTRIES_MAX: usize = 4_096;

/// Refuses a request with more entries in a list than the server takes, or with more than can be addresses. A
/// request that is not a message is accepted.
pub(crate) fn check_lists(request: &[u8], config: &Config) -> Result<(), Status> {
    let mut counts = [0; FIELDS.len()];
    let mut entries = 0;
    let list_max = config.addresses_max.max(config.data_filters_max);
    for (number, field) in Fields(request) {
        let known = FIELDS.iter().position(|(known, ..)| *known == number);
        let Some((at, (_, name, is_map))) = known.map(|at| (at, FIELDS[at])) else { continue };
        counts[at] += 1;
        if !is_map {
            check_count(name, counts[at], config.data_slices_max, None)?;
            continue;
        }
        check_count(name, counts[at], config.filters_max, Some("grpc.filters_max"))?;
        let mut of_filter = [0; FILTER_FIELDS];
        for (_, filter) in Fields(field).filter(|(number, _)| *number == MAP_VALUE) {
            for (number, _) in Fields(filter) {
                entries += 1;
                let Some(count) = of_filter.get_mut(number as usize) else { continue };
                *count += 1;
                check_count(name, *count, list_max, Some("grpc.addresses_max"))?;
            }
        }
    }
    if entries > SHORT_ENTRIES_MAX && entries > request.len() / ADDRESS_BYTES_MIN {
        return Err(Status::invalid_argument(format!(
            "the request has {entries} entries in {} bytes: too short for addresses",
            request.len()
        )));
    }
    Ok(())
}

/// The fields of a message, with the content of those that have a length. They end at bytes that are not a field.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (number, wire_type) = decode_key(&mut self.0).ok()?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, number, &mut self.0, DecodeContext::default()).ok()?;
            return Some((number, &[]));
        }
        let length = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
        let content = self.0.get(..length)?;
        self.0.advance(length);
        Some((number, content))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use yellowstone_grpc_proto::geyser::{
        SubscribeRequest, SubscribeRequestAccountsDataSlice, SubscribeRequestFilterAccounts,
    };

    use super::*;

    fn check(request: &SubscribeRequest) -> Result<(), String> {
        let checked = check_lists(&request.encode_to_vec(), &Config::default());
        checked.map_err(|status| status.message().to_owned())
    }

    fn owners(text: &str, count: usize) -> SubscribeRequest {
        let owner = vec![text.to_owned(); count];
        let filter = SubscribeRequestFilterAccounts { owner, ..Default::default() };
        SubscribeRequest { accounts: [("a".to_owned(), filter)].into(), ..Default::default() }
    }

    #[test]
    fn lists_are_counted_before_they_are_decoded() {
        let address = "11111111111111111111111111111111";
        assert_eq!(check(&owners(address, 10_000)), Ok(()));
        let err = check(&owners(address, 10_001)).expect_err("one too many");
        assert_eq!(
            err,
            "accounts has 10001 entries, at most 10000 are allowed (grpc.addresses_max)"
        );
        assert_eq!(check(&owners("", 1_000)), Ok(()), "refused later, with its text");
        let err = check(&owners("", 9_000)).expect_err("no addresses");
        assert!(err.contains("too short for addresses"), "{err}");
        let accounts_data_slice = vec![SubscribeRequestAccountsDataSlice::default(); 17];
        let err = check(&SubscribeRequest { accounts_data_slice, ..Default::default() });
        assert!(err.expect_err("one too many").starts_with("accounts_data_slice has 17 entries"));
        let filters = (0..65).map(|n| (n.to_string(), SubscribeRequestFilterAccounts::default()));
        let err = check(&SubscribeRequest { accounts: filters.collect(), ..Default::default() });
        assert!(err.expect_err("one too many").contains("grpc.filters_max"));
    }

    #[test]
    fn bytes_that_are_no_message_are_left_to_the_decoder() {
        for bytes in [&[0xff_u8; 30][..], &[0x0a, 0x7f], &[0x0b], &[0x07]] {
            assert!(check_lists(bytes, &Config::default()).is_ok(), "{bytes:?}");
        }
    }
}

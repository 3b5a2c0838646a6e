//! Which parts of an account's data a client gets.
//!
//! Shape: ranges in order that do not overlap. The parts are joined. A range that ends after the data is left out.

use bytes::Bytes;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequestAccountsDataSlice;

/// The ranges of a request. Without a range the data is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DataSlices(Vec<(usize, usize)>);

impl DataSlices {
    /// Checks the ranges of a request.
    pub(crate) fn new(
        slices: &[SubscribeRequestAccountsDataSlice],
        count_max: usize,
    ) -> Result<Self, Status> {
        if slices.len() > count_max {
            return Err(Status::invalid_argument(format!(
                "accounts_data_slice has {} entries, at most {count_max} are allowed",
                slices.len()
            )));
        }
        let mut ranges: Vec<(usize, usize)> = Vec::with_capacity(slices.len());
        for slice in slices {
            let start = usize::try_from(slice.offset).ok();
            let end = slice.offset.checked_add(slice.length).and_then(|end| end.try_into().ok());
            let (Some(start), Some(end)) = (start, end) else {
                return Err(Status::invalid_argument("accounts_data_slice is out of range"));
            };
            if ranges.last().is_some_and(|(_, last)| start < *last) {
                return Err(Status::invalid_argument(
                    "accounts_data_slice is out of order or overlaps",
                ));
            }
            ranges.push((start, end));
        }
        Ok(Self(ranges))
    }

    /// Returns the selected parts of `data`.
    pub(crate) fn cut(&self, data: &[u8]) -> Bytes {
        if self.0.is_empty() {
            return Bytes::copy_from_slice(data);
        }
        let parts = self.0.iter().filter_map(|(start, end)| data.get(*start..*end));
        parts.collect::<Vec<_>>().concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(ranges: &[(u64, u64)]) -> Result<DataSlices, Status> {
        let slices: Vec<_> = ranges
            .iter()
            .map(|(offset, length)| SubscribeRequestAccountsDataSlice {
                offset: *offset,
                length: *length,
            })
            .collect();
        DataSlices::new(&slices, 2)
    }

    #[test]
    fn parts_are_joined_and_a_part_beyond_the_end_is_left_out() {
        let cut = |ranges: &[(u64, u64)]| slices(ranges).expect("valid").cut(b"abcdef");
        assert_eq!(cut(&[]), "abcdef");
        assert_eq!(cut(&[(0, 1), (2, 2)]), "acd");
        assert_eq!(cut(&[(1, 2), (5, 2)]), "bc");
        assert_eq!(cut(&[(3, 0)]), "");
    }

    #[test]
    fn ranges_out_of_order_and_too_many_are_refused() {
        for ranges in [&[(2, 2), (0, 1)][..], &[(0, 2), (1, 1)], &[(u64::MAX, 1)]] {
            slices(ranges).expect_err("out of order or range");
        }
        let err = slices(&[(0, 1), (1, 1), (2, 1)]).expect_err("three");
        assert!(err.message().contains("accounts_data_slice has"), "{err}");
    }
}

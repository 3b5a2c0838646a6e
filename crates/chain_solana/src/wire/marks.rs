//! Marks of blocks as bytes: one byte for the event, the block, and for a reverted one the reason.

use store::{ByteReader, ByteWriter, DecodeError};

use super::record::{BlockName, Mark};
use crate::RevertReason;

/// Maximum number of marks in one record. They fit into a message, whatever their reasons are. The log refuses a longer
/// record, because its message is too long.
pub const MARKS_MAX: usize = 1_000;
/// Maximum bytes of the error of a dead block. A longer one is cut.
pub const REVERT_ERROR_BYTES_MAX: usize = 220;

pub(super) fn write_mark(out: &mut ByteWriter, mark: &Mark) {
    match mark {
        Mark::TipMoved(block) => write_event(out, 0, *block),
        Mark::Confirmed(block) => write_event(out, 1, *block),
        Mark::Rooted(block) => write_event(out, 2, *block),
        Mark::Reverted { block, reason } => {
            write_event(out, 3, *block);
            match reason {
                RevertReason::Dead { error } => {
                    out.u8(0);
                    out.str(truncate(error, REVERT_ERROR_BYTES_MAX));
                }
                RevertReason::Abandoned => out.u8(1),
                RevertReason::Replaced => out.u8(2),
            }
        }
    }
}

pub(super) fn read_mark(from: &mut ByteReader<'_>) -> Result<Mark, DecodeError> {
    let event = from.u8("mark")?;
    let block = read_name(from)?;
    match event {
        0 => Ok(Mark::TipMoved(block)),
        1 => Ok(Mark::Confirmed(block)),
        2 => Ok(Mark::Rooted(block)),
        3 => {
            let reason = match from.u8("reason of a revert")? {
                0 => RevertReason::Dead { error: from.str("error of a dead block")? },
                1 => RevertReason::Abandoned,
                2 => RevertReason::Replaced,
                _ => return Err(DecodeError { what: "reason of a revert" }),
            };
            Ok(Mark::Reverted { block, reason })
        }
        _ => Err(DecodeError { what: "mark" }),
    }
}

pub(super) fn write_name(out: &mut ByteWriter, name: BlockName) {
    let BlockName { slot, number } = name;
    out.u64(slot);
    out.u64(number);
}

pub(super) fn read_name(from: &mut ByteReader<'_>) -> Result<BlockName, DecodeError> {
    Ok(BlockName { slot: from.u64("slot")?, number: from.u64("number of a block")? })
}

/// Returns the start of a text, at most `bytes_max` long, without a part of a character.
pub(super) fn truncate(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn write_event(out: &mut ByteWriter, event: u8, block: BlockName) {
    out.u8(event);
    write_name(out, block);
}

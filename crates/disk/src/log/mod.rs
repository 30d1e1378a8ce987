//! Parts that the segments of all logs share.
//!
//! ```text
//! segment   head, then frames to the end of the file
//! frame     mark, checksum, place, length, …, content: found again behind bytes that cannot be read
//! NAME.N.log                              changes behind an image of all that changes
//! NAME.FROM.torn   the end of a segment that a crash tore      NAME.damaged   a file that was written anew
//! ```
//!
//! A log decides what a frame holds, when a segment ends, and what is too old to be kept.

mod frame;
mod list;
mod reader;
mod remains;
mod rolling;
mod writer;

pub use frame::{Frame, FrameDamage, FrameFormat, FrameHead, FramePiece, FrameReader};
pub use list::{SEGMENT_LIST, SegmentList, SegmentListState};
pub use reader::SegmentReader;
pub use remains::{DAMAGED, TORN, forget_tails, keep_damaged, keep_tail};
pub use rolling::{RollingLog, RollingLogFormat};
pub use writer::SegmentWriter;

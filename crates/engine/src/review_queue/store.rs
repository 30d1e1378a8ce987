//! The queue on disk: images of its items, and a log of those that have changed since.
//!
//! ```text
//! reviews.bin     20 bytes: the number of the first log that follows, the number of images, and the checksum of both; then
//!                 frames, an image of each item
//! reviews.N.log   frames: images of items that have changed, and ids of those that went, in order
//! ```
//!
//! A later image stands in the place of an earlier one, so a log that is read twice does no harm. A frame is written when
//! something changes, before it is answered: a killed process loses nothing. It is synced with the housekeeping, as the ban
//! list is. Whoever opens the directory begins a log of his own, so nothing is ever written behind a torn end.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use disk::log::{FrameFormat, RollingLog, RollingLogFormat};
use disk::{Blob, Device};
use journal::RecordId;
use serde::{Deserialize, Serialize};

use super::item::ReviewItem;

/// The file of images.
pub(crate) const IMAGES: &str = "reviews.bin";
/// Most bytes of an item: its comments, each byte of which may be written as six, are most of it.
const ENTRY_BYTES_MAX: u32 = 512 << 10;
static FORMAT: RollingLogFormat = RollingLogFormat {
    name: "reviews",
    frame: FrameFormat {
        mark: *b"thrv",
        is_plausible: |head| head.length <= ENTRY_BYTES_MAX,
        window: 256 << 10,
    },
};
/// Bytes before the images.
const HEAD_BYTES: usize = 20;

/// Returns the head of so many images, which the log of a number follows.
fn image_head(number: u64, count: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..16].copy_from_slice(&count.to_le_bytes());
    let crc = crc32fast::hash(&head[..16]);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// Returns the number of the log that follows, and the number of images; `None` of a head that is damaged.
fn read_image_head(head: [u8; HEAD_BYTES]) -> Option<(u64, u64)> {
    let (number, rest) = head.split_first_chunk()?;
    let (count, _) = rest.split_first_chunk()?;
    let (number, count) = (u64::from_le_bytes(*number), u64::from_le_bytes(*count));
    (image_head(number, count) == head).then_some((number, count))
}

/// A frame's content.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReviewLogEntry<'a> {
    /// An item as it is now.
    Put(Box<Cow<'a, ReviewItem>>),
    /// An item that is no longer kept.
    Gone(RecordId),
}

/// Returns the content of a frame of an item.
pub(super) fn put_entry(item: &ReviewItem) -> Vec<u8> {
    // No type here refuses to be written.
    serde_json::to_vec(&ReviewLogEntry::Put(Box::new(Cow::Borrowed(item)))).unwrap_or_default()
}

/// Returns the content of a frame of an item that went.
pub(super) fn gone_entry(id: RecordId) -> Vec<u8> {
    serde_json::to_vec(&ReviewLogEntry::Gone(id)).unwrap_or_default()
}

/// The log that is written now.
#[derive(Debug)]
pub(super) struct ReviewLog {
    log: RollingLog,
    /// Bytes of all logs since the images.
    pub(super) bytes: u64,
    /// The bytes of the images.
    pub(super) image_bytes: u64,
}

/// The items of a directory, and what of it could not be read.
#[derive(Debug, Default)]
pub(super) struct StoredReviews {
    pub(super) items: Vec<(RecordId, Option<Arc<ReviewItem>>)>,
    /// Bytes that are damaged.
    pub(super) lost: u64,
    image_bytes: u64,
    log_bytes: u64,
    next: u64,
}

/// Reads what a directory has.
///
/// # Errors
/// The device's. Bytes that are damaged are counted and passed over.
pub(super) fn read(device: &dyn Device) -> io::Result<StoredReviews> {
    let mut stored = StoredReviews::default();
    let mut first = 0;
    match device.open(IMAGES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(blob) => {
            let mut head = [0; HEAD_BYTES];
            disk::read_full(&*blob, 0, &mut head)?;
            let count = match read_image_head(head) {
                Some((number, count)) => {
                    first = number;
                    count
                }
                None => {
                    stored.lost += HEAD_BYTES as u64;
                    0
                }
            };
            stored.image_bytes = blob.size()?;
            stored.take(blob, HEAD_BYTES as u64)?;
            // Images are put in place as a whole: some that are missing were there.
            if (stored.items.len() as u64) < count && stored.lost == 0 {
                stored.lost = count - stored.items.len() as u64;
            }
        }
    }
    stored.next = first;
    for number in FORMAT.numbers(device)? {
        stored.next = stored.next.max(number.saturating_add(1));
        if number < first {
            continue;
        }
        let blob = device.open(&FORMAT.file_name(number))?;
        stored.log_bytes += blob.size()?;
        stored.take(blob, 0)?;
    }
    Ok(stored)
}

impl StoredReviews {
    fn take(&mut self, blob: Box<dyn Blob>, from: u64) -> io::Result<()> {
        self.lost += FORMAT.read(blob, from, |content| {
            let (id, item) = match serde_json::from_slice(content) {
                Ok(ReviewLogEntry::Put(item)) => (item.id, Some(Arc::new(item.into_owned()))),
                Ok(ReviewLogEntry::Gone(id)) => (id, None),
                Err(_) => return false,
            };
            self.items.push((id, item));
            true
        })?;
        Ok(())
    }
}

impl ReviewLog {
    /// The log behind what a directory has.
    pub(super) fn behind(stored: &StoredReviews) -> ReviewLog {
        let StoredReviews { next, log_bytes, image_bytes, lost, .. } = *stored;
        // What is damaged is not kept until it is damaged more.
        ReviewLog { log: RollingLog::new(&FORMAT, next), bytes: log_bytes + lost, image_bytes }
    }

    /// Writes what has changed.
    ///
    /// # Errors
    /// The device's. The log is then behind, until images are written.
    pub(super) fn append(&mut self, device: &dyn Device, contents: &[Vec<u8>]) -> io::Result<()> {
        let mut frames = Vec::new();
        for content in contents {
            FORMAT.frame(self.log.end() + frames.len() as u64, content, &mut frames);
        }
        self.log.append(device, &frames)?;
        self.bytes += frames.len() as u64;
        Ok(())
    }

    /// Returns true if something could not be written: only images of all help.
    pub(super) fn is_behind(&self) -> bool {
        self.log.is_behind()
    }

    /// Notes that something is in no log and in no image.
    pub(super) fn set_behind(&mut self) {
        self.log.set_behind();
    }

    /// Returns true if nothing has changed since the images.
    pub(super) fn is_current(&self) -> bool {
        self.bytes == 0 && !self.is_behind()
    }

    /// Ends the log: what changes from now on is in the next. Answers the number of that.
    pub(super) fn turn(&mut self) -> u64 {
        self.log.turn()
    }

    /// The file, to be synced while nobody waits for the log.
    pub(super) fn blob(&self) -> Option<Arc<dyn Blob>> {
        self.log.blob()
    }
}

/// Writes the images of all items, which the log of this number follows, and removes the logs before it. Answers their length.
pub(super) fn write_images(device: &dyn Device, number: u64, items: &[Arc<ReviewItem>]) -> io::Result<u64> {
    let mut bytes = image_head(number, items.len() as u64).to_vec();
    for item in items {
        FORMAT.frame(bytes.len() as u64, &put_entry(item), &mut bytes);
    }
    device.replace(IMAGES, &bytes)?;
    FORMAT.forget_before(device, number)?;
    Ok(bytes.len() as u64)
}

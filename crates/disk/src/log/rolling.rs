//! A log of changes behind an image of all that changes.
//!
//! ```text
//! image of number N     all there is, as it was when log N began
//! NAME.N.log, …         frames: what has changed since, in order; the log after an image begins a file of its own
//! ```
//!
//! A new log begins before its image is written, so while that happens the old image has both logs behind it, and a crash leaves
//! either image whole. Whoever opens a directory begins a log of his own: nothing is ever written behind a torn end.

use std::io;
use std::sync::Arc;

use super::frame::{FrameDamage, FrameFormat, FrameHead, FramePiece, FrameReader};
use crate::device::{Blob, Device, create_anew, remove_if_there};

/// The names and the frames of the files of a log.
#[derive(Debug)]
pub struct RollingLogFormat {
    /// The beginning of each file's name, before its number.
    pub name: &'static str,
    /// The frames.
    pub frame: FrameFormat<0>,
}

impl RollingLogFormat {
    /// Returns the name of the file of a number.
    pub fn file_name(&self, number: u64) -> String {
        format!("{}.{number}.log", self.name)
    }

    /// Returns the numbers of the files that are there, ascending.
    ///
    /// # Errors
    /// The device's.
    pub fn numbers(&self, device: &dyn Device) -> io::Result<Vec<u64>> {
        let number = |name: &String| {
            name.strip_prefix(self.name)?.strip_prefix('.')?.strip_suffix(".log")?.parse::<u64>().ok()
        };
        let mut numbers: Vec<u64> = device.list()?.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Puts the frame of a content that will lie at a place of its file behind other bytes.
    pub fn frame(&self, at: u64, content: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(&FrameHead::<0>::of(at, [], content).write(self.frame.mark));
        into.extend_from_slice(content);
    }

    /// Reads the frames of a file from a place on, each by `take`, which answers whether it understands the content. Returns the
    /// number of bytes that are damaged; a torn end, as a crash leaves it, is none.
    ///
    /// # Errors
    /// The device's.
    pub fn read(
        &self,
        blob: Box<dyn Blob>,
        from: u64,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<u64> {
        let (length, mut lost) = (blob.size()?, 0);
        let mut frames = FrameReader::new(blob, from, length, &self.frame);
        while let Some(piece) = frames.next_frame()? {
            match piece {
                FramePiece::Sound((_, content)) if take(&content) => {}
                FramePiece::Sound((head, _)) => lost += head.end() - head.at,
                FramePiece::Damaged(damage) if damage.is_torn() => {}
                FramePiece::Damaged(FrameDamage { from, to, .. }) => lost += to - from,
            }
        }
        Ok(lost)
    }

    /// Removes the files before that of a number: the image that this follows has what is in them.
    ///
    /// # Errors
    /// The device's.
    pub fn forget_before(&self, device: &dyn Device, number: u64) -> io::Result<()> {
        for old in self.numbers(device)?.into_iter().filter(|old| *old < number) {
            remove_if_there(device, &self.file_name(old))?;
        }
        Ok(())
    }
}

/// The log that is written now.
#[derive(Debug)]
pub struct RollingLog {
    format: &'static RollingLogFormat,
    number: u64,
    /// Made when the first frame comes.
    blob: Option<Arc<dyn Blob>>,
    end: u64,
    is_behind: bool,
}

impl RollingLog {
    /// Begins the log of a number, which has no file yet.
    pub fn new(format: &'static RollingLogFormat, number: u64) -> RollingLog {
        RollingLog { format, number, blob: None, end: 0, is_behind: false }
    }

    /// Returns the end of its file, where the next frame begins.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns true if something could not be written: only an image of all there is helps.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Notes that something is in no log: nothing more is written until an image is.
    pub fn set_behind(&mut self) {
        self.is_behind = true;
    }

    /// Writes frames that begin at [`RollingLog::end`]. They are not synced: they outlive the process, and the system writes them
    /// within seconds.
    ///
    /// # Errors
    /// The device's. The log is then behind, and writes nothing more.
    pub fn append(&mut self, device: &dyn Device, frames: &[u8]) -> io::Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        if self.is_behind {
            return Err(io::Error::other("an earlier change could not be written, and is tried again"));
        }
        let written = self.append_to_blob(device, frames);
        self.is_behind = written.is_err();
        written
    }

    fn append_to_blob(&mut self, device: &dyn Device, frames: &[u8]) -> io::Result<()> {
        let blob = match &self.blob {
            Some(blob) => Arc::clone(blob),
            None => {
                let blob: Arc<dyn Blob> =
                    Arc::from(create_anew(device, &self.format.file_name(self.number))?);
                self.blob = Some(Arc::clone(&blob));
                blob
            }
        };
        blob.append(frames)?;
        self.end += frames.len() as u64;
        Ok(())
    }

    /// Ends the log: what changes from now on is in the next, whose number it answers and which an image of this moment is to have.
    pub fn turn(&mut self) -> u64 {
        *self = RollingLog::new(self.format, self.number + 1);
        self.number
    }

    /// Returns the file, to be synced while nobody waits for the log.
    pub fn blob(&self) -> Option<Arc<dyn Blob>> {
        self.blob.as_ref().map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    static FORMAT: RollingLogFormat = RollingLogFormat {
        name: "changes",
        frame: FrameFormat { mark: *b"test", is_plausible: |head| head.length <= 64, window: 256 },
    };

    fn append(log: &mut RollingLog, device: &MemoryDevice, content: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        FORMAT.frame(log.end(), content, &mut frame);
        log.append(device, &frame)
    }

    /// The contents behind the image of a number, and how many bytes are lost.
    fn behind(device: &MemoryDevice, number: u64) -> (Vec<Vec<u8>>, u64) {
        let (mut contents, mut lost) = (Vec::new(), 0);
        for number in FORMAT.numbers(device).unwrap().into_iter().filter(|other| *other >= number) {
            let blob = device.open(&FORMAT.file_name(number)).unwrap();
            lost += FORMAT
                .read(blob, 0, |content| {
                    contents.push(content.to_vec());
                    content != b"not understood"
                })
                .unwrap();
        }
        (contents, lost)
    }

    #[test]
    fn an_image_has_all_logs_from_its_own_on_behind_it() {
        let (device, mut log) = (MemoryDevice::new(), RollingLog::new(&FORMAT, 9));
        append(&mut log, &device, b"one").unwrap();
        append(&mut log, &device, b"").unwrap();
        assert_eq!(log.turn(), 10);
        append(&mut log, &device, b"two").unwrap();
        assert_eq!(behind(&device, 9), (vec![b"one".to_vec(), vec![], b"two".to_vec()], 0));
        assert_eq!(behind(&device, 10), (vec![b"two".to_vec()], 0));
        FORMAT.forget_before(&device, 10).unwrap();
        assert_eq!(FORMAT.numbers(&device).unwrap(), [10]);
        append(&mut log, &device, b"not understood").unwrap();
        assert_eq!(behind(&device, 0).1, FrameHead::<0>::BYTES as u64 + 14);
    }

    /// Whichever change of the device fails first, all that was answered before is there, and nothing is written behind a torn end.
    #[test]
    fn a_log_that_could_not_be_written_is_behind_until_the_next() {
        for successes in 0..6 {
            let (device, mut log) = (MemoryDevice::new(), RollingLog::new(&FORMAT, 0));
            device.fail_after(successes);
            let mut answered = Vec::new();
            for content in [&b"first"[..], b"second", b"third", b"fourth", b"fifth"] {
                if append(&mut log, &device, content).is_ok() {
                    answered.push(content.to_vec());
                }
            }
            device.heal();
            assert_eq!(log.is_behind(), answered.len() < 5, "{successes}");
            assert_eq!(behind(&device, 0), (answered.clone(), 0), "{successes}");
            assert_eq!(append(&mut log, &device, b"late").is_ok(), answered.len() == 5, "{successes}");
            log.turn();
            append(&mut log, &device, b"after").unwrap();
            assert_eq!(behind(&device, 1), (vec![b"after".to_vec()], 0), "{successes}");
        }
    }

    #[test]
    fn a_log_whose_power_is_cut_has_what_was_whole() {
        let (device, mut log) = (MemoryDevice::new(), RollingLog::new(&FORMAT, 0));
        append(&mut log, &device, b"first").unwrap();
        append(&mut log, &device, b"second").unwrap();
        let name = FORMAT.file_name(0);
        for length in 0..=log.end() {
            let cut = MemoryDevice::new();
            let mut bytes = vec![0; length as usize];
            device.open(&name).unwrap().read_at(0, &mut bytes).unwrap();
            cut.create(&name).unwrap().append(&bytes).unwrap();
            let (contents, lost) = behind(&cut, 0);
            assert!([b"first".to_vec(), b"second".to_vec()].starts_with(&contents) && lost == 0, "{length}");
            assert_eq!(contents.len() == 2, length == log.end(), "{length}");
        }
    }
}

//! Detection of other writers to a partition since an image was read.
//!
//! ```text
//! read (F) ── batch 5 (after F) ── batch 6 (after this node's 5) ── check (this node's 6)
//!                                      └─ or after G: another node has written, and a new chain begins
//! ```
//!
//! A partition says who wrote to it last, when it is read and when it is written to. As long as that is what this node
//! knew, or its own batch, nobody else was there: an image that was read when the *chain* began still is what the
//! cluster has, but for what this node has added since. So a node that is alone in a partition reads nothing twice, and
//! one look at the partition, or the answer to a write, makes all its images as young as that look.
//!
//! Answers come in any order. What is older than what is known changes nothing; what cannot be told apart begins a new
//! chain, which costs reads and is never wrong.

use std::collections::VecDeque;
use std::time::Duration;

use crate::remote::LastWriter;

/// The chain of an image; none at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainId(u32);

/// Ended chains that are remembered, so that images are not older than they are when others write often.
const FORMER_MAX: usize = 16;

/// The writers of a partition, as far as one followed the other.
#[derive(Debug, Default)]
pub(crate) struct WriterChain {
    link: ChainId,
    /// The one that had written last when the chain began.
    base: LastWriter,
    /// The first of this node's batches that belong to it.
    from: u64,
    /// The last writer. While that is not known there is no chain.
    last: LastWriter,
    /// The time of the question whose answer told so.
    checked: Duration,
    /// Chains that have ended, and when each was last known to go on.
    former: VecDeque<(ChainId, Duration)>,
}

impl ChainId {
    /// The chain of an image that is to be read anew when it is due.
    pub(crate) const NONE: ChainId = ChainId(0);
}

impl WriterChain {
    /// Returns the chain that images belong to that are read now.
    pub(crate) fn link(&self) -> ChainId {
        if self.last == LastWriter::Unknown { ChainId::NONE } else { self.link }
    }

    /// Takes in what was told at a reading that was asked for at a time: who wrote last, and this node's last batch.
    /// Answers what the images belong to that came with it.
    pub(crate) fn saw(
        &mut self,
        writer: LastWriter,
        number: u64,
        acknowledged: u64,
        asked: Duration,
    ) -> ChainId {
        if writer == LastWriter::Unknown {
            return ChainId::NONE;
        }
        if writer == self.last {
            self.checked = self.checked.max(asked);
            return self.link;
        }
        let belongs = match writer {
            // Before what is known, or a batch whose answer is still to come, and may end the chain.
            LastWriter::This(number) => number >= self.from,
            other => other == self.base,
        };
        if belongs && self.last != LastWriter::Unknown {
            return self.link;
        }
        if number < acknowledged {
            return ChainId::NONE;
        }
        self.begin(writer, number + 1, writer, asked);
        self.link
    }

    /// Takes in that a batch, which was sent at a time, was made after what `before` wrote.
    pub(crate) fn wrote(&mut self, number: u64, before: LastWriter, sent: Duration) {
        match self.last {
            // A reading has told more.
            LastWriter::This(later) if later >= number => {}
            last if last == before && last != LastWriter::Unknown => {
                self.last = LastWriter::This(number);
                self.checked = self.checked.max(sent);
            }
            _ => self.begin(before, number, LastWriter::This(number), sent),
        }
    }

    /// Takes in that nothing is known any more.
    pub(crate) fn end(&mut self) {
        self.remember();
        (self.base, self.last) = (LastWriter::Unknown, LastWriter::Unknown);
        self.link = ChainId(self.link.0.wrapping_add(1).max(1));
    }

    /// The time as of which an image is what the cluster has.
    pub(crate) fn as_of(&self, link: ChainId, read_at: Duration) -> Duration {
        if link == ChainId::NONE {
            return read_at;
        }
        if link == self.link() {
            return read_at.max(self.checked);
        }
        let former = self.former.iter().rev().find(|(former, _)| *former == link);
        former.map_or(read_at, |(_, checked)| read_at.max(*checked))
    }

    fn begin(&mut self, base: LastWriter, from: u64, last: LastWriter, checked: Duration) {
        self.end();
        (self.base, self.from, self.last, self.checked) = (base, from, last, checked);
    }

    fn remember(&mut self) {
        if self.last != LastWriter::Unknown {
            if self.former.len() == FORMER_MAX {
                self.former.pop_front();
            }
            self.former.push_back((self.link, self.checked));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stats::random::Random;

    use super::*;

    /// The request that was made to the partition, and is answered later.
    enum Answer {
        Read {
            asked: u64,
            made: u64,
            writer: LastWriter,
            number: u64,
        },
        Write {
            sent: u64,
            number: u64,
            before: LastWriter,
        },
        /// The batch was made, but only that is answered.
        Repeated,
    }

    /// Readings and writes of one node, answered in any order, while others write: no image counts as younger than
    /// what another has written after it was read.
    #[test]
    fn no_image_is_taken_for_one_that_others_have_not_changed() {
        let mut alone = 0;
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let mut chain = WriterChain::default();
            let (mut now, mut writer, mut number) = (0, LastWriter::Unknown, 0);
            let (mut acknowledged, mut is_writing, mut theirs) = (0, false, 0);
            let mut strangers = BTreeSet::new();
            let mut waiting: Vec<Answer> = Vec::new();
            let mut images: Vec<(ChainId, u64, u64)> = Vec::new();
            let others = *random.pick(&[3, 10, 100]);
            for _ in 0..80 {
                now += 1;
                if random.one_in(others) {
                    theirs += 1;
                    writer = LastWriter::Other([random.below(2) as u8; 16], theirs);
                    strangers.insert(now);
                    continue;
                }
                let asked = now - random.below(3).min(now);
                match random.below(4) {
                    0 => waiting.push(Answer::Read { asked, made: now, writer, number }),
                    1 if !is_writing => {
                        is_writing = true;
                        number += 1;
                        waiting.push(Answer::Write { sent: asked, number, before: writer });
                        if random.one_in(10) {
                            waiting.pop();
                            waiting.push(Answer::Repeated);
                        }
                        writer = LastWriter::This(number);
                    }
                    _ if waiting.is_empty() => {}
                    _ => match waiting.swap_remove(random.below(waiting.len() as u64) as usize) {
                        Answer::Read { asked, made, writer, number } => {
                            let asked_at = Duration::from_secs(asked);
                            images.push((chain.saw(writer, number, acknowledged, asked_at), asked, made));
                        }
                        Answer::Write { sent, number, before } => {
                            chain.wrote(number, before, Duration::from_secs(sent));
                            (acknowledged, is_writing) = (number, false);
                        }
                        Answer::Repeated => {
                            chain.end();
                            (acknowledged, is_writing) = (number, false);
                        }
                    },
                }
                for (link, asked, made) in &images {
                    let as_of = chain.as_of(*link, Duration::from_secs(*asked)).as_secs();
                    if as_of > *made {
                        assert_eq!(strangers.range(made..=&as_of).next(), None, "seed {seed} at {now}");
                        alone += 1;
                    }
                }
            }
        }
        assert!(alone > 1000, "{alone}: most images are as young as the last look");
    }
}

//! A topic of Kafka, all its partitions or a share of them, read without a group: how far it was taken is kept here.
//!
//! ```text
//! kept offsets ─► seek ─► poll ─► handed over, answered ─► offsets kept
//! ```
//!
//! A group would keep the offsets where nobody can tell whether a server has answered. A record is named after the topic's
//! id, its partition and its offset, so it counts once however often it is read: the id and not the name, since a topic
//! that was deleted and made anew has the same offsets again.
//!
//! What Kafka does not have any more, and what cannot be read, is said and passed over. A broker that does not answer is
//! asked again, at growing intervals; what is read ahead meanwhile is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use krafka::admin::{AdminClient, DescribeTopicsOptions};
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::{Kafka, KrafkaError};
use plan::{BrokerSecurity, is_kafka_topic, kafka_brokers};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use super::backoff::Backoff;
use super::partition_share::PartitionShare;
use super::window::LineBatch;
use super::{Follower, KAFKA_SCHEME, LINES_MAX, LOOK, NamedLine, read_position, write_position};
use crate::brokers::kafka::{self, WITHIN};
use crate::console::{printable, say};
use crate::exit::{CommandError, Exit};

/// The interval at which it is looked whether the topic is there, is the same, and has more partitions.
const LOOK_AT_TOPIC: Duration = Duration::from_secs(10);
/// Largest answer that is taken. Kafka sends a batch of records whole, however large.
const ANSWER_MAX: usize = 64 << 20;
/// Bytes that are asked for at once, of all partitions and of one.
const FETCH_MAX: i32 = 1 << 20;
const FETCH_PARTITION_MAX: i32 = 256 << 10;
/// Largest batch of records, unpacked. Of those at most [`LINES_MAX`] and one are held.
const UNPACKED_MAX: usize = 8 << 20;
/// The number of times that a batch is asked for that does not come whole: on its way it may have been damaged by chance.
const TRIES: u32 = 3;
/// The names of the first and the last offset in Kafka's protocol.
const FIRST: i64 = -2;
const END: i64 = -1;
/// The id that brokers without ids of topics give: all topics would be one.
const NO_ID: [u8; 16] = [0; 16];

/// Brokers and a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KafkaAddress {
    brokers: String,
    topic: String,
}

impl KafkaAddress {
    /// Reads `kafka://HOST[:PORT][,HOST...]/TOPIC`.
    fn parse(text: &str) -> Result<KafkaAddress, String> {
        let wrong = |why: &str| Err(format!("{why}: expected kafka://HOST[:PORT][,HOST...]/TOPIC"));
        let Some((hosts, topic)) = text.strip_prefix(KAFKA_SCHEME).and_then(|rest| rest.split_once('/'))
        else {
            return wrong("no topic is named");
        };
        if hosts.contains('@') {
            return wrong("the user stands in --user and --password");
        }
        if !is_kafka_topic(topic) {
            return wrong("names of topics have letters, digits, `.`, `_` and `-`");
        }
        let brokers = match kafka_brokers(hosts.split(',')) {
            Ok(brokers) => brokers,
            Err(why) => return wrong(&why),
        };
        Ok(KafkaAddress { brokers, topic: topic.to_owned() })
    }
}

/// The offsets up to which a topic was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TopicOffsets {
    topic: String,
    /// The topic's id, as 32 hexadecimal digits.
    id: String,
    /// The share of its partitions that is read; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<PartitionShare>,
    /// The offset of each partition's next record.
    next: BTreeMap<i32, i64>,
}

/// The start of partitions whose offset was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartOffset {
    AtFirst,
    AtEnd,
}

/// The records that came of a look.
#[derive(Debug, Default)]
struct PolledRecords {
    lines: Vec<NamedLine>,
    /// The errors of records that are no lines.
    bad: Vec<String>,
    /// The notes that are to be given beside the lines.
    notes: Vec<String>,
}

/// A topic that is read.
struct KafkaTopic {
    reading: TopicReader,
    /// The runtime that connections run on, while there is something to wait for.
    runtime: Runtime,
}

struct TopicReader {
    kafka: Kafka,
    admin: AdminClient,
    consumer: Consumer,
    offsets: TopicOffsets,
    /// The ends of partitions when reading began.
    ends: BTreeMap<i32, i64>,
    looked: Instant,
    backoff: Backoff,
    /// The partition and offset that could not be decoded last, and how often.
    damaged: (i32, i64, u32),
}

impl Follower<'_> {
    /// Offsets are kept once what is before them is on the server's disk. What is wrong with the address is told at once; later brokers
    /// may be away for a while.
    pub(super) fn kafka(&mut self, url: &str) -> Result<Exit, CommandError> {
        let failed = |why: String| CommandError::new(format_args!("Kafka: {why}"));
        let address = KafkaAddress::parse(url).map_err(failed)?;
        let mut kept = self.args.position.as_deref().map(read_position).transpose()?.flatten();
        let from_end = self.args.position.is_none() && !self.args.once;
        let begin = if from_end { StartOffset::AtEnd } else { StartOffset::AtFirst };
        let security = self.args.broker.read(None, "KAFKA").map_err(failed)?;
        if let Some(fault) = security.kafka_fault() {
            return Err(failed(fault.to_owned()));
        }
        let (mut topic, notes) =
            KafkaTopic::open(&address, self.args.share, kept.clone(), begin, &security).map_err(failed)?;
        notes.iter().for_each(|note| say(printable(note)));
        let origin = Arc::from(url);
        let (mut window, mut batch) = (self.window()?, LineBatch::default());
        loop {
            let taken = topic.take();
            taken.notes.iter().for_each(|note| say(printable(note)));
            taken.bad.iter().for_each(|why| self.bad(why));
            let is_stopped = self.interrupt.raised();
            let is_caught_up = is_stopped || self.is_caught_up(taken.lines.len());
            self.read_lines(&origin, taken.lines, &mut batch)?;
            let mut confirmed = Vec::new();
            if is_caught_up || batch.is_full(self.args.batch_lines) || self.args.in_flight > 1 {
                confirmed = self.submit(&mut window, &mut batch, topic.offsets().clone())?;
            }
            if is_caught_up {
                confirmed.extend(self.settle(&mut window)?);
            }
            let last = confirmed.pop().filter(|last| kept.as_ref() != Some(last));
            if let (Some(file), Some(last)) = (&self.args.position, last) {
                write_position(file, &last)?;
                kept = Some(last);
            }
            if self.args.once && is_caught_up && topic.is_at_end() {
                return Ok(Exit::Fine);
            }
            if is_stopped {
                return Ok(Exit::Interrupted);
            }
        }
    }
}

impl KafkaTopic {
    /// Connects, and goes on where it was; what there is to be said of that.
    fn open(
        address: &KafkaAddress,
        share: Option<PartitionShare>,
        mut kept: Option<TopicOffsets>,
        begin: StartOffset,
        security: &BrokerSecurity,
    ) -> Result<(KafkaTopic, Vec<String>), String> {
        if let Some(kept) = kept.as_ref().filter(|kept| kept.topic != address.topic) {
            return Err(format!("the position is kept of the topic `{}`: name another file", kept.topic));
        }
        if let Some(kept) = &mut kept {
            // What was kept of all partitions is where each share begins.
            if let Some(other) = kept.share.filter(|other| Some(*other) != share) {
                return Err(format!(
                    "the position is kept of the share {other}: each share needs a file of its own"
                ));
            }
            kept.share = share;
            kept.next.retain(|partition, _| share.is_none_or(|share| share.contains(*partition)));
        }
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let open = async {
            let kafka = kafka::builder(&address.brokers, security)
                .metadata_max_age(LOOK_AT_TOPIC)
                .max_response_size(ANSWER_MAX)
                .connect()
                .await?;
            let admin = kafka.admin().default_api_timeout(WITHIN);
            let consumer = subscribe(&kafka, &address.topic).await?;
            Ok((kafka, admin, consumer))
        };
        let (kafka, admin, consumer) =
            runtime.block_on(open).map_err(|error: KrafkaError| error.to_string())?;
        let is_new = kept.is_none();
        let offsets = kept.unwrap_or_else(|| TopicOffsets {
            topic: address.topic.clone(),
            share,
            ..TopicOffsets::default()
        });
        let (ends, looked, damaged) = (BTreeMap::new(), Instant::now(), (0, 0, 0));
        let backoff = Backoff::new("Kafka");
        let reading = TopicReader { kafka, admin, consumer, offsets, ends, looked, backoff, damaged };
        let mut topic = KafkaTopic { reading, runtime };
        let KafkaTopic { reading, runtime } = &mut topic;
        let notes = runtime.block_on(reading.begin(is_new, begin)).map_err(|error| error.to_string())?;
        Ok((topic, notes))
    }

    /// The next records, or none if none came for a while.
    fn take(&mut self) -> PolledRecords {
        let mut taken = PolledRecords::default();
        let KafkaTopic { reading, runtime } = self;
        if !reading.backoff.is_due() {
            thread::sleep(LOOK);
        } else if let Err(error) = runtime.block_on(reading.next(&mut taken)) {
            taken.notes.extend(reading.backoff.failed(&error));
        }
        taken
    }

    /// Returns the offsets up to which the topic is taken with what [`KafkaTopic::take`] has returned.
    fn offsets(&self) -> &TopicOffsets {
        &self.reading.offsets
    }

    /// Returns true if everything was taken that was there when reading began.
    fn is_at_end(&self) -> bool {
        let TopicReader { offsets, ends, .. } = &self.reading;
        ends.iter().all(|(partition, end)| offsets.next.get(partition).is_some_and(|next| next >= end))
    }
}

impl TopicReader {
    /// Goes to where every partition was, or is to be begun; what there is to be said of it.
    async fn begin(&mut self, is_new: bool, begin: StartOffset) -> krafka::Result<Vec<String>> {
        let mut notes = Vec::new();
        let (id, partitions) = self.described().await?;
        self.assign(&partitions).await?;
        if let Some(share) = self.offsets.share.filter(|_| partitions.is_empty()) {
            notes.push(format!(
                "the share {share} has no partition of the topic `{}` yet",
                self.offsets.topic
            ));
        }
        if is_new {
            self.offsets.id = id;
            self.place(&partitions, begin, &mut notes).await?;
        } else if id == self.offsets.id {
            self.place(&partitions, StartOffset::AtFirst, &mut notes).await?;
        } else {
            self.renew(id, &partitions, &mut notes).await?;
        }
        Ok(notes)
    }

    async fn next(&mut self, taken: &mut PolledRecords) -> krafka::Result<()> {
        let topic = self.offsets.topic.clone();
        // Of new partitions a share has to learn by itself.
        if self.offsets.share.is_some() && self.looked.elapsed() >= LOOK_AT_TOPIC {
            self.look(&mut taken.notes).await?;
        }
        match self.consumer.poll(LOOK).await {
            Ok(_) if self.is_another().await? => {
                // What came is of a topic made anew, at offsets of the old one: none of it was taken.
                for (partition, next) in self.assigned().await {
                    let kept = self.offsets.next.get(&partition).copied();
                    self.consumer.seek(&topic, partition, kept.unwrap_or(next)).await?;
                }
                self.look(&mut taken.notes).await?;
            }
            Ok(records) if records.is_empty() => {
                if self.looked.elapsed() >= LOOK_AT_TOPIC {
                    self.look(&mut taken.notes).await?;
                    taken.notes.extend(self.backoff.answered());
                }
            }
            Ok(records) => {
                taken.notes.extend(self.backoff.answered());
                for record in records {
                    let place = format!("{}:{}", record.partition, record.offset);
                    match record.value {
                        Some(value) => {
                            taken.lines.push((Some(format!("{}:{place}", self.offsets.id)), value.to_vec()));
                        }
                        None => taken.bad.push(format!("{topic}:{place}: the record has no value")),
                    }
                }
            }
            Err(KrafkaError::NoOffset { partitions }) => {
                let before = self.offsets.next.clone();
                let places: Vec<i32> = partitions.iter().map(|(_, partition)| *partition).collect();
                if !self.look(&mut taken.notes).await? {
                    self.place(&places, StartOffset::AtFirst, &mut taken.notes).await?;
                    if self.offsets.next == before {
                        return Err(KrafkaError::NoOffset { partitions });
                    }
                }
            }
            Err(error) => {
                let Some((partition, offset)) = undecodable(&topic, &error.to_string()) else {
                    return Err(error);
                };
                let (last, at, tries) = self.damaged;
                let tries = if (last, at) == (partition, offset) { tries + 1 } else { 1 };
                self.damaged = (partition, offset, tries);
                if tries == TRIES {
                    // Of a batch that cannot be decoded nobody knows where it ends: it is passed over offset by offset.
                    self.consumer.seek(&topic, partition, offset.saturating_add(1)).await?;
                    taken.bad.push(format!("{topic}:{partition}:{offset}: the record is damaged"));
                }
            }
        }
        for (partition, next) in self.assigned().await {
            self.offsets.next.insert(partition, next);
        }
        Ok(())
    }

    /// Has the share's partitions read, and no others, where there is a share.
    async fn assign(&self, partitions: &[i32]) -> krafka::Result<()> {
        let topic = &self.offsets.topic;
        if self.offsets.share.is_none() {
            return Ok(());
        }
        let mut assigned = self.consumer.assignment().await.remove(topic).unwrap_or_default();
        let mut wanted = partitions.to_vec();
        assigned.sort_unstable();
        wanted.sort_unstable();
        match assigned == wanted {
            true => Ok(()),
            false => self.consumer.assign(topic, wanted).await,
        }
    }

    /// The partitions that are read, and the offset of the next record of each.
    async fn assigned(&self) -> Vec<(i32, i64)> {
        let topic = &self.offsets.topic;
        let mut assigned = Vec::new();
        for partition in self.consumer.assignment().await.remove(topic).unwrap_or_default() {
            if let Some(next) = self.consumer.position(topic, partition).await {
                assigned.push((partition, next));
            }
        }
        assigned
    }

    /// Returns true if records are by now of another topic of this name, as the client has learned from the broker.
    async fn is_another(&self) -> krafka::Result<bool> {
        let known = self.consumer.fetch_metadata(None).await?;
        let topic = known.topics.iter().find(|topic| topic.name == self.offsets.topic);
        Ok(topic.is_some_and(|topic| hex(topic.topic_id) != self.offsets.id))
    }

    /// The topic's id and its partitions, as a broker has them now: those of the share, if there is one.
    async fn described(&self) -> krafka::Result<(String, Vec<i32>)> {
        let topic = self.offsets.topic.as_str();
        let mut described = self.admin.describe_topics([topic], DescribeTopicsOptions::default()).await?;
        let unknown = || Err(KrafkaError::unknown_topic(topic));
        let described = described.remove(topic).unwrap_or_else(unknown)?;
        let share = self.offsets.share;
        let partitions = described.partitions.iter().map(|partition| partition.partition);
        let partitions =
            partitions.filter(|partition| share.is_none_or(|share| share.contains(*partition))).collect();
        if described.topic_id == NO_ID {
            return Err(KrafkaError::illegal_state(format!(
                "the broker gives the topic `{topic}` no id, by which its records are told from those of others: \
                 Kafka has ids of topics since 2.8"
            )));
        }
        Ok((hex(described.topic_id), partitions))
    }

    /// Looks whether the topic is there; true if it was made anew, and is now read from its beginning.
    async fn look(&mut self, notes: &mut Vec<String>) -> krafka::Result<bool> {
        let (id, partitions) = self.described().await?;
        self.looked = Instant::now();
        let is_anew = id != self.offsets.id;
        match is_anew {
            true => self.renew(id, &partitions, notes).await?,
            false => self.assign(&partitions).await?,
        }
        Ok(is_anew)
    }

    async fn renew(&mut self, id: String, partitions: &[i32], notes: &mut Vec<String>) -> krafka::Result<()> {
        self.consumer = subscribe(&self.kafka, &self.offsets.topic).await?;
        notes
            .push(format!("the topic `{}` was recreated: it is read from its beginning", self.offsets.topic));
        (self.offsets.id, self.offsets.next) = (id, BTreeMap::new());
        self.ends.clear();
        self.assign(partitions).await?;
        self.place(partitions, StartOffset::AtFirst, notes).await
    }

    /// Goes to where partitions were, or to the nearest place that they still have.
    async fn place(
        &mut self,
        partitions: &[i32],
        begin: StartOffset,
        notes: &mut Vec<String>,
    ) -> krafka::Result<()> {
        let topic = self.offsets.topic.clone();
        let assigned = self.consumer.assignment().await.remove(&topic).unwrap_or_default();
        // Those that the client has not heard of yet come when it has.
        let partitions: Vec<(&str, i32)> = partitions
            .iter()
            .filter(|partition| assigned.contains(partition))
            .map(|partition| (topic.as_str(), *partition))
            .collect();
        let mut firsts = self.consumer.offsets_for_times(&partitions, FIRST).await;
        let mut ends = self.consumer.offsets_for_times(&partitions, END).await;
        for (_, partition) in partitions {
            let key = (topic.clone(), partition);
            let (Some(first), Some(end)) = (firsts.remove(&key), ends.remove(&key)) else { continue };
            let (first, end) = (first?, end?);
            let kept = self.offsets.next.get(&partition).copied();
            let (next, gap) = match kept {
                Some(kept) => resume(kept, first, end),
                None if begin == StartOffset::AtEnd => (end, None),
                None => (first, None),
            };
            self.consumer.seek(&topic, partition, next).await?;
            self.offsets.next.insert(partition, next);
            self.ends.entry(partition).or_insert(end);
            notes.extend(gap.map(|gap| format!("{topic}:{partition}: {gap}")));
        }
        Ok(())
    }
}

/// A consumer of all partitions of a topic, none of which has a place yet.
async fn subscribe(kafka: &Kafka, topic: &str) -> krafka::Result<Consumer> {
    let consumer = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::None)
        .isolation_level(IsolationLevel::ReadCommitted)
        .max_poll_records(i32::try_from(LINES_MAX).unwrap_or(i32::MAX))
        .max_buffered_records(1)
        .fetch_max_bytes(FETCH_MAX)
        .max_partition_fetch_bytes(FETCH_PARTITION_MAX)
        .max_decompressed_size(UNPACKED_MAX)
        .metrics_push(false)
        .build()
        .await?;
    consumer.subscribe([topic]).await?;
    Ok(consumer)
}

/// The offset at which a partition is gone on with that has offsets from `first` to before `end`, and what is missing.
fn resume(kept: i64, first: i64, end: i64) -> (i64, Option<String>) {
    if kept < first {
        let gap = format!("offsets {kept} to {} are gone, before they were read", first.saturating_sub(1));
        (first, Some(gap))
    } else if kept > end {
        let gap = format!("it was cut to offset {end}, and offset {kept} was next: it goes on at its end");
        (end, Some(gap))
    } else {
        (kept, None)
    }
}

/// Partition and offset of a batch that cannot be decoded: the client's error has them in its text only.
fn undecodable(topic: &str, error: &str) -> Option<(i32, i64)> {
    let (_, place) = error.split_once(&format!("undecodable record batch at {topic}-"))?;
    let (partition, rest) = place.split_once(" offset ")?;
    let digits = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
    Some((partition.parse().ok()?, rest[..digits].parse().ok()?))
}

fn hex(id: [u8; 16]) -> String {
    HEXLOWER.encode(&id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_brokers_and_a_topic() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = KafkaAddress::parse(text).ok();
            let found = found.as_ref().map(|found| (found.brokers.as_str(), found.topic.as_str()));
            assert_eq!(found, expected, "{text}");
        };
        check("kafka://a.example/logs", Some(("a.example:9092", "logs")));
        check("kafka://a:1,b,[::1],[::1]:2/x_y.z-0", Some(("a:1,b:9092,[::1]:9092,[::1]:2", "x_y.z-0")));
        let longest = "t".repeat(249);
        check(&format!("kafka://a/{longest}"), Some(("a:9092", &longest)));
        for wrong in ["kafka://", "kafka://a", "kafka://a/", "kafka:///t", "kafka://a,/t", "kafka://a:x/t"] {
            check(wrong, None);
        }
        for wrong in ["kafka://me:secret@a/t", "kafka://a:70000/t", "kafka://a/t/u", "kafka://a/t?u", "a/t"] {
            check(wrong, None);
        }
        check(&format!("kafka://a/{longest}t"), None);
    }

    #[test]
    fn what_is_missing_is_said() {
        let check = |kept, range: std::ops::Range<i64>, expected, says: &str| {
            let (next, gap) = resume(kept, range.start, range.end);
            assert_eq!(next, expected);
            assert_eq!(gap.is_some(), !says.is_empty());
            assert!(gap.unwrap_or_default().contains(says));
        };
        check(0, 0..0, 0, "");
        check(5, 0..9, 5, "");
        check(9, 9..9, 9, "");
        check(5, 7..9, 7, "offsets 5 to 6 are gone");
        check(i64::MIN, 0..0, 0, "are gone");
        check(i64::MAX, 0..9, 9, "cut to offset 9");
    }

    #[test]
    fn the_place_of_what_cannot_be_decoded_is_read() {
        let text = "protocol error (CrcMismatch): undecodable record batch at a-b-3 offset 17 (2 partitions)";
        assert_eq!(undecodable("a-b", text), Some((3, 17)));
        assert_eq!(undecodable("a-b", "undecodable record batch at a-b-3 offset 17; x"), Some((3, 17)));
        assert_eq!(undecodable("a-b", "undecodable record batch at a-b-3 offset 17"), Some((3, 17)));
        assert_eq!(undecodable("a", "undecodable record batch at a-x offset 17"), None);
        assert_eq!(undecodable("a", "network error: undecodable"), None);
    }
}

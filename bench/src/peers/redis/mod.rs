//! Redis over loopback TCP: plain commands in one pipeline a batch, or one script a message, likewise in a pipeline.

mod wire;

use super::group::key_bytes;
use super::message_pack::Reader;
use crate::cell::{Reading, fine_slot};
use crate::engine::{Engine, EngineOptions, Error};
use crate::process::{Server, version_of};
use crate::workload::{Batch, COUNTERS, Micros, Statistic};
use wire::{Connection, Value};

const FIXED: &str = include_str!("fixed.lua");
const WINDOWED: &str = include_str!("windowed.lua");

/// Ways to use Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedisMethod {
    /// Commands that anybody would send; nothing is folded, and a key's times are taken as coming in order.
    Commands,
    /// One script for each message.
    Script,
}

pub(crate) fn version() -> Result<String, String> {
    let line = version_of("redis-server", "redis-server")?;
    // Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=…
    Ok(line.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or(&line).to_owned())
}

pub(crate) fn open(opening: EngineOptions<'_>, method: RedisMethod) -> Result<Box<dyn Engine>, Error> {
    let mut server = Server::start("redis-server", opening.directory, |port| {
        let port = port.to_string();
        // Snapshots off, as the append-only file is the durability; it is rewritten when it has doubled, as always.
        let options = [
            ["--port", &port],
            ["--bind", "127.0.0.1"],
            ["--save", ""],
            ["--appendonly", "yes"],
            ["--appendfsync", "everysec"],
        ];
        options.concat().into_iter().map(str::to_owned).collect()
    })?;
    let mut connection = server.connect(|stream| {
        let mut connection = Connection::new(stream)?;
        connection.command(&[b"PING"]);
        // It answers with an error as long as it loads.
        Ok(matches!(connection.answer()?, Value::Text).then_some(connection))
    })?;
    let script = match opening.statistic {
        Statistic::Fixed => FIXED,
        Statistic::Windowed => WINDOWED,
    };
    connection.command(&[b"SCRIPT", b"LOAD", script.as_bytes()]);
    let Value::Bytes(digest) = connection.answer()? else {
        return Err("SCRIPT LOAD answers no digest".into());
    };
    let digest = digest.to_vec();
    Ok(Box::new(Redis { server, connection, statistic: opening.statistic, method, digest }))
}

struct Redis {
    server: Server,
    connection: Connection,
    statistic: Statistic,
    method: RedisMethod,
    digest: Vec<u8>,
}

/// Starts of the windows' slots, as of a time.
struct Slots {
    bucket: u64,
    day: u64,
}

impl Slots {
    fn at(time: Micros) -> Slots {
        let bucket = u64::from(fine_slot(time, 0)) / COUNTERS;
        Slots { bucket, day: bucket / 144 }
    }
}

impl Redis {
    fn send_commands(&mut self, batch: &Batch) -> Result<(), Error> {
        for (time, keys, counters) in batch.events() {
            let slots = Slots::at(time);
            let time = Decimal::new(time.cast_unsigned());
            for (key, counter) in keys.iter().zip(counters) {
                let key = key_bytes(*key);
                match self.statistic {
                    Statistic::Fixed => {
                        self.connection.command(&[b"HMGET", &key, b"f", b"l", b"c"]);
                        self.connection.command(&[b"HSETNX", &key, b"f", time.text()]);
                        self.connection.command(&[b"HSET", &key, b"l", time.text()]);
                        self.connection.command(&[b"HINCRBY", &key, b"c", b"1"]);
                    }
                    Statistic::Windowed => {
                        let fine = Decimal::new(slots.bucket * COUNTERS + u64::from(*counter));
                        let day = Decimal::new(slots.day * COUNTERS + u64::from(*counter));
                        self.connection.command(&[b"HGETALL", &key]);
                        self.connection.command(&[b"HINCRBY", &key, fine.text(), b"1"]);
                        self.connection.command(&[b"HINCRBY", &key, day.text(), b"1"]);
                    }
                }
            }
            self.connection.send_if_full()?;
        }
        self.connection.send()
    }

    fn send_scripts(&mut self, batch: &Batch) -> Result<(), Error> {
        let count = Decimal::new(batch.event_keys() as u64);
        for (time, keys, counters) in batch.events() {
            let fixed = self.statistic == Statistic::Fixed;
            self.connection.array(4 + keys.len() + if fixed { 0 } else { counters.len() });
            self.connection.bytes(b"EVALSHA");
            self.connection.bytes(&self.digest);
            self.connection.bytes(count.text());
            keys.iter().for_each(|key| self.connection.bytes(&key_bytes(*key)));
            if fixed {
                self.connection.bytes(&time.to_be_bytes());
            } else {
                self.connection.bytes(Decimal::new(Slots::at(time).bucket).text());
                for counter in counters {
                    self.connection.bytes(Decimal::new(u64::from(fine_slot(time, *counter))).text());
                }
            }
            self.connection.send_if_full()?;
        }
        self.connection.send()
    }

    /// Sums of the fields of a hash, as [`RedisMethod::Commands`] fills it: each event is in its fine bucket and in its day.
    fn sums(&mut self, slots: &Slots) -> Result<Reading, Error> {
        let fields = self.connection.array_answer()?;
        let mut sums = [0; 18];
        for _ in 0..fields / 2 {
            let (slot, amount) = (self.connection.number_answer()?, self.connection.number_answer()?);
            let (own, counter) = (slot / COUNTERS, (slot % COUNTERS) as usize);
            if slot < 1 << 22 {
                if own >= slots.day - 14 {
                    sums[12 + counter] += amount;
                }
                continue;
            }
            if own >= slots.bucket - 6 {
                sums[counter] += amount;
            }
            if own >= slots.bucket - 144 {
                sums[6 + counter] += amount;
            }
        }
        Ok(Reading::windowed(sums))
    }

    fn receive_commands(&mut self, batch: &Batch) -> Result<u64, Error> {
        let mut counted = 0;
        for (time, keys, _) in batch.events() {
            let slots = Slots::at(time);
            for _ in keys {
                let (reading, writes) = match self.statistic {
                    Statistic::Fixed => (self.fields()?, 3),
                    Statistic::Windowed => (self.sums(&slots)?, 2),
                };
                counted += std::hint::black_box(reading).counted();
                for _ in 0..writes {
                    self.connection.answer()?;
                }
            }
        }
        Ok(counted)
    }

    fn receive_scripts(&mut self, batch: &Batch) -> Result<u64, Error> {
        let mut counted = 0;
        for _ in 0..batch.times.len() {
            match self.statistic {
                Statistic::Fixed => {
                    for _ in 0..self.connection.array_answer()? {
                        counted += std::hint::black_box(value(self.connection.answer()?)?).counted();
                    }
                }
                Statistic::Windowed => each_sums(self.connection.answer()?, |reading| {
                    counted += std::hint::black_box(reading).counted();
                })?,
            }
        }
        Ok(counted)
    }

    /// The answer of the HMGET of [`RedisMethod::Commands`].
    fn fields(&mut self) -> Result<Reading, Error> {
        self.connection.array_answer()?;
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = self.connection.number_answer()?;
        }
        Ok(Reading::fixed(numbers))
    }
}

/// A value of `fixed.lua`.
fn value(value: Value<'_>) -> Result<Reading, Error> {
    match value {
        Value::Bytes(bytes) => match bytes.as_chunks::<8>().0 {
            [first, last, count] => Ok(Reading::fixed([
                u64::from_be_bytes(*first),
                u64::from_be_bytes(*last),
                u64::from_le_bytes(*count),
            ])),
            _ => Err("a value has another length than it was given".into()),
        },
        Value::Nothing => Ok(Reading::fixed([0; 3])),
        _ => Err("a value was expected".into()),
    }
}

/// The answer of `windowed.lua`.
fn each_sums(answer: Value<'_>, mut each: impl FnMut(Reading)) -> Result<(), Error> {
    let Value::Bytes(bytes) = answer else { return Err("sums were expected".into()) };
    let mut reader = Reader::new(bytes);
    for _ in 0..reader.array()?.unwrap_or(0) / 18 {
        let mut sums = [0; 18];
        for sum in &mut sums {
            *sum = reader.number()?;
        }
        each(Reading::windowed(sums));
    }
    Ok(())
}

impl Engine for Redis {
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error> {
        match self.method {
            RedisMethod::Commands => {
                self.send_commands(batch)?;
                self.receive_commands(batch)
            }
            RedisMethod::Script => {
                self.send_scripts(batch)?;
                self.receive_scripts(batch)
            }
        }
    }

    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error> {
        let slots = Slots::at(time);
        let mut readings = Vec::new();
        for key in keys {
            let key = key_bytes(*key);
            let reading = match (self.method, self.statistic) {
                (RedisMethod::Commands, Statistic::Fixed) => {
                    self.connection.command(&[b"HMGET", &key, b"f", b"l", b"c"]);
                    self.fields()?
                }
                (RedisMethod::Script, Statistic::Fixed) => {
                    self.connection.command(&[b"GET", &key]);
                    value(self.connection.answer()?)?
                }
                (RedisMethod::Commands, Statistic::Windowed) => {
                    self.connection.command(&[b"HGETALL", &key]);
                    self.sums(&slots)?
                }
                (RedisMethod::Script, Statistic::Windowed) => {
                    // The script, without what it writes.
                    let body = WINDOWED
                        .lines()
                        .filter(|line| !line.contains("'HINCRBY'") && !line.contains("'HDEL'"));
                    let body = body.collect::<Vec<_>>().join("\n");
                    let bucket = Decimal::new(slots.bucket);
                    self.connection.command(&[b"EVAL", body.as_bytes(), b"1", &key, bucket.text(), b""]);
                    let mut reading = None;
                    each_sums(self.connection.answer()?, |sums| reading = Some(sums))?;
                    reading.ok_or("no sums were answered")?
                }
            };
            readings.push(reading);
        }
        Ok(readings)
    }

    fn settle(&mut self) -> Result<(), Error> {
        // The background sync runs every second.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        Ok(())
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn memory_bytes(&mut self) -> Result<Option<u64>, Error> {
        self.connection.command(&[b"INFO", b"memory"]);
        let Value::Bytes(info) = self.connection.answer()? else { return Err("INFO answers no text".into()) };
        let info = String::from_utf8_lossy(info).into_owned();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        Ok(used)
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.server.stop()
    }
}

/// A number in decimal, without an allocation.
struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    fn new(mut number: u64) -> Decimal {
        let (mut digits, mut start) = ([b'0'; 20], 20);
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Decimal { digits, start };
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_the_standard_library() {
        for number in [0, 9, 10, 1_767_269_040_000_000, u64::MAX] {
            assert_eq!(Decimal::new(number).text(), number.to_string().as_bytes());
        }
    }
}

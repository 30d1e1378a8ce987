//! Tarantool over loopback TCP: one call of a stored procedure in Lua a message, all calls of a batch at once.

mod wire;

use std::fs;

use super::message_pack::Reader;
use crate::cell::{Reading, fine_slot};
use crate::engine::{Engine, EngineOptions, Error};
use crate::process::{Server, version_of};
use crate::workload::{Batch, COUNTERS, Micros, Statistic};
use wire::Connection;

const SCRIPT: &str = include_str!("init.lua");

pub(crate) fn version() -> Result<String, String> {
    // Tarantool 2.6.0-0-g47aa4e01e
    Ok(version_of("tarantool", "tarantool")?.trim_start_matches("Tarantool ").to_owned())
}

pub(crate) fn open(opening: EngineOptions<'_>) -> Result<Box<dyn Engine>, Error> {
    let script = opening.directory.join("init.lua");
    fs::write(&script, SCRIPT)?;
    let mut server = Server::start("env", opening.directory, |port| {
        vec![
            format!("BENCH_PORT={port}"),
            format!("BENCH_MEMORY={}", opening.memory_bytes),
            "tarantool".to_owned(),
            script.display().to_string(),
        ]
    })?;
    let connection = server.connect(|stream| Ok(Some(Connection::new(stream)?)))?;
    Ok(Box::new(Tarantool { server, connection, statistic: opening.statistic }))
}

struct Tarantool {
    server: Server,
    connection: Connection,
    statistic: Statistic,
}

impl Tarantool {
    fn call(&mut self, name: &str, time: Micros, keys: &[u64], counters: &[u8]) -> Result<(), Error> {
        let (function, moment) = match self.statistic {
            Statistic::Fixed => (format!("{name}_fixed"), time.cast_unsigned()),
            Statistic::Windowed => (format!("{name}_windowed"), u64::from(fine_slot(time, 0)) / COUNTERS),
        };
        self.connection.begin(&function, 3);
        self.connection.number(moment);
        self.connection.array(keys.len());
        keys.iter().for_each(|key| self.connection.number(*key));
        self.connection.array(counters.len());
        counters.iter().for_each(|counter| self.connection.number(u64::from(*counter)));
        self.connection.finish()
    }
}

/// The readings that one call answers, one after the other.
fn readings(
    statistic: Statistic,
    mut answer: Reader<'_>,
    mut each: impl FnMut(Reading),
) -> Result<(), Error> {
    // What is returned is an array of one value.
    answer.array()?;
    match statistic {
        Statistic::Fixed => {
            for _ in 0..answer.array()?.unwrap_or(0) {
                let mut numbers = [0; 4];
                if answer.array()?.is_some() {
                    for number in &mut numbers {
                        *number = answer.number()?;
                    }
                }
                let [_key, first, last, count] = numbers;
                each(Reading::fixed([first, last, count]));
            }
        }
        Statistic::Windowed => {
            for sums in answer.text()?.as_chunks::<4>().0.as_chunks::<18>().0 {
                each(Reading::windowed(sums.map(|sum| u64::from(u32::from_le_bytes(sum)))));
            }
        }
    }
    Ok(())
}

impl Engine for Tarantool {
    fn observe(&mut self, batch: &Batch) -> Result<u64, Error> {
        for (time, keys, counters) in batch.events() {
            let counters = if self.statistic == Statistic::Fixed { &[] } else { counters };
            self.call("observe", time, keys, counters)?;
        }
        self.connection.send()?;
        let mut counted = 0;
        for _ in 0..batch.times.len() {
            let answer = self.connection.answer()?;
            readings(self.statistic, answer, |reading| {
                counted += std::hint::black_box(reading).counted();
            })?;
        }
        Ok(counted)
    }

    fn read(&mut self, keys: &[u64], time: Micros) -> Result<Vec<Reading>, Error> {
        self.call("read", time, keys, &[])?;
        self.connection.send()?;
        let mut all = Vec::new();
        let answer = self.connection.answer()?;
        readings(self.statistic, answer, |reading| all.push(reading))?;
        Ok(all)
    }

    fn settle(&mut self) -> Result<(), Error> {
        // Its log is written with each transaction.
        Ok(())
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn memory_bytes(&mut self) -> Result<Option<u64>, Error> {
        self.connection.begin("memory_used", 0);
        self.connection.finish()?;
        self.connection.send()?;
        let mut answer = self.connection.answer()?;
        answer.array()?;
        Ok(Some(answer.number()?))
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.server.stop()
    }
}

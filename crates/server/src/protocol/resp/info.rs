//! Redis' descriptions of itself, as far as they apply here: `INFO`, `CONFIG GET`, `HELLO`, `CLIENT`.

use std::fmt::Write;

use super::RespContext;
use super::answer::ReplyBuffer;

/// The version of Redis whose protocol this is. Clients choose their commands by it.
const REDIS_VERSION: &str = "7.0.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Settings that clients and `redis-benchmark` ask for, and what is true of them here.
fn settings(listener: &RespContext) -> Vec<(&'static str, String)> {
    vec![
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxclients", listener.plan.connections_max.to_string()),
        ("maxmemory", listener.node.engine.plan().node.ledger_configured.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("proto-max-bulk-len", listener.plan.settings.body_max.to_string()),
        ("save", String::new()),
        ("timeout", listener.idle().as_secs().to_string()),
    ]
}

/// Answers `CONFIG` and its subcommands.
pub(super) fn config<'a>(
    listener: &RespContext,
    mut words: impl Iterator<Item = &'a [u8]>,
    answers: &mut ReplyBuffer,
) {
    let subcommand = words.next().unwrap_or_default().to_ascii_lowercase();
    match subcommand.as_slice() {
        b"get" => {
            let patterns: Vec<Vec<u8>> = words.map(<[u8]>::to_ascii_lowercase).collect();
            let mut settings = settings(listener);
            settings.retain(|(name, _)| patterns.iter().any(|pattern| matches(pattern, name.as_bytes())));
            answers.map(settings.len());
            for (name, value) in settings {
                answers.bulk(name.as_bytes());
                answers.bulk(value.as_bytes());
            }
        }
        b"set" | b"rewrite" => answers.error("ERR the configuration is that of Tollhouse's own files"),
        b"resetstat" => answers.ok(),
        other => answers.unknown_subcommand(other, "CONFIG GET"),
    }
}

/// Returns whether a name is one of a pattern in which `*` stands for anything. At most as many steps as both are long together,
/// for each `*`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&[u8]> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Answers `INFO`: all sections, or those that are named.
pub(super) fn info<'a>(
    listener: &RespContext,
    words: impl Iterator<Item = &'a [u8]>,
    answers: &mut ReplyBuffer,
) {
    let wanted: Vec<Vec<u8>> = words.map(<[u8]>::to_ascii_lowercase).collect();
    let all = wanted.is_empty()
        || wanted.iter().any(|word| matches!(word.as_slice(), b"all" | b"default" | b"everything"));
    let mut text = String::new();
    for (name, lines) in sections(listener) {
        if !all && !wanted.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes())) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "# {name}\r\n");
        for (key, value) in lines {
            let _ = write!(text, "{key}:{value}\r\n");
        }
    }
    answers.text(&text);
}

type InfoLines = Vec<(&'static str, String)>;

fn sections(listener: &RespContext) -> Vec<(&'static str, InfoLines)> {
    let node = &listener.node;
    let census = node.engine.census();
    let uptime = node.started.elapsed().as_secs();
    let name = &listener.plan.name;
    let clients = node.metrics.listener_connections(name).get();
    let commands = node.metrics.resp_commands(name).get();
    vec![
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("server_name", "tollhouse".to_owned()),
                ("tollhouse_version", VERSION.to_owned()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / 86_400).to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", clients.to_string()),
                ("maxclients", listener.plan.connections_max.to_string()),
                ("blocked_clients", "0".to_owned()),
            ],
        ),
        (
            "Memory",
            vec![
                ("used_memory", census.memory_bytes.to_string()),
                ("used_memory_dataset", census.memory_bytes.to_string()),
                ("maxmemory", node.engine.plan().node.ledger_configured.to_string()),
                ("maxmemory_policy", "noeviction".to_owned()),
            ],
        ),
        (
            "Persistence",
            vec![
                ("loading", "0".to_owned()),
                ("async_loading", "0".to_owned()),
                ("aof_enabled", "0".to_owned()),
                ("ledger_disk_bytes", census.disk_bytes.to_string()),
                ("ledger_dirty_bytes", census.dirty_bytes.to_string()),
                ("ledger_poisoned", u8::from(census.poisoned).to_string()),
                ("ledger_full", u8::from(census.full).to_string()),
            ],
        ),
        ("Stats", vec![("total_commands_processed", commands.to_string())]),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Cluster", vec![("cluster_enabled", "0".to_owned())]),
        ("Keyspace", vec![("db0", format!("keys={},expires={},avg_ttl=0", census.keys, census.keys))]),
    ]
}

/// Answers `HELLO`, once it is granted; `id` is that of the connection.
pub(super) fn hello(id: i64, answers: &mut ReplyBuffer) {
    answers.map(7);
    for (name, value) in [("server", "tollhouse"), ("version", VERSION)] {
        answers.bulk(name.as_bytes());
        answers.bulk(value.as_bytes());
    }
    answers.bulk(b"proto");
    answers.integer(if answers.resp3 { 3 } else { 2 });
    answers.bulk(b"id");
    answers.integer(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        answers.bulk(name.as_bytes());
        answers.bulk(value.as_bytes());
    }
    answers.bulk(b"modules");
    answers.array(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_matched() {
        for (pattern, name, expected) in [
            ("save", "save", true),
            ("save", "saved", false),
            ("*", "save", true),
            ("max*", "maxmemory", true),
            ("*memory", "maxmemory", true),
            ("m*x*o*y", "maxmemory", true),
            ("m*z*", "maxmemory", false),
            ("maxmemory*y", "maxmemory", false),
            ("", "save", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}

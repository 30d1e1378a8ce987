//! The commands: the one list from which they are found, checked, and told to clients (`COMMAND`).

use super::answer::ReplyBuffer;

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandName {
    Throttle,
    Take,
    Peek,
    Refund,
    Reset,
    Set,
    Decide,
    Observe,
    Stats,
    Learn,
    WaitSync,
    Ping,
    Echo,
    Quit,
    Select,
    Auth,
    Hello,
    ResetSession,
    Client,
    Command,
    Config,
    Info,
}

/// An argument, as `COMMAND DOCS` describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandArgument {
    name: &'static str,
    /// `key`, `string`, `integer` or `pure-token`.
    kind: &'static str,
    token: Option<&'static str>,
    optional: bool,
    multiple: bool,
}

const fn argument(name: &'static str, kind: &'static str) -> CommandArgument {
    CommandArgument { name, kind, token: None, optional: false, multiple: false }
}

const fn optional(name: &'static str, kind: &'static str) -> CommandArgument {
    CommandArgument { optional: true, ..argument(name, kind) }
}

const fn several(name: &'static str, kind: &'static str) -> CommandArgument {
    CommandArgument { multiple: true, ..argument(name, kind) }
}

const fn after(token: &'static str, of: CommandArgument) -> CommandArgument {
    CommandArgument { token: Some(token), ..of }
}

/// A command, as `COMMAND` tells it.
#[derive(Debug)]
pub(super) struct CommandSpec {
    pub(super) name: CommandName,
    /// The command's name in lower case.
    pub(super) word: &'static str,
    /// The number of words that it has; negative for at least so many.
    arity: i64,
    flags: &'static [&'static str],
    /// The first and last word that are keys, and how far they are apart.
    keys: (i64, i64, i64),
    group: &'static str,
    summary: &'static str,
    complexity: &'static str,
    arguments: &'static [CommandArgument],
}

const WRITE: &[&str] = &["write", "denyoom", "fast"];
const READ: &[&str] = &["readonly", "fast"];
const STRANGER: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const OWN: &[&str] = &["noscript", "loading", "stale"];
const PLAIN: &[&str] = &["loading", "stale", "fast"];

const LIMIT: CommandArgument = argument("limit", "string");
const KEYS: CommandArgument = several("key", "key");
const PIPELINE: CommandArgument = argument("pipeline", "string");
const FIELDS: CommandArgument = several("field value", "string");

macro_rules! entry {
    ($name:ident $word:literal $arity:literal $flags:ident $keys:expr, $group:literal $complexity:literal $summary:literal [$($argument:expr),*]) => {
        CommandSpec {
            name: CommandName::$name,
            word: $word,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            summary: $summary,
            complexity: $complexity,
            arguments: &[$($argument),*],
        }
    };
}

const NONE: (i64, i64, i64) = (0, 0, 0);

/// All commands. Those that are asked most come first.
#[rustfmt::skip]
pub(super) static COMMANDS: &[CommandSpec] = &[
    entry!(Throttle "cl.throttle" -5 WRITE (1, 1, 1), "limits" "O(1)"
        "Takes from a token bucket (GCRA) whose rate is given, as redis-cell does"
        [argument("key", "key"), argument("max_burst", "integer"), argument("count", "integer"), argument("period", "integer"), optional("quantity", "integer")]),
    entry!(Take "toll.take" -3 WRITE NONE, "limits" "O(1)"
        "Takes from a configured limit"
        [LIMIT, KEYS, after("COST", optional("cost", "integer")), after("PEEK", optional("peek", "pure-token"))]),
    entry!(Peek "toll.peek" -3 READ NONE, "limits" "O(1)"
        "What a take from a configured limit would answer; counts nothing"
        [LIMIT, KEYS, after("COST", optional("cost", "integer"))]),
    entry!(Refund "toll.refund" -3 WRITE NONE, "limits" "O(1)"
        "Gives back what was taken from a configured limit"
        [LIMIT, KEYS, after("COST", optional("cost", "integer"))]),
    entry!(Reset "toll.reset" -3 WRITE NONE, "limits" "O(1)"
        "Forgets what was taken from a configured limit"
        [LIMIT, KEYS]),
    entry!(Set "toll.set" -4 WRITE NONE, "limits" "O(1)"
        "Says how much was taken from a configured limit"
        [LIMIT, KEYS, after("USED", argument("used", "integer"))]),
    entry!(Decide "toll.decide" -2 WRITE NONE, "events" "O(N) with N the event's keys"
        "Counts, judges and logs an event"
        [PIPELINE, FIELDS]),
    entry!(Observe "toll.observe" -2 WRITE NONE, "events" "O(N) with N the event's keys"
        "Counts an event and tells what was known of its keys before"
        [PIPELINE, FIELDS]),
    entry!(Stats "toll.stats" -4 READ NONE, "events" "O(N) with N the key's buckets"
        "All that is kept of one key"
        [PIPELINE, argument("kind", "string"), several("value", "string")]),
    entry!(Learn "toll.learn" -3 WRITE NONE, "events" "O(N) with N the event's keys"
        "Takes in what somebody says about an event"
        [PIPELINE, argument("class", "string"), FIELDS]),
    entry!(WaitSync "waitaof" 4 PLAIN NONE, "events" "O(1)"
        "Waits until all that was counted and logged by now is on disk and synced"
        [argument("numlocal", "integer"), argument("numreplicas", "integer"), argument("timeout", "integer")]),
    entry!(Ping "ping" -1 PLAIN NONE, "connection" "O(1)"
        "Answers `PONG`, or what was sent" [optional("message", "string")]),
    entry!(Echo "echo" 2 PLAIN NONE, "connection" "O(1)"
        "Answers what was sent" [argument("message", "string")]),
    entry!(Quit "quit" -1 STRANGER NONE, "connection" "O(1)"
        "Closes the connection" []),
    entry!(Select "select" 2 PLAIN NONE, "connection" "O(1)"
        "Takes database 0, the only one" [argument("index", "integer")]),
    entry!(Auth "auth" -2 STRANGER NONE, "connection" "O(1)"
        "Says the password" [optional("username", "string"), argument("password", "string")]),
    entry!(Hello "hello" -1 STRANGER NONE, "connection" "O(1)"
        "Chooses RESP2 or RESP3" [optional("protover", "integer"), after("AUTH", optional("username password", "string")), after("SETNAME", optional("clientname", "string"))]),
    entry!(ResetSession "reset" 1 STRANGER NONE, "connection" "O(1)"
        "Makes the connection like a new one" []),
    entry!(Client "client" -2 OWN NONE, "connection" "O(1)"
        "Names the connection, and tells of it" [argument("subcommand", "string"), optional("arguments", "string")]),
    entry!(Command "command" -1 PLAIN NONE, "server" "O(N) with N the commands"
        "Tells of the commands" [optional("subcommand", "string")]),
    entry!(Config "config" -2 OWN NONE, "server" "O(1)"
        "Tells settings that clients ask for" [argument("subcommand", "string"), optional("parameter", "string")]),
    entry!(Info "info" -1 PLAIN NONE, "server" "O(1)"
        "Tells of the server" [optional("section", "string")]),
];

/// Most commands that can be asked for by name at once.
const NAMES_MAX: usize = 64;
/// Longest name of a command.
const NAME_BYTES_MAX: usize = 16;

/// The command of this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    COMMANDS.iter().find(|entry| entry.word.as_bytes().eq_ignore_ascii_case(name))
}

impl CommandSpec {
    /// Returns whether it may have so many words, its name included.
    pub(super) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// Returns whether who has not said the password may ask it.
    pub(super) fn is_for_strangers(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Writes the command as `COMMAND INFO` of Redis 7 does.
    fn describe(&self, answers: &mut ReplyBuffer) {
        answers.array(10);
        answers.bulk(self.word.as_bytes());
        answers.integer(self.arity);
        answers.array(self.flags.len());
        for flag in self.flags {
            answers.simple(flag);
        }
        let (first, last, step) = self.keys;
        for number in [first, last, step] {
            answers.integer(number);
        }
        // Categories of access lists, tips, specifications of keys, subcommands: there are none.
        for _ in 0..4 {
            answers.array(0);
        }
    }

    fn describe_docs(&self, answers: &mut ReplyBuffer) {
        answers.bulk(self.word.as_bytes());
        answers.map(5);
        for (name, value) in [
            ("summary", self.summary),
            ("since", "0.1.0"),
            ("group", self.group),
            ("complexity", self.complexity),
        ] {
            answers.bulk(name.as_bytes());
            answers.bulk(value.as_bytes());
        }
        answers.bulk(b"arguments");
        answers.array(self.arguments.len());
        for argument in self.arguments {
            let flags: Vec<&str> = [("optional", argument.optional), ("multiple", argument.multiple)]
                .into_iter()
                .filter_map(|(flag, is)| is.then_some(flag))
                .collect();
            let pairs = [("name", argument.name), ("type", argument.kind)];
            let token = argument.token.map(|token| ("token", token));
            answers.map(pairs.len() + usize::from(token.is_some()) + usize::from(!flags.is_empty()));
            for (name, value) in pairs.into_iter().chain(token) {
                answers.bulk(name.as_bytes());
                answers.bulk(value.as_bytes());
            }
            if !flags.is_empty() {
                answers.bulk(b"flags");
                answers.array(flags.len());
                for flag in flags {
                    answers.simple(flag);
                }
            }
        }
    }
}

/// Answers `COMMAND` and its subcommands.
pub(super) fn command<'a>(mut words: impl Iterator<Item = &'a [u8]>, answers: &mut ReplyBuffer) {
    let Some(subcommand) = words.next() else { return describe_all(answers) };
    let names: Vec<&[u8]> = words.collect();
    // A short question is to have no long answer.
    if names.len() > NAMES_MAX {
        return answers.error("ERR too many names");
    }
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" => answers.integer(COMMANDS.len() as i64),
        b"list" => {
            answers.array(COMMANDS.len());
            for entry in COMMANDS {
                answers.bulk(entry.word.as_bytes());
            }
        }
        b"info" if names.is_empty() => describe_all(answers),
        b"info" => {
            answers.array(names.len());
            for name in names {
                match find(name) {
                    Some(entry) => entry.describe(answers),
                    None if answers.resp3 => answers.null(),
                    None => answers.null_array(),
                }
            }
        }
        b"docs" => {
            let named = names.iter().filter_map(|name| find(name));
            let entries: Vec<&CommandSpec> =
                if names.is_empty() { COMMANDS.iter().collect() } else { named.collect() };
            answers.map(entries.len());
            for entry in entries {
                entry.describe_docs(answers);
            }
        }
        other => answers.unknown_subcommand(other, "COMMAND COUNT, LIST, INFO or DOCS"),
    }
}

fn describe_all(answers: &mut ReplyBuffer) {
    answers.array(COMMANDS.len());
    for entry in COMMANDS {
        entry.describe(answers);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_are_documented() {
        let page = include_str!("../../../../../docs/guides/redis.md");
        let mut words = HashSet::new();
        for entry in COMMANDS {
            assert!(entry.word.len() <= NAME_BYTES_MAX && words.insert(entry.word), "{}", entry.word);
            let upper = entry.word.to_ascii_uppercase();
            assert_eq!(find(upper.as_bytes()).map(|found| found.name), Some(entry.name));
            assert!(page.contains(&format!("`{upper}")), "{upper} is not in docs/guides/redis.md");
        }
        assert!(find(b"get").is_none() && find(&[b'a'; 100]).is_none());
    }

    #[test]
    fn arities_are_those_of_redis() {
        let takes = |name: &str, words| find(name.as_bytes()).is_some_and(|entry| entry.takes(words));
        assert!(takes("cl.throttle", 5) && takes("cl.throttle", 6) && !takes("cl.throttle", 4));
        assert!(takes("select", 2) && !takes("select", 3) && takes("ping", 1));
    }
}

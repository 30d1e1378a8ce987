//! `tollhouse enforce`: keeps firewalls, proxies and programs in step with a server's bans.
//!
//! ```text
//! all bans ─► the mirror ─► the target filled anew        at the start, after any failure, and every few minutes
//! changes  ─► the mirror ─► the changes of the target     as the server tells them: a question waits for its answer
//! ends     ─► the mirror ─► what lies inside of what has ended
//! ```
//!
//! While the server is away the target keeps what it has, until that ends by itself.

mod command;
mod ipset;
mod map_file;
mod mirror;
mod nftables;
mod program;

use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use event::{Span, Time};

use crate::client::ApiClient;
use crate::clock::now;
use crate::console::{Output, say};
use crate::exit::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::options::NearServerOptions;
use command::{CommandOptions, CommandTarget};
use ipset::{IpsetOptions, IpsetTarget};
use map_file::{MapFileOptions, MapFileTarget};
use mirror::{BanMirror, BannedNetwork, StreamedChanges, TargetChange};
use nftables::{NftablesOptions, NftablesTarget};

/// Clocks that differ by less are taken as the same: the server tells its time in whole seconds.
const SKEW: Span = Span::seconds(2);
/// Milliseconds for which a question waits for a change. What ends by itself nobody tells.
const WAIT_MS: &str = "1000";
/// First and longest wait after a failure.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

/// Apply a server's bans to a firewall's sets, a proxy's file or a program
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse enforce nftables --drop                      Drop what banned addresses send
  tollhouse enforce nftables --dry-run                   Show what nft would be told
  tollhouse enforce ipset --once                         Fill the sets, and end
  tollhouse enforce file --format haproxy --output /etc/haproxy/banned.lst -- \\
      systemctl reload haproxy
  tollhouse enforce command -- /usr/local/bin/on-ban {action} {address} {seconds}

Enforces addresses and networks of labels whose `decision` is `ban`; --type, --label and --pipeline
choose others. Bans and lifts arrive within a tenth of a second.")]
pub(crate) struct EnforceArgs {
    #[command(subcommand)]
    target: EnforceCommand,
}

#[derive(clap::Subcommand)]
enum EnforceCommand {
    Nftables(EnforceNftablesArgs),
    Ipset(EnforceIpsetArgs),
    File(EnforceFileArgs),
    Command(EnforceCommandArgs),
}

/// Maintain nftables sets, with time-outs
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse enforce nftables --drop
  tollhouse enforce nftables --table filter --set4 bad4 --set6 bad6 --server https://toll:8377

Without --drop add your own rule: `ip saddr @banned4 drop`. Table and sets are created if missing.
Of nested networks the sets have the outermost.")]
struct EnforceNftablesArgs {
    #[command(flatten)]
    options: NftablesOptions,
    #[command(flatten)]
    common: EnforceOptions,
}

/// Maintain ipset sets, for iptables
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse enforce ipset
  iptables -I INPUT -m set --match-set tollhouse4 src -j DROP")]
struct EnforceIpsetArgs {
    #[command(flatten)]
    options: IpsetOptions,
    #[command(flatten)]
    common: EnforceOptions,
}

/// Maintain a file for nginx, HAProxy or Caddy, and reload the proxy
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse enforce file --format nginx-geo --output /etc/nginx/banned.conf -- nginx -s reload
  tollhouse enforce file --format plain --output ./banned.txt --once

The file is replaced whole, and only when it changes. The program behind -- runs without a shell.")]
struct EnforceFileArgs {
    #[command(flatten)]
    options: MapFileOptions,
    #[command(flatten)]
    common: EnforceOptions,
}

/// Run a program for each ban and lift
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse enforce command -- /usr/local/bin/on-ban {action} {address} {seconds}

Placeholders are whole arguments. The program runs without a shell, once for each change: for all
bans at the start, and for each lift.")]
struct EnforceCommandArgs {
    #[command(flatten)]
    options: CommandOptions,
    #[command(flatten)]
    common: EnforceOptions,
}

/// The bans that are enforced, and when.
#[derive(Clone, Debug, clap::Args)]
struct EnforceOptions {
    #[command(flatten)]
    server: NearServerOptions,
    /// Only labels with this `decision`
    #[arg(long = "type", value_name = "DECISION", default_value = "ban")]
    decision: String,
    /// Only labels of this name
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Address or network never to enforce here; repeatable
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    allow: Vec<BannedNetwork>,
    /// Least milliseconds between two long polls
    #[arg(long, value_name = "MS", default_value = "50", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    every: u64,
    /// Seconds between complete refills, in case somebody else changed the target
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = clap::value_parser!(u64).range(1..))]
    resync: u64,
    /// Run once and end
    #[arg(long)]
    once: bool,
    /// Only print what would be done for all bans
    #[arg(long)]
    dry_run: bool,
}

fn network(text: &str) -> Result<BannedNetwork, &'static str> {
    text.parse().map_err(|()| "expected an address, or a network such as 192.0.2.0/24")
}

/// Reads the name of a set or a table: what programs take as one word, and as nothing else.
fn set_name(text: &str) -> Result<String, &'static str> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        && text.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_name && text.len() <= 27 {
        Ok(text.to_owned())
    } else {
        Err("expected a letter, and at most 26 letters, digits, _ and - behind it")
    }
}

/// A place in which bans are carried out.
trait EnforcementTarget {
    /// Returns the script that makes it have these bans, and no others.
    fn all(&self, mirror: &BanMirror, now: Time) -> Option<String>;

    /// Returns the script for some changes; `None` where there is only one for all.
    fn changes(&self, changes: &[TargetChange], now: Time) -> Option<String>;

    /// Returns true if it is told of the changes alone also where all bans were read anew.
    fn tells_changes_at_resync(&self) -> bool {
        false
    }

    /// Returns true if it may be changed now.
    fn is_due(&self) -> bool {
        true
    }

    /// Carries out a script.
    fn run(&mut self, script: &str) -> Result<(), String>;
}

pub(crate) fn run(args: EnforceArgs) -> Result<Exit, CommandError> {
    match args.target {
        EnforceCommand::Nftables(args) => {
            enforce(&args.common, "nftables", NftablesTarget { options: args.options })
        }
        EnforceCommand::Ipset(args) => enforce(&args.common, "ipset", IpsetTarget { options: args.options }),
        EnforceCommand::File(args) => enforce(&args.common, "the file", MapFileTarget::new(args.options)),
        EnforceCommand::Command(args) => {
            enforce(&args.common, "the program", CommandTarget { options: args.options })
        }
    }
}

fn enforce(
    options: &EnforceOptions,
    name: &str,
    target: impl EnforcementTarget,
) -> Result<Exit, CommandError> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(CommandError::new)?;
    let mut enforcer = Enforcer {
        client: options.server.client()?,
        // The server knows by the name of the program how far it has read.
        agent: format!("tollhouse-enforce/{}", HEXLOWER.encode(&id)),
        options,
        target,
        mirror: BanMirror::new(options.allow.clone()),
        skew: Span::ZERO,
        is_behind: false,
    };
    if options.dry_run {
        enforcer.read(true)?;
        let script = enforcer.target.all(&enforcer.mirror, enforcer.now()).unwrap_or_default();
        let mut out = Output::new(false);
        script.lines().try_for_each(|line| out.line(line))?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    if options.once {
        let changes = enforcer.read(true)?;
        enforcer.fill(&changes).map_err(CommandError::new)?;
        say(banned(enforcer.mirror.shown().len()));
        return Ok(Exit::Fine);
    }
    enforcer.follow(name)
}

/// A target that is kept in step with a server.
struct Enforcer<'o, T> {
    client: ApiClient,
    agent: String,
    options: &'o EnforceOptions,
    target: T,
    mirror: BanMirror,
    /// The time by which the server's clock is ahead of this one.
    skew: Span,
    /// True if there are changes that the target does not know of.
    is_behind: bool,
}

impl<T: EnforcementTarget> Enforcer<'_, T> {
    /// The time by the server's clock, which the ends of bans are told by.
    fn now(&self) -> Time {
        now() + self.skew
    }

    /// Reads all bans, or what has changed.
    fn read(&mut self, is_startup: bool) -> Result<Vec<TargetChange>, CommandError> {
        let options = self.options;
        let mut query = vec![("type", options.decision.as_str())];
        query.push(if is_startup { ("startup", "true") } else { ("wait_ms", WAIT_MS) });
        query.extend(options.label.as_deref().map(|label| ("label", label)));
        query.extend(options.pipeline.as_deref().map(|pipeline| ("pipeline", pipeline)));
        // The head of the answer, with the time, comes at once.
        let asked = now();
        let (changes, date): (StreamedChanges, _) = self.client.ban_changes(&query, &self.agent)?;
        if let Some(date) = date {
            let skew = date - asked;
            if (skew.0 - self.skew.0).saturating_abs() > SKEW.0 {
                self.skew = skew;
            }
        }
        let now = self.now();
        Ok(if is_startup { self.mirror.replace(changes, now) } else { self.mirror.apply(changes, now) })
    }

    /// Makes the target have all bans and no others.
    fn fill(&mut self, changes: &[TargetChange]) -> Result<(), String> {
        let now = self.now();
        let script = match self.target.tells_changes_at_resync() {
            true => self.target.changes(changes, now),
            false => self.target.all(&self.mirror, now),
        };
        self.target.run(&script.unwrap_or_default())
    }

    /// Tells the target of changes.
    fn tell(&mut self, changes: &[TargetChange]) -> Result<(), String> {
        self.is_behind |= !changes.is_empty();
        if !self.is_behind || !self.target.is_due() {
            return Ok(());
        }
        let now = self.now();
        let script = self.target.changes(changes, now).or_else(|| self.target.all(&self.mirror, now));
        self.target.run(&script.unwrap_or_default())?;
        self.is_behind = false;
        Ok(())
    }

    fn follow(mut self, name: &str) -> Result<Exit, CommandError> {
        let interrupt = Interrupt::watch_or(|| ());
        let (every, resync) =
            (Duration::from_millis(self.options.every), Duration::from_secs(self.options.resync));
        let (mut filled, mut failed): (Option<Instant>, Option<(String, Duration)>) = (None, None);
        while !interrupt.raised() {
            let (is_first, asked) = (filled.is_none(), Instant::now());
            let is_startup = filled.is_none_or(|filled| filled.elapsed() >= resync);
            let result = self.read(is_startup).map_err(|error| (true, words(&error))).and_then(|changes| {
                let told = if is_startup { self.fill(&changes) } else { self.tell(&changes) };
                told.map_err(|why| (false, format!("{name}: {why}")))
            });
            let mut until = asked + every;
            match result {
                Ok(()) => {
                    if is_startup {
                        filled = Some(Instant::now());
                        self.is_behind = false;
                    }
                    if failed.take().is_some() || is_first {
                        say(banned(self.mirror.shown().len()));
                    }
                }
                Err((is_of_server, why)) => {
                    let wait = failed.as_ref().map_or(AGAIN[0], |(_, wait)| (*wait * 2).min(AGAIN[1]));
                    until = Instant::now() + wait;
                    // The same is said once.
                    if failed.as_ref().is_none_or(|(before, _)| *before != why) {
                        say(format_args!("{why}; it is tried again until it succeeds"));
                    }
                    failed = Some((why, wait));
                    filled = None;
                    if is_of_server {
                        // What ends meanwhile may have others inside of it.
                        let now = self.now();
                        let changes = self.mirror.apply(StreamedChanges::default(), now);
                        let _ = self.tell(&changes);
                    }
                }
            }
            while !interrupt.raised() && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(Duration::from_millis(100)));
            }
        }
        Ok(Exit::Interrupted)
    }
}

fn words(error: &CommandError) -> String {
    match error {
        CommandError::ClosedPipe => String::new(),
        CommandError::Because { message, .. } => message.clone(),
    }
}

/// Returns how many are banned, for people.
fn banned(count: usize) -> String {
    match count {
        1 => "1 address or network is banned".to_owned(),
        count => format!("{count} addresses and networks are banned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_are_single_words() {
        for name in ["banned4", "my-set_6", "a"] {
            assert_eq!(set_name(name).as_deref(), Ok(name));
        }
        for name in ["", "a b", "a;b", "-a", "4a", "a{", "a\n", "a/b", &"a".repeat(28)] {
            assert!(set_name(name).is_err(), "{name}");
        }
    }
}

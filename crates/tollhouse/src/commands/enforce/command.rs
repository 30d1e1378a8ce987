//! `tollhouse enforce command`: a program for each ban and lift.
//!
//! Placeholders are whole arguments, and there is no shell: what stands in for them can be nothing but one argument.

use event::Time;

use super::mirror::{BanMirror, TargetChange};
use super::{EnforcementTarget, program};

/// A program for each ban and lift.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CommandOptions {
    /// Program and arguments; `{action}` is `ban` or `lift`, `{address}` the address or network, `{family}` 4 or 6,
    /// `{seconds}` the time left
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(super) program: Vec<String>,
}

/// A program that is told of each change.
pub(super) struct CommandTarget {
    pub(super) options: CommandOptions,
}

/// The lines of a script, of which each is one run: arguments apart by tabs, which no argument here has.
fn script(changes: impl Iterator<Item = TargetChange>, now: Time) -> String {
    let line = |change| match change {
        TargetChange::Ban(network, until) => {
            let left = ((until - now).0.saturating_add(999_999) / 1_000_000).max(1);
            format!("ban\t{network}\t{}\t{left}\n", if network.is_v6 { 6 } else { 4 })
        }
        TargetChange::Lift(network) => format!("lift\t{network}\t{}\t0\n", if network.is_v6 { 6 } else { 4 }),
    };
    changes.map(line).collect()
}

impl CommandTarget {
    fn arguments(&self, line: &str) -> Vec<String> {
        let parts: Vec<&str> = line.split('\t').collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
        let filled = self.options.program.iter().map(|argument| match argument.as_str() {
            "{action}" => part(0),
            "{address}" => part(1),
            "{family}" => part(2),
            "{seconds}" => part(3),
            other => other.to_owned(),
        });
        filled.collect()
    }
}

impl EnforcementTarget for CommandTarget {
    fn all(&self, mirror: &BanMirror, now: Time) -> Option<String> {
        let bans = mirror.shown().iter().map(|(network, until)| TargetChange::Ban(*network, *until));
        Some(script(bans, now))
    }

    fn changes(&self, changes: &[TargetChange], now: Time) -> Option<String> {
        Some(script(changes.iter().copied(), now))
    }

    fn tells_changes_at_resync(&self) -> bool {
        true
    }

    fn run(&mut self, script: &str) -> Result<(), String> {
        let mut failed = None;
        for line in script.lines() {
            let arguments = self.arguments(line);
            let Some((program, arguments)) = arguments.split_first() else { continue };
            // One that fails does not keep the others from being told.
            if let Err(why) = program::run(program, arguments, None) {
                failed.get_or_insert(why);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use event::Span;

    use super::*;

    #[test]
    fn placeholders_are_whole_arguments() {
        let program = ["logger", "{action}", "x{address}", "{address}", "{family}", "{seconds}"];
        let options = CommandOptions { program: program.map(str::to_owned).to_vec() };
        let target = CommandTarget { options };
        let (now, network) = (Time::from_seconds(1_779_012_000), "2001:db8::/64".parse().unwrap());
        let changes = [TargetChange::Ban(network, now + Span(1_500_000)), TargetChange::Lift(network)];
        let script = target.changes(&changes, now).unwrap();
        let arguments: Vec<_> = script.lines().map(|line| target.arguments(line)).collect();
        let expected = [
            ["logger", "ban", "x{address}", "2001:db8::/64", "6", "2"],
            ["logger", "lift", "x{address}", "2001:db8::/64", "6", "0"],
        ];
        assert_eq!(arguments, expected);
    }
}

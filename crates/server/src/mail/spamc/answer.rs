//! What clients of spamd are answered: status lines, reports, marked messages. Pure.
//!
//! (Source: `spamd/PROTOCOL` of SpamAssassin, and what its spamd 4.0.1 was seen to answer.)

use engine::report::ID_FIELD;
use engine::{Decision, ListenerPlan, MailReply};

use crate::mail::answer::Ticket;
use crate::mail::command::RequestLine;
use crate::mail::header;
use crate::mail::told::{self, Scored, Symbol, on_one_line};

/// Fields that are put in begin so, and such fields of others are taken out.
pub(super) const STALE: [&str; 2] = ["X-Spam-", ID_FIELD];

/// The threshold of a pipeline that has no bands: SpamAssassin's own.
const THRESHOLD: f64 = 5.0;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Check,
    Symbols,
    Report,
    ReportIfSpam,
    Process,
    Headers,
    Tell,
    Ping,
    Skip,
}

impl Command {
    pub(crate) fn named(name: &str) -> Option<Command> {
        Some(match name {
            "CHECK" => Command::Check,
            "SYMBOLS" => Command::Symbols,
            "REPORT" => Command::Report,
            "REPORT_IFSPAM" => Command::ReportIfSpam,
            "PROCESS" => Command::Process,
            "HEADERS" => Command::Headers,
            "TELL" => Command::Tell,
            "PING" => Command::Ping,
            "SKIP" => Command::Skip,
            _ => return None,
        })
    }
}

/// Codes of `sysexits.h` that spamd answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Unavailable = 69,
    TemporaryFailure = 75,
    Protocol = 76,
}

/// A refusal; clients then go on as if there were no filter, or ask for a later attempt where they were told to.
pub(crate) fn refusal(code: Code, why: &str) -> Vec<u8> {
    let label = match code {
        Code::Unavailable => "Service Unavailable",
        Code::TemporaryFailure => "Temporary Failure",
        Code::Protocol => "Bad header line",
    };
    format!("SPAMD/1.0 {} {label}: {}\r\n", code as u8, on_one_line(why, 200)).into_bytes()
}

/// The answer to PING.
pub(crate) fn pong() -> Vec<u8> {
    b"SPAMD/1.5 0 PONG\r\n".to_vec()
}

/// What was judged, in the terms of spamd.
pub(crate) struct Judged {
    scored: Scored,
    symbols: Vec<Row>,
    /// The decision's name; empty for a message that was let pass undecided.
    id: String,
    ticket: Ticket,
}

/// A line of a report.
struct Row {
    name: String,
    score: f64,
    text: String,
}

impl Judged {
    /// `None` for what spamd has no word for: the client is to come again.
    pub(crate) fn of(decision: &Decision, plan: &ListenerPlan, ticket: Ticket) -> Option<Judged> {
        let over = match told::reply(plan, decision.verdict.action) {
            MailReply::Pass => false,
            MailReply::Defer => return None,
            _ => true,
        };
        let threshold = told::begins(told::bands(&decision.pipeline), |action| {
            !matches!(told::reply(plan, action), MailReply::Pass | MailReply::Defer)
        });
        let row = |symbol: Symbol<'_>| {
            let text = if symbol.description.is_empty() {
                symbol.options.join(", ")
            } else {
                symbol.description.to_owned()
            };
            Row { name: symbol.name.to_owned(), score: symbol.score, text }
        };
        Some(Judged {
            scored: Scored::new(decision.verdict.score, threshold.unwrap_or(THRESHOLD), over, 1),
            symbols: told::symbols(decision).map(row).collect(),
            id: decision.id.to_string(),
            ticket,
        })
    }

    /// A message that is let pass undecided.
    pub(crate) fn passed() -> Judged {
        Judged {
            scored: Scored::new(0.0, THRESHOLD, false, 1),
            symbols: Vec::new(),
            id: String::new(),
            ticket: Ticket::Remove,
        }
    }

    /// The answer to a command for a message. Versions before 1.3 know no two header lines, and those before 1.2
    /// none, in an answer with a message.
    pub(crate) fn answer(&self, command: Command, line: &RequestLine, message: &[u8]) -> Vec<u8> {
        let Scored { over, score, threshold } = self.scored;
        let word = match (command, over) {
            (Command::ReportIfSpam, true) => "Yes",
            (Command::ReportIfSpam, false) => "No",
            (_, true) => "True",
            (_, false) => "False",
        };
        let spam = format!("Spam: {word} ; {score:.1} / {threshold:.1}\r\n");
        let body = match command {
            Command::Symbols => {
                let line_end = if line.version < (1, 3) { "\r\n" } else { "" };
                format!("{}{line_end}", self.names()).into_bytes()
            }
            Command::Report => self.report().into_bytes(),
            Command::ReportIfSpam if over => self.report().into_bytes(),
            Command::Process => self.marked(message),
            Command::Headers => header::only_header(&self.marked(message)).to_vec(),
            _ => Vec::new(),
        };
        let length = format!("Content-length: {}\r\n", body.len());
        let gives_back = matches!(command, Command::Process | Command::Headers);
        let mut answer = if command == Command::Check || !gives_back && line.version < (1, 3) {
            format!("SPAMD/1.1 0 EX_OK\r\n{spam}\r\n")
        } else if line.version < (1, 2) {
            "SPAMD/1.0 0 EX_OK\r\n".to_owned()
        } else if line.version < (1, 3) {
            format!("SPAMD/1.1 0 EX_OK\r\n{length}\r\n")
        } else {
            format!("SPAMD/1.1 0 EX_OK\r\n{length}{spam}\r\n")
        }
        .into_bytes();
        answer.extend_from_slice(&body);
        answer
    }

    /// The rules that fired, by name.
    fn names(&self) -> String {
        let mut names: Vec<&str> = self.symbols.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        names.join(",")
    }

    fn report(&self) -> String {
        let Scored { over, score, threshold } = self.scored;
        let mut report = format!(
            "Tollhouse {} this message{}{}.\n\n\
             Content analysis details:   ({score:.1} points, {threshold:.1} required)\n\n\
             \x20pts rule name              description\n\
             ---- ---------------------- --------------------------------------------------\n",
            if over { "takes exception to" } else { "has nothing against" },
            if self.id.is_empty() { ", which it could not judge" } else { ", decision " },
            self.id,
        );
        for row in &self.symbols {
            let name = format!("{:4.1} {:<22} ", row.score, row.name);
            for (index, text) in wrapped(&row.text, 50).iter().enumerate() {
                let indent = if index == 0 { &name } else { &format!("{:28}", "") };
                report += format!("{indent}{text}").trim_end();
                report.push('\n');
            }
        }
        report.push('\n');
        // From here Exim's configuration takes what it puts into the message.
        if let Ticket::Write(ticket) = &self.ticket {
            report += &format!("{ID_FIELD}: {ticket}\n");
        }
        report
    }

    /// The message with the fields that spamd puts in.
    fn marked(&self, message: &[u8]) -> Vec<u8> {
        let Scored { over, score, threshold } = self.scored;
        let mut added = vec![("X-Spam-Checker-Version", format!("Tollhouse {}", env!("CARGO_PKG_VERSION")))];
        if over {
            added.push(("X-Spam-Flag", "YES".to_owned()));
        }
        // As many as fit on a line; nobody counts more.
        const STARS_MAX: usize = 50;
        added.push(("X-Spam-Level", "*".repeat((score.max(0.0) as usize).min(STARS_MAX))));
        let word = if over { "Yes" } else { "No" };
        let names = if self.symbols.is_empty() { "none".to_owned() } else { self.names().replace(',', ", ") };
        added.push((
            "X-Spam-Status",
            format!(
                "{word}, score={score:.1} required={threshold:.1} tests={names} autolearn=no version={}",
                env!("CARGO_PKG_VERSION"),
            ),
        ));
        if !self.id.is_empty() {
            added.push(("X-Spam-Decision", self.id.clone()));
        }
        if let Ticket::Write(ticket) = &self.ticket {
            added.push((ID_FIELD, ticket.clone()));
        }
        if over {
            let mut report = String::new();
            for row in &self.symbols {
                for (index, text) in wrapped(&format!("{} {}", row.name, row.text), 62).iter().enumerate() {
                    report += &if index == 0 {
                        format!("\n* {:4.1} {text}", row.score)
                    } else {
                        format!("\n*      {text}")
                    };
                }
            }
            added.push(("X-Spam-Report", report));
        }
        header::marked(message, &added, &STALE)
    }
}

/// A text in lines of at most so many characters where there is a space to break at; one line, if there is nothing.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in on_one_line(text, 400).split_whitespace() {
        let chars = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + chars <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the answer to TELL: what of `local` and `remote` was set, and removed.
pub(crate) fn told(set: &[&str], removed: &[&str]) -> Vec<u8> {
    let mut answer = "SPAMD/1.1 0 EX_OK\r\n".to_owned();
    for (name, done) in [("DidSet", set), ("DidRemove", removed)] {
        if !done.is_empty() {
            answer += &format!("{name}: {}\r\n", done.join(","));
        }
    }
    answer += "Content-length: 0\r\n\r\n";
    answer.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(score: f64, over: bool) -> Judged {
        let row = |name: &str, score, text: &str| Row { name: name.to_owned(), score, text: text.to_owned() };
        Judged {
            scored: Scored::new(score, 4.0, over, 1),
            symbols: vec![
                row(
                    "LINKS",
                    2.5,
                    "A text that is longer than the room that there is for one in a line of it",
                ),
                row("AGE", -1.0, ""),
            ],
            id: "01k9s4x7qc000".to_owned(),
            ticket: Ticket::Write("1-2".to_owned()),
        }
    }

    fn line(version: (u16, u16)) -> RequestLine {
        RequestLine { command: "CHECK".to_owned(), protocol: "SPAMC".to_owned(), version }
    }

    fn answer(judged: &Judged, command: Command, version: (u16, u16)) -> String {
        String::from_utf8(judged.answer(command, &line(version), b"A: b\n\nbody\n")).unwrap()
    }

    #[test]
    fn answers_are_framed_by_version() {
        let spam = judged(8.64, true);
        let check = |command: Command, version: (u16, u16), expected: &str| {
            let answer = answer(&spam, command, version);
            assert!(answer.starts_with(expected), "{answer}");
        };
        check(Command::Check, (1, 5), "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\n");
        check(
            Command::Symbols,
            (1, 5),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 9\r\nSpam: True ; 8.6 / 4.0\r\n\r\nAGE,LINKS",
        );
        check(Command::Symbols, (1, 2), "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\nAGE,LINKS\r\n");
        check(Command::Report, (1, 2), "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\nTollhouse ");
        check(Command::Process, (1, 2), "SPAMD/1.1 0 EX_OK\r\nContent-length: ");
        check(Command::Process, (1, 1), "SPAMD/1.0 0 EX_OK\r\nX-Spam-Checker-Version: ");
        let ham = judged(8.64, false);
        assert_eq!(
            answer(&ham, Command::ReportIfSpam, (1, 5)),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: No ; 3.9 / 4.0\r\n\r\n"
        );
    }

    #[test]
    fn reports_are_tables() {
        let report = judged(8.64, true).report();
        assert!(report.ends_with(
            "Content analysis details:   (8.6 points, 4.0 required)\n\n \
             pts rule name              description\n\
             ---- ---------------------- --------------------------------------------------\n \
             2.5 LINKS                  A text that is longer than the room that there is\n                            \
             for one in a line of it\n\
             -1.0 AGE\n\nX-Tollhouse-Id: 1-2\n"
        ), "{report}");
    }

    #[test]
    fn messages_are_marked() {
        let version = env!("CARGO_PKG_VERSION");
        let answer = answer(&judged(8.64, true), Command::Process, (1, 5));
        let (head, message) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            format!("SPAMD/1.1 0 EX_OK\r\nContent-length: {}\r\nSpam: True ; 8.6 / 4.0", message.len())
        );
        assert_eq!(
            message,
            format!(
                "X-Spam-Checker-Version: Tollhouse {version}\nX-Spam-Flag: YES\nX-Spam-Level: ********\n\
                 X-Spam-Status: Yes, score=8.6 required=4.0 tests=AGE, LINKS autolearn=no\n\tversion={version}\n\
                 X-Spam-Decision: 01k9s4x7qc000\nX-Tollhouse-Id: 1-2\nX-Spam-Report: \n\
                 \t*  2.5 LINKS A text that is longer than the room that there is for\n\
                 \t*      one in a line of it\n\t* -1.0 AGE\nA: b\n\nbody\n"
            )
        );
    }

    #[test]
    fn telling_names_what_was_done() {
        assert_eq!(
            told(&["local", "remote"], &[]),
            b"SPAMD/1.1 0 EX_OK\r\nDidSet: local,remote\r\nContent-length: 0\r\n\r\n"
        );
        assert_eq!(
            told(&[], &["remote"]),
            b"SPAMD/1.1 0 EX_OK\r\nDidRemove: remote\r\nContent-length: 0\r\n\r\n"
        );
    }

    #[test]
    fn refusals_are_one_line() {
        let refused = String::from_utf8(refusal(Code::Protocol, "a\r\nSpam: True")).unwrap();
        assert_eq!(refused, "SPAMD/1.0 76 Bad header line: a  Spam: True\r\n");
    }
}

//! Answers to clients of spamd: status lines, reports, marked messages. Pure.
//!
//! (Source: `spamd/PROTOCOL` of SpamAssassin, and what its spamd 4.0.1 was seen to answer.)

use engine::Decision;
use engine::feedback::ID_FIELD;
use plan::{ListenerPlan, MailPlan, MailReply};

use crate::core::log_text::on_one_line;
use crate::protocol::mail::answer::{IdFieldAction, TOLLHOUSE};
use crate::protocol::mail::command::RequestLine;
use crate::protocol::mail::header;
use crate::protocol::mail::score::{self, FiredSymbol, PrintedScore};
use crate::protocol::mail::subject;

/// Fields that are put in begin so, and such fields of others are taken out; with a colon the whole name.
pub(super) const STALE: [&str; 3] = ["X-Spam-", "X-Spam:", TOLLHOUSE];

/// The threshold of a pipeline that has no bands: SpamAssassin's own.
const THRESHOLD: f64 = 5.0;

/// The command that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpamcCommand {
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

impl SpamcCommand {
    pub(crate) fn named(name: &str) -> Option<SpamcCommand> {
        Some(match name {
            "CHECK" => SpamcCommand::Check,
            "SYMBOLS" => SpamcCommand::Symbols,
            "REPORT" => SpamcCommand::Report,
            "REPORT_IFSPAM" => SpamcCommand::ReportIfSpam,
            "PROCESS" => SpamcCommand::Process,
            "HEADERS" => SpamcCommand::Headers,
            "TELL" => SpamcCommand::Tell,
            "PING" => SpamcCommand::Ping,
            "SKIP" => SpamcCommand::Skip,
            _ => return None,
        })
    }
}

/// Codes of `sysexits.h` that spamd answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpamdExitCode {
    Unavailable = 69,
    TemporaryFailure = 75,
    Protocol = 76,
}

/// A refusal; clients then go on as if there were no filter, or ask for a later attempt where they were told to.
pub(crate) fn refusal(code: SpamdExitCode, why: &str) -> Vec<u8> {
    let label = match code {
        SpamdExitCode::Unavailable => "Service Unavailable",
        SpamdExitCode::TemporaryFailure => "Temporary Failure",
        SpamdExitCode::Protocol => "Bad header line",
    };
    format!("SPAMD/1.0 {} {label}: {}\r\n", code as u8, on_one_line(why, 200)).into_bytes()
}

/// The answer to PING.
pub(crate) fn pong() -> Vec<u8> {
    b"SPAMD/1.5 0 PONG\r\n".to_vec()
}

/// The judgement, in the terms of spamd.
pub(crate) struct SpamdResult {
    scored: PrintedScore,
    symbols: Vec<SpamdReportLine>,
    /// The decision's name; empty for a message that was let pass undecided.
    id: String,
    id_field: IdFieldAction,
    /// The tag that goes before the subject of spam.
    subject_tag: Option<String>,
}

/// A line of a report.
struct SpamdReportLine {
    name: String,
    score: f64,
    text: String,
}

impl SpamdResult {
    /// `None` for what spamd has no word for: the client is to come again.
    pub(crate) fn of(
        decision: &Decision,
        plan: &ListenerPlan<MailPlan>,
        signed_id: IdFieldAction,
    ) -> Option<SpamdResult> {
        let over = match score::reply(plan, decision.verdict.action) {
            MailReply::Pass => false,
            MailReply::Defer => return None,
            _ => true,
        };
        let threshold = score::spam_threshold(plan, decision.bands.as_slice());
        let row = |symbol: FiredSymbol<'_>| {
            let text = if symbol.description.is_empty() {
                symbol.options.join(", ")
            } else {
                symbol.description.to_owned()
            };
            SpamdReportLine { name: symbol.name.to_owned(), score: symbol.score, text }
        };
        Some(SpamdResult {
            scored: PrintedScore::new(decision.verdict.score, threshold.unwrap_or(THRESHOLD), over, 1),
            symbols: score::symbols(decision).map(row).collect(),
            id: decision.id.to_string(),
            id_field: signed_id,
            subject_tag: plan.settings.subject_tag.clone().filter(|_| over),
        })
    }

    /// A message that is let pass undecided.
    pub(crate) fn passed() -> SpamdResult {
        SpamdResult {
            scored: PrintedScore::new(0.0, THRESHOLD, false, 1),
            symbols: Vec::new(),
            id: String::new(),
            id_field: IdFieldAction::Remove,
            subject_tag: None,
        }
    }

    /// The answer to a command for a message. Versions before 1.3 know no two header lines, and those before 1.2
    /// none, in an answer with a message.
    pub(crate) fn answer(&self, command: SpamcCommand, line: &RequestLine, message: &[u8]) -> Vec<u8> {
        let PrintedScore { over, score, threshold } = self.scored;
        let word = match (command, over) {
            (SpamcCommand::ReportIfSpam, true) => "Yes",
            (SpamcCommand::ReportIfSpam, false) => "No",
            (_, true) => "True",
            (_, false) => "False",
        };
        let spam = format!("Spam: {word} ; {score:.1} / {threshold:.1}\r\n");
        let body = match command {
            SpamcCommand::Symbols => {
                let line_end = if line.version < (1, 3) { "\r\n" } else { "" };
                format!("{}{line_end}", self.names()).into_bytes()
            }
            SpamcCommand::Report => self.report().into_bytes(),
            SpamcCommand::ReportIfSpam if over => self.report().into_bytes(),
            SpamcCommand::Process => self.marked(message),
            SpamcCommand::Headers => header::only_header(&self.marked(message)).to_vec(),
            _ => Vec::new(),
        };
        let length = format!("Content-length: {}\r\n", body.len());
        let gives_back = matches!(command, SpamcCommand::Process | SpamcCommand::Headers);
        let mut answer = if command == SpamcCommand::Check || !gives_back && line.version < (1, 3) {
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
        let PrintedScore { over, score, threshold } = self.scored;
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
        if let IdFieldAction::Write(signed_id) = &self.id_field {
            report += &format!("{ID_FIELD}: {signed_id}\n");
        }
        report
    }

    /// The message with the fields that spamd puts in.
    fn marked(&self, message: &[u8]) -> Vec<u8> {
        let PrintedScore { over, score, threshold } = self.scored;
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
        if let IdFieldAction::Write(signed_id) = &self.id_field {
            added.push((ID_FIELD, signed_id.clone()));
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
        let marked = header::marked(message, &added, &STALE);
        let subject = header::subject(message).unwrap_or_default();
        let tagged = self.subject_tag.as_deref().and_then(|tag| subject::tagged(subject, tag));
        match tagged {
            Some(value) => header::with_subject(&marked, &value),
            None => marked,
        }
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
pub(crate) fn tell_response(set: &[&str], removed: &[&str]) -> Vec<u8> {
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

    fn judged(score: f64, over: bool) -> SpamdResult {
        let row = |name: &str, score, text: &str| SpamdReportLine {
            name: name.to_owned(),
            score,
            text: text.to_owned(),
        };
        SpamdResult {
            scored: PrintedScore::new(score, 4.0, over, 1),
            symbols: vec![
                row(
                    "LINKS",
                    2.5,
                    "A text that is longer than the room that there is for one in a line of it",
                ),
                row("AGE", -1.0, ""),
            ],
            id: "01k9s4x7qc000".to_owned(),
            id_field: IdFieldAction::Write("1-2".to_owned()),
            subject_tag: None,
        }
    }

    fn line(version: (u16, u16)) -> RequestLine {
        RequestLine { command: "CHECK".to_owned(), protocol: "SPAMC".to_owned(), version }
    }

    fn answer(judged: &SpamdResult, command: SpamcCommand, version: (u16, u16)) -> String {
        String::from_utf8(judged.answer(command, &line(version), b"A: b\n\nbody\n")).unwrap()
    }

    #[test]
    fn answers_are_framed_by_version() {
        let spam = judged(8.64, true);
        let check = |command: SpamcCommand, version: (u16, u16), expected: &str| {
            let answer = answer(&spam, command, version);
            assert!(answer.starts_with(expected), "{answer}");
        };
        check(SpamcCommand::Check, (1, 5), "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\n");
        check(
            SpamcCommand::Symbols,
            (1, 5),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 9\r\nSpam: True ; 8.6 / 4.0\r\n\r\nAGE,LINKS",
        );
        check(
            SpamcCommand::Symbols,
            (1, 2),
            "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\nAGE,LINKS\r\n",
        );
        check(SpamcCommand::Report, (1, 2), "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 8.6 / 4.0\r\n\r\nTollhouse ");
        check(SpamcCommand::Process, (1, 2), "SPAMD/1.1 0 EX_OK\r\nContent-length: ");
        check(SpamcCommand::Process, (1, 1), "SPAMD/1.0 0 EX_OK\r\nX-Spam-Checker-Version: ");
        let ham = judged(8.64, false);
        assert_eq!(
            answer(&ham, SpamcCommand::ReportIfSpam, (1, 5)),
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
        let answer = answer(&judged(8.64, true), SpamcCommand::Process, (1, 5));
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
    fn subjects_are_tagged_once() {
        let check = |message: &str, expected: &str| {
            let judged = SpamdResult { subject_tag: Some("[SPAM]".to_owned()), ..judged(8.64, true) };
            let answer = judged.answer(SpamcCommand::Process, &line((1, 5)), message.as_bytes());
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.ends_with(expected), "{answer}");
            assert_eq!(answer.matches("[SPAM]").count(), 1, "{answer}");
        };
        check("A: b\nSubject: pills\nC: d\n\nbody", "\nA: b\nSubject: [SPAM] pills\nC: d\n\nbody");
        check("A: b\nSubject: [SPAM] pills\n\nbody", "\nA: b\nSubject: [SPAM] pills\n\nbody");
        check("Subject: =?utf-8?Q?Z=C3=BCge?=\r\n\r\n", "Subject: [SPAM] =?utf-8?Q?Z=C3=BCge?=\r\n\r\n");
        check("A: b\n\nbody", "A: b\n\nbody");
    }

    #[test]
    fn telling_names_what_was_done() {
        assert_eq!(
            tell_response(&["local", "remote"], &[]),
            b"SPAMD/1.1 0 EX_OK\r\nDidSet: local,remote\r\nContent-length: 0\r\n\r\n"
        );
        assert_eq!(
            tell_response(&[], &["remote"]),
            b"SPAMD/1.1 0 EX_OK\r\nDidRemove: remote\r\nContent-length: 0\r\n\r\n"
        );
    }

    #[test]
    fn refusals_are_one_line() {
        let refused = String::from_utf8(refusal(SpamdExitCode::Protocol, "a\r\nSpam: True")).unwrap();
        assert_eq!(refused, "SPAMD/1.0 76 Bad header line: a  Spam: True\r\n");
    }
}

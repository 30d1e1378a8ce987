//! Recipients' own lists and lines, as docs/guides/recipients.md configures them.

use std::fs;

use content::mail::message::{Envelope, event};
use engine::{Directory, Engine};
use event::Value;
use judge::Action;
use plan::{Config, Overrides, Plan, preset};

use crate::pipeline::{NOW, decide_at};

const GUIDE: &str = include_str!("../../../../docs/guides/recipients.md");

/// The blocks of the guide in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = GUIDE.split("```").skip(1).step_by(2);
    parts.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

#[test]
fn recipients_have_lists_and_lines_of_their_own() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[preset::find("mail").unwrap()]).unwrap();
    let own = "name = \"mail\"\ninput = \"message\"\n[[rule]]\nname = \"POINTS\"\nwhen = \"mail.has_date\"\nscore = 5.0\n\
               [[band]]\nat = 4.0\naction = \"tag\"\n[[band]]\nat = 7.0\naction = \"quarantine\"\n\
               [[band]]\nat = 12.0\naction = \"reject\"\n";
    let rules = format!("{own}{}", blocks("toml")[0]);
    fs::write(directory.config_path(), rules).unwrap();
    let [senders, lines] = blocks("text")[..] else { panic!("two tables") };
    fs::write(directory.path().join("own_senders.tsv"), senders).unwrap();
    fs::write(directory.path().join("own_lines.tsv"), lines).unwrap();
    let plan = Plan::compile(&Config::load(&directory.config_path(), &Overrides::default()));
    let engine = Engine::open(&directory, plan.unwrap_or_else(|problems| panic!("{problems}"))).unwrap();

    let decided = |from: &str, recipients: &[&str], dmarc: Option<&str>| {
        let raw = format!(
            "From: {from}\r\nTo: bob@example.net\r\nSubject: hello\r\nDate: Sun, 17 May 2026 09:59:00 +0000\r\n\
             Message-ID: <1@example.org>\r\n\r\nall is well\r\n"
        );
        let recipients = recipients.iter().map(|recipient| (*recipient).to_owned()).collect();
        let mut message = event(raw.into_bytes(), Envelope { recipients, ..Envelope::default() });
        if let Some(dmarc) = dmarc {
            message.push("auth.dmarc", Value::from(dmarc));
        }
        decide_at(&engine, message, NOW)
    };
    let points = 5.0;
    let check = |from: &str, recipients: &[&str], expected: Action, score: f64, fired: Option<&str>| {
        let decision = decided(from, recipients, None);
        let own = decision.verdict.reasons.iter().map(|reason| reason.rule.as_str());
        let own: Vec<&str> = own.filter(|rule| rule.starts_with("OWN_")).collect();
        assert_eq!(own, Vec::from_iter(fired), "{from} {recipients:?}");
        assert_eq!(decision.verdict.action, expected, "{from} {recipients:?}: {:?}", decision.verdict);
        assert!(
            (decision.verdict.score - score).abs() < 1e-6,
            "{from} {recipients:?}: {}",
            decision.verdict.score
        );
    };
    let eve = "eve@example.net";
    check("shop@elsewhere.example", &[eve], Action::Tag, points, None);
    // The recipient's domain.
    check("x@spammer.example", &[eve], Action::Reject, points, Some("OWN_BLOCK"));
    check("News@spammer.example", &["Eve@Example.net"], Action::Accept, points, Some("OWN_ALLOW"));
    // Lines: of an address, and of a domain.
    check("x@elsewhere.example", &["cid@example.net"], Action::Accept, points - 5.5, Some("OWN_LINE_HIGHER"));
    check("x@elsewhere.example", &["eve@example.com"], Action::Accept, points - 2.0, Some("OWN_LINE_HIGHER"));
    check(
        "x@elsewhere.example",
        &["bob@example.net"],
        Action::Quarantine,
        points + 2.0,
        Some("OWN_LINE_LOWER"),
    );
    // The more exact line counts.
    let of = |from: &str, recipients: &[&str], dmarc: Option<&str>| {
        decided(from, recipients, dmarc).verdict.action
    };
    assert_eq!(of("shop@example.org", &["bob@example.net"], None), Action::Accept);
    assert_eq!(of("ann@example.org", &["bob@example.net"], None), Action::Reject);
    // Somebody else in an allowed author's name.
    assert_eq!(of("shop@example.org", &["bob@example.net"], Some("fail")), Action::Quarantine);
    assert_eq!(of("shop@example.org", &["bob@example.net"], Some("pass")), Action::Accept);
    // For several, nobody's list counts.
    assert_eq!(of("x@spammer.example", &[eve, "dan@example.net"], None), Action::Tag);
}

//! Damaged and outsized input: nothing panics, and every list and text stays within its bound.

use content::json;
use content::mail::message;
use content::mail::message::{Envelope, ITEM_BYTES_MAX, LINKS_MAX, PARTS_MAX, TEXT_BYTES_MAX};
use content::web::access_log;
use event::{Facts, Value};
use proptest::prelude::*;

use crate::story::Mail;

fn check_bounds(row: &Facts) {
    for value in row.values().iter().flatten() {
        match value {
            Value::String(text) => assert!(text.len() <= 2 * TEXT_BYTES_MAX),
            Value::List(items) => {
                assert!(items.len() <= LINKS_MAX);
                assert!(items.iter().all(|item| item.len() <= ITEM_BYTES_MAX));
            }
            _ => {}
        }
    }
}

#[test]
fn floods_stay_bounded() {
    let mail = Mail::new();
    let part = "--b\nContent-Type: application/x; name=a.b\nContent-Transfer-Encoding: base64\n\nAAAA\n";
    let head = "Content-Type: multipart/mixed; boundary=b\n\n";
    for (name, raw) in [
        ("links", format!("\n{}", "http://example.com/a ".repeat(100_000))),
        (
            "different links",
            format!("\n{}", (0..100_000).map(|i| format!("http://h{i}.example.com/ ")).collect::<String>()),
        ),
        ("parts", format!("{head}{}", part.repeat(10_000))),
        (
            "boundaries that never come",
            format!("{head}{}", "--b\nContent-Type: multipart/mixed; boundary=x\n\n".repeat(100_000)),
        ),
        ("one long word", format!("\n{}", "a.b@c:".repeat(1_000_000))),
        ("one long dotted word", format!("\n{}", "a.".repeat(1_000_000))),
        ("anchors", format!("Content-Type: text/html\n\n{}", "<a href=//x>".repeat(100_000))),
        ("nested elements", format!("Content-Type: text/html\n\n{}", "<div>".repeat(200_000))),
        (
            "nested hidden elements",
            format!("Content-Type: text/html\n\n{}", "<div style=color:#fff>x".repeat(100_000)),
        ),
        (
            "style sheets",
            format!(
                "Content-Type: text/html\n\n{}",
                "<style>.a{display:none}.b{</style><p class='a b c'>".repeat(50_000)
            ),
        ),
        ("unclosed encoded words", format!("Subject: {}?=\n\n", "=?a?=a=?a?q?".repeat(100_000))),
        ("uuencoded files", format!("\n{}", "begin 644 a.exe\n#0V%T\nend\n".repeat(50_000))),
        (
            "encoded messages",
            format!(
                "{head}{}",
                "--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nCgo=\n"
                    .repeat(10_000)
            ),
        ),
        ("parameters", format!("Content-Type: text/plain{}\n\nx", "; name*1*=a".repeat(100_000))),
        (
            "archive headers",
            format!(
                "Content-Type: application/zip\n\n{}",
                "PK\u{3}\u{4}aaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(100_000)
            ),
        ),
        (
            "names in a document",
            format!(
                "Content-Type: application/pdf\n\n%PDF-1.4 {}",
                "/URI (http://a.example/) stream ".repeat(100_000)
            ),
        ),
        ("encoded words", format!("Subject: {}\n\n", "=?a?q?x".repeat(100_000))),
        ("fields", "X: y\n".repeat(500_000)),
        ("recipients", format!("To: {}\n\n", "a@b.example, ".repeat(100_000))),
        ("digits", format!("\n{}", "1".repeat(1_000_000))),
        ("digits apart", format!("\n{}", "1 2 - 3 ".repeat(200_000))),
        ("words for digits", format!("\n{}", "one two ".repeat(200_000))),
        ("letters apart", format!("\n{}", "a.b.d.".repeat(200_000))),
        ("letters for digits", format!("\n{}", "a1b".repeat(400_000))),
        ("hidden signs", format!("\n{}", "a(at)b(dot)c dot com ".repeat(50_000))),
        ("names", format!("\n{}", "telegram @abcdef ".repeat(70_000))),
        ("schemes", format!("\n{}", "hxxp://".repeat(100_000))),
        (
            "links in links",
            format!(
                "\n{}",
                format!("http://r.example/?u={} ", "http://r.example/?u=".repeat(90)).repeat(200)
            ),
        ),
        ("encoded links", format!("\n{}", format!("http://r.example/?u={} ", "%25".repeat(600)).repeat(200))),
        ("accents", format!("\na{}", "\u{301}".repeat(500_000))),
        ("nesting", format!("{}\n", "Content-Type: message/rfc822\n\n".repeat(100_000))),
        (
            "large",
            format!(
                "Content-Type: application/x\nContent-Transfer-Encoding: base64\n\n{}",
                "QUFBQUFB".repeat(3_000_000)
            ),
        ),
    ] {
        let row = mail.row(raw.as_bytes());
        check_bounds(&row);
        let Some(Value::Integer(parts)) = row.get(mail.columns.parts) else { panic!("{name}: no parts") };
        assert!(*parts <= PARTS_MAX as i64, "{name}: {parts} parts");
    }
}

const MESSAGE: &[u8] = include_bytes!("../../../../fuzz/seeds/message/phish.eml");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_read(raw in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        check_bounds(&Mail::new().row(&raw));
        let _ = message::time(&raw);
        let _ = access_log::event(&raw);
        let _ = json::event(&raw, &Mail::new().schema);
    }

    #[test]
    fn damaged_messages_are_read(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>()) {
        let mut raw = MESSAGE.to_vec();
        for (at, byte) in edits {
            let at = at.index(raw.len());
            raw[at] = byte;
        }
        raw.truncate(cut.index(2 * MESSAGE.len()).max(1));
        check_bounds(&Mail::new().row(&raw));
        let _ = Envelope::from_headers(&raw);
    }

    #[test]
    fn damaged_files_are_read(which in any::<prop::sample::Index>(), edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12), cut in any::<prop::sample::Index>()) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/attachment");
        let seeds = corpora::files(std::path::Path::new(folder));
        let mut file = std::fs::read(&seeds[which.index(seeds.len())]).unwrap();
        for (at, byte) in edits {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(2 * file.len()).max(1));
        for kind in ["application/octet-stream", "text/html"] {
            let mut raw = format!("Content-Type: {kind}; name=a.doc\nContent-Transfer-Encoding: binary\n\n").into_bytes();
            raw.extend_from_slice(&file[1..]);
            check_bounds(&Mail::new().row(&raw));
        }
    }

    #[test]
    fn damaged_pictures_are_read(which in any::<prop::sample::Index>(), edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12), cut in any::<prop::sample::Index>()) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/picture");
        let seeds = corpora::files(std::path::Path::new(folder));
        let mut file = std::fs::read(&seeds[which.index(seeds.len())]).unwrap().split_off(1);
        for (at, byte) in edits {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(2 * file.len()).max(1));
        let head = "Content-Type: application/octet-stream; name=a\nContent-Transfer-Encoding: binary\n\n";
        check_bounds(&Mail::new().row(&[head.as_bytes(), &file].concat()));
    }

    #[test]
    fn damaged_lines_are_read(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut line = br#"a.example 192.0.2.1 - u [17/May/2015:10:05:03 +0000] "GET /a?b=%41\x41 HTTP/1.1" 200 1 "-" "x""#.to_vec();
        for (at, byte) in edits {
            let at = at.index(line.len());
            line[at] = byte;
        }
        if let Err(error) = access_log::event(&line) {
            prop_assert!(error.at <= line.len());
        }
    }
}

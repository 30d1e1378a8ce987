//! The messages of mail-parser's own tests, read as it reads them but for the differences listed here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::*;

/// The leaves of a parsed message as `mail-parser` records them: text, or the length of binary content.
fn expected(message: &Value, leaves: &mut Vec<String>) {
    for part in message["parts"].as_array().unwrap() {
        let Some((kind, body)) = part["body"].as_object().and_then(|body| body.iter().next()) else {
            continue;
        };
        match kind.as_str() {
            "Text" | "Html" => leaves.push(body.as_str().unwrap_or_default().to_owned()),
            "Binary" | "InlineBinary" => {
                leaves.push(format!("{} bytes", body.as_array().map_or(0, Vec::len)))
            }
            "Message" => expected(body, leaves),
            _ => {}
        }
    }
}

fn found(raw: &[u8]) -> Vec<String> {
    let mut skeleton = walk(raw, &Budget::ample());
    let parts = std::mem::take(&mut skeleton.parts);
    parts
        .iter()
        .map(|part| {
            let decoded = part.decode(usize::MAX, &mut skeleton.defects);
            let is_text = part.media_type.starts_with("text/") || part.role != PartRole::Attachment;
            if is_text { part.text(&decoded).into_owned() } else { format!("{} bytes", decoded.len()) }
        })
        .collect()
}

fn messages() -> Vec<(PathBuf, Value)> {
    let mut paths = corpora::files(&corpora::folder("mail/mime/eml").unwrap());
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "eml"));
    let parsed = |path: PathBuf| {
        let json = std::fs::read_to_string(path.with_extension("json")).unwrap();
        (path, serde_json::from_str(&json).unwrap())
    };
    paths.into_iter().map(parsed).collect()
}

/// Messages that are read otherwise, and why.
const DIFFERENT: [(&str, &str); 24] = [
    ("legacy/017.eml", "uuencoded parts are decoded"),
    ("legacy/026.eml", "files are taken out of the text"),
    ("legacy/048.eml", "uuencoded parts are decoded"),
    ("legacy/049.eml", "files are taken out of the text"),
    ("legacy/052.eml", "bytes without a charset are Windows-1252 rather than errors"),
    ("malformed/000.eml", "parts without an empty line are parts"),
    ("malformed/001.eml", "a delimiter is a whole line, so no boundary is the beginning of another"),
    ("malformed/004.eml", "a delimiter is a whole line; what has none is text"),
    ("malformed/007.eml", "a delimiter ends a header"),
    ("malformed/009.eml", "a delimiter of an outer level ends the inner ones"),
    ("malformed/011.eml", "a delimiter of an outer level ends the inner ones"),
    ("malformed/012.eml", "a delimiter of an outer level ends the inner ones"),
    ("malformed/013.eml", "a multipart in which no part is found is an empty text"),
    ("malformed/014.eml", "a multipart in which no part is found is an empty text"),
    ("malformed/016.eml", "boundaries are compared whole, not their first 80 characters"),
    ("malformed/019.eml", "a delimiter is a whole line; what has none is text"),
    ("malformed/020.eml", "of two types the first holds"),
    ("malformed/021.eml", "of two types the first holds"),
    ("rfc/000.eml", "base64 is decoded although it is none"),
    ("rfc/001.eml", "message/external-body is shown"),
    ("thirdparty/002.eml", "base64 is decoded although it is none"),
    ("thirdparty/005.eml", "a delimiter begins a line"),
    ("thirdparty/009.eml", "message/partial is shown"),
    ("thirdparty/015.eml", "a multipart whose boundary never comes is text"),
];

#[test]
fn messages_are_read_as_a_peer_reads_them() {
    let messages = messages();
    let mut different = BTreeSet::new();
    for (path, message) in &messages {
        let mut leaves = Vec::new();
        expected(message, &mut leaves);
        // Its tests read each message with bare line feeds first.
        let mut raw = std::fs::read(path).unwrap();
        raw.retain(|byte| *byte != b'\r');
        let found = found(&raw);
        let words = |text: &String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if leaves.iter().map(words).ne(found.iter().map(words)) {
            println!("{}\n  expected {leaves:?}\n  found {found:?}", path.display());
            let name = path.iter().rev().take(2).collect::<Vec<_>>();
            different.insert(format!("{}/{}", name[1].display(), name[0].display()));
        }
    }
    assert!(messages.len() > 30, "{} messages", messages.len());
    // Those that ship are a part of all.
    let is_there = |name: &str| messages.iter().any(|(path, _)| path.ends_with(name));
    let known: BTreeSet<String> =
        DIFFERENT.iter().filter(|(name, _)| is_there(name)).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(different, known);
}

/// A value of one of the peer's lists of fields, and what is read of it.
fn fields(name: &str) -> Vec<(String, Value)> {
    let json = std::fs::read_to_string(corpora::folder("mail/mime").unwrap().join(name)).unwrap();
    let list: Vec<Value> = serde_json::from_str(&json).unwrap();
    list.iter().map(|test| (test["header"].as_str().unwrap().to_owned(), test["expected"].clone())).collect()
}

/// The first field of a text that goes on with others.
fn first_field(text: &str) -> &[u8] {
    let lines = text.split_inclusive('\n').enumerate();
    let length: usize =
        lines.take_while(|(n, line)| *n == 0 || line.starts_with([' ', '\t'])).map(|(_, l)| l.len()).sum();
    &text.as_bytes()[..length]
}

#[test]
fn text_fields_are_read_as_a_peer_reads_them() {
    for (field, expected) in fields("unstructured.json") {
        let found = encoded_word::decode(first_field(&field));
        // Words that stand beside text without a blank between are shown without one here.
        let dense = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(dense(&found), dense(expected.as_str().unwrap_or_default()), "{field:?}");
    }
}

#[test]
fn types_are_read_as_a_peer_reads_them() {
    // Words of several charsets follow each other without a blank, and names of nothing but stars have no pieces.
    const DIFFERENT: [&str; 2] =
        ["image/jpeg;\n   name=\"=?iso-8859-1?B?4Q==?= =?utf-8", "malicious/attempt; 1*2*"];
    for (field, expected) in fields("content_type.json") {
        let found = MediaType::parse(first_field(&field));
        let mut same = expected["c_type"].as_str().unwrap_or_default() == found.main
            && expected["c_subtype"].as_str().unwrap_or_default() == found.sub;
        for pair in expected["attributes"].as_array().into_iter().flatten() {
            let (name, value) = (pair[0].as_str().unwrap(), pair[1].as_str());
            same &= name.ends_with("-language") || found.parameter(name) == value;
        }
        same |= expected.is_null() && found.main.is_empty();
        if !same {
            let known = DIFFERENT.iter().any(|known| field.starts_with(known));
            assert!(known, "{field:?}\n  expected {expected}\n  found {found:?}");
        }
    }
}

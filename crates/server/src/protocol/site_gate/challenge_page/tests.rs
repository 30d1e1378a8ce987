//! The page as text, and in a real browser over a small site that asks with it.

#[path = "../../../../tests/it/installing.rs"]
mod installing;
#[path = "../../../../tests/it/npm.rs"]
mod npm;
mod site;

use std::process::Command;

use serde_json::{Value, json};

use self::site::{Pass, Site};
use super::markup::compact;
use super::translation::{FILES, read};
use super::*;

const CHALLENGE: &str = r#"{"parameters":{"algorithm":"PBKDF2/SHA-256","cost":1000,"data":{"host":"</script>"},"expiresAt":1893456000,"keyLength":32,"keyPrefix":"00","nonce":"00112233445566778899aabbccddeeff","salt":"00112233445566778899aabbccddeeff"},"signature":"6f1c7a0d6f1c7a0d6f1c7a0d6f1c7a0d6f1c7a0d6f1c7a0d6f1c7a0d6f1c7a0d"}"#;

fn page() -> ChallengePage<'static> {
    ChallengePage {
        challenge: CHALLENGE,
        base: "/.tollhouse/",
        return_to: "/articles/7?q=1",
        is_form: true,
        site: "site.example",
        reason: ChallengeReason::Suspicious,
        contact: Some("owner@site.example"),
        reference: "01JD0000000000000000000000",
        without_scripts: Some(ScriptlessOffer {
            wait_seconds: 5,
            mark_url: "/.tollhouse/mark?t=0000",
            continue_url: "/.tollhouse/continue?t=0000",
        }),
        nonce: "bm9uY2Vub25jZW5vbmNlIQ==",
    }
}

#[test]
fn the_page_is_small_in_every_language() {
    let longest =
        Translation::all().iter().map(|text| (page().render(text, None).len(), text.language())).max();
    let (bytes, language) = longest.unwrap();
    let english = page().render(&Translation::all()[0], None).len();
    println!("{bytes} bytes in {language}, {english} in en; script {}, style {}", SCRIPT.len(), STYLE.len());
    assert!(bytes < 15_000, "{bytes} bytes in {language}");
}

#[test]
fn each_language_has_all_texts_and_their_places() {
    let places = |text: &str| -> Vec<String> {
        let mut places: Vec<String> =
            text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect();
        places.sort();
        places
    };
    let keys = |file: &str| -> Vec<(String, String)> {
        let lines = file.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once(" = "))
            .map(|(key, text)| (key.to_owned(), text.to_owned()))
            .collect()
    };
    let english = keys(FILES[0].1);
    assert_eq!(FILES.len(), 10);
    for (language, file) in FILES {
        assert_eq!(read(file).err(), None, "{language}");
        let here = keys(file);
        assert_eq!(here.len(), english.len(), "{language}");
        for ((key, text), (english_key, english)) in here.iter().zip(&english) {
            assert_eq!(key, english_key, "{language}");
            assert_eq!(places(text), places(english), "{language}: {key}");
            assert!((3..=200).contains(&text.chars().count()), "{language}: {key}: {text}");
        }
    }
    let right_to_left: Vec<_> =
        Translation::all().iter().filter(|text| text.direction == "rtl").map(Translation::language).collect();
    assert_eq!(right_to_left, ["ar"]);
    assert!(read("title = 1").is_err());
    assert!(read(&format!("{}\nmore = \"x\"", FILES[0].1)).is_err());
}

#[test]
fn the_visitors_language_is_taken() {
    let long = "xx,".repeat(10_000) + "de";
    for (field, language) in [
        ("", "en"),
        ("de", "de"),
        ("DE-at", "de"),
        ("pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("nl, fr;q=0.5, de;q=0.7", "de"),
        ("fr;q=0.5, de;q=0.5", "fr"),
        ("de;q=0, fr;q=0.001", "fr"),
        ("de;q=0", "en"),
        ("zh-Hant-TW", "zh"),
        ("*", "en"),
        ("*;q=0.1, ru;q=0.2", "ru"),
        ("de;q=2, it", "it"),
        ("de;q=, de;q=0.12345, de;q=1.5, ja ; q=0.3", "ja"),
        ("de ;q=0.9;x=1", "de"),
        ("\u{fe0f}é,,;;q=1,=;q", "en"),
        (&long, "en"),
    ] {
        assert_eq!(Translation::negotiated(field).language(), language, "{field}");
    }
}

#[test]
fn templates_are_read_and_refused() {
    let check = |text: &str, error: Option<&str>| {
        let read = PageTemplate::read(text).map_err(|error| error.to_string());
        match error {
            None => assert_eq!(read.err(), None, "{text}"),
            Some(error) => assert!(read.as_ref().is_err_and(|why| why.contains(error)), "{text}: {read:?}"),
        }
    };
    check(include_str!("page.html"), None);
    check("{{head}}{{challenge}}", None);
    check("{{ head }}<p title='{{site}}' lang=\"{{language}}\">{{site}}</p>{{challenge}}", None);
    check("<style nonce=\"{{nonce}}\">p{}</style>{{head}}{{challenge}}", None);
    check("{{head}}<script>if (a<b) {}</script><b>{{challenge}}</b>", None);
    check("{{head}}", Some("{{challenge}} is missing"));
    check("{{challenge}}", Some("{{head}} is missing"));
    check("{{head}}\n{{challenge}}\n{{nam\u{e9}}}", Some("line 3: there is no placeholder {{nam\u{e9}}}"));
    check("{{head}}\n\n{{challenge", Some("line 3: a placeholder begins here"));
    check("{{head}}{{head}}{{challenge}}", Some("{{head}} stands there a second time"));
    check("{{head}}<p title={{site}}>{{challenge}}", Some("line 1: {{site}} cannot stand in a tag"));
    check("{{head}}<p title=\"{{contact}}\">{{challenge}}", Some("{{contact}} cannot stand in an attribute"));
    check(
        "{{head}}<script>var a = '{{site}}'</script>{{challenge}}",
        Some("{{site}} cannot stand in a script"),
    );
    check(
        "{{head}}<STYLE>\n{{site}}</STYLE>{{challenge}}",
        Some("line 2: {{site}} cannot stand in a script"),
    );
    check("{{head}}<!-- <p>{{site}} -->{{challenge}}", Some("in a comment"));
    check(&"x".repeat(1 << 20), Some("1048576 bytes"));

    let guide = include_str!("../../../../../../docs/guides/challenge-page.md");
    let (_, example) = guide.split_once("```html\n").unwrap();
    check(example.split_once("```").unwrap().0, None);
    let (_, table) = guide.split_once("| place | |").unwrap();
    for (name, ..) in gate::page_template::SLOTS {
        assert!(table.contains(&format!("`{{{{{name}}}}}`")), "the guide lacks {name}");
    }

    let template = PageTemplate::read("<h1>{{site}}</h1>{{head}}{{challenge}}").unwrap();
    let text = Translation::negotiated("de");
    let made = page().render(text, Some(&template));
    assert!(made.starts_with("<h1>site.example</h1><noscript>"), "{made}");
    assert!(!made.contains("<title>"));
}

#[test]
fn values_are_escaped_where_they_stand() {
    let evil = "\"'></script></style></noscript><b onclick=x>&\u{202e}\u{2066}\u{2028}\u{7f}\\";
    let path = format!("/{evil}");
    let hostile = ChallengePage {
        base: &path,
        return_to: &path,
        site: evil,
        contact: Some(evil),
        reference: evil,
        without_scripts: Some(ScriptlessOffer { wait_seconds: 5, mark_url: &path, continue_url: &path }),
        nonce: evil,
        ..page()
    };
    for text in Translation::all() {
        let (made, calm) = (hostile.render(text, None), page().render(text, None));
        assert!(!made.contains("<b "), "{made}");
        for sign in ["\u{202e}", "\u{2066}", "\u{2028}", "</script>", "</style>", "</noscript>"] {
            assert_eq!(made.matches(sign).count(), calm.matches(sign).count(), "{sign:?}");
        }
    }
    for (path, safe) in [
        ("/a?b", "/a?b"),
        ("//host/", "/.//host/"),
        ("/\\host", "/./\\host"),
        ("", "/"),
        ("https://host/", "/"),
        ("javascript:x", "/"),
        ("/\thost", "/"),
        ("/a\r\nb", "/"),
    ] {
        assert_eq!(same_site(path), safe);
    }
    for (contact, link) in [
        ("owner@site.example", "<a href=\"mailto:owner@site.example?subject=01JD"),
        ("https://site.example/?a&b", "<a href=\"https://site.example/?a&amp;b\">"),
        ("javascript:alert(1)", "<bdi>javascript:alert(1)</bdi>"),
        ("a@b?cc=c@d", "<bdi>a@b?cc=c@d</bdi>"),
        ("at the desk", "<bdi>at the desk</bdi>"),
    ] {
        let made = ChallengePage { contact: Some(contact), ..page() }.render(&Translation::all()[0], None);
        assert!(made.contains(link), "{contact}");
    }
}

#[test]
fn fields_of_the_answer_name_the_nonce() {
    let fields = page().headers(Translation::negotiated("ar"));
    let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let policy = field("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'nonce-bm9uY2Vub25jZW5vbmNlIQ=='"),
        "{policy}"
    );
    assert_eq!(field("content-language"), Some("ar"));
    assert_eq!(field("cache-control"), Some("no-store"));
    let broken = ChallengePage { nonce: "a'; script-src *\r\n", ..page() };
    let fields = broken.headers(Translation::negotiated(""));
    assert!(fields[1].1.contains("script-src 'nonce-ascript-src'"), "{}", fields[1].1);
}

#[test]
fn comments_and_indentation_are_left_out() {
    assert_eq!(
        compact("// why\n  a = (b, 'c = d') ;\n\n/* x */\n  e { f: g }\n", "{}()=,;"),
        "a=(b,'c = d');\ne{f: g}\n"
    );
    assert!(!SCRIPT.contains("\n//") && !STYLE.contains("/*"));
}

/// The page in Chromium: `TOLLHOUSE_PICTURES=folder` keeps pictures of it, `TOLLHOUSE_CASE=words` runs some cases.
#[test]
fn the_page_works_in_a_browser() {
    let home = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("tmp");
    let purpose = "the challenge page in Chromium";
    let found =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    for program in ["chromium", "node", "npm"] {
        if !found(program) {
            println!("skipped: {purpose}: {program} is not installed");
            return;
        }
    }
    let Some(packages) = npm::packages(&home, &npm::CHALLENGE_PACKAGES, purpose) else { return };
    let ordinary = Site { plain_seconds: Some(2), ..Site::default() };
    let sites = [
        ("ordinary", ordinary),
        ("endless", Site { prefix: "0000000000000000", ..Site::default() }),
        ("form", Site::default()),
        ("forgetful", Site { pass: Pass::Forgotten, ..Site::default() }),
        ("refusing", Site { pass: Pass::Refused, ..Site::default() }),
        ("gone", Site { pass: Pass::Gone, ..Site::default() }),
        (
            "hostile",
            Site { prefix: "0000000000000000", hostile: true, plain_seconds: Some(2), ..Site::default() },
        ),
    ];
    let sites: serde_json::Map<String, Value> =
        sites.into_iter().map(|(name, site)| (name.to_owned(), Value::from(site.serve()))).collect();
    let asked = json!({
        "chromium": "/usr/bin/chromium",
        "packages": packages,
        "pictures": std::env::var("TOLLHOUSE_PICTURES").ok(),
        "only": std::env::var("TOLLHOUSE_CASE").ok(),
        "sites": sites,
    });
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/challenge/browser.mjs");
    let ran = Command::new("node").arg(driver).arg(asked.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.lines().any(|line| line.starts_with("ok: ")));
}

//! Real messages and logs: all are read, and what must be seen in some is seen.

use std::path::Path;

use content::mail::message::{self, Envelope};
use content::network::PrefixLengths;
use content::text::phone;
use content::web::access_log;
use content::web::messenger;
use content::web::pattern::{PatternList, RequestPatterns};
use content::{piece, text};
use corpora::{files, folder};
use event::{SchemaBuilder, Value};

use crate::story::Mail;

#[test]
fn odd_messages_are_read() {
    let mail = Mail::new();
    for name in ["mail/mime", "mail/edge-rspamd", "mail/edge-spamassassin"] {
        let Some(folder) = folder(name) else { continue };
        let (mut read, mut with_from, mut with_text) = (0, 0, 0);
        for path in files(&folder) {
            let raw = std::fs::read(&path).unwrap();
            let row = mail.row(&raw);
            assert_eq!(row.get(mail.columns.size), Some(&Value::from(raw.len())), "{}", path.display());
            for value in row.values().iter().flatten() {
                piece::pieces(value, piece::Normalisation::Text, &mut |piece| assert!(!piece.is_empty()));
            }
            read += 1;
            with_from += usize::from(row.get(mail.columns.from).is_some());
            with_text += usize::from(row.get(mail.columns.body.words.text).is_some());
        }
        println!("{name}: {read} read, {with_from} with From, {with_text} with text");
        assert!(read > 60 && with_text * 10 > read * 4, "{name}: {with_text} of {read} have text");
    }
}

#[test]
fn stored_mail_names_its_client_and_time() {
    let Some(folder) = folder("mail/corpus") else { return };
    let (mut read, mut with_client, mut with_time) = (0, 0, 0);
    for path in files(&folder) {
        let raw = std::fs::read(&path).unwrap();
        read += 1;
        with_client += usize::from(Envelope::from_headers(&raw).client_ip.is_some());
        with_time += usize::from(message::time(&raw).is_some());
    }
    println!("{read} read, {with_client} with client, {with_time} with time");
    assert!(
        with_client * 100 > read * 85 && with_time * 100 > read * 99,
        "{with_client}, {with_time} of {read}"
    );
}

#[test]
fn every_line_of_a_real_log_is_read() {
    let Some(path) = folder("web/apache_combined.log") else { return };
    let bytes = std::fs::read(path).unwrap();
    let mut builder = SchemaBuilder::default();
    let columns = access_log::HttpColumns::register(&mut builder).unwrap();
    let schema = builder.finish();
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/lists");
    let patterns = RequestPatterns::compile(|name| {
        PatternList::parse(&std::fs::read_to_string(lists.join(name).with_extension("txt")).unwrap())
    });
    let patterns = patterns.unwrap();
    let (mut read, mut bots, mut malformed) = (0, 0, 0);
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let event = access_log::event(line)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line)));
        assert!(event.time.is_some());
        let mut row = schema.empty_row();
        for (name, value) in event.fields {
            row.set(schema.slot(&name).unwrap(), value);
        }
        access_log::features(&columns, PrefixLengths::default(), &patterns, &mut row);
        assert!(row.get(columns.client_net).is_some());
        read += 1;
        bots += usize::from(row.get(columns.agent_bot) == Some(&Value::Bool(true)));
        malformed += usize::from(row.get(columns.malformed) == Some(&Value::Bool(true)));
    }
    println!("{read} read, {bots} of bots, {malformed} malformed");
    assert_eq!((read, malformed), (10_000, 0));
    assert!((1_200..2_500).contains(&bots), "{bots} lines of declared bots");
}

/// The logs of this folder in one of the formats that are read, and how many of their lines are in another.
const LOGS: [(&str, usize); 18] = [
    ("apache2-http-sensitive-files", 0),
    ("apache2-logs", 2), // of the error log
    ("apache2-malformed", 0),
    ("http-cve-probing", 0),
    ("http-dos-bypass-cache", 0),
    ("http-dos-invalid-http-versions", 0),
    ("http-dos-random-uri", 0),
    ("http-dos-switching-ua", 0),
    ("http-generic-test", 0),
    ("http-wordpress_wpconfig", 0),
    ("nginx-bad-user-agent", 0),
    ("nginx-cve-2021-41773", 0),
    ("nginx-http-backdoor", 0),
    ("nginx-http-malformed", 0),
    ("nginx-http-open-proxy", 0),
    ("nginx-http-w00twoot", 0),
    ("nginx-http-xss-probing", 0),
    ("traefik_clf", 0),
];

#[test]
fn logs_of_attacks_are_read() {
    let folder = folder("web/crowdsec").unwrap();
    let logs = LOGS.into_iter().filter(|(name, _)| folder.join(name).exists());
    let logs: Vec<_> = logs.collect();
    assert!(logs.len() > 10, "{} logs", logs.len());
    let mut found = Vec::new();
    for (name, _) in &logs {
        let mut refused = Vec::new();
        for path in
            files(&folder.join(name)).iter().filter(|path| path.extension().is_some_and(|e| e == "log"))
        {
            let bytes = std::fs::read(path).unwrap();
            for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                if let Err(error) = access_log::event(line) {
                    refused.push(format!("{error}: {}", String::from_utf8_lossy(line)));
                }
            }
        }
        println!("{name}: {refused:#?}");
        found.push((*name, refused.len()));
    }
    assert_eq!(found, logs);
}

#[test]
fn look_alikes_of_all_letters_are_undone() {
    let Some(path) = folder("text/confusables.json") else { return };
    let table: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut all, mut undone) = (0, 0);
    for letter in "acdeghijklopqsuvxyz".chars() {
        let alike = table[letter.to_string()].as_array().map(Vec::as_slice).unwrap_or_default();
        let alike = alike.iter().filter_map(|it| it["c"].as_str()).filter(|it| !it.is_ascii());
        for other in alike.filter(|it| it.chars().all(char::is_alphanumeric)) {
            all += 1;
            undone += usize::from(text::normalise(&format!("bb{other}bb")) == format!("bb{letter}bb"));
        }
    }
    println!("{undone} of {all} look-alikes are undone");
    assert!(all > 400 && undone * 100 > all * 85, "{undone} of {all}");
}

#[test]
fn numbers_are_in_unwanted_texts_and_hardly_in_others() {
    let Some(path) = folder("text/sms.tsv") else { return };
    let texts = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let share = |label: &str| {
        let of = texts.lines().filter_map(|line| line.split_once('\t')).filter(|(found, _)| *found == label);
        let (mut all, mut with) = (0u32, 0u32);
        for (_, written) in of {
            let mut count = 0;
            phone::find(&text::plain(written), |_| count += 1);
            all += 1;
            with += u32::from(count > 0);
        }
        println!("{label}: {with} of {all} name a telephone number");
        f64::from(with) / f64::from(all)
    };
    assert!(share("spam") > 0.45 && share("ham") < 0.002);
}

#[test]
fn words_of_two_scripts_become_words_of_one() {
    let Some(path) = folder("text/telegram-ru-spam.txt") else { return };
    let texts = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let is_cyrillic = |c: char| ('\u{400}'..='\u{4FF}').contains(&c);
    let words = texts.split(|c: char| !c.is_alphabetic());
    let mixed = words.filter(|word| {
        word.contains(is_cyrillic) && word.contains(|c: char| c.is_ascii_alphabetic() && !is_cyrillic(c))
    });
    let (mut all, mut whole) = (0, 0);
    for word in mixed {
        all += 1;
        let plain = text::plain(word);
        whole += usize::from(plain.chars().all(is_cyrillic) || plain.is_ascii());
    }
    println!("{whole} of {all} words of two scripts become words of one");
    assert!(all > 300 && whole * 100 > all * 90, "{whole} of {all}");
}

#[test]
fn names_in_messengers_are_not_in_texts_without() {
    let mut found = Vec::new();
    for name in ["text/sms.tsv", "text/telegram-ru-ham.txt"] {
        let Some(path) = folder(name) else { continue };
        let texts = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        for line in texts.lines() {
            messenger::find(&text::plain(line), |handle| found.push(format!("{handle}: {line}")));
        }
    }
    // Nobody had a messenger when these messages were sent, and these posts name none.
    println!("{}", found.join("\n"));
    assert!(found.len() <= 2, "{found:#?}");
}

#[test]
fn names_in_messengers_are_in_unwanted_posts() {
    let Some(path) = folder("text/telegram-ru-spam.txt") else { return };
    let texts = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let mut found = Vec::new();
    for line in texts.lines() {
        messenger::find(&text::plain(line), |handle| found.push(handle));
    }
    println!("{}", found.join("\n"));
    assert!(!found.is_empty());
}

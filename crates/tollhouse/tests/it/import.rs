//! Lists and backups of other filters.

use std::fs;
use std::process::{Command, Stdio};

use crate::program::{Data, run};

const MESSAGE: &str = "Return-Path: <joe@blocked.example>\nReceived: from a (a [45.0.1.9]) by mx; Sun, 17 May 2026 10:00:00 +0000\n\
    From: Joe <joe@blocked.example>\nTo: b@example.net\nSubject: Lunch\nMessage-ID: <1@blocked.example>\n\
    Date: Sun, 17 May 2026 10:00:00 +0000\n\nCheap   pills at https://www.shop.example/x\n";

/// The rules that fire on a message where these lists stand over the preset.
fn fired(lists: &str, message: &str) -> Vec<String> {
    let data = Data::new(&["mail"]);
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap() + lists;
    fs::write(&config, text).unwrap();
    let decided = data.run(&["check", "--json", "-"], message).expect(0).json().remove(0);
    let reasons = decided["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason["name"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn check(arguments: &[&str], list: &str, fires: &str, not: &str) {
    let data = Data::new(&["mail"]);
    let file = data.file("list.map", list);
    let all =
        [&["import", "multimap", "--symbol", "LISTED", "--score", "3"], arguments, &[file.as_str()]].concat();
    let rules = run(all, "").expect(0).stdout;
    for (message, expected) in [(fires, true), (not, false)] {
        let fired = fired(&rules, message);
        assert_eq!(
            fired.iter().any(|rule| rule.starts_with("LISTED")),
            expected,
            "{rules}\n{message}\n{fired:?}"
        );
    }
}

#[test]
fn lists_of_a_multimap_become_rules() {
    let elsewhere = MESSAGE.replace("blocked.example", "fine.example").replace("45.0.1.9", "46.0.1.9");
    let ip = "# offices\n46.0.1.0/24\n[2001:db8::1]/64 # another\n";
    check(&["--type", "ip"], ip, &elsewhere, MESSAGE);
    for list in ["blocked.example", "@blocked.example", "JOE@blocked.example", "/^jo.@blocked/", "/^BLOCKED/"]
    {
        check(&["--type", "from"], &format!("x@y.example\n{list}\n"), MESSAGE, &elsewhere);
        check(&["--type", "from", "--mime"], list, MESSAGE, &elsewhere);
    }
    check(
        &["--type", "from", "--filter", "email:domain:tld"],
        "example.org\nblocked.example",
        MESSAGE,
        &elsewhere,
    );
    for list in ["joe", "joe@"] {
        check(&["--type", "from"], list, MESSAGE, &MESSAGE.replace("joe@", "ann@"));
    }
    let quoted = MESSAGE.replace("<joe@", "<o'neil@");
    check(&["--type", "from"], "o'neil@\n/'neil@block/", &quoted, MESSAGE);
    let other =
        MESSAGE.replace("Lunch", "Dinner").replace("shop.example", "inn.example").replace("pills", "beer");
    check(&["--type", "header", "--header", "Subject"], "lunch", MESSAGE, &other);
    check(&["--type", "url"], "www.shop.example", MESSAGE, &other);
    check(&["--type", "url", "--filter", "tld"], "shop.example", MESSAGE, &other);
    check(&["--type", "content"], "/cheap\\s+PILLS/", MESSAGE, &other);
    let many: String = (0..100).map(|number| format!("/nothing{number}/\n")).collect();
    check(&["--type", "content"], &format!("{many}/pills/\n"), MESSAGE, &other);
}

#[test]
fn lines_have_symbols_and_weights_of_their_own() {
    let data = Data::new(&["mail"]);
    let list = "blocked.example BAD:2\nfine.example GOOD:-1\n/^x(?=y)/ BAD\njust.example\n";
    let file = data.file("list.map", list);
    let lists = data.path().join("lists");
    let ran = run(
        [
            "import",
            "multimap",
            "--type",
            "from",
            "--symbol",
            "LISTED",
            "--score",
            "2.5",
            "--lists",
            &lists.display().to_string(),
            &file,
        ],
        "",
    );
    let ran = ran.expect(1);
    assert!(
        ran.stderr.contains("list.map:3: left out: ") && ran.stderr.contains("3 entries, 1 lines left out"),
        "{}",
        ran.stderr
    );
    for part in [
        "name = \"BAD\"",
        "score = 5.0",
        "name = \"GOOD\"",
        "score = -2.5",
        "name = \"LISTED\"",
        "score = 2.5",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert_eq!(fs::read_to_string(lists.join("bad_names.txt")).unwrap(), "blocked.example\n");
    assert!(fired(&ran.stdout, MESSAGE).contains(&"BAD".to_owned()));

    let refused =
        run(["import", "multimap", "--type", "url", "--filter", "query", "--symbol", "X", &file], "")
            .expect(2);
    assert!(refused.stderr.contains("there is no fact here"), "{}", refused.stderr);
}

/// A program of SpamAssassin, whose home is this directory.
fn sa_learn(home: &std::path::Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("sa-learn");
    command
        .args(["-L", "--dbpath"])
        .arg(home.join("bayes"))
        .args(arguments)
        .env("HOME", home)
        .stdin(Stdio::null());
    let Ok(output) = command.output() else {
        println!("skipped: sa-learn is not installed");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn what_spamassassin_had_learned_is_learned_from_the_mail() {
    let home = tempfile::tempdir().unwrap();
    let data = Data::new(&["mail"]);
    let mail = home.path().join("mail");
    fs::create_dir(&mail).unwrap();
    let message = |number: usize, what: &str| {
        let line_end = if number.is_multiple_of(2) { "\n" } else { "\r\n" };
        format!(
            "Received: from x by y; Sun, 17 May 2026 10:00:00 +0000\nFrom: a{number}@{what}.example\n\
             To: =?utf-8?q?B=C3=B6b?= <b@example.net>,\n\tc@example.net\nDate: Sun, 17 May 2026 10:00:00 +0000\n\
             Subject: {what} {number}\n\nDear Bob,\nthis is {what} of number {number}, with words enough to learn.\n\n"
        )
        .replace('\n', line_end)
    };
    for number in 0..6 {
        fs::write(mail.join(format!("spam{number}")), message(number, "spam")).unwrap();
        fs::write(mail.join(format!("ham{number}")), message(number, "ham")).unwrap();
    }
    fs::write(mail.join("new"), message(7, "news")).unwrap();
    let files = |what: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| mail.join(format!("{what}{number}")).display().to_string()).collect()
    };
    for (class, what, count) in [("--spam", "spam", 5), ("--ham", "ham", 4)] {
        let files = files(what, count);
        let arguments: Vec<&str> = [class].into_iter().chain(files.iter().map(String::as_str)).collect();
        if sa_learn(home.path(), &arguments).is_none() {
            return;
        }
    }
    let backup = home.path().join("backup.txt");
    fs::write(&backup, sa_learn(home.path(), &["--backup"]).unwrap()).unwrap();
    let (backup, mail) = (backup.display().to_string(), mail.display().to_string());
    let ran = data.run(&["import", "bayes", "--json", &backup, &mail], "").expect(0);
    let said = ran.json();
    assert_eq!(said.len(), 9, "{}", ran.stdout);
    for line in &said {
        let file = line["file"].as_str().unwrap();
        assert_eq!(line["class"], if file.contains("spam") { "spam" } else { "ham" }, "{file}");
        assert_eq!(line["duplicate"], false, "{file}");
    }
    for part in [
        "learned 5 messages as spam and 4 as ham, 0 of them known before; 4 are not in",
        "the backup names 9 messages, 0 of which were not there; it counts 5 spam, 4 ham and ",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let again = data.run(&["import", "bayes", &backup, &mail], "").expect(0);
    assert!(again.stderr.contains("9 of them known before"), "{}", again.stderr);
}

#[test]
fn what_is_no_backup_is_refused() {
    let data = Data::new(&["mail"]);
    let refused = |text: &str| {
        let file = data.file("backup.txt", text);
        data.run(&["import", "bayes", &file, "-"], MESSAGE).expect(2).stderr
    };
    assert!(refused("From: a@example.org\n").contains("line 1: this is no backup of sa-learn"));
    assert!(refused("v\t9\tdb_version\n").contains("version 9 of the format is not known"));
    assert!(refused("v\t3\tdb_version\nx\n").contains("line 2: this is no line of a backup"));
    assert!(refused("v\t3\tdb_version\nv\t0\tnum_spam\n").contains("it names no message"));
}

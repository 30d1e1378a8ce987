//! `fit`: scores fitted to judged decisions, and to folders.

use std::fs;

use serde_json::Value;

use crate::program::{Data, MESSAGE, run};

/// A mailbox of so many messages: wanted ones as they are, unwanted ones that shout.
fn mailbox(is_spam: bool, count: usize) -> String {
    let message = |number: usize| {
        let subject = if is_spam { "WIN MONEY NOW!!! FREE!!!" } else { "Minutes of our meeting" };
        let own = MESSAGE.replace("<1@", &format!("<{is_spam}{number}@"));
        let lines = own.lines().map(|line| match line.strip_prefix("Subject:") {
            Some(_) => format!("Subject: {subject} {number}\r\n"),
            None => format!("{line}\r\n"),
        });
        format!("From a@example.com Thu Oct  3 20:04:09 1991\n{}\r\n", lines.collect::<String>())
    };
    (0..count).map(message).collect()
}

fn rule<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    report["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == name)
}

/// Asserts that scores follow what was judged, and returns a rule that only spam fires.
fn follows(report: &Value) -> String {
    let number = |rule: &Value, key: &str| rule[key].as_f64().unwrap();
    let mut telling = None;
    for rule in report["rules"].as_array().unwrap() {
        let (score, fitted) = (number(rule, "score"), number(rule, "fitted"));
        assert!(score * fitted >= 0.0, "{rule}");
        if number(rule, "good") == 0.0 && score > 0.0 {
            assert!(fitted >= score - 0.01, "{rule}");
            telling = telling.or(Some(rule["name"].as_str().unwrap().to_owned()));
        }
        if number(rule, "bad") == 0.0 && score > 0.0 {
            assert!(fitted <= score + 0.01, "{rule}");
        }
    }
    telling.unwrap()
}

#[test]
fn scores_are_fitted_to_the_journal_and_to_folders() {
    let data = Data::new(&["mail"]);
    let few = data.run(&["fit"], "").expect(2);
    assert!(
        few.stderr.contains("0 good and 0 bad events are judged, and 20 of each are needed"),
        "{}",
        few.stderr
    );
    let boxes = [false, true].map(|is_spam| data.file(&format!("{is_spam}.mbox"), &mailbox(is_spam, 60)));
    let mut labels = String::new();
    for (path, class) in boxes.iter().zip(["ham", "spam"]) {
        let decided = data.run(&["check", "--json", path], "").expect(0).json();
        for decision in decided {
            labels += &format!("{},{class}\n", decision["id"].as_str().unwrap());
        }
    }
    let file = data.file("labels.csv", &labels);
    data.run(&["feedback", "--file", &file], "").expect(0);
    let journal = data.run(&["fit", "--json", "--prior", "2"], "").expect(0).json().remove(0);
    assert_eq!(
        (&journal["events"], &journal["bad"], &journal["pipeline"]),
        (&120.into(), &60.into(), &"mail".into())
    );
    let telling = follows(&journal);
    let folders = ["fit", "--json", "--ham", &boxes[0], "--spam", &boxes[1], "--delay", "10", "--prior", "2"];
    let folders = run(folders, "").expect(0).json().remove(0);
    assert_eq!((&folders["events"], &folders["bad"]), (&120.into(), &60.into()));
    assert!(rule(&folders, &telling).is_some(), "{folders}");
    follows(&folders);
    // Learners are fitted like other rules, if their group is not fixed: here wanted mail comes that is like the spam.
    let late = mailbox(true, 20).replace("17 May", "18 May").replace("<true", "<late");
    let late = data.file("late.mbox", &late);
    let words = ["fit", "--json", "--delay", "10", "--ham", &boxes[0], &late, "--spam", &boxes[1]];
    let moved = run(words, "").expect(0).json().remove(0);
    let learned = rule(&moved, "LEARNED_SPAM").unwrap_or_else(|| panic!("{moved}"));
    let (score, fitted) = (learned["score"].as_f64().unwrap(), learned["fitted"].as_f64().unwrap());
    assert!(learned["good"].as_u64() >= Some(10) && fitted < score - 1.0, "{learned}");
    let fixed = run([&words[..], &["--fix", "learned"]].concat(), "").expect(0).json().remove(0);
    assert!(rule(&fixed, "LEARNED_SPAM").is_none() && rule(&fixed, &telling).is_some(), "{fixed}");

    // What is fixed stays, and what is written is a configuration.
    let written = data.path().join("fitted.toml");
    let target = written.display().to_string();
    let ran = data.run(&["fit", "--prior", "2", "--fix", &telling, "--write", &target], "").expect(0);
    assert!(
        ran.stdout.contains("fitted") && ran.stderr.contains("fitted.toml is written"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    let fitted = fs::read_to_string(&written).unwrap();
    assert!(fitted.contains("60 good and 60 bad events") && fitted.contains("[[rule]]"), "{fitted}");
    assert!(!fitted.contains(&format!("{telling:?}")), "{fitted}");
    let config = data.path().join("tollhouse.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{own}\n{fitted}")).unwrap();
    data.run(&["config", "check"], "").expect(0);
    let none = data.run(&["fit", "--fix", "NOTHING"], "").expect(2);
    assert!(none.stderr.contains("`mail` has no rule and no group `NOTHING`"), "{}", none.stderr);
    let alone = run(["fit", "--spam", &boxes[1]], "").expect(2);
    assert!(alone.stderr.contains("--ham"), "{}", alone.stderr);
}

//! `backtest`: the journal judged anew.

use std::fs;

use crate::program::{Data, corpus};

#[test]
fn the_journal_is_judged_anew() {
    let data = Data::new(&["mail"]);
    data.run(&["check", "--message-time", "--json", &corpus("mail.mbox")], "").expect(0);
    for replay in [false, true] {
        let more: &[&str] = if replay { &["--replay"] } else { &[] };
        let same = [&["backtest", "--json"], more].concat();
        let report = data.run(&same, "").expect(0).json().remove(0);
        assert!(report["rows"].as_u64().unwrap() > 100, "{report}");
        if !replay {
            assert_eq!(report["changed"], 0, "{report}");
        }
        let rules = data.path().join("new.toml");
        let text = "preset = \"mail\"\n[[rule]]\nname = \"ALL\"\nwhen = \"mail.size > 0\"\nscore = 50.0\n";
        fs::write(&rules, text).unwrap();
        let new = rules.display().to_string();
        let changed = [&["backtest", "--rules", &new], more].concat();
        let ran = data.run(&changed, "").expect(0);
        assert!(ran.stdout.contains("→ reject") && ran.stdout.contains("+ALL"), "{}", ran.stdout);

        fs::write(&rules, text.replace("mail.size > 0", "mail.body_text.size() > 0")).unwrap();
        let ran = data.run(&changed, "").expect(1);
        assert!(ran.stderr.contains("mail.body_text was not logged"), "{}", ran.stderr);
        assert!(ran.stderr.contains("ALL"), "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_tried_is_said() {
    let data = Data::new(&["mail"]);
    let ran = data.run(&["backtest", "--model", "spam=none.cbm"], "").expect(2);
    assert!(ran.stderr.contains("none.cbm"), "{}", ran.stderr);
    let model = corpus("model/numeric.cbm");
    let ran = data.run(&["backtest", "--model", &format!("spam={model}")], "").expect(2);
    assert!(ran.stderr.contains("has no model `spam`"), "{}", ran.stderr);
    let ran = data.run(&["backtest", "--pipeline", "webb"], "").expect(2);
    assert!(ran.stderr.contains("no pipeline `webb`"), "{}", ran.stderr);
    assert_eq!(data.run(&["backtest", "--json"], "").expect(0).json()[0]["rows"], 0);
}

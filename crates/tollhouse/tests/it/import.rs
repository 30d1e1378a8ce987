//! Lists and backups of other filters.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

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

/// A message from an address and a client, as it comes now.
fn message_of(address: &str, client: &str) -> String {
    let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S +0000").to_string();
    format!(
        "Received: from a (a [{client}]) by mx; {date}\nFrom: <{address}>\nTo: b@example.net\nSubject: Lunch\n\
         Message-ID: <1.{address}>\nDate: {date}\n\nShall we have lunch?\n"
    )
}

/// A point in time so many hours ago, as databases write it.
fn hours_ago(hours: i64) -> String {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours);
    then.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The rules that fire on a message in a data directory.
fn fired_in(data: &Data, message: &str) -> Vec<String> {
    let decided = data.run(&["check", "--json", "-"], message).expect(0).json().remove(0);
    let reasons = decided["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason["name"].as_str().unwrap().to_owned()).collect()
}

/// The counts of a key in two weeks, where verdicts alone have made no grade.
fn counts(data: &Data, kind: &str, value: &str) -> Value {
    let known = data.run(&["stats", "--json", kind, value], "").expect(0).json().remove(0);
    for reputation in known["reputations"].as_array().into_iter().flatten() {
        assert_eq!(reputation["grade"], "unknown", "{known}");
    }
    known["windows"].as_array().unwrap().iter().find(|it| it["window"] == "14d").unwrap()["counts"].clone()
}

/// The records that were left out, by sort.
fn left_out(told: &[Value]) -> Vec<(&str, u64)> {
    let left = told.iter().filter(|line| !line["left_out"].is_null());
    left.map(|line| (line["record"].as_str().unwrap(), line["records"].as_u64().unwrap())).collect()
}

#[test]
fn senders_that_another_filter_knows_are_known() {
    let data = Data::new(&["mail-incoming"]);
    let (recent, old) = (hours_ago(4 * 24), hours_ago(300 * 24));
    let table = |ann: u64| {
        format!(
            "username\temail\tip\tcount\ttotscore\tsignedby\tlast_hit\n\
             GLOBAL\tann@known.example\tnone\t{ann}\t-{ann}\t\t{recent}\n\
             GLOBAL\tann@known.example\t45.0\t{ann}\t-{ann}\t\t{recent}\n\
             GLOBAL\t45.0.1.9\tnone\t300\t600\t\t{}\n\
             GLOBAL\tknown.example\t45.0\t{ann}\t-{ann}\t\t{recent}\n\
             GLOBAL\tbulk@known.example\tnone\t60\t900.5\tspf\t{recent}\n\
             GLOBAL\told@known.example\tnone\t60\t900.5\t\t{old}\n\
             joe\tann@known.example\tnone\t{ann}\t-{ann}\t\t{recent}\n",
            hours_ago(1)
        )
    };
    let import = |table: &str, more: &[&str]| {
        let file = data.file("txrep.tsv", table);
        let all = [&["import", "reputation", "--source", "txrep", "--user", "GLOBAL", "--json", &file], more];
        data.run(&all.concat(), "").expect(0).json()
    };
    let table_of_400 = table(400);
    let addresses = json!({
        "record": "address", "records": 3, "counted": 2, "messages": 460, "spam": 60, "ham": 400, "known": 0,
        "too_old": 1, "keyless": 0
    });
    let told = import(&table_of_400, &["--dry-run"]);
    assert_eq!((&told[0], counts(&data, "from", "ann@known.example")), (&addresses, json!({})));
    let told = import(&table_of_400, &[]);
    assert_eq!(told[0], addresses);
    let clients = &told[1];
    assert_eq!(
        (&clients["record"], &clients["messages"], &clients["ham"]),
        (&json!("client"), &json!(300), &json!(0))
    );
    assert_eq!(left_out(&told), [("address_of_network", 1), ("name", 1), ("other_user", 1)]);
    for _ in 0..2 {
        assert_eq!(counts(&data, "from", "Ann@Known.example"), json!({ "seen": 400, "ham": 400 }));
        assert_eq!(counts(&data, "from", "bulk@known.example"), json!({ "seen": 60, "spam": 60 }));
        assert_eq!(counts(&data, "from", "old@known.example"), json!({}));
        assert_eq!(counts(&data, "ip", "45.0.1.9"), json!({ "seen": 300 }));
        let again = import(&table_of_400, &[]);
        let of = |line: usize| (again[line]["messages"].as_u64(), again[line]["known"].as_u64());
        assert_eq!((of(0), of(1)), ((Some(0), Some(2)), (Some(0), Some(1))));
    }
    assert_eq!(import(&table(407), &[])[0]["messages"], 7, "by what it has grown");
    assert_eq!(counts(&data, "from", "ann@known.example"), json!({ "seen": 407, "ham": 407 }));
    import(&table(407), &["--address-field", "mail.sender"]);
    assert_eq!(counts(&data, "sender", "ann@known.example"), json!({ "seen": 407, "ham": 407 }));
    assert_eq!(counts(&data, "from", "ann@known.example"), json!({ "seen": 407, "ham": 407 }));

    let fired = fired_in(&data, &message_of("ann@known.example", "45.0.1.9"));
    assert!(!fired.contains(&"FIRST_CONTACT".to_owned()), "{fired:?}");
    assert!(fired.contains(&"KNOWN_SENDER".to_owned()), "{fired:?}");
    assert!(!fired.contains(&"NET_BURST".to_owned()), "an import is no crowd: {fired:?}");
    let fired = fired_in(&data, &message_of("eve@new.example", "46.0.1.9"));
    assert!(fired.contains(&"FIRST_CONTACT".to_owned()), "{fired:?}");
}

#[test]
fn lines_that_are_no_records_are_reported() {
    let data = Data::new(&["mail-incoming"]);
    let import = |source: &str, text: &str| {
        let file = data.file("records", text);
        data.run(&["import", "reputation", "--source", source, &file], "")
    };
    let refused = import("txrep", "From: a@example.org\n").expect(2).stderr;
    assert!(refused.contains("records:1: this is neither the head of a table"), "{refused}");
    let head = "email,count,totscore";
    let text = format!("{head}\na@example.org,x,1\nb@example.org,2,1\nc@example.org,2,nan\n");
    let ran = import("awl", &text).expect(1);
    for part in [
        "records:2: left out: the count is no number from 0 to 1000000000",
        "records:4: left out: the score is no number",
        "2 messages of 1 senders counted",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(ran.stdout.contains("left out: 2 lines that are no records"), "{}", ran.stdout);
    let bad = "nonsense\n".repeat(30);
    assert_eq!(import("rspamd", &bad).expect(1).stderr.matches("left out: ").count(), 10);
    let file = data.file("records", head);
    let import = ["import", "reputation", "--source", "awl", &file];
    for (flags, expected) in [
        (["--address-field", "user"], "has no field `user` of type string"),
        (["--spam-at", "-3"], "--ham-at must be below --spam-at"),
    ] {
        let refused = data.run(&[&import[..], &flags].concat(), "").expect(2).stderr;
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn lines_of_sa_awl_are_read() {
    let home = tempfile::tempdir().unwrap();
    let data = Data::new(&["mail-incoming"]);
    let file = home.path().join("auto-whitelist");
    let records = "tie %h, 'DB_File', $ARGV[0] or die; \
        $h{'ann@known.example|ip=45.0'} = 7; $h{'ann@known.example|ip=45.0|totscore'} = -7; \
        $h{'ann@known.example|ip=none'} = 2; $h{'ann@known.example|ip=none|totscore'} = 43.7;";
    let written = Command::new("perl").args(["-MDB_File", "-e", records]).arg(&file).output();
    let listed = Command::new("sa-awl").arg(&file).output();
    let (Ok(written), Ok(listed)) = (written, listed) else {
        println!("skipped: sa-awl is not installed");
        return;
    };
    assert!(written.status.success() && listed.status.success(), "{written:?} {listed:?}");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let time = format!("{}Z", hours_ago(50).replace(' ', "T"));
    let ran = data.run(&["import", "reputation", "--source", "awl", "--time", &time, "-"], &listed);
    assert!(ran.expect(0).stderr.contains("9 messages of 2 senders counted"), "{listed}");
    assert_eq!(counts(&data, "from", "ann@known.example"), json!({ "seen": 9, "spam": 2, "ham": 7 }));
}

#[cfg(feature = "cluster")]
#[test]
fn hashes_of_rspamd_are_read_from_redis() {
    use crate::servers;
    if !servers::are_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = servers::Server::start(
        std::path::Path::new("redis-server"),
        directory.path().join("redis"),
        &["--cluster-enabled", "no"],
    );
    let millis = (jiff::Timestamp::now().as_millisecond() - 2 * 86_400_000).to_string();
    for (key, count, score) in [
        ("RR:i:45.0.1.9", "31", "-2.25"),
        ("RR:ann@known.example", "9", "7.5"),
        ("RR:a:64500", "31", "-2.25"),
        ("RR:a \"quoted\" key", "31", "-2.25"),
        ("RR:s9y5zfc43p8qhbrw1ck97zxqkfh4q1xi", "31", "-2.25"),
        ("RS:i:45.0.1.9", "31", "-2.25"),
    ] {
        server.cli(&["HSET", key, "n", count, "l", &millis, "v1m", score]);
    }
    server.cli(&["SET", "RR:other", "1"]);
    // As the guide says, but for the server and the place of the script.
    let guide = include_str!("../../../../docs/guides/reputation.md");
    let mut blocks = guide.split("```sh\n").filter_map(|rest| rest.split("\n```").next());
    let script = blocks.find(|block| block.contains("redis-cli --scan")).unwrap();
    let address = server.address();
    let (_, port) = address.split_once(':').unwrap();
    let script = script.replace("redis-cli ", &format!("redis-cli -p {port} ")).replace("/tmp/", "");
    let ran = Command::new("sh").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let dump = directory.path().join("reputation.ndjson").display().to_string();
    let data = Data::new(&["mail-incoming"]);
    let ran = data.run(&["import", "reputation", "--source", "rspamd", "--json", &dump], "").expect(0);
    assert_eq!(left_out(&ran.json()), [("name", 2), ("hash", 1)]);
    assert_eq!(counts(&data, "ip", "45.0.1.9"), json!({ "seen": 31, "ham": 31 }));
    assert_eq!(counts(&data, "from", "ann@known.example"), json!({ "seen": 9, "spam": 9 }));
}

#[cfg(feature = "cluster")]
#[test]
fn records_count_once_in_a_cluster() {
    let Some(cluster) = crate::servers::Cluster::single(&[]) else { return };
    let data = Data::new(&["mail-incoming"]);
    let config = data.path().join("tollhouse.toml");
    let address = cluster.servers[0].address();
    let text = fs::read_to_string(&config).unwrap() + &format!("\n[cluster]\nnodes = [\"{address}\"]\n");
    fs::write(&config, text).unwrap();
    for (count, messages) in [(40, "40"), (40, "0"), (45, "5")] {
        let table =
            format!("email,count,totscore,last_hit\nann@known.example,{count},-9,{}\n", hours_ago(60));
        let file = data.file("awl.csv", &table);
        let ran = data.run(&["import", "reputation", "--source", "awl", &file], "").expect(0);
        assert!(ran.stderr.contains(&format!("{messages} messages of ")), "{}", ran.stderr);
    }
    assert_eq!(counts(&data, "from", "ann@known.example"), json!({ "seen": 45, "ham": 45 }));
}

//! Usage: exit codes, help, presets, generated files.

use std::ffi::OsStr;

use crate::program::{Data, MESSAGE, command, run};

#[test]
fn misuse_is_told_apart_from_failure_with_data() {
    for args in [
        ["frobnicate"].as_slice(),
        &[],
        &["check"],
        &["check", "--thraeds", "2", "-"],
        &["explain", "0000000000000"],
        &["check", "--data", "/x", "--server", "http://127.0.0.1:1", "-"],
        &["check", "--preset", "mial", "-"],
        &["check", "--set", "ledger.memory", "-"],
        &["check", "--set", "ledger.memroy=1GiB", "-"],
        &["check", "--pipeline", "web", "-"],
    ] {
        let ran = run(args, MESSAGE).expect(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
    run(["--help"], "").expect(0);
    run(["--version"], "").expect(0);
}

/// Checks the result of a command: its code, and all of these words.
#[track_caller]
fn says(args: &[&str], code: i32, words: &[&str]) {
    let ran = run(args, "").expect(code);
    let found: Vec<_> = words.iter().filter(|word| !ran.stderr.contains(**word)).collect();
    assert!(found.is_empty(), "{args:?} says {}, and not {found:?}", ran.stderr);
}

#[test]
fn messages_say_what_where_and_the_mend() {
    let data = Data::new(&["mail", "web"]);
    let here = data.path();
    let here = here.to_str().unwrap();
    let empty = data.file("empty.eml", "");
    let nowhere = format!("{here}-nowhere");
    let missing = format!("{nowhere}/x");
    says(&["restore", &nowhere, "--data", &missing], 2, &[&nowhere, "is no snapshot", "tollhouse snapshot"]);
    says(&["verify", "--data", &nowhere], 2, &[&nowhere, "is no data directory", "tollhouse init"]);
    says(&["follow", "--server", "http://127.0.0.1:1", &missing], 2, &[&missing, "there is no directory"]);
    says(&["follow", "--server", "http://127.0.0.1:1", here], 2, &[here, "is a directory"]);
    let once = ["follow", "--once", "--server", "http://127.0.0.1:1"];
    says(&[&once[..], &[&nowhere]].concat(), 2, &[&nowhere, "is not there", "--once"]);
    says(&[&once[..], &[&empty]].concat(), 2, &[&empty, "no whole line", "--once"]);
    says(&["check", "--threads", "0", &empty], 2, &["--threads", "at least one thread"]);
    says(&["check", "--threads", "x", &empty], 2, &["--threads", "expected a number"]);
    says(&["check", &empty], 1, &[&empty, "is empty", "no message in it"]);
    says(&["learn", "--class", "spam", "--data", here, &empty], 1, &[&empty, "is empty"]);
    says(&["check", &nowhere], 1, &[&nowhere]);
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    says(&["serve", "--data", here, "--listen", &taken], 2, &[&taken, "is another node running there?"]);
    drop(holder);
    for kind in [["rspamd", "http://127.0.0.1:1"], ["spamd", "127.0.0.1:1"]] {
        let args = ["compare", kind[0], kind[1], &crate::program::corpus("mail.mbox")];
        says(&args, 2, &["nothing answers at 127.0.0.1:1", "is the filter running"]);
    }
    says(&["feedback", "--data", here, "--file", &nowhere], 2, &[&nowhere]);
    says(&["feedback", "--data", here, "nothing", "spam"], 2, &["ID", "expected a decision id"]);
    says(&["feedback", "--data", here, "0000000000000", "spam"], 1, &["there is no decision 0000000000000"]);
    says(&["replay", "--data", here, &nowhere], 2, &[&nowhere]);
    says(&["backtest", "--data", here, "--rules", &nowhere], 2, &[&nowhere]);
    says(&["report", "--server", "http://127.0.0.1:1", &nowhere], 2, &[&nowhere]);
    says(
        &["stats", "from", "a@example.org", "--server", "http://127.0.0.1:1"],
        2,
        &["127.0.0.1:1", "tollhouse serve"],
    );
}

#[test]
fn variables_that_are_no_settings_are_errors() {
    let data = Data::new(&["mail"]);
    let with = |name: &str, value: &str| {
        let path = data.path();
        let args = ["config", "check", "--data"].map(OsStr::new);
        let output = command(&[&args[..], &[path.as_os_str()]].concat()).env(name, value).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = with("TOLLHOUSE_LEDGER_MEMRY", "1");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`TOLLHOUSE_LEDGER_MEMRY`"), "{said}");
    assert!(said.contains("did you mean `TOLLHOUSE_LEDGER_MEMORY`?"), "{said}");
    let (code, said) = with("TOLLHOUSE_LISTENER_MX_LISTN", "127.0.0.1:1");
    assert_eq!(code, Some(1), "{said}");
    // What others set for a service of this name, and the program's own.
    for name in ["TOLLHOUSE_SERVICE_HOST", "TOLLHOUSE_PORT", "TOLLHOUSE_PORT_8377_TCP", "TOLLHOUSE_TOKEN"] {
        let (code, said) = with(name, "tcp://10.0.0.1:8377");
        assert_eq!(code, Some(0), "{name}: {said}");
    }
}

#[test]
fn a_directory_that_lost_its_secret_is_not_made_anew() {
    let data = Data::new(&["mail"]);
    data.run(&["check", "-"], MESSAGE).expect(0);
    let secret = data.path().join("secret");
    let kept = std::fs::read(&secret).unwrap();
    std::fs::remove_file(&secret).unwrap();
    for args in [["verify"].as_slice(), &["stats", "from", "a@example.org"], &["init"]] {
        let ran = data.run(args, "").expect(2);
        assert!(
            ran.stderr.contains("has lost its `secret`") && ran.stderr.contains("backup"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("tollhouse init"), "{}", ran.stderr);
    }
    assert!(!secret.exists());
    std::fs::write(&secret, kept).unwrap();
}

#[test]
fn the_environment_names_the_data_directory() {
    let data = Data::new(&["mail"]);
    let ran = command(&["stats", "--json", "from", "a@example.com"].map(OsStr::new))
        .env("TOLLHOUSE_DATA", data.path())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn presets_are_listed_and_printed() {
    let list = run(["preset", "list", "--json"], "").expect(0).json();
    assert!(
        list.iter().any(|preset| preset["name"] == "mail")
            && list.iter().any(|preset| preset["name"] == "web")
    );
    let shown = run(["preset", "show", "mail"], "").expect(0).stdout;
    assert!(shown.contains("[[kind]]") && shown.contains("name = \"mail\""));
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(["completions", shell], "").expect(0).stdout.contains("tollhouse"));
    }
    let directory = tempfile::tempdir().unwrap();
    run(["man", directory.path().to_str().unwrap()], "").expect(0);
    for page in ["tollhouse.1", "tollhouse-check.1", "tollhouse-config-check.1"] {
        assert!(directory.path().join(page).exists(), "{page}");
    }
}

#[test]
fn benchmarks_print_objects() {
    for (args, count) in [
        (["bench", "check", "--seconds", "1", "--json"].as_slice(), 1),
        (&["bench", "replay", "--seconds", "1", "--json"], 1),
        (&["bench", "http", "--seconds", "1", "--json"], 4),
    ] {
        let objects = run(args, "").expect(0).json();
        assert_eq!(objects.len(), count, "{args:?}");
        assert!(objects.iter().all(|object| object["bench"] == args[1]), "{objects:?}");
        assert!(objects.iter().all(|object| object["per_second"].as_f64().unwrap() > 0.0), "{objects:?}");
    }
}

#[cfg(feature = "arrow")]
#[test]
fn events_that_are_made_up_are_measured_under_each_distribution() {
    for asked in ["observe", "decide"] {
        let mut args = vec![
            "bench", "events", "--keys", "2000", "--events", "2000", "--batch", "500", "--memory", "64",
            "--json",
        ];
        args.extend((asked == "decide").then_some("--decide"));
        let measured = run(args, "").expect(0).json();
        let told: Vec<(&str, &str, u64)> = measured
            .iter()
            .map(|of| {
                (
                    of["asked"].as_str().unwrap(),
                    of["distribution"].as_str().unwrap(),
                    of["events"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(told, [(asked, "zipf", 2000), (asked, "uniform", 2000)], "{measured:?}");
        assert!(
            measured.iter().all(|of| of["server_cpu_s_per_million_events"].as_f64().unwrap() >= 0.0),
            "{measured:?}"
        );
    }
}

#[test]
fn only_events_that_were_decided_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let measure = |lines: &str| {
        let file = directory.path().join("events.ndjson");
        std::fs::write(&file, lines).unwrap();
        let path = file.to_str().unwrap().to_owned();
        let args = ["bench", "events", "--decide", "--preset", "comments", "--events", "4", "--json", &path];
        run(args, "")
    };
    let good = "{\"user\": \"ann\", \"text\": \"thank you\"}\n";
    let [measured] = measure(&good.repeat(2)).expect(0).json().try_into().unwrap();
    assert_eq!((&measured["asked"], &measured["events"]), (&"decide".into(), &4.into()), "{measured}");
    let refused = measure(&format!("{good}nonsense\n{good}")).expect(2);
    assert!(refused.stderr.contains("this line was not decided: nonsense"), "{}", refused.stderr);
}

#[test]
fn the_ledger_is_measured_under_every_workload() {
    let measure = ["--keys", "5000", "--seconds", "1", "--memory", "64", "--json"];
    let objects = run(["bench", "ledger"].into_iter().chain(measure), "").expect(0).json();
    assert_eq!(objects.len(), 14);
    for object in &objects {
        for member in ["workload", "layout", "distribution", "durability"] {
            assert!(object[member].is_string(), "{member}: {object}");
        }
        for member in
            ["keys", "threads", "observes_per_s", "p50_us", "p99_us", "p999_us", "memory_bytes_per_key"]
        {
            assert!(object[member].as_f64().unwrap() > 0.0, "{member}: {object}");
        }
        assert!(object["disk_bytes_per_key"].as_f64().unwrap() > 8.0, "{object}");
        assert_eq!(object["bench"], "ledger");
    }
    let asked: Vec<&str> = objects[..7].iter().map(|object| object["workload"].as_str().unwrap()).collect();
    assert_eq!(asked, ["new", "uniform", "zipf-1.0", "zipf-1.2", "hot", "single", "restart"]);
    assert_eq!(objects[6]["observes"], 5000);

    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let args = ["bench", "ledger", "--keys", "100", "--workload", "new", "--layout", "fixed", "--data", path];
    let table = run(args, "").expect(0).stdout;
    assert!(table.contains("observes/s") && table.contains("new"), "{table}");
    assert!(data.path().join("fixed-1s").exists());
    run(args, "").expect(2);
}

#[test]
fn rules_and_models_are_measured_alone() {
    let measured =
        run(["bench", "judge", "--preset", "web", "--seconds", "1", "--json"], "").expect(0).json();
    let [web] = measured.as_slice() else { panic!("{measured:?}") };
    let number = |member: &str| web[member].as_f64().unwrap_or_else(|| panic!("{member}: {web}"));
    for member in
        ["us_per_row", "ns_per_rule", "fired_per_row", "model_ns_per_row", "model_us_per_row_explained"]
    {
        assert!(number(member) > 0.0, "{member}: {web}");
    }
    let listed = run(["rules", "list", "--preset", "web", "--json"], "").expect(0).json();
    assert_eq!(web["rules"], listed.len());
    assert_eq!(web["model_trees"], 200);
    let per_rule = number("us_per_row") * 1e3 / listed.len() as f64;
    assert!((number("ns_per_rule") - per_rule).abs() < per_rule * 1e-6, "{web}");
}

#[test]
fn costly_messages_are_measured() {
    let measured = run(["bench", "costly", "--percent", "1", "--json"], "").expect(0).json();
    assert_eq!(measured.len(), 8 + content::worst_case::FAMILIES.len());
    for message in &measured {
        assert!(message["bytes"].as_u64().unwrap() > 1000 && message["action"].is_string(), "{message}");
        for member in ["read_cpu_ms", "key_cpu_ms", "decide_cpu_ms"] {
            assert!(message[member].as_f64().unwrap() >= 0.0, "{member}: {message}");
        }
    }
    let mail = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/mail.mbox");
    let taught = run(["bench", "costly", "--percent", "1", "--json", "--spam", mail], "").expect(0).json();
    assert!(taught.iter().all(|message| message["learned"].as_u64().unwrap() > 10), "{taught:?}");
    assert_eq!(measured[0]["learned"], 0);
    run(["bench", "costly", "--percent", "0"], "").expect(2);
}

/// The numbers of a line, in order.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    words.filter_map(|word| word.trim_end_matches('.').parse().ok()).collect()
}

/// The figures for which the published systems are known, and the arithmetic from them to servers and nodes.
#[test]
fn plans_of_published_systems_can_be_followed_line_by_line() {
    let check = |system: &str, keys: u64, events: f64, copies: f64| {
        let ran = run(["plan", "--system", system, "--json"], "").expect(0);
        let [plan] = &ran.json()[..] else { panic!("{}", ran.stdout) };
        assert_eq!(plan["keys"], keys, "{system}");
        let found = plan["events_per_second"].as_f64().unwrap();
        assert!((found - events).abs() < events / 100.0 + 1.0, "{system}: {found} events a second");
        let text = run(["plan", "--system", system], "").expect(0).stdout;
        for engine in plan["engines"].as_array().unwrap() {
            let figure = |name: &str| engine[name].as_f64().unwrap_or_else(|| panic!("{name}: {engine}"));
            let is_near = |one: f64, other: f64| (one - other).abs() <= 0.02 * other.abs();
            let lines: Vec<&str> =
                engine["arithmetic"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
            assert!(lines.iter().all(|line| text.contains(line)), "{system}: {text}");
            let line = |name: &str| {
                let found = lines.iter().find_map(|line| line.strip_prefix(name));
                numbers(found.unwrap_or_else(|| panic!("{system}: {name} is not among {lines:?}")))
            };
            let [keys, bytes, fragmentation, fill, gib, server, masters] = line("room: ")[..] else {
                panic!("{lines:?}")
            };
            assert!(is_near(gib, keys * bytes * fragmentation / fill / (1u64 << 30) as f64), "{lines:?}");
            assert_eq!(masters, figure("masters_by_room"));
            // The last digits of what is shown decide nothing.
            assert!(is_near(masters, (gib / server).ceil()), "{lines:?}");
            let [made, made_us, changed, changed_us, read, read_us, cores, busy, by_time] =
                line("time: ")[..]
            else {
                panic!("{lines:?}")
            };
            assert!(
                is_near(cores, (made * made_us + changed * changed_us + read * read_us) / 1e6),
                "{lines:?}"
            );
            assert!(
                is_near(by_time, (figure("cores") / busy).ceil()) && by_time == figure("masters_by_time")
            );
            let by_reads = match engine["engine"].as_str() {
                Some("disk") => line("reads: ")[2],
                _ => 0.0,
            };
            assert_eq!(by_reads, figure("masters_by_reads"));
            let [most, least, copied, servers] = line("servers: ")[..] else { panic!("{lines:?}") };
            assert_eq!(most, masters.max(by_time).max(by_reads).max(least));
            assert_eq!((copied, servers), (copies, most * copies));
            let [updates, us, cores, busy, of_node, nodes, least] = line("nodes: ")[..] else {
                panic!("{lines:?}")
            };
            assert!(is_near(cores, updates * us / 1e6), "{lines:?}");
            assert_eq!(nodes, (figure("node_cores") / busy / of_node).ceil().max(least));
            assert_eq!(nodes, figure("nodes"));
        }
    };
    // 13 billion keys a day for 14 days and the day that goes on, 220,000 updates a second of 40 a message.
    check("mail-counters", 15 * 13_000_000_000, 5_500.0, 3.0);
    // 10,000 users at 500 a day.
    check("rate-limiter", 20_000, 10_000.0 * 500.0 / 86_400.0, 2.0);
    // 550,000 messages a minute, a billion records.
    check("reputation", 1_001_000_000, 550_000.0 / 60.0, 2.0);
    check("antifraud", 200_000_000, 1_000_000.0, 2.0);
}

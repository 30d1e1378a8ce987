//! `verify`, `snapshot`, `restore`, and statistics that move: `export --ledger` and `import`.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::program::{Data, MESSAGE, Ran, Server, corpus, run};

/// A directory with some hundred decisions, of the time of the test so that nothing expires.
fn filled() -> Data {
    let data = Data::new(&["mail"]);
    data.run(&["check", "--json", &corpus("mail.mbox")], "").expect(0);
    data
}

fn on(path: &Path, args: &[&str]) -> Ran {
    let path = path.display().to_string();
    run(args.iter().copied().chain(["--data", &path]), "")
}

/// The message as if it were sent again, under another name.
fn again(name: &str) -> String {
    MESSAGE.replace("1@example.com", name)
}

/// Returns the number of times that the message's sender was seen, which is given once he was admitted.
fn seen(known: &serde_json::Value) -> u64 {
    let buckets = known["tiers"].as_array().unwrap().iter().take(1);
    let buckets = buckets.flat_map(|tier| tier["buckets"].as_array().unwrap());
    buckets.map(|bucket| bucket["counts"]["seen"].as_u64().unwrap()).sum()
}

/// Returns the answers on what is known of keys that the samples have.
fn answers(path: &Path) -> Vec<serde_json::Value> {
    let mut answers = Vec::new();
    for kind in ["from", "from_domain", "link_domain", "client_ip", "subject"] {
        let top = on(path, &["top", "--json", "--limit", "50", "--window", "14d", kind]);
        if top.code == 0 {
            answers.extend(top.json());
        }
    }
    assert!(answers.iter().any(|top| !top["keys"].as_array().unwrap().is_empty()), "{answers:?}");
    answers.extend(on(path, &["stats", "--json", "from", "cheap@example.com"]).expect(0).json());
    answers
}

fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|other| other == extension));
    files.sort();
    files
}

fn flip(path: &Path, at: u64) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 0x10]).unwrap();
}

#[test]
fn a_sound_directory_is_verified() {
    let data = filled();
    let object = data.run(&["verify", "--json"], "").expect(0).json().remove(0);
    assert_eq!(object["sound"], true);
    assert!(object["keys"].as_u64().unwrap() > 100 && object["records"].as_u64().unwrap() > 100, "{object}");
    assert_eq!(object["damage"].as_array().unwrap().len(), 0, "{object}");
    // One that was never served, too.
    Data::new(&["web"]).run(&["verify"], "").expect(0);
}

#[test]
fn a_flipped_byte_is_found_and_its_cost_is_said() {
    let data = filled();
    let journal = files(&data.path().join("journal"), "journal").remove(0);
    flip(&journal, 500);
    let ran = data.run(&["verify"], "").expect(1);
    assert!(ran.stdout.contains("journal/") && ran.stdout.contains("cannot be read"), "{}", ran.stdout);
    flip(&journal, 500);
    data.run(&["verify"], "").expect(0);

    let ledger = files(&data.path().join("ledger"), "seg").remove(0);
    let middle = fs::metadata(&ledger).unwrap().len() / 2;
    flip(&ledger, middle);
    let ran = data.run(&["verify"], "").expect(1);
    assert!(ran.stdout.contains("ledger/00000000.seg: bytes "), "{}", ran.stdout);
    assert!(ran.stdout.contains("lost"), "{}", ran.stdout);
    assert!(ran.stderr.contains("tollhouse restore"), "{}", ran.stderr);
    let object = data.run(&["verify", "--json"], "").expect(1).json().remove(0);
    assert_eq!(object["sound"], false);
    assert!(object["damage"][0]["from"].as_u64().unwrap() <= middle, "{object}");
    // It is found again, and nothing else is.
    assert_eq!(data.run(&["verify", "--json"], "").expect(1).json().remove(0), object);
}

#[test]
fn what_a_server_has_open_is_left_alone() {
    let data = filled();
    let server = Server::start(&data.path(), &[]);
    let target = data.path().with_file_name("copy").display().to_string();
    for args in [["verify"].as_slice(), &["snapshot", &target], &["export", "--ledger"], &["import", "x"]] {
        let ran = data.run(args, "").expect(2);
        if args[0] != "import" {
            assert!(ran.stderr.contains("in use by another process"), "{}", ran.stderr);
            assert!(ran.stderr.contains("tollhouse snapshot --server"), "{}", ran.stderr);
        }
    }
    drop(server);
    data.run(&["verify"], "").expect(0);
}

#[test]
fn a_snapshot_is_restored_and_the_same() {
    let data = filled();
    let expected = answers(&data.path());
    let decided = data.run(&["check", "--json", "-"], MESSAGE).expect(0).json().remove(0);
    let snapshot = data.path().with_file_name("copy");
    data.run(&["snapshot", snapshot.to_str().unwrap()], "").expect(0);
    data.run(&["snapshot", snapshot.to_str().unwrap()], "").expect(2);
    let after = answers(&data.path());
    assert_ne!(after, expected);
    // Later events are not in it.
    data.run(&["check", "-"], MESSAGE).expect(0);

    let restored = data.path().with_file_name("restored");
    let restore = ["restore", snapshot.to_str().unwrap()];
    on(&restored, &restore).expect(0);
    assert_eq!(answers(&restored), after);
    on(&restored, &["explain", decided["id"].as_str().unwrap()]).expect(0);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(restored.join("secret")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let ran = on(&restored, &restore).expect(2);
    assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
    // An empty directory will do; what is no snapshot will not.
    let empty = data.path().with_file_name("empty");
    fs::create_dir(&empty).unwrap();
    let ran = on(&empty, &["restore", data.path().join("journal").to_str().unwrap()]).expect(2);
    assert!(ran.stderr.contains("is no snapshot"), "{}", ran.stderr);
    on(&empty, &restore).expect(0);
    assert_eq!(answers(&empty), after);
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let data = filled();
    let snapshot = data.path().with_file_name("copy");
    data.run(&["snapshot", snapshot.to_str().unwrap()], "").expect(0);
    let segment = files(&snapshot.join("ledger"), "seg").remove(0);
    flip(&segment, fs::metadata(&segment).unwrap().len() / 3);
    let restored = data.path().with_file_name("restored");
    let ran = on(&restored, &["restore", snapshot.to_str().unwrap()]).expect(2);
    assert!(ran.stderr.contains("is damaged; nothing was restored"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ledger/00000000.seg"), "{}", ran.stderr);
    assert!(!restored.exists());
}

#[test]
fn a_snapshot_under_load_holds_what_was_answered() {
    let data = filled();
    let server = Server::start(&data.path(), &["--set", "ledger.durability=none"]);
    let stop = AtomicBool::new(false);
    let name = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    run(["check", "--server", &server.url, &corpus("mail.mbox")], "").expect(0);
                }
            });
        }
        // The second sighting has the sender admitted.
        let check =
            |message: &str| run(["check", "--json", "-", "--server", &server.url], message).expect(0).json();
        let before = [check(MESSAGE), check(&again("2@example.com"))].concat();
        let made = run(["snapshot", "--json", "--server", &server.url], "");
        // Before anything is checked, as a test that fails must end, too.
        stop.store(true, Ordering::Relaxed);
        assert_eq!(before.len(), 2);
        made.expect(0).json()[0]["name"].as_str().unwrap().to_owned()
    });
    let snapshot = data.path().join("snapshots").join(&name);
    let restored = data.path().with_file_name("restored");
    on(&restored, &["restore", snapshot.to_str().unwrap()]).expect(0);
    let known = on(&restored, &["stats", "--json", "from", "cheap@example.com"]).expect(0).json().remove(0);
    assert_eq!(seen(&known), 2, "{known}");
    // Every row of its journal was counted: the ledger is at least as old as the rows.
    on(&restored, &["export"]).expect(0);
    run(["check", "--data", restored.to_str().unwrap(), "-"], MESSAGE).expect(0);
}

/// A directory with the secret of another.
fn sibling(data: &Data) -> Data {
    let other = Data::new(&["mail"]);
    fs::copy(data.path().join("secret"), other.path().join("secret")).unwrap();
    other
}

#[test]
fn exported_statistics_are_the_same_elsewhere() {
    let data = filled();
    data.run(&["check", "-"], MESSAGE).expect(0);
    data.run(&["check", "-"], &again("2@example.com")).expect(0);
    // Seen once, he is not exported; that there was nothing is not claimed of him.
    data.run(&["check", "-"], &again("3@example.com").replace("cheap@", "once@")).expect(0);
    for name in ["all.ndjson", "all.ndjson.zst"] {
        let file = data.file(name, "");
        fs::remove_file(&file).unwrap();
        data.run(&["export", "--ledger", "-o", &file], "").expect(0);
        let other = sibling(&data);
        let imported = other.run(&["import", "--json", &file], "").expect(0).json().remove(0);
        assert!(imported["created"].as_u64().unwrap() > 100, "{imported}");
        // Pieces are shown from the journal, which was not exported.
        let nameless = |answers: Vec<serde_json::Value>| {
            let strip = |mut answer: serde_json::Value| {
                for key in answer["keys"].as_array_mut().into_iter().flatten() {
                    key.as_object_mut().unwrap().remove("piece");
                }
                answer
            };
            answers.into_iter().map(strip).collect::<Vec<_>>()
        };
        assert_eq!(nameless(answers(&other.path())), nameless(answers(&data.path())));
        let known = |who| on(&other.path(), &["stats", "--json", "from", who]).expect(0).json().remove(0);
        assert_eq!(seen(&known("cheap@example.com")), 2);
        assert_eq!(known("once@example.com")["quality"], "estimated");

        // Twice is refused, in every way that would double anything.
        let ran = other.run(&["import", &file], "").expect(2);
        assert!(ran.stderr.contains("there are statistics already"), "{}", ran.stderr);
        let ran = other.run(&["import", "--merge", &file], "").expect(2);
        assert!(ran.stderr.contains("was added here before"), "{}", ran.stderr);
        other.run(&["import", "--replace", &file], "").expect(0);
        assert_eq!(nameless(answers(&other.path())), nameless(answers(&data.path())));
        other.run(&["verify"], "").expect(0);
    }
}

#[test]
fn statistics_of_two_nodes_are_added_once() {
    let data = filled();
    let other = sibling(&data);
    // Approximate counts of one value are the same however often they are merged; exact ones are not.
    let exact = "[[distinct]]\nname = \"exact_senders\"\nper = \"link_host\"\n\
        of = \"mail.from\"\nwindow = \"1d\"\nmethod = \"exact\"\n";
    // Each has the sender often enough to admit him.
    for (node, times) in [(&data, 2), (&other, 3)] {
        let mut config = OpenOptions::new().append(true).open(node.path().join("tollhouse.toml")).unwrap();
        config.write_all(exact.as_bytes()).unwrap();
        for time in 0..times {
            node.run(&["check", "-"], &again(&format!("{time}@example.com"))).expect(0);
        }
    }
    let file = data.file("other.ndjson", "");
    fs::remove_file(&file).unwrap();
    other.run(&["export", "--ledger", "-o", &file], "").expect(0);
    let ran = data.run(&["import", "--merge", &file], "").expect(2);
    assert!(ran.stderr.contains("of the distinct count `exact_senders` was seen here"), "{}", ran.stderr);
    data.run(&["import", "--merge", "--allow-overlap", &file], "").expect(0);
    let known = data.run(&["stats", "--json", "from", "cheap@example.com"], "").expect(0).json().remove(0);
    assert_eq!(seen(&known), 5, "{known}");
    data.run(&["import", "--merge", &file], "").expect(2);
    let ran = data.run(&["import", "--merge", "-"], "").expect(2);
    assert!(ran.stderr.contains("give a file"), "{}", ran.stderr);
}

#[test]
fn what_is_no_export_is_refused_with_its_line() {
    let data = filled();
    let export = data.run(&["export", "--ledger"], "").expect(0).stdout;
    let target = sibling(&data);
    let refused = |text: &str, message: &str| {
        let ran = target.run(&["import", "-"], text).expect(2);
        assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
    };
    let lines: Vec<&str> = export.lines().collect();
    let edited = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        lines.join("\n") + "\n"
    };
    refused("", "this is no export of statistics: it is empty");
    refused("garbage", "this is no export of statistics");
    refused("{\"format\":\"other\",\"version\":1}\n", "`format` is not");
    refused(
        &export.replacen("\"version\":1", "\"version\":2", 1),
        "the export has format 2, this release reads format 1",
    );
    refused(&edited(7, "garbage"), "line 8: ");
    refused(&edited(7, &lines[7].replace("\"first\":", "\"last\":")), "line 8: ");
    refused(&edited(7, &lines[7].replace("\"shingle\":\"", "\"shingle\":\"x")), "line 8: `shingle`");
    refused(&edited(7, &lines[7].replace("\"statistic\":\"", "\"statistic\":\"x")), "line 8: `statistic`");
    let backwards = lines[7].replace("\"last\":", "\"last\":-");
    refused(&edited(7, &backwards), "line 8: the first event is after the last");
    refused(&lines[..9].join("\n"), "line 9");
    refused(&(lines[..9].join("\n") + "\n"), "ends after line 9");
    refused(&edited(9, lines[lines.len() - 1]), "line 10: the end does not tell");
    refused(&(export.clone() + "{}\n"), "something behind the end");
    let stranger = Data::new(&["mail"]);
    let ran = stranger.run(&["import", "-"], &export).expect(2);
    assert!(ran.stderr.contains("another secret"), "{}", ran.stderr);
    // Nothing of all that was taken in, and the whole of it still is.
    target.run(&["import", "-"], &export).expect(0);
    assert!(!target.path().join("ledger.importing").exists());
}

#[test]
fn an_import_that_was_cut_off_is_ended_or_forgotten() {
    let data = filled();
    let expected = answers(&data.path());
    let [ledger, new, old] =
        ["ledger", "ledger.importing", "ledger.replaced"].map(|name| data.path().join(name));
    // Half built: the present one stays.
    fs::create_dir(&new).unwrap();
    File::create(new.join("00000000.seg")).unwrap();
    assert_eq!(answers(&data.path()), expected);
    fs::remove_dir_all(&new).unwrap();
    // Between two renames: the new one is put in place.
    fs::rename(&ledger, &new).unwrap();
    fs::create_dir(&old).unwrap();
    assert_eq!(answers(&data.path()), expected);
    assert!(!old.exists() && !new.exists());
}

#[test]
fn a_subject_is_erased() {
    let data = filled();
    let erase = |more: &[&str]| {
        data.run(&[&["erase", "--json", "--key", "from=cheap@example.com"], more].concat(), "")
    };
    assert_eq!(erase(&[]).expect(0).json()[0]["keys"], 0, "nobody knows it yet");
    // Seen once, he has no key yet; that he was seen goes, too, and he is not admitted at once when he comes again.
    let check = |name| data.run(&["check", "--json", "-"], &again(name)).expect(0).json()[0]["id"].clone();
    check("1@example.com");
    let gone = erase(&[]).expect(0).json().remove(0);
    assert_eq!((&gone["keys"], &gone["decisions"]), (&0.into(), &1.into()), "{gone}");
    check("2@example.com");
    assert_eq!(erase(&["--dry-run"]).expect(0).json()[0]["keys"], 0, "he is new again");

    let id = check("3@example.com");
    let there = erase(&["--dry-run"]).expect(0).json().remove(0);
    assert_eq!((&there["erased"], &there["decisions"]), (&false.into(), &2.into()), "{there}");
    data.run(&["explain", id.as_str().unwrap()], "").expect(0);
    let gone = erase(&[]).expect(0).json().remove(0);
    assert!(gone["keys"].as_u64().unwrap() > 0 && gone["decisions"] == 2, "{gone}");
    data.run(&["explain", id.as_str().unwrap()], "").expect(2);
    data.run(&["verify"], "").expect(0);
    let ran = data.run(&["erase", "--key", "form=a"], "").expect(2);
    assert!(ran.stderr.contains("no kind `form`"), "{}", ran.stderr);
}

#[test]
fn a_subject_is_erased_by_a_server() {
    let data = filled();
    let check = |name| data.run(&["check", "--json", "-"], &again(name)).expect(0).json()[0]["id"].clone();
    let ids = ["1@example.com", "2@example.com", "3@example.com"].map(check);
    let server = Server::start(&data.path(), &[]);
    let erase = |more: &[&str]| {
        let args = ["erase", "--json", "--key", "from=cheap@example.com", "--server", &server.url];
        run(args.into_iter().chain(more.iter().copied()), "")
    };
    let would = erase(&["--dry-run"]).expect(0).json().remove(0);
    assert_eq!((&would["state"], &would["decisions"]), (&"done".into(), &3.into()), "{would}");
    let gone = erase(&[]).expect(0).json().remove(0);
    assert_eq!((&gone["decisions"], &gone["dry_run"]), (&3.into(), &false.into()), "{gone}");
    assert!(gone["statistics"].as_u64().unwrap() > 0 && gone["damaged"] == 0, "{gone}");
    let again = erase(&[]).expect(0).json().remove(0);
    assert_eq!((&again["decisions"], &again["statistics"]), (&0.into(), &0.into()), "{again}");
    let wrong = run(["erase", "--key", "form=a", "--server", &server.url], "").expect(2);
    assert!(wrong.stderr.contains("no kind `form`"), "{}", wrong.stderr);
    let proof =
        run(["audit", "--action", "erase.done", "--json", "--server", &server.url], "").expect(0).json();
    assert_eq!(proof.len(), 2, "{proof:?}");
    assert!(!proof.iter().any(|entry| entry.to_string().contains("cheap")), "{proof:?}");
    drop(server);
    for id in ids {
        data.run(&["explain", id.as_str().unwrap()], "").expect(2);
    }
    data.run(&["verify"], "").expect(0);
}

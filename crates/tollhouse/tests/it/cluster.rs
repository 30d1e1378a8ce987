//! Statistics that move from a data directory into a cluster, and nodes that go on with them there.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Data, Server, run};
use crate::servers::Cluster;

/// Log lines of the last minutes, in which few addresses ask for many paths.
fn log(lines: std::ops::Range<usize>) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    lines
        .map(|number| {
            let time = event::Time::from_seconds(now.cast_signed() - 600 + number as i64).to_string();
            let [year, month, day, clock] = [&time[..4], &time[5..7], &time[8..10], &time[11..19]];
            let month = months[month.parse::<usize>().unwrap() - 1];
            format!(
                "192.0.2.{} - - [{day}/{month}/{year}:{clock} +0000] \"GET /{} HTTP/1.1\" {} 1 \"-\" \"curl/8\"\n",
                number * number % 7 + number / 100 * 20,
                number % 13,
                [200, 404][number % 2],
            )
        })
        .collect()
}

/// Returns the decisions on each line, but for the names of the decisions.
fn decided(server: &Server, lines: &str) -> Vec<Value> {
    let sent = ureq::post(format!("{}/v1/decide/batch", server.url)).content_type("text/plain").send(lines);
    let text = sent.unwrap().body_mut().read_to_string().unwrap();
    let decision = |line: &str| {
        let mut decision: Value = serde_json::from_str(line).unwrap();
        decision.as_object_mut().unwrap().remove("id");
        decision
    };
    text.lines().map(decision).collect()
}

fn counts(ran: &Value) -> [u64; 3] {
    ["same", "created", "changed"].map(|name| ran[name].as_u64().unwrap())
}

#[test]
fn statistics_move_into_a_cluster_while_they_are_counted() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let old = Data::new(&["web"]);
    let server = Server::start(&old.path(), &[]);
    assert_eq!(decided(&server, &log(0..300)).len(), 300);
    run(["snapshot", "--server", &server.url], "").expect(0);
    assert_eq!(decided(&server, &log(300..400)).len(), 100);

    let new = Data::new(&["web"]);
    fs::copy(old.path().join("secret"), new.path().join("secret")).unwrap();
    let address = cluster.servers[0].address();
    let config = new.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[cluster]\nnodes = [\"{address}\"]\n")).unwrap();

    let snapshots: Vec<_> = fs::read_dir(old.path().join("snapshots")).unwrap().collect();
    let snapshot = snapshots[0].as_ref().unwrap().path();
    let first = export(&snapshot, &old.file("first.ndjson.zst", ""));
    let [same, created, changed] = counts(&new.run(&["import", "--json", &first], "").expect(0).json()[0]);
    assert!(same == 0 && created > 50 && changed == 0, "{same} {created} {changed}");
    let compared = new.run(&["import", "--json", "--compare", &first], "").expect(0);
    assert_eq!(counts(&compared.json()[0]), [created, 0, 0]);

    assert_eq!(server.end(Signal::TERM), Some(0));
    let last = export(&old.path(), &old.file("last.ndjson.zst", ""));
    let compared = new.run(&["import", "--json", "--compare", &last], "").expect(1);
    let [_, missing, otherwise] = counts(&compared.json()[0]);
    assert!(missing > 0 && otherwise > 0, "{missing} {otherwise}");
    let imported = new.run(&["import", "--json", &last], "").expect(0);
    assert_eq!(counts(&imported.json()[0])[1..], [missing, otherwise]);
    new.run(&["import", "--compare", &last], "").expect(0);

    // And back: what leaves the cluster is what came there, and enters a data directory as such.
    let back = export(&new.path(), &new.file("back.ndjson.zst", ""));
    let third = Data::new(&["web"]);
    fs::copy(old.path().join("secret"), third.path().join("secret")).unwrap();
    third.run(&["import", &back], "").expect(0);
    let all = cells(&old.path());
    assert!(all.len() as u64 > created, "{}", all.len());
    for path in [new.path(), third.path()] {
        assert!(cells(&path) == all, "{}", path.display());
    }

    // Both go on alike.
    let [one, other] = [Server::start(&old.path(), &[]), Server::start(&new.path(), &[])];
    // The same lines: their times are told from the clock.
    let more = log(400..600);
    let [expected, found] = [&one, &other].map(|server| decided(server, &more));
    assert_eq!(found, expected);
    let fired = expected.iter().filter(|one| one["reasons"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(fired.count() > 10, "little was judged by what had moved");
    assert_eq!(other.end(Signal::TERM), Some(0));

    // What the node had is in the cluster; one with another secret is not let in.
    let stranger = Data::new(&["web"]);
    fs::copy(&config, stranger.path().join("tollhouse.toml")).unwrap();
    let refused = stranger.run(&["stats", "ip", "192.0.2.1"], "");
    assert!(refused.code != 0 && refused.stderr.contains("secret"), "{}", refused.stderr);
}

/// The lines of all cells, sorted.
fn cells(data: &Path) -> Vec<String> {
    let text = run(["export", "--ledger", "--data", &data.display().to_string()], "").expect(0).stdout;
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    assert!(lines.pop().is_some_and(|end| end.contains("\"end\":true")));
    lines.sort_unstable();
    lines
}

#[test]
fn a_subject_is_erased_in_a_cluster() {
    let Some(cluster) = Cluster::single(&[]) else { return };
    let data = Data::new(&["web"]);
    let config = data.path().join("tollhouse.toml");
    let text = fs::read_to_string(&config).unwrap();
    let address = cluster.servers[0].address();
    fs::write(&config, format!("{text}\n[cluster]\nnodes = [\"{address}\"]\n")).unwrap();
    let erase = |more: &[&str]| {
        let ran = data.run(&[&["erase", "--json", "--key", "ip=192.0.2.1"], more].concat(), "");
        ran.expect(0).json().remove(0)
    };
    assert_eq!(erase(&[])["keys"], 0, "nobody knows it yet");
    let server = Server::start(&data.path(), &[]);
    assert_eq!(decided(&server, &log(0..100)).len(), 100);
    let busy = data.run(&["erase", "--key", "ip=192.0.2.1"], "");
    assert!(busy.code == 2 && busy.stderr.contains("in use"), "{}", busy.stderr);
    assert_eq!(server.end(Signal::TERM), Some(0));

    let before = cells(&data.path());
    let there = erase(&["--dry-run"]);
    assert!(there["keys"].as_u64().unwrap() > 0 && there["decisions"].as_u64().unwrap() > 0, "{there}");
    assert_eq!(cells(&data.path()), before);
    let gone = erase(&[]);
    assert_eq!([&gone["keys"], &gone["decisions"]], [&there["keys"], &there["decisions"]]);
    let after = cells(&data.path());
    assert_eq!(after.len() as u64, before.len() as u64 - there["keys"].as_u64().unwrap());
    assert!(after.iter().all(|line| before.binary_search(line).is_ok()), "others stay as they were");
    let again = erase(&[]);
    assert_eq!([&again["keys"], &again["decisions"]], [&Value::from(0), &Value::from(0)]);
}

/// Exports into a file that is not there yet.
fn export(data: &Path, file: &str) -> String {
    fs::remove_file(file).unwrap();
    run(["export", "--ledger", "-o", file, "--data", &data.display().to_string()], "").expect(0);
    file.to_owned()
}

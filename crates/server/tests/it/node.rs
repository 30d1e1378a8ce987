use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{LOG, PROBE, check_problem, directory, start, with_server};

/// Every route, as the description names it.
const ROUTES: [(&str, &str); 38] = [
    ("delete", "/v1/decisions"),
    ("get", "/"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/readyz"),
    ("get", "/v1/decisions"),
    ("get", "/v1/decisions/ips"),
    ("get", "/v1/decisions/stream"),
    ("get", "/v1/decisions/{id}"),
    ("get", "/v1/limits"),
    ("get", "/v1/limits/{name}/overrides"),
    ("get", "/v1/pipelines"),
    ("get", "/v1/rules"),
    ("get", "/v1/rules/comparison"),
    ("get", "/v1/timeline"),
    ("get", "/v1/top"),
    ("post", "/v1/batch/decide"),
    ("post", "/v1/batch/observe"),
    ("post", "/v1/decide"),
    ("post", "/v1/decide/batch"),
    ("post", "/v1/decisions"),
    ("post", "/v1/feedback"),
    ("post", "/v1/learn"),
    ("post", "/v1/limits/{name}/peek"),
    ("post", "/v1/limits/{name}/refund"),
    ("post", "/v1/limits/{name}/reset"),
    ("post", "/v1/limits/{name}/settle"),
    ("post", "/v1/limits/{name}/take"),
    ("post", "/v1/observe"),
    ("post", "/v1/peek"),
    ("post", "/v1/report"),
    ("post", "/v1/rules"),
    ("post", "/v1/rules/promote"),
    ("post", "/v1/rules/reload"),
    ("post", "/v1/rules/rollback"),
    ("post", "/v1/snapshots"),
    ("put", "/v1/limits/{name}/overrides"),
];

#[test]
fn the_description_names_every_route() {
    with_server(&[], |server| {
        let answer = server.get("/openapi.json");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let description = answer.json();
        assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
        let paths = description["paths"].as_object().unwrap();
        let mut named: Vec<(&str, &str)> = Vec::new();
        for (path, item) in paths {
            named.extend(item.as_object().unwrap().keys().map(|method| (method.as_str(), path.as_str())));
        }
        named.sort_unstable();
        assert_eq!(named, ROUTES);

        // Every schema that is referred to is there.
        let schemas: BTreeSet<&str> =
            description["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        let text = description.to_string();
        let wanted: BTreeSet<&str> =
            text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(wanted.is_subset(&schemas), "{wanted:?} {schemas:?}");
        assert!(wanted.contains("Decision") && wanted.contains("Problem"));
        let parameters = &description["paths"]["/v1/decide"]["post"]["parameters"];
        let names: Vec<&str> =
            parameters.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"pipeline") && names.contains(&"tollhouse-rcpt-to"), "{names:?}");
        // The index for people names the same.
        let index = server.get("/").body;
        for (method, path) in ROUTES {
            let path = format!("{path} ");
            assert!(
                index.lines().any(|line| line.starts_with(&method.to_uppercase()) && line.contains(&path)),
                "{path}"
            );
        }
    });
}

#[test]
fn the_node_says_what_it_runs_and_how_it_is() {
    with_server(&[], |server| {
        let pipelines = server.get("/v1/pipelines").json();
        let names: Vec<&str> = pipelines["pipelines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["mail", "web"]);
        let mail = &pipelines["pipelines"][0];
        assert_eq!(mail["input"], "message");
        assert_eq!(mail["version"].as_str().unwrap().len(), 16);
        assert!(
            mail["kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|kind| kind["name"] == "from" && kind["of"] == "mail.from")
        );
        assert!(mail["rules"].as_array().unwrap().iter().all(|rule| rule["description"].is_string()));
        assert_eq!(mail["bands"][0]["action"], "tag");

        for url in ["/healthz", "/readyz"] {
            assert_eq!(server.get(url).json()["status"], "ok");
        }
        check_problem(&server.get("/v1/nowhere"), 404, "not-found", "there is no URL `/v1/nowhere`");
        let wrong = server.get("/v1/decide");
        check_problem(&wrong, 405, "method-not-allowed", "GET /v1/decide");
        assert_eq!(wrong.header("allow"), Some("POST"));
    });
}

/// The samples of a page of metrics by name and labels; fails on a line that is neither a comment nor a sample.
fn samples(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with("# EOF\n"), "{page}");
    let lines = page.lines().filter(|line| !line.starts_with("# "));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

#[test]
fn metrics_count_stages_and_requests() {
    with_server(&[], |server| {
        server.post("/v1/decide?pipeline=web", &[LOG], PROBE);
        server.post("/v1/decide?pipeline=web", &[LOG], "nonsense");
        server.get("/v1/some/secret/path");
        let answer = server.get("/metrics");
        assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
        let samples = samples(&answer.body);
        let check =
            |name: &str, value: f64| assert_eq!(samples.get(name), Some(&value), "{name}\n{}", answer.body);
        check(r#"tollhouse_fields_events_total{pipeline="web"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="/v1/decide",status="200"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="/v1/decide",status="422"}"#, 1.0);
        check(r#"tollhouse_http_request_seconds_count{route="other",status="404"}"#, 1.0);
        check("tollhouse_ledger_poisoned", 0.0);
        check("tollhouse_ledger_full", 0.0);
        // Those of the requests before may not be closed yet.
        assert!(samples["tollhouse_http_connections"] >= 1.0);
        assert!(samples["tollhouse_ledger_cells"] > 0.0);
        assert!(!answer.body.contains("secret"));
    });
}

#[test]
fn a_broken_journal_makes_the_node_unready() {
    let parent = tempfile::tempdir().unwrap();
    let directory = directory(&parent.path().join("data"));
    let server = start(&directory, &[("journal.segment", "1KiB"), ("ledger.durability", "sync")]);
    assert_eq!(server.get("/readyz").status, 200);
    // The next segment cannot be made.
    std::fs::remove_dir_all(directory.journal_path()).unwrap();
    let mut answers = (0..50).map(|_| server.post("/v1/decide?pipeline=web", &[LOG], PROBE));
    let refused = answers.find(|answer| answer.status != 200).unwrap();
    check_problem(&refused, 503, "unavailable", "nothing can be written");
    check_problem(&server.get("/readyz"), 503, "unavailable", "the journal takes nothing more");
    assert_eq!(server.get("/healthz").status, 200);
}

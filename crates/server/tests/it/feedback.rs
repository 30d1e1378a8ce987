use serde_json::json;

use crate::harness::{
    JSON, LOG, MAIL, MESSAGE, PROBE, TestServer, check_problem, directory, start, with_server,
};

fn complaints(server: &TestServer) -> u64 {
    let timeline = server.get("/v1/timeline?kind=from&value=ann@example.org").json();
    let buckets =
        timeline["tiers"].as_array().unwrap().iter().flat_map(|tier| tier["buckets"].as_array().unwrap());
    buckets.filter_map(|bucket| bucket["counts"]["complaint"].as_u64()).sum()
}

#[test]
fn feedback_is_counted_once() {
    with_server(&[], |server| {
        let id = server.post("/v1/decide", &[MAIL], MESSAGE).json()["id"].as_str().unwrap().to_owned();
        let spam = json!({"id": id, "class": "spam"}).to_string();
        let said = server.post("/v1/feedback", &[JSON], &spam).json();
        assert_eq!(
            (&said["id"], &said["class"], &said["duplicate"]),
            (&json!(id), &json!("spam"), &json!(false))
        );
        assert!(said["keys"].as_u64().unwrap() > 5, "{said}");
        assert_eq!(complaints(server), 1);
        let again = server.post("/v1/feedback", &[JSON], &spam).json();
        assert_eq!((&again["duplicate"], &again["keys"]), (&json!(true), &json!(0)));
        assert_eq!(complaints(server), 1);

        let check = |headers: &[&str], body: String, status: u16, word: &str, detail: &str| {
            check_problem(&server.post("/v1/feedback", headers, &body), status, word, detail);
        };
        let with = |id: &str, class: &str| json!({"id": id, "class": class}).to_string();
        check(&[JSON], with(&id, "spma"), 400, "unknown-name", "there is no feedback class `spma`");
        check(&[JSON], with("0000000000000", "spam"), 404, "not-found", "there is no decision 0000000000000");
        check(&[JSON], with("../../secret", "spam"), 400, "invalid-parameter", "expected a decision id");
        check(&[JSON], json!({"id": id}).to_string(), 400, "invalid-body", "missing field `class`");
        check(&[LOG], with(&id, "spam"), 415, "unsupported-type", "expected `application/json`");
        check(&[JSON], "[".repeat(10_000), 400, "invalid-body", "");
    });
}

#[test]
fn reporters_have_one_word_each_and_take_it_back() {
    with_server(&[], |server| {
        let id = server.post("/v1/decide", &[MAIL], MESSAGE).json()["id"].as_str().unwrap().to_owned();
        let say = |class: &str, by: &str| {
            let body = json!({"id": id, "class": class, "by": by}).to_string();
            server.post("/v1/feedback", &[JSON], &body)
        };
        let said = say("complaint", "bob@example.net").json();
        assert_eq!((&said["standing"], &said["weight"]), (&json!("unknown"), &json!(1)), "{said}");
        assert_eq!((&said["limited"], said.get("replaced")), (&json!(false), None), "{said}");
        say("complaint", "cid@example.net");
        assert_eq!(complaints(server), 2);
        let mended = say("pardon", "bob@example.net").json();
        assert_eq!(mended["replaced"], "complaint", "{mended}");
        assert_eq!(complaints(server), 1);
        assert_eq!(say("none", "cid@example.net").json()["keys"], 0);
        assert_eq!(complaints(server), 0);
        let known = server.get("/v1/timeline?kind=reporter&value=BOB@example.net").json();
        let of = |word: &str| known["windows"][1]["counts"][word].as_u64().unwrap_or(0);
        assert_eq!((of("reports"), of("reversed")), (2, 1), "{known}");

        check_problem(&say("complaint", " "), 400, "invalid-parameter", "by: expected a name");
        check_problem(&say("complaint", &"b".repeat(257)), 400, "invalid-parameter", "by: expected a name");
        let learn = |class: &str| {
            let url = format!("/v1/learn?class={class}&by=dan");
            server.post(&url, &[MAIL, "Tollhouse-Event-Id: m9"], MESSAGE).json()
        };
        assert_eq!(learn("complaint")["standing"], "unknown");
        assert_eq!(learn("none")["replaced"], "complaint");
        assert_eq!(complaints(server), 0);
    });
}

#[test]
fn mail_reports_mail() {
    let settings = [("reports.senders", "[\"example.net\"]")];
    with_server(&settings, |server| {
        let report = |headers: &[&str], mail: &str| {
            let headers: Vec<&str> = [MAIL].into_iter().chain(headers.iter().copied()).collect();
            server.post("/v1/report", &headers, mail)
        };
        let arf = |kind: &str| {
            format!(
                "From: fbl@provider.example\nContent-Type: multipart/report; report-type=feedback-report; boundary=b\n\n\
                 --b\nContent-Type: message/feedback-report\n\nFeedback-Type: {kind}\nVersion: 1\n\n\
                 --b\nContent-Type: message/rfc822\n\n{MESSAGE}\n--b--\n"
            )
        };
        let by = "Tollhouse-Mail-From: <fbl@example.net>";
        let said = report(&[by], &arf("abuse")).json();
        assert_eq!((&said["by"], &said["class"]), (&json!("fbl@example.net"), &json!("complaint")), "{said}");
        assert_eq!(said["feedback"].as_array().unwrap().len(), 1, "{said}");
        assert_eq!(complaints(server), 1);
        assert_eq!(report(&[by], &arf("abuse")).json()["feedback"][0]["duplicate"], true);
        assert_eq!(report(&[by], &arf("not-spam")).json()["feedback"][0]["replaced"], "complaint");
        assert_eq!(complaints(server), 0);
        assert_eq!(report(&[by], &arf("auth-failure")).json()["feedback"], json!([]));

        let stranger = report(&["Tollhouse-Mail-From: <x@elsewhere.example>"], &arf("abuse"));
        check_problem(&stranger, 422, "not-applicable", "may not report");
        let nowhere = report(&["Tollhouse-User: ann", "Tollhouse-Rcpt-To: bob@example.net"], MESSAGE);
        check_problem(&nowhere, 422, "not-applicable", "no recipient is an address for reports");
        check_problem(&report(&[], &arf("abuse")), 422, "not-applicable", "may not report");
    });
}

#[test]
fn learning_is_counted_once_for_a_body_or_an_id() {
    with_server(&[], |server| {
        let learned = server.post("/v1/learn?class=spam", &[MAIL], MESSAGE).json();
        assert_eq!(learned["id"].as_str().unwrap().len(), 64, "{learned}");
        assert_eq!(learned["duplicate"], false);
        assert_eq!(server.post("/v1/learn?class=spam", &[MAIL], MESSAGE).json()["duplicate"], true);
        assert_eq!(complaints(server), 1);
        let named = [MAIL, "Tollhouse-Event-Id: m7"];
        assert_eq!(server.post("/v1/learn?class=spam", &named, MESSAGE).json()["id"], "m7");
        assert_eq!(complaints(server), 2);
        let line = server.post("/v1/learn?class=bad&pipeline=web", &[LOG], PROBE).json();
        assert_eq!(line["duplicate"], false, "{line}");

        check_problem(
            &server.post("/v1/learn", &[MAIL], MESSAGE),
            400,
            "invalid-parameter",
            "missing field `class`",
        );
        let unknown = server.post("/v1/learn?class=spma", &[MAIL], MESSAGE);
        check_problem(&unknown, 400, "unknown-name", "there is no feedback class `spma`");
    });
}

#[test]
fn decisions_that_never_were_are_not_found() {
    with_server(&[], |server| {
        check_problem(&server.get("/v1/decisions/0000000000000"), 404, "not-found", "there is no decision");
        check_problem(
            &server.get("/v1/decisions/..%2Fsecret"),
            400,
            "invalid-parameter",
            "expected a decision id",
        );
    });
}

#[test]
fn a_restart_loses_nothing() {
    for durability in ["sync", "1s"] {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(&parent.path().join("data"));
        let settings = [("ledger.durability", durability)];
        let server = start(&directory, &settings);
        let ids: Vec<String> = (0..20)
            .map(|_| {
                server.post("/v1/decide?pipeline=web", &[LOG], PROBE).json()["id"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        server.stop();

        let server = start(&directory, &settings);
        let peeked = server.post("/v1/peek?pipeline=web", &[LOG], PROBE).json();
        assert_eq!(peeked["facts"]["ip.seen('1h')"], 20, "{durability}");
        for id in &ids {
            assert_eq!(server.get(&format!("/v1/decisions/{id}")).json()["id"], *id, "{durability}");
        }
        let said = server.post("/v1/feedback", &[JSON], &json!({"id": ids[0], "class": "bad"}).to_string());
        assert_eq!(said.status, 200, "{}", said.body);
        server.stop();
    }
}

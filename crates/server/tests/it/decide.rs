use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use serde_json::{Value, json};

use crate::batch::ARROW;
use crate::harness::{
    JSON, JSON_LINES, LOG, MAIL, MESSAGE, PROBE, check_problem, directory, start, with_server,
};

/// Names of the rules in reasons.
fn names(decision: &Value) -> Vec<&str> {
    decision["reasons"].as_array().unwrap().iter().map(|reason| reason["name"].as_str().unwrap()).collect()
}

#[test]
fn a_message_is_decided_with_the_envelope_of_its_headers() {
    with_server(&[], |server| {
        let headers = [
            MAIL,
            "Tollhouse-Client-Ip: 192.0.2.1",
            "Tollhouse-Helo: localhost",
            "Tollhouse-Mail-From: ann@example.org",
            "Tollhouse-Rcpt-To: bob@example.net, carl@example.net",
            "Tollhouse-Rcpt-To: dora@example.net",
            "Tollhouse-User: ann",
            "Tollhouse-Event-Id: one",
            "Tollhouse-Event-Time: 2026-05-17T09:00:00Z",
        ];
        let answer = server.post("/v1/decide?pipeline=mail", &headers, MESSAGE);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let decision = answer.json();
        assert_eq!(decision["pipeline"], "mail");
        assert_eq!(decision["event_id"], "one");
        assert_eq!(decision["time"], "2026-05-17T09:00:00Z");
        assert_eq!(decision["duplicate"], false);
        assert_eq!(decision["action"], "accept");
        assert_eq!(decision["next"]["action"], "tag");
        assert!(names(&decision).contains(&"HELO_NOT_A_NAME"), "{decision}");

        let id = decision["id"].as_str().unwrap();
        let explained = server.get(&format!("/v1/decisions/{id}")).json();
        for member in ["id", "event_id", "pipeline", "version", "time", "action", "score", "reasons"] {
            assert_eq!(explained[member], decision[member], "{member}");
        }
        let facts = &explained["facts"];
        assert_eq!(facts["client.ip"], "192.0.2.1");
        assert_eq!(facts["client.user"], "ann");
        assert_eq!(facts["mail.sender"], "ann@example.org");
        assert_eq!(
            facts["mail.recipients"],
            json!(["bob@example.net", "carl@example.net", "dora@example.net"])
        );
        assert_eq!(facts["mail.date"], "2026-05-17T09:59:00Z");
        assert_eq!(facts["mail.has_date"], true);
        assert!(explained["rules"]["HELO_NOT_A_NAME"].is_string(), "{explained}");
        let from = explained["keys"].as_array().unwrap().iter().find(|key| key["kind"] == "from").unwrap();
        assert_eq!(from["piece"], "ann@example.org");
        assert_eq!(from["shingle"].as_str().unwrap().len(), 16);
        assert_eq!(from["quality"], "exact");

        // The same id is judged again and counted once.
        let again = server.post("/v1/decide?pipeline=mail", &headers, MESSAGE).json();
        assert_eq!(again["duplicate"], true);
        assert_ne!(again["id"], decision["id"]);
    });
}

#[test]
fn a_stored_message_speaks_for_itself_when_asked_to() {
    with_server(&[], |server| {
        let stored = format!(
            "Return-Path: <ann@example.org>\r\nDelivered-To: bob@example.net\r\nReceived: from mail.example.org (mail.example.org \
             [198.51.100.9]) by mx.example.net; Sat, 16 May 2026 08:00:00 +0000\r\n{MESSAGE}"
        );
        let plain = server.post("/v1/peek?pipeline=mail", &[MAIL], &stored).json();
        assert_eq!(plain["time"], "2026-05-17T10:00:00Z");
        assert_eq!(plain["facts"]["mail.sender"], Value::Null);
        let own = server.post("/v1/peek?message_time=true&envelope=headers", &[MAIL], &stored).json();
        assert_eq!(own["time"], "2026-05-16T08:00:00Z");
        assert_eq!(own["facts"]["mail.sender"], "ann@example.org");
        assert_eq!(own["facts"]["mail.recipients"], json!(["bob@example.net"]));
        let said =
            server.post("/v1/peek?envelope=headers", &[MAIL, "Tollhouse-Mail-From: <>"], &stored).json();
        assert_eq!(said["facts"]["mail.sender"], "<>");
    });
}

#[test]
fn log_lines_and_json_objects_are_decided() {
    with_server(&[], |server| {
        let decision = server.post("/v1/decide?pipeline=web", &[LOG, "Tollhouse-Event-Id: r1"], PROBE).json();
        assert_eq!(decision["time"], "2026-05-17T09:59:30Z");
        assert_eq!(decision["event_id"], "r1");
        assert!(names(&decision).contains(&"PROBE"), "{decision}");
        let reason =
            decision["reasons"].as_array().unwrap().iter().find(|reason| reason["name"] == "PROBE").unwrap();
        assert_eq!(reason["values"]["http.probe"], true);
        assert!(reason["detail"].as_str().unwrap().contains("http.probe = true"), "{reason}");

        let object = json!({"id": "o1", "time": "2026-05-17T09:58:00Z", "client": {"ip": "192.0.2.9"}, "http.path": "/a"});
        let decision = server.post("/v1/decide?pipeline=web", &[JSON], &object.to_string()).json();
        assert_eq!(
            (&decision["event_id"], &decision["time"]),
            (&json!("o1"), &json!("2026-05-17T09:58:00Z"))
        );
        let message = json!({"id": "m1", "raw": MESSAGE, "mail.sender": "ann@example.org"});
        let decision = server.post(
            "/v1/decide",
            &["Content-Type: application/json; charset=utf-8"],
            &message.to_string(),
        );
        assert_eq!(
            (decision.status, &decision.json()["pipeline"]),
            (200, &json!("mail")),
            "{}",
            decision.body
        );
    });
}

#[test]
fn bad_events_are_problems() {
    with_server(&[], |server| {
        let check = |url: &str, headers: &[&str], body: &str, status: u16, word: &str, detail: &str| {
            check_problem(&server.post(url, headers, body), status, word, detail);
        };
        check(
            "/v1/decide?pipeline=nail",
            &[MAIL],
            MESSAGE,
            400,
            "unknown-name",
            "there is no pipeline `nail`",
        );
        check(
            "/v1/decide?pipelin=mail",
            &[MAIL],
            MESSAGE,
            400,
            "invalid-parameter",
            "unknown field `pipelin`",
        );
        check(
            "/v1/decide?envelope=/etc/passwd",
            &[MAIL],
            MESSAGE,
            400,
            "invalid-parameter",
            "unknown variant",
        );
        check(
            "/v1/decide?message_time=perhaps",
            &[MAIL],
            MESSAGE,
            400,
            "invalid-parameter",
            "provided string was not",
        );
        check("/v1/decide", &[], MESSAGE, 415, "unsupported-type", "Content-Type is missing");
        check("/v1/decide", &["Content-Type: text/html"], MESSAGE, 415, "unsupported-type", "`text/html`");
        check(
            "/v1/decide",
            &[LOG],
            PROBE,
            415,
            "unsupported-type",
            "the pipeline `mail` reads message, not `text/plain`",
        );
        check("/v1/decide?pipeline=web", &[MAIL], MESSAGE, 415, "unsupported-type", "reads access-log");
        check("/v1/decide?pipeline=web", &[LOG], "nonsense", 422, "invalid-event", "expected a time");
        check(
            "/v1/decide?pipeline=web",
            &[LOG],
            &format!("{PROBE}\n{PROBE}\n"),
            422,
            "invalid-event",
            "found several",
        );
        check(
            "/v1/decide?pipeline=web&message_time=true",
            &[LOG],
            PROBE,
            400,
            "invalid-parameter",
            "only for messages",
        );
        check("/v1/decide", &[MAIL], "", 422, "invalid-event", "the message is empty");
        check("/v1/decide", &[JSON], "{", 400, "invalid-body", "expected one JSON object");
        check("/v1/decide", &[JSON], "[]", 400, "invalid-body", "expected one JSON object");
        check(
            "/v1/decide",
            &[JSON],
            r#"{"client.ip": "here"}"#,
            422,
            "invalid-event",
            "field `client.ip`: expected ip",
        );
        check(
            "/v1/decide",
            &[JSON, "Tollhouse-Helo: x"],
            "{}",
            400,
            "invalid-parameter",
            "not for this content type",
        );
        check(
            "/v1/decide",
            &[MAIL, "Tollhouse-File: /etc/passwd"],
            MESSAGE,
            400,
            "invalid-parameter",
            "no such header",
        );
        let help = server.post("/v1/decide", &[LOG], PROBE).json()["help"].as_str().unwrap().to_owned();
        assert_eq!(help, "name a pipeline that does: `?pipeline=web`");
    });
}

#[test]
fn a_batch_is_answered_line_by_line() {
    with_server(&[("server.batch_max", "400")], |server| {
        let lines: Vec<Value> =
            (0..300).map(|number| json!({"id": format!("e{number}"), "client.ip": "192.0.2.1"})).collect();
        let mut body: Vec<String> = lines.iter().map(Value::to_string).collect();
        body.insert(2, "nonsense".to_owned());
        body.insert(270, String::new());
        let answer = server.post("/v1/decide/batch?pipeline=web", &[JSON_LINES], &body.join("\n"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
        let answers: Vec<Value> =
            answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), 302);
        assert_eq!((&answers[2]["line"], &answers[2]["error"]["status"]), (&json!(3), &json!(400)));
        assert_eq!(answers[270]["line"], 271);
        let ids: Vec<&str> = answers.iter().filter_map(|answer| answer["event_id"].as_str()).collect();
        assert_eq!(ids, (0..300).map(|number| format!("e{number}")).collect::<Vec<_>>());
        // Events of a batch see those before them.
        let last = server.get(&format!("/v1/decisions/{}", answers[301]["id"].as_str().unwrap())).json();
        assert_eq!(last["facts"]["ip.seen('1m')"], 299, "{}", last["facts"]);

        let log = format!("{PROBE}\nbroken\n{PROBE}\n");
        let answer = server.post("/v1/decide/batch?pipeline=web", &[LOG], &log);
        let answers: Vec<Value> =
            answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let errors: Vec<bool> = answers.iter().map(|answer| answer["error"].is_object()).collect();
        assert_eq!(errors, [false, true, false], "{}", answer.body);
        assert!(server.get("/metrics").body.contains("tollhouse_http_bad_lines_total 3"));

        assert_eq!(server.post("/v1/decide/batch?pipeline=web", &[LOG], "").body, "");
        let long = "{}\n".repeat(401);
        let answer = server.post("/v1/decide/batch?pipeline=web", &[JSON_LINES], &long);
        check_problem(&answer, 413, "too-large", "more than 400 lines");
        check_problem(
            &server.post("/v1/decide/batch", &[MAIL], MESSAGE),
            415,
            "unsupported-type",
            "is not read here",
        );
        check_problem(
            &server.post("/v1/decide/batch", &[LOG], &log),
            415,
            "unsupported-type",
            "reads message",
        );
    });
}

#[test]
fn fields_that_nobody_knows_are_said_or_refused() {
    for (unknown, status) in [("warn", 200), ("error", 422), ("ignore", 200)] {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(&parent.path().join("data"));
        std::fs::write(directory.config_path(), format!("preset = \"web\"\nunknown = \"{unknown}\"\n"))
            .unwrap();
        let server = start(&directory, &[]);
        {
            let decide = |body: &str| server.post("/v1/decide", &[JSON], body);
            assert_eq!(decide(r#"{"http.path": "/"}"#).json().get("warnings"), None);
            for (body, says) in [
                (
                    r#"{"http.path": "/", "http.pth": "/a"}"#,
                    "`http.pth` is no field of the pipeline `web`: did you mean `http.path`?",
                ),
                (r#"{"usr": {"a": 1, "b": [2]}}"#, "`usr.a` is no field"),
                ("{}", "has no field that the pipeline `web` knows"),
            ] {
                let answer = decide(body);
                assert_eq!(answer.status, status, "{}", answer.body);
                assert_eq!(answer.body.contains(says), unknown != "ignore", "{}", answer.body);
                // The same of a line and of a row.
                for path in ["/v1/decide/batch", "/v1/batch/decide"] {
                    let answer = server.post(path, &[JSON_LINES], body);
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    assert_eq!(answer.body.contains(says), unknown != "ignore", "{}", answer.body);
                    assert_eq!(answer.body.contains("\"error\""), unknown == "error", "{}", answer.body);
                }
            }
            let metrics = server.get("/metrics").body;
            assert!(metrics.contains("tollhouse_events_unknown_total{pipeline=\"web\"} 9"), "{metrics}");
        }
        server.stop();
    }
}

/// Each protocol that takes events with fields of the caller's own.
#[test]
fn every_protocol_says_or_refuses_fields_that_nobody_knows() {
    const SAYS: &str = "`http.pth` is no field of the pipeline `web`: did you mean `http.path`?";
    let listeners = [
        ("listener.m.protocol", "resp"),
        ("listener.m.listen", "127.0.0.1:0"),
        ("listener.m.learn", "true"),
        ("listener.g.protocol", "grpc"),
        ("listener.g.listen", "127.0.0.1:0"),
    ];
    let columns = |name: &str| {
        let texts = |values| Arc::new(StringArray::from(values)) as ArrayRef;
        let second = (name, texts(vec![Some("/a"), Some("/b")]));
        let batch = vec![("http.path", texts(vec![Some("/"), None])), second];
        crate::batch::stream(&[RecordBatch::try_from_iter(batch).unwrap()])
    };
    for unknown in ["warn", "error", "ignore"] {
        let parent = tempfile::tempdir().unwrap();
        let directory = directory(&parent.path().join("data"));
        std::fs::write(directory.config_path(), format!("preset = \"web\"\nunknown = \"{unknown}\"\n"))
            .unwrap();
        let server = start(&directory, &listeners);
        let check = |protocol: &str, answer: &str| {
            assert_eq!(answer.contains(SAYS), unknown != "ignore", "{protocol}, {unknown}: {answer}");
        };
        let body = r#"{"http.path": "/", "http.pth": "/a"}"#;
        let status = if unknown == "error" { 422 } else { 200 };
        for path in ["/v1/observe", "/v1/peek", "/v1/learn?class=bad"] {
            let answer = server.post(path, &[JSON], body);
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
            check(path, &answer.body);
        }
        for path in ["/v1/batch/observe", "/v1/batch/decide"] {
            let (status_found, answer) = crate::batch::post(&server, path, &[ARROW], &columns("http.pth"));
            assert_eq!(status_found, status, "{path}");
            check(path, &warned_of(&answer, status == 200));
        }
        for command in ["TOLL.DECIDE web", "TOLL.OBSERVE web", "TOLL.LEARN web bad"] {
            let answer = server.exchange("m", format!("{command} http.path / http.pth /a\r\n").as_bytes());
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert_eq!(answer.starts_with("-ERR"), unknown == "error", "{command}: {answer}");
            check(command, &answer);
        }
        for decides in [false, true] {
            let answer = crate::grpc::once(server.listener("g"), decides, columns("http.pth"));
            assert_eq!(answer.is_err(), unknown == "error", "{answer:?}");
            check("grpc", &answer.map_or_else(|told| told, |answer| warned_of(&answer, true)));
        }
        let counted = server.get("/v1/timeline?pipeline=web&kind=path&value=/").json();
        assert_eq!(counted.get("first").is_none(), unknown == "error", "{counted}");
        let (status, answer) =
            crate::batch::post(&server, "/v1/batch/decide", &[ARROW], &columns("http.query"));
        assert_eq!((status, warned_of(&answer, true)), (200, String::new()));
        server.stop();
    }
}

/// Returns what the schema of an answer warns of, or what a refusal says.
fn warned_of(answer: &[u8], is_stream: bool) -> String {
    if !is_stream {
        return String::from_utf8_lossy(answer).into_owned();
    }
    let reader = StreamReader::try_new(answer, None).unwrap();
    let schema = reader.schema();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
    let warnings = schema.metadata().get("tollhouse.warnings");
    let warnings: Vec<String> = warnings.map_or_else(Vec::new, |json| serde_json::from_str(json).unwrap());
    warnings.join("; ")
}

//! Batches in columns: what comes back is what was sent, row by row, in any form.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, TimestampMicrosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use engine::Directory;
use plan::preset;
use serde_json::{Value, json};

use crate::harness::{Answer, JSON, JSON_LINES, NOW, TestServer, check_problem, start};
use crate::python::python;

pub(crate) const ARROW: &str = "Content-Type: application/vnd.apache.arrow.stream";

pub(crate) fn with_analytics(settings: &[(&str, &str)], test: impl FnOnce(&TestServer)) {
    let parent = tempfile::tempdir().unwrap();
    let presets = [preset::find("analytics").unwrap()];
    let directory = Directory::create(&parent.path().join("data"), &presets).unwrap();
    let running = start(&directory, settings);
    test(&running);
    running.stop();
}

/// Posts bytes; answers status and body.
pub(crate) fn post(server: &TestServer, url: &str, headers: &[&str], body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = server.connect();
    let mut head = format!("POST {url} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n", server.address);
    headers.iter().for_each(|header| head += &format!("{header}\r\n"));
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

pub(crate) fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    stream
}

/// Three events of two users: columns of several types.
pub(crate) fn events() -> RecordBatch {
    let users: DictionaryArray<Int8Type> = ["ann", "bob", "ann"].into_iter().collect();
    let ips = [[192u8, 0, 2, 7], [192, 0, 2, 8], [192, 0, 2, 7]];
    let now = NOW.0 / 1000;
    RecordBatch::try_from_iter(vec![
        ("id", Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![now - 2000, now - 1000, now]))),
        ("user", Arc::new(users)),
        ("ip", Arc::new(FixedSizeBinaryArray::try_from_iter(ips.into_iter()).unwrap())),
        ("agent", Arc::new(StringArray::from(vec![Some("curl/8.0"), None, Some("Firefox")]))),
    ])
    .unwrap()
}

pub(crate) const SAME: &str = r#"{"id":"a","time":"2026-05-17T09:59:58Z","user":"ann","ip":"192.0.2.7","agent":"curl/8.0"}
{"id":"b","time":"2026-05-17T09:59:59Z","user":"bob","ip":"192.0.2.8"}
{"id":"c","time":"2026-05-17T10:00:00Z","user":"ann","ip":"192.0.2.7","agent":"Firefox"}
"#;

pub(crate) fn records(body: &[u8]) -> Vec<RecordBatch> {
    StreamReader::try_new(body, None).unwrap().map(Result::unwrap).collect()
}

/// A cell as JSON answers have it; nothing for none.
fn cell(array: &ArrayRef, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let key = dictionary.normalized_keys()[row];
        return Some(json!(dictionary.values().as_string::<i32>().value(key)));
    }
    let any = array.as_any();
    Some(if let Some(counts) = array.as_primitive_opt::<UInt64Type>() {
        json!(counts.value(row))
    } else if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        json!(floats.value(row))
    } else if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        json!(event::Time(times.value(row)).to_string())
    } else if let Some(bools) = array.as_boolean_opt() {
        json!(bools.value(row))
    } else if let Some(texts) = array.as_string_opt::<i32>() {
        json!(texts.value(row))
    } else if let Some(list) = array.as_list_opt::<i32>() {
        let items = list.value(row);
        json!(items.as_string::<i32>().iter().flatten().collect::<Vec<_>>())
    } else {
        panic!("{any:?}")
    })
}

pub(crate) fn objects(records: &[RecordBatch]) -> Vec<Value> {
    let mut all = Vec::new();
    for record in records {
        for row in 0..record.num_rows() {
            let columns = record.schema_ref().fields().iter().zip(record.columns());
            let members =
                columns.filter_map(|(field, array)| Some((field.name().clone(), cell(array, row)?)));
            all.push(Value::Object(members.collect()));
        }
    }
    all
}

/// Without what is new each time.
pub(crate) fn without_ids(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        object.as_object_mut().unwrap().remove("id");
    }
    objects
}

#[test]
fn columns_lines_and_arrays_are_answered_the_same() {
    let ask = |what: &str, header: &str, body: &[u8]| {
        let mut found = Vec::new();
        with_analytics(&[], |server| {
            let (status, answer) = post(server, &format!("/v1/batch/{what}"), &[header], body);
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
            found = answer;
        });
        found
    };
    let array = format!("[{}]", SAME.trim().replace('\n', ",")).into_bytes();
    for what in ["observe", "decide"] {
        let columns = without_ids(objects(&records(&ask(what, ARROW, &stream(&[events()])))));
        let lines = String::from_utf8(ask(what, JSON_LINES, SAME.as_bytes())).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let array: Vec<Value> = serde_json::from_slice(&ask(what, JSON, &array)).unwrap();
        assert_eq!(without_ids(lines), columns, "{what}");
        assert_eq!(without_ids(array), columns, "{what}");
        let last = &columns[2];
        assert_eq!((&last["user.count"], &last["user_lately.seen_1h"]), (&json!(2), &json!(2)));
        assert_eq!(last["user.quality"], "estimated", "it is not admitted yet: {last}");
        assert!(last["ip_lately.first"].is_null(), "a sketch knows no times: {last}");
        assert!(columns[1].get("agent.count").is_none() && columns[0]["agent.count"] == 1, "{columns:?}");
        if what == "decide" {
            assert_eq!(columns[0]["action"], "shadow");
            assert!(columns[0]["reasons"].as_array().unwrap().contains(&json!("HEADLESS")), "{}", columns[0]);
            assert_eq!(columns[2]["reasons"], json!(["NO_SCREEN"]));
        }
    }
}

#[test]
fn decisions_of_columns_are_logged() {
    with_analytics(&[], |server| {
        let (_, answer) = post(server, "/v1/batch/decide", &[ARROW], &stream(&[events()]));
        let decided = objects(&records(&answer));
        let id = decided[0]["id"].as_str().unwrap();
        let explained = server.get(&format!("/v1/decisions/{id}")).json();
        assert_eq!((&explained["facts"]["user"], &explained["event_id"]), (&json!("ann"), &json!("a")));
        assert_eq!(explained["facts"]["ip_net"], "192.0.2.0/24");
    });
}

#[test]
fn each_record_batch_has_its_answer_and_names_count_once() {
    with_analytics(&[], |server| {
        let columns = events().project(&[2, 3]).unwrap();
        let body = stream(&[columns.clone(), columns]);
        let send = |id: &str| {
            let header = format!("Tollhouse-Batch-Id: {id}");
            let (status, answer) = post(server, "/v1/batch/observe", &[ARROW, &header], &body);
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
            let records = records(&answer);
            assert_eq!(records.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [3, 3]);
            let objects = objects(&records);
            (objects[5]["user_lately.seen_1h"].clone(), objects[5]["duplicate"].clone())
        };
        assert_eq!(send("one"), (json!(4), json!(false)));
        assert_eq!(send("one"), (json!(4), json!(true)));
        assert_eq!(send("two"), (json!(8), json!(false)));
        // Events with names of their own count once whatever the batch is called.
        let named = stream(&[events()]);
        for duplicate in [false, true] {
            let (_, answer) = post(server, "/v1/batch/observe", &[ARROW], &named);
            assert_eq!(objects(&records(&answer))[0]["duplicate"], duplicate);
        }
    });
}

#[test]
fn what_is_no_batch_is_told() {
    let refused = |server: &TestServer, header: &str, body: &[u8]| {
        let (status, body) = post(server, "/v1/batch/observe", &[header], body);
        Answer {
            status,
            head: "content-type: application/problem+json".into(),
            body: String::from_utf8(body).unwrap(),
        }
    };
    with_analytics(&[("server.batch_max", "2")], |server| {
        check_problem(&refused(server, ARROW, b"nothing"), 400, "invalid-body", "Arrow IPC stream");
        check_problem(&refused(server, ARROW, &stream(&[events()])), 413, "too-large", "at most 2 rows");
        check_problem(&refused(server, JSON, b"{}"), 400, "invalid-body", "JSON array");
        check_problem(&refused(server, JSON, b"[{},{},{}]"), 413, "too-large", "more than 2 events");
        check_problem(&refused(server, "Content-Type: text/csv", b"a"), 415, "unsupported-type", "text/csv");
        let answer = server.post("/v1/batch/observe", &[JSON_LINES], "{\"user\":\"ann\"}\nnothing\n");
        let lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["user.count"], &lines[1]["line"]), (&json!(1), &json!(2)), "{}", answer.body);
        let header = "Tollhouse-Event-Id: a";
        let answer = server.post("/v1/batch/observe", &[JSON_LINES, header], "{}");
        check_problem(&answer, 400, "invalid-parameter", "not for a batch in columns");
    });
}

/// Far more batches at once than there are places: each is counted whole and answered, or told that nothing of it was
/// counted, and afterwards all is as before.
#[test]
fn a_flood_loses_nothing_that_was_answered() {
    const ROWS: usize = 2000;
    const SENDERS: usize = 100;
    with_analytics(&[], |server| {
        let users = RecordBatch::try_from_iter(vec![(
            "user",
            Arc::new(StringArray::from(vec!["ann"; ROWS])) as ArrayRef,
        )])
        .unwrap();
        let body = stream(&[users]);
        let answers: Vec<(u16, Vec<u8>)> = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|_| scope.spawn(|| post(server, "/v1/batch/observe", &[ARROW], &body)))
                .collect();
            senders.into_iter().map(|sender| sender.join().unwrap()).collect()
        });
        let counted = answers.iter().filter(|(status, _)| *status == 200).count();
        assert!(counted >= 1, "{:?}", answers.iter().map(|(status, _)| status).collect::<Vec<_>>());
        for (status, body) in answers.iter().filter(|(status, _)| *status != 200) {
            let problem: Value = serde_json::from_slice(body).unwrap();
            assert_eq!((*status, &problem["type"]), (503, &json!("urn:tollhouse:problem:overloaded")));
        }
        let (status, last) = post(server, "/v1/batch/observe", &[ARROW], &body);
        assert_eq!(status, 200);
        let last = &objects(&records(&last))[ROWS - 1];
        assert_eq!(last["user_lately.seen_1h"], json!((counted + 1) * ROWS));
    });
}

/// The examples in `examples/` run as they are printed.
#[test]
fn the_python_examples_run() {
    let packages = ["pyarrow", "polars"];
    let Some(python) = python("python-batch", &packages, "the examples of batches") else { return };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/batch");
    for script in ["batch_pyarrow.py", "batch_polars.py"] {
        with_analytics(&[], |server| {
            let ran = Command::new(&python)
                .arg(examples.join(script))
                .arg(format!("http://{}", server.address))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "{script}: {said}{}", String::from_utf8_lossy(&ran.stderr));
            assert!(said.contains("5000 events"), "{script}: {said}");
        });
    }
}

//! Learners, anomalies and related keys, at the command line and by a server.

use serde_json::Value;

use crate::program::{Data, Server, corpus, run};

#[test]
fn learners_anomalies_and_relations_are_shown_alike_by_files_and_by_a_server() {
    let data = Data::new(&["mail", "web"]);
    data.run(&["check", &corpus("mail.mbox")], "").expect(0);
    let rows =
        data.run(&["decisions", "--pipeline", "mail", "--facts", "mail.from", "--json"], "").expect(0).json();
    let from = rows.iter().find_map(|row| row["facts"]["mail.from"].as_str()).unwrap().to_owned();
    let asked: [(&[&str], &[&str]); 3] = [
        (&["learners", "--pipeline", "mail"], &["learned", "promised", "tag"]),
        (&["anomalies"], &["nothing of the last hour stands out"]),
        (&["stats", "--pipeline", "mail", "--related", "from", &from], &["decisions", "from"]),
    ];
    let only = |mut lines: Vec<Value>| -> Value {
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    };
    let mut local = Vec::new();
    for (args, says) in asked {
        let shown = data.run(args, "").expect(0).stdout;
        says.iter().for_each(|text| assert!(shown.contains(text), "{args:?}: {shown}"));
        local.push(only(data.run(&[args, &["--json"]].concat(), "").expect(0).json()));
    }
    assert_eq!(local[0]["classifiers"][0]["name"], "learned");
    assert!(!local[2]["keys"].as_array().unwrap().is_empty(), "{}", local[2]);
    let server = Server::start(&data.path(), &[]);
    for ((args, _), local) in asked.iter().zip(&local) {
        let args = [args, &["--json", "--server", &server.url][..]].concat();
        let mut remote = only(run(&args, "").expect(0).json());
        // A server looks for a while only, which is little on a machine that does much else.
        for _ in 0..100 {
            if remote["partial"] != true {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
            remote = only(run(&args, "").expect(0).json());
        }
        let mut local = local.clone();
        for answer in [&mut remote, &mut local] {
            answer.as_object_mut().unwrap().remove("at");
        }
        assert_eq!(remote, local, "{args:?}");
    }
}

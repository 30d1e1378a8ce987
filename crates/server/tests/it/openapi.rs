//! The description of the interface, by others' validator, and its examples, played to a node.

use std::process::Command;

use engine::Directory;

use crate::harness::start;
use crate::python::python;

const MAIL: &str = "
preset = \"mail\"

[report_addresses]
complaint = [\"spam@example.net\"]
";

#[test]
fn the_description_is_valid_and_a_node_answers_its_examples() {
    let packages = ["openapi-spec-validator==0.9.0"];
    let Some(python) = python("openapi", &packages, "the description of the interface is valid") else {
        return;
    };
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
    let config = directory.config_path();
    std::fs::write(&config, include_str!("../openapi/node.toml")).unwrap();
    std::fs::write(config.with_file_name("gate.toml"), "preset = \"gate\"\n").unwrap();
    std::fs::write(config.with_file_name("mail.toml"), MAIL).unwrap();
    // Nobody listens there: the test of it is answered, and says so.
    let server = start(&directory, &[("notification.ops.url", "http://127.0.0.1:1/hook")]);
    let mut check = Command::new(python);
    check.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openapi/check.py"));
    check.arg(format!("http://{}", server.address));
    check.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/http/examples.json"));
    if std::env::var_os("UPDATE").is_some() {
        check.arg("--update");
    }
    let ran = check.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    server.stop();
}

//! Limits of other programs.

use std::path::PathBuf;

use crate::program::run;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpora/limits/limitador/limits.yaml")
}

#[test]
fn limits_of_limitador_are_written_as_ours() {
    let file = corpus();
    let ran = run(["import", "limits", file.to_str().unwrap()], "").expect(0);
    assert!(!ran.stdout.contains("number") && ran.stdout.contains("key = [\"user_id\"]"), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("not in the limits: `test_namespace-2`: take from it only where"),
        "{}",
        ran.stderr
    );
    let directory = tempfile::tempdir().unwrap();
    let made = directory.path().join("made.toml");
    let arguments = ["import", "limits", file.to_str().unwrap(), "-o", made.to_str().unwrap()];
    run(arguments, "").expect(0);
    let text = std::fs::read_to_string(&made).unwrap();
    std::fs::write(&made, format!("preset = \"web\"\n{text}")).unwrap();
    run(["config", "check", made.to_str().unwrap()], "").expect(0);
    run(arguments, "").expect(2);
    let wrong = directory.path().join("wrong.yaml");
    std::fs::write(&wrong, "- {namespace: a, max_value: x, seconds: 1}\n").unwrap();
    let ran = run(["import", "limits", wrong.to_str().unwrap()], "").expect(1);
    assert!(ran.stderr.contains("wrong.yaml:1:29: error: `max_value` is text"), "{}", ran.stderr);
    run(["import", "limits", "no/such/file"], "").expect(2);
    run(["import"], "").expect(2);
}

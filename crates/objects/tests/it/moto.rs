//! Uploads to a server of S3's protocol.

use std::process::Command;

use event::Span;
use objects::{BucketFilter, BucketJournal, ObjectBucket};

use crate::moto_server::Moto;
use crate::support::*;
use crate::uploads::{KILLED_RECORDS, kill_while_uploading};

#[test]
fn a_server_of_s3s_protocol_has_all_rows_once() {
    const INSIDE: &str = "TOLLHOUSE_TEST_MOTO";
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let Some(moto) = Moto::start() else { return };
    moto.run_again("moto::a_server_of_s3s_protocol_has_all_rows_once", INSIDE);
}

fn inside() {
    let parent = tempfile::tempdir().unwrap();
    let url = "s3://tollhouse/some/where";
    let to = ObjectBucket::open(url).unwrap();
    let journal = open(&parent.path().join("other"));
    fill(&journal, 2, 0..2000);
    let uploader = upload(&journal, &to, "other", START + Span::hours(3));
    wait_for_uploads(&journal);
    drop(uploader);
    kill_while_uploading(&parent.path().join("killed"), url, 4);
    assert_all(&to, &[(1, KILLED_RECORDS), (2, 2000)]);
    for (node, number) in [(1, 0), (1, KILLED_RECORDS - 2), (2, 1234)] {
        let found = BucketJournal::find(&to, id(node, number)).unwrap().expect("a decision");
        assert_eq!(found.node, if node == 1 { "killed" } else { "other" });
    }
    // A bucket that does not exist.
    let away = ObjectBucket::open("s3://nowhere/x").unwrap();
    assert!(BucketJournal::open(&away, &BucketFilter::default()).is_err());
    // DuckDB and Polars read the files as they are.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tables.py");
    let ran = Command::new(std::env::var_os("TOLLHOUSE_TEST_TABLES").unwrap())
        .args([script, &std::env::var("AWS_ENDPOINT").unwrap(), url])
        .args([KILLED_RECORDS, 2000].map(|count| count.to_string()))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    print!("{told}");
}

//! Uploads to a server of S3's protocol: moto, in an environment of Python's own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use event::Span;
use objects::{BucketFilter, BucketJournal, ObjectBucket};

use crate::python::python;
use crate::support::*;
use crate::uploads::{KILLED_RECORDS, kill_while_uploading};

/// A server with a bucket, which ends with this value.
struct Moto {
    process: Child,
    port: u16,
    python: PathBuf,
}

const SERVER: &str = "
import sys, boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=int(sys.argv[1]), verbose=False)
server.start()
_, port = server.get_host_and_port()
s3 = boto3.client('s3', endpoint_url=f'http://127.0.0.1:{port}', region_name='us-east-1',
                  aws_access_key_id='k', aws_secret_access_key='s')
s3.create_bucket(Bucket='tollhouse')
print(port, flush=True)
sys.stdin.read()
";

impl Moto {
    fn start(port: u16) -> Option<Moto> {
        let packages = ["moto[server]", "boto3", "duckdb", "polars", "pyarrow"];
        let python = python("moto", &packages, "uploads to a server of S3's protocol")?;
        let mut process = Command::new(&python)
            .args(["-c", SERVER, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("a port");
        Some(Moto { process, port, python })
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.end();
    }
}

/// All in one process of its own, as an environment is that of all tests.
#[test]
fn a_server_of_s3s_protocol_has_all_rows_once() {
    const INSIDE: &str = "TOLLHOUSE_TEST_MOTO";
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let Some(moto) = Moto::start(0) else { return };
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["moto::a_server_of_s3s_protocol_has_all_rows_once", "--exact", "--nocapture"])
        .env(INSIDE, moto.port.to_string())
        .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", moto.port))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_ACCESS_KEY_ID", "k")
        .env("AWS_SECRET_ACCESS_KEY", "s")
        .env("AWS_REGION", "us-east-1")
        .env("TOLLHOUSE_TEST_TABLES", &moto.python)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    print!("{told}");
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
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

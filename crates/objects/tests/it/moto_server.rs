//! A server of S3's protocol: moto, in an environment of Python's own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::python::python;

/// A server with the bucket `tollhouse`, which ends with this value.
pub(crate) struct Moto {
    process: Child,
    pub(crate) port: u16,
    /// An interpreter that has the clients of S3, too.
    pub(crate) python: PathBuf,
}

const SERVER: &str = "
import sys, boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
_, port = server.get_host_and_port()
s3 = boto3.client('s3', endpoint_url=f'http://127.0.0.1:{port}', region_name='us-east-1',
                  aws_access_key_id='k', aws_secret_access_key='s')
s3.create_bucket(Bucket='tollhouse')
print(port, flush=True)
sys.stdin.read()
";

impl Moto {
    /// None, and why on standard output, where there can be none.
    pub(crate) fn start() -> Option<Moto> {
        let packages = ["moto[server]", "boto3", "duckdb", "polars", "pyarrow"];
        let python = python("moto", &packages, "uploads to a server of S3's protocol")?;
        let mut process = Command::new(&python)
            .args(["-c", SERVER])
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

    /// Runs a test of this program once more, in a process that reaches the server by its environment, which is that of all tests
    /// of a process. `inside` names what tells it from the first.
    pub(crate) fn run_again(&self, test: &str, inside: &str) {
        self.run_again_through(self.port, test, inside);
    }

    /// Runs a test once more through a port that leads to the server, see [`Moto::run_again`].
    pub(crate) fn run_again_through(&self, port: u16, test: &str, inside: &str) {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(inside, port.to_string())
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "k")
            .env("AWS_SECRET_ACCESS_KEY", "s")
            .env("AWS_REGION", "us-east-1")
            .env("TOLLHOUSE_TEST_TABLES", &self.python)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        print!("{told}");
        assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(told.contains("test result: ok. 1 passed"), "{told}");
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

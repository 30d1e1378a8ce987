//! Starting the program.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The results that a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The objects on standard output. That there is nothing else is part of what is tested.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let objects: Vec<Value> = self.stdout.lines().map(parse).collect();
        assert!(objects.iter().all(Value::is_object), "{}", self.stdout);
        objects
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// The built binary.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");

/// The program without the settings of this environment; its three streams are pipes.
pub(crate) fn command(args: &[&OsStr]) -> Command {
    command_of(Command::new(PROGRAM), args)
}

/// Returns the command that runs the program, without the settings of this environment; its three streams are pipes.
fn command_of(mut command: Command, args: &[&OsStr]) -> Command {
    for (name, _) in std::env::vars_os() {
        if ["TOLLHOUSE_", "NATS_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>, stdin: &str) -> Ran {
    let args: Vec<A> = args.into_iter().collect();
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    let mut child = command(&args).spawn().unwrap();
    let (mut input, text) = (child.stdin.take().unwrap(), stdin.to_owned());
    let writer = thread::spawn(move || {
        // A program that ends early does not read all of it.
        let _ = input.write_all(text.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the program to its end, with more in its environment.
pub(crate) fn run_with(environment: &[(String, String)], args: &[&str]) -> Ran {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    let output = command(&args).envs(environment.iter().cloned()).stdin(Stdio::null()).output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the program, reads one line of its output and closes the pipe, as `head -1` does.
pub(crate) fn run_into_head(args: &[&str]) -> Ran {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    let mut child = command(&args).stdin(Stdio::null()).spawn().unwrap();
    let mut stdout = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut stdout).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    Ran { code: child.wait().unwrap().code().unwrap_or(-1), stdout, stderr }
}

/// A data directory of its own for a test.
pub(crate) struct Data {
    parent: TempDir,
}

impl Data {
    /// Made by `init` with these presets.
    pub(crate) fn new(presets: &[&str]) -> Data {
        let data = Data { parent: tempfile::tempdir().unwrap() };
        let mut args = vec!["init"];
        presets.iter().for_each(|preset| args.extend(["--preset", preset]));
        data.run(&args, "").expect(0);
        data
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.parent.path().join("data")
    }

    /// A file beside the data directory.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.parent.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Runs a command with `--data`.
    pub(crate) fn run(&self, args: &[&str], stdin: &str) -> Ran {
        let path = self.path();
        let args = args.iter().map(OsStr::new).chain([OsStr::new("--data"), path.as_os_str()]);
        run(args, stdin)
    }
}

/// A running server; killed when the test ends, if it still runs.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// The text that the server has written to standard error since it came up.
    said: Arc<Mutex<String>>,
}

impl Server {
    /// Starts `serve` on a free port.
    pub(crate) fn start(data: &Path, args: &[&str]) -> Server {
        Server::start_by(Command::new(PROGRAM), data, "127.0.0.1:0", args)
    }

    /// Starts it on the port that one before had.
    pub(crate) fn start_again(data: &Path, url: &str, args: &[&str]) -> Server {
        let address = url.trim_start_matches("http://");
        Server::start_by(Command::new(PROGRAM), data, address, args)
    }

    /// Starts `serve` on a free port by a process whose files may be limited: a write beyond the limit fails, and no signal
    /// comes with it.
    pub(crate) fn start_limitable(data: &Path, args: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", PROGRAM]);
        Server::start_by(shell, data, "127.0.0.1:0", args)
    }

    /// Starts `serve` on a free port by a process that may have so many files open.
    pub(crate) fn start_with_files(data: &Path, files: u32, args: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), PROGRAM]);
        Server::start_by(shell, data, "127.0.0.1:0", args)
    }

    /// Starts it with more in its environment.
    pub(crate) fn start_in(data: &Path, environment: &[(String, String)], args: &[&str]) -> Server {
        let mut program = Command::new(PROGRAM);
        program.envs(environment.iter().cloned());
        Server::start_by(program, data, "127.0.0.1:0", args)
    }

    /// Starts it on a socket that listens already and that a service manager would hand over.
    pub(crate) fn start_on(listener: &TcpListener, data: &Path, args: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        let handed = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http; exec \"$0\" \"$@\"";
        shell.args(["-c", handed, PROGRAM]);
        let listen = listener.local_addr().unwrap().to_string();
        let mut command = Server::command(shell, data, &listen, args);
        command.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
        Server::up(command)
    }

    fn start_by(command: Command, data: &Path, listen: &str, args: &[&str]) -> Server {
        Server::up(Server::command(command, data, listen, args))
    }

    fn command(command: Command, data: &Path, listen: &str, args: &[&str]) -> Command {
        let mut all =
            vec![OsStr::new("serve"), OsStr::new("--listen"), OsStr::new(listen), OsStr::new("--data")];
        all.push(data.as_os_str());
        // Costly calls give way to all else that runs, here to other tests: only a test of the time limit waits for it.
        all.extend(["--set", "server.timeout=2m"].map(OsStr::new));
        all.extend(args.iter().map(OsStr::new));
        command_of(command, &all)
    }

    /// Waits until the server says where it listens.
    fn up(mut command: Command) -> Server {
        let child = command.spawn().unwrap();
        let mut server = Server { child, url: String::new(), said: Arc::default() };
        let mut lines = BufReader::new(server.child.stderr.take().unwrap());
        let mut said = String::new();
        while server.url.is_empty() && lines.read_line(&mut said).unwrap() > 0 {
            if let Some((_, address)) = said.lines().last().unwrap().split_once("listens on ") {
                server.url = address.to_owned();
            }
        }
        assert!(!server.url.is_empty(), "the server did not come up: {said}");
        let more = Arc::clone(&server.said);
        thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                more.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        server
    }

    /// Returns the text that the server has written to standard error since it came up.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal that does not end it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends a signal and waits for the end; the exit code, none after a signal that cannot be handled.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(self.pid(), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bundled samples.
pub(crate) fn corpus(name: &str) -> String {
    format!("{}/../../corpora/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A message that several rules fire on.
pub(crate) const MESSAGE: &str = "\
From: Cheap <cheap@example.com>\r
To: you@example.net\r
Subject: BUY THIS NOW, IT IS CHEAP\r
Message-ID: <1@example.com>\r
Date: Sun, 17 May 2026 10:00:00 +0000\r
\r
Only today: http://192.0.2.7/buy\r
";

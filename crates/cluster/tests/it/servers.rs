//! Servers of Redis on free loopback ports: one with all slots, or three masters with a replica each. They end with
//! their values. Needs `redis-server` and `redis-cli`.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::free_port;

/// The time that servers may take to become what they are asked to be.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long without a word a server counts as down, in milliseconds.
pub(crate) const NODE_TIMEOUT: u64 = 2000;

/// Returns true if servers can be started; says so if not.
pub(crate) fn are_there() -> bool {
    let there = ["redis-server", "redis-cli"].iter().all(|program| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    });
    if !there {
        println!("skipped: tests of the cluster home: redis-server and redis-cli are not installed");
    }
    there
}

/// The program that is started where nothing else is named.
const PROGRAM: &str = "redis-server";

thread_local! {
    /// True if servers that this thread starts load the module.
    static LOADS_MODULE: Cell<bool> = const { Cell::new(false) };
}

/// The module, as this build has made it: cargo makes it beside the tests, as it is one of their dependencies.
pub(crate) fn module() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.join("libtollhouse_module.so")).filter(|path| path.exists())
}

/// Runs a test whose servers load the module `tollhouse`.
pub(crate) fn with_module(test: impl FnOnce()) {
    if module().is_none() {
        println!(
            "skipped: tests of the cluster home over the module: it is built for systems with shared objects only"
        );
        return;
    }
    LOADS_MODULE.set(true);
    test();
    LOADS_MODULE.set(false);
}

/// A server process.
pub(crate) struct Server {
    program: PathBuf,
    pub(crate) port: u16,
    pub(crate) bus: u16,
    process: Option<Child>,
    directory: PathBuf,
    options: Vec<String>,
}

impl Server {
    /// Starts a program as one in a directory of its own, with more options.
    pub(crate) fn start(program: &Path, directory: PathBuf, options: &[&str]) -> Server {
        let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        if let Some(module) = module().filter(|_| LOADS_MODULE.get()) {
            options.extend(["--loadmodule".to_owned(), module.display().to_string()]);
        }
        let (program, port, bus) = (program.to_path_buf(), free_port(), free_port());
        let mut server = Server { program, port, bus, process: None, directory, options };
        std::fs::create_dir_all(&server.directory).expect("a directory");
        server.again();
        server
    }

    /// Starts it once more, with what it had on disk.
    pub(crate) fn again(&mut self) {
        self.begin();
        wait("a server answers", || self.cli(&["PING"]).trim() == "PONG");
    }

    /// Starts it once more, and does not wait until it has loaded what it had.
    pub(crate) fn begin(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--cluster-enabled", "yes", "--cluster-port", &self.bus.to_string()]);
        command.args([
            "--cluster-node-timeout",
            &NODE_TIMEOUT.to_string(),
            "--repl-diskless-sync-delay",
            "0",
        ]);
        command.args(["--cluster-require-full-coverage", "no"]);
        command.arg("--dir").arg(&self.directory).args(&self.options);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().expect("a server starts"));
    }

    /// Leaves the module out when it is started once more.
    pub(crate) fn forget_module(&mut self) {
        let at =
            self.options.iter().position(|option| option == "--loadmodule").expect("it loads the module");
        self.options.drain(at..at + 2);
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the server's answer to a command.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        // A paused server takes connections and says nothing.
        let output = Command::new("timeout")
            .args(["3", "redis-cli", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(arguments)
            .output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }

    /// Sends its process a signal, such as `KILL` or `STOP`.
    pub(crate) fn signal(&mut self, signal: &str) {
        let Some(process) = &mut self.process else { return };
        let _ = Command::new("kill").arg(format!("-{signal}")).arg(process.id().to_string()).status();
        if signal == "KILL" {
            let _ = process.wait();
            self.process = None;
        }
    }

    pub(crate) fn id(&self) -> String {
        self.cli(&["CLUSTER", "MYID"]).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Waits until it is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Servers that share all slots.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    directory: TempDir,
}

impl Cluster {
    /// One master with all slots and no replica.
    pub(crate) fn single(options: &[&str]) -> Option<Cluster> {
        are_there().then_some(())?;
        Some(Cluster::single_of(Path::new(PROGRAM), options))
    }

    /// Starts one master with all slots and no replica, of another program.
    pub(crate) fn single_of(program: &Path, options: &[&str]) -> Cluster {
        let directory = TempDir::new().expect("a directory");
        let server = Server::start(program, directory.path().join("0"), options);
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        wait("slots are served", || server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        Cluster { servers: vec![server], directory }
    }

    /// Three masters with a replica each.
    pub(crate) fn start() -> Option<Cluster> {
        are_there().then_some(())?;
        Some(Cluster::start_of(Path::new(PROGRAM)))
    }

    /// Starts three masters with a replica each, of another program.
    pub(crate) fn start_of(program: &Path) -> Cluster {
        Cluster::three(program, 1)
    }

    /// Three masters without replicas: the slots of one that is away are nobody's.
    pub(crate) fn unreplicated() -> Option<Cluster> {
        are_there().then_some(())?;
        Some(Cluster::three(Path::new(PROGRAM), 0))
    }

    /// Starts three masters with so many replicas each.
    fn three(program: &Path, replicas: usize) -> Cluster {
        let directory = TempDir::new().expect("a directory");
        let start = |number: usize| Server::start(program, directory.path().join(number.to_string()), &[]);
        let servers: Vec<Server> = (0..3 * (1 + replicas)).map(start).collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(servers.iter().map(Server::address));
        create.args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"]);
        let output = create.output().expect("redis-cli runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let cluster = Cluster { servers, directory };
        cluster.settle();
        cluster
    }

    /// Starts one more, which none of the others knows; answers its place.
    pub(crate) fn add(&mut self) -> usize {
        let place = self.servers.len();
        let program = self.servers.first().expect("a server").program.clone();
        let directory = tempfile::tempdir_in(self.directory.path()).expect("a directory").keep();
        self.servers.push(Server::start(&program, directory, &[]));
        place
    }

    /// Waits until all servers agree that slots are served, and each master has a replica that follows.
    pub(crate) fn settle(&self) {
        wait("the cluster is whole", || {
            self.servers.iter().all(|server| {
                let is_ok = server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
                let role = server.cli(&["INFO", "replication"]);
                let is_followed = role.contains("state=online") || role.contains("master_link_status:up");
                is_ok && (is_followed || self.servers.len() == 3)
            })
        });
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(Server::address).collect()
    }

    /// The masters that are up, by their place among the servers.
    pub(crate) fn masters(&self) -> Vec<usize> {
        let is_master = |server: &Server| {
            server.process.is_some() && server.cli(&["INFO", "replication"]).contains("role:master")
        };
        (0..self.servers.len()).filter(|at| is_master(&self.servers[*at])).collect()
    }

    /// The master that has a slot.
    pub(crate) fn master_of(&self, slot: u16) -> usize {
        let up = self.servers.iter().find(|server| server.process.is_some()).expect("a server");
        let slots = up.cli(&["CLUSTER", "NODES"]);
        let port = slots.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let serves = words.iter().skip(8).any(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse::<u16>().ok();
                matches!((number(from), number(to)), (Some(from), Some(to)) if (from..=to).contains(&slot))
            });
            let port = words.get(1)?.split('@').next()?.rsplit(':').next()?.parse::<u16>().ok()?;
            serves.then_some(port)
        });
        let port = port.expect("a slot has a master");
        self.servers.iter().position(|server| server.port == port).expect("one of ours")
    }
}

//! Processes: what they use, and servers that end with the run.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::engine::Error;

/// Processor time of a process and of its children that have ended, in seconds; its resolution is a tick, 10 ms.
pub(crate) fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in brackets, may hold anything; the state that follows it is field 3, utime field 14.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 =
        fields.split_ascii_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Processor time of the whole machine, in seconds, the time that its host kept from it included.
pub(crate) fn machine_cpu_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    // user, nice, system, idle, iowait, irq, softirq, steal
    let fields = stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1).take(8);
    let ticks =
        fields.enumerate().filter(|(at, _)| *at != 3 && *at != 4).filter_map(|(_, n)| n.parse::<u64>().ok());
    Ok(ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> io::Result<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Ok(pages * rustix::param::page_size() as u64)
}

/// Bytes that the files below a directory take up.
pub(crate) fn disk_bytes(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sum += disk_bytes(&entry.path())?,
            // Neither holes nor what is preallocated behind the end.
            Ok(metadata) => sum += metadata.len().min(metadata.blocks() * 512),
            // It was removed meanwhile, by a compaction.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

/// Returns true if a program is installed.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The first line that a program prints about its version.
pub(crate) fn version_of(program: &str, package: &str) -> Result<String, String> {
    let output = match Command::new(program).arg("--version").stderr(Stdio::null()).output() {
        Ok(output) => output,
        Err(_) => return Err(format!("{program} is not installed (apt-get install {package})")),
    };
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned())
}

/// A server process; it ends when this value does.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a program with arguments that may depend on the port that it is to listen on. What it prints goes to a
    /// file in the directory.
    pub(crate) fn start(
        program: &str,
        directory: &Path,
        arguments: impl FnOnce(u16) -> Vec<String>,
    ) -> Result<Server, Error> {
        // Free now; nobody else is expected to take it within the next moments.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = directory.join("server.log");
        let output = fs::File::create(&log)?;
        // So that it ends even if this process is killed.
        let mut command = if installed("setpriv") {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "TERM", program]);
            command
        } else {
            Command::new(program)
        };
        let child = command
            .args(arguments(port))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        Ok(Server { child, log, port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a connection answers.
    pub(crate) fn connect<T>(
        &mut self,
        answers: impl Fn(TcpStream) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
                stream.set_nodelay(true)?;
                if let Some(connection) = answers(stream)? {
                    return Ok(connection);
                }
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status}: {}", self.said()).into());
            }
            if started.elapsed() > Duration::from_secs(600) {
                return Err(format!("the server does not answer: {}", self.said()).into());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last lines of its log.
    fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(pid_of(&self.child)?, Signal::TERM)?;
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > Duration::from_secs(60) {
                return Err("the server does not end".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn pid_of(child: &Child) -> Result<Pid, Error> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| "a process without an id".into())
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // It would not listen; there is nothing more to be done if this fails too.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

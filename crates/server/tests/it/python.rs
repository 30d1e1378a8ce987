//! Environments of Python with packages of its index, for clients and servers that Debian does not have.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::installing;

/// The folder of an environment with these packages (options of pip may stand before them), made once beside what is built,
/// and kept. `None`, and why on standard output, where it cannot be had.
pub(crate) fn environment(name: &str, packages: &[&str], purpose: &str) -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&home).unwrap();
    // Tests run side by side, and so do runs of them.
    let lock = File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let (python, ready) = (home.join("bin/python"), home.join("ready"));
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&ready).is_ok_and(|had| had == wanted) {
        return Some(home);
    }
    let made = installing::refused().map_or(Ok(()), Err);
    let made =
        made.and_then(|()| run(Command::new("python3").args(["-m", "venv"]).arg(&home))).and_then(|()| {
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"];
            run(Command::new(&python).args(pip).args(packages))
        });
    match made {
        Ok(()) => {
            std::fs::write(ready, wanted).unwrap();
            Some(home)
        }
        Err(why) => {
            println!("skipped: {purpose}: {why}");
            None
        }
    }
}

/// The interpreter of such an environment: `TOLLHOUSE_PYTHON`, or one of its own.
pub(crate) fn python(name: &str, packages: &[&str], purpose: &str) -> Option<PathBuf> {
    match std::env::var_os("TOLLHOUSE_PYTHON") {
        Some(python) => Some(python.into()),
        None => environment(name, packages, purpose).map(|home| home.join("bin/python")),
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let ran = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if ran.status.success() { Ok(()) } else { Err(said.trim().lines().last().unwrap_or("").to_owned()) }
}

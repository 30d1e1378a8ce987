//! Folders with packages of npm's registry, for tests with browsers and with others' programs in JavaScript.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::installing;

/// The folder below `home` whose `node_modules` has these packages, made once and kept. `None`, and why on standard output,
/// where it cannot be had.
pub(crate) fn packages(home: &Path, names: &[&str], purpose: &str) -> Option<PathBuf> {
    let home = home.join("npm");
    std::fs::create_dir_all(&home).unwrap();
    // Tests run side by side, and so do runs of them.
    let lock = File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let (ready, wanted) = (home.join("ready"), names.join(" "));
    if std::fs::read_to_string(&ready).is_ok_and(|had| had == wanted) {
        return Some(home);
    }
    if let Some(why) = installing::refused() {
        println!("skipped: {purpose}: {why}");
        return None;
    }
    let flags = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"];
    let made = Command::new("npm").args(flags).arg("--prefix").arg(&home).args(names).output();
    let why = match made {
        Ok(made) if made.status.success() => {
            std::fs::write(ready, wanted).unwrap();
            return Some(home);
        }
        Ok(made) => {
            String::from_utf8_lossy(&made.stderr).trim().lines().last().unwrap_or("npm failed").to_owned()
        }
        Err(error) => format!("npm: {error}"),
    };
    println!("skipped: {purpose}: {why}");
    None
}

/// The packages that tests of the challenge page take.
pub(crate) const CHALLENGE_PACKAGES: [&str; 4] =
    ["altcha@3.2.2", "altcha-lib@2.8.0", "axe-core@4.14.1", "playwright-core@1.65.1"];

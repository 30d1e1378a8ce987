//! Nothing is installed where `./test` says so.

use std::path::PathBuf;
use std::process::Command;

use crate::{npm, python};

/// The folder for packages, in the process that is to install none.
const HOME: &str = "TOLLHOUSE_TEST_PACKAGES";

#[test]
fn nothing_is_installed_where_that_is_refused() {
    if let Some(home) = std::env::var_os(HOME).map(PathBuf::from) {
        assert_eq!(npm::packages(&home, &["altcha@3.2.2"], "a package of npm"), None);
        assert_eq!(python::environment("no-install", &["altcha==2.3.0"], "a package of Python"), None);
        return;
    }
    assert!(include_str!("../../../../test").contains("\n$install || export TOLLHOUSE_NO_INSTALL=1\n"));
    let home = tempfile::tempdir().unwrap();
    let this = "no_install::nothing_is_installed_where_that_is_refused";
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env("TOLLHOUSE_NO_INSTALL", "1")
        .env(HOME, home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    for what in ["npm", "Python"] {
        let skipped = format!(
            "skipped: a package of {what}: it is not installed, and TOLLHOUSE_NO_INSTALL leaves it out"
        );
        assert!(said.contains(&skipped), "{said}");
    }
    assert!(!home.path().join("npm/node_modules").exists());
    assert!(!PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no-install/bin").exists());
}

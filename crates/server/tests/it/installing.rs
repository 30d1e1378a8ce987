//! The switch with which tests install nothing from the registries of others.

/// The variable that `./test --quick` and `./test --no-install` set.
const SWITCH: &str = "TOLLHOUSE_NO_INSTALL";

/// Returns why nothing may be installed; `None` where it may.
pub(crate) fn refused() -> Option<String> {
    std::env::var_os(SWITCH).map(|_| format!("it is not installed, and {SWITCH} leaves it out"))
}

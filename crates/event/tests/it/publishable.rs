//! `catboost` stands alone: it could be published as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn catboost_packs_what_a_user_needs_and_depends_on_no_other_crate_of_the_house() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let package = ["package", "--list", "--allow-dirty", "--offline", "--package", "tollhouse-catboost"];
    let ran = Command::new(cargo).args(package).current_dir(&root).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let packed = String::from_utf8_lossy(&ran.stdout);
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"] {
        assert!(packed.lines().any(|line| line == file), "{file} is not packed:\n{packed}");
    }
    let manifest = fs::read_to_string(root.join("crates/catboost/Cargo.toml")).unwrap();
    let dependencies = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let dependencies = dependencies.take_while(|line| !line.starts_with('['));
    let dependencies: Vec<&str> = dependencies.filter_map(|line| line.split('.').next()).collect();
    let foreign: Vec<&str> =
        dependencies.into_iter().filter(|name| !name.is_empty() && !name.starts_with("serde")).collect();
    assert!(foreign.is_empty(), "catboost depends on {foreign:?}");
}

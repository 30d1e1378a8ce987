//! Finds the system's RocksDB (Debian: librocksdb-dev). `cfg(librocksdb)` says that it is there; without it everything
//! else is built, and the program says what is missing.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(librocksdb)");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["ROCKSDB_INCLUDE_DIR", "ROCKSDB_LIB_DIR"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let include = given("ROCKSDB_INCLUDE_DIR").unwrap_or_else(|| "/usr/include".into());
    let version = include.join("rocksdb/version.h");
    println!("cargo::rerun-if-changed={}", version.display());
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let libraries = match given("ROCKSDB_LIB_DIR") {
        Some(directory) => vec![directory],
        None => {
            vec![format!("/usr/lib/{architecture}-linux-gnu").into(), "/usr/lib64".into(), "/usr/lib".into()]
        }
    };
    let library = libraries.iter().find(|directory| directory.join("librocksdb.so").exists());
    match (std::fs::read_to_string(&version), library) {
        (Ok(header), Some(library)) => found(&header, library),
        _ => println!(
            "cargo::warning=librocksdb is not installed: built without it (apt-get install librocksdb-dev)"
        ),
    }
}

fn found(header: &str, library: &Path) {
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix("#define ROCKSDB_")?.strip_prefix(name));
        line.map_or("?", str::trim).to_owned()
    };
    let version = format!("{}.{}.{}", number("MAJOR"), number("MINOR"), number("PATCH"));
    println!("cargo::rustc-env=LIBROCKSDB_VERSION={version}");
    println!("cargo::rustc-cfg=librocksdb");
    println!("cargo::rustc-link-search=native={}", library.display());
    println!("cargo::rustc-link-lib=dylib=rocksdb");
}

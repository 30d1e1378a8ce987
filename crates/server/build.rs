//! Makes Rust of the messages in `proto`, with a compiler in Rust: no `protoc` is needed.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let protos = Path::new("proto");
    let service = protos.join("envoy/service/ratelimit/v3/rls.proto");
    println!("cargo::rerun-if-changed={}", protos.display());
    let files = protox::compile([service], [protos])?;
    tonic_prost_build::configure().build_transport(false).include_file("messages.rs").compile_fds(files)?;
    Ok(())
}

//! Makes Rust of the messages in `proto`, with a compiler in Rust: no `protoc` is needed.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let protos = Path::new("proto");
    let services = ["envoy/service/ratelimit/v3/rls.proto", "tollhouse/batch/v1/batch.proto"];
    println!("cargo::rerun-if-changed={}", protos.display());
    let files = protox::compile(services.map(|service| protos.join(service)), [protos])?;
    tonic_prost_build::configure()
        .build_transport(false)
        // Columns lie where they were received.
        .bytes(".tollhouse")
        .include_file("messages.rs")
        .compile_fds(files)?;
    Ok(())
}

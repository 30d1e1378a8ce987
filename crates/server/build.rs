//! Makes Rust of the messages in `proto`, with a compiler in Rust: no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    #[cfg(feature = "grpc")]
    compile(std::path::Path::new("proto"))?;
    Ok(())
}

#[cfg(feature = "grpc")]
fn compile(protos: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let services = [
        "envoy/service/auth/v3/external_auth.proto",
        "envoy/service/ratelimit/v3/rls.proto",
        "tollhouse/batch/v1/batch.proto",
    ];
    let files = protox::compile(services.map(|service| protos.join(service)), [protos])?;
    tonic_prost_build::configure()
        .build_transport(false)
        // Columns lie where they were received.
        .bytes(".tollhouse")
        .include_file("messages.rs")
        .compile_fds(files)?;
    Ok(())
}

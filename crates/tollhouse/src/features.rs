//! The parts that this program was built with, and without.

use std::sync::LazyLock;

use plan::{BuildFeature, MissingFeature};

/// The parts that the program was built without.
pub(crate) const MISSING: &[BuildFeature] = &[
    #[cfg(not(feature = "arrow"))]
    BuildFeature::Arrow,
    #[cfg(not(feature = "cluster"))]
    BuildFeature::Cluster,
    #[cfg(not(feature = "grpc"))]
    BuildFeature::Grpc,
    #[cfg(not(feature = "kafka"))]
    BuildFeature::Kafka,
    #[cfg(not(feature = "mail-auth"))]
    BuildFeature::MailAuth,
    #[cfg(not(feature = "object-store"))]
    BuildFeature::ObjectStore,
];

/// The version, and the parts that the program was built with.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let built = BuildFeature::ALL.iter().filter(|feature| !MISSING.contains(feature));
    let names: Vec<&str> = built.map(|feature| feature.name()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!("{}\nfeatures: {names}", env!("CARGO_PKG_VERSION"))
});

/// Checks that the program was built with a part that a command needs.
///
/// # Errors
/// If it was not.
pub(crate) fn require(feature: BuildFeature) -> Result<(), MissingFeature> {
    if MISSING.contains(&feature) { Err(MissingFeature(feature)) } else { Ok(()) }
}

//! Any bytes are a certificate, of which the time is wanted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::CertificateValidity;

fuzz_target!(|bytes: &[u8]| {
    let _ = CertificateValidity::of_der(bytes);
});

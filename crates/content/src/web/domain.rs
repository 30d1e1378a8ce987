//! Names of domains in one form.

/// A domain in lower-case A-labels without the final dot (UTS #46); one that IDNA refuses is only made lower case.
pub fn domain_to_ascii(domain: &str) -> String {
    let domain = domain.trim_end_matches('.');
    if domain.is_ascii() && !domain.contains("xn--") {
        return domain.to_ascii_lowercase();
    }
    idna::domain_to_ascii(domain).unwrap_or_else(|_| domain.to_lowercase())
}

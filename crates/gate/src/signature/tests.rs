//! The vectors of RFC 9421 (appendix B) and of Web Bot Auth, and attacks on signatures.

use event::{Span, Time};
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha2::Sha256;

use super::base::signature_base;
use super::*;
use crate::application::{APPLICATION_TAG, Application, ApplicationVersion, NamedVersion, VersionState};

/// Header fields in the order of a request.
struct Fields(Vec<(String, Vec<u8>)>);

impl FieldSource for Fields {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.0
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
            .collect()
    }
}

fn fields(list: &[(&str, &str)]) -> Fields {
    Fields(list.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect())
}

fn request<'a>(method: &'a str, url: &'a str, fields: &'a Fields) -> SignedRequest<'a> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    SignedRequest { method, scheme, authority, path, query, fields }
}

/// The keys of RFC 9421, appendix B.1.
const KEYS: &str = r#"{"keys": [
    {"kty": "RSA", "n": "r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wokqltd11nqqzi-bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w", "e": "AQAB"},
    {"kty": "EC", "crv": "P-256", "x": "qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA", "y": "Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"},
    {"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
]}"#;
const ED25519: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";
const THUMBPRINT: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";
const SECRET: &str =
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";

fn directory_key(algorithm: SignatureAlgorithm) -> VerificationKey {
    let directory: serde_json::Value = serde_json::from_str(KEYS).unwrap();
    let keys = directory["keys"].as_array().unwrap().iter().map(|key| {
        let jwk: super::key::JsonWebKey = serde_json::from_value(key.clone()).unwrap();
        jwk.key().unwrap().1
    });
    keys.into_iter().find(|key| key.algorithm() == algorithm).unwrap()
}

/// Checks that the one signature of a request is of a key and covers what it says.
fn holds(request: &SignedRequest<'_>, key: &VerificationKey) -> bool {
    let signatures = read_signatures(request.fields).unwrap();
    let [signature] = signatures.as_slice() else { panic!("{signatures:?}") };
    signature_base(request, signature).is_ok_and(|base| key.verifies(base.as_bytes(), &signature.bytes))
}

const DIGEST: &str =
    "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:";

#[test]
fn the_requests_of_rfc_9421_verify() {
    let secret = data_encoding::BASE64.decode(SECRET.as_bytes()).unwrap();
    let pss = directory_key(SignatureAlgorithm::RsaPss);
    let check = |input: &str, signature: &str, key: &VerificationKey| {
        let fields = fields(&[
            ("Host", "example.com"),
            ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            ("Content-Type", "application/json"),
            ("Content-Digest", DIGEST),
            ("Content-Length", "18"),
            ("Signature-Input", input),
            ("Signature", signature),
        ]);
        let request = |url| request("POST", url, &fields);
        assert!(holds(&request("https://example.com/foo?param=Value&Pet=dog"), key), "{input}");
        // Another request that the signature says something of.
        if input.contains("@authority") {
            assert!(!holds(&request("https://example.org/foo?param=Value&Pet=dog"), key), "{input}");
            assert!(holds(&request("https://Example.COM:443/foo?param=Value&Pet=dog"), key), "{input}");
        }
        if input.contains("@query") {
            assert!(!holds(&request("https://example.com/foo?param=Value&Pet=cat"), key), "{input}");
        }
        if input.contains("@path") {
            assert!(!holds(&request("https://example.com/bar?param=Value&Pet=dog"), key), "{input}");
        }
    };
    check(
        r#"sig-b21=();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#,
        "sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:",
        &pss,
    );
    check(
        r#"sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example""#,
        "sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:",
        &pss,
    );
    check(
        r#"sig-b23=("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss""#,
        "sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:",
        &pss,
    );
    check(
        r#"sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#,
        "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
        &VerificationKey::secret(&secret).unwrap(),
    );
    check(
        r#"sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#,
        "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
        &VerificationKey::ed25519(ED25519).unwrap(),
    );
}

/// Appendix B.3: a proxy that ends TLS signs anew, with the client's certificate in a field.
#[test]
fn the_proxy_of_rfc_9421_verifies() {
    let certificate = ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:";
    let signed = |certificate: &str| {
        fields(&[
            ("Client-Cert", certificate),
            (
                "Signature-Input",
                r#"ttrp=("@path" "@query" "@method" "@authority" "client-cert");created=1618884473;keyid="test-key-ecc-p256""#,
            ),
            (
                "Signature",
                "ttrp=:xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah4JHRwMLOgmizw==:",
            ),
        ])
    };
    let url = "https://service.internal.example/foo?param=Value&Pet=dog";
    let key = directory_key(SignatureAlgorithm::EcdsaP256);
    assert!(holds(&request("POST", url, &signed(certificate)), &key));
    assert!(!holds(&request("POST", url, &signed(":MIIB:")), &key));
}

/// Appendix B.4: what proxies may do to a message, and what they may not.
#[test]
fn the_transformations_of_rfc_9421_verify() {
    let key = VerificationKey::ed25519(ED25519).unwrap();
    let check = |method: &str, url: &str, accept: &[&str], expected: bool| {
        let mut list = vec![
            (
                "Signature-Input",
                r#"transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519""#,
            ),
            (
                "Signature",
                "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:",
            ),
        ];
        list.extend(accept.iter().map(|value| ("accept", *value)));
        let fields = fields(&list);
        assert_eq!(holds(&request(method, url, &fields), &key), expected, "{method} {url} {accept:?}");
    };
    let url = "https://example.org/demo?name1=Value1&Name2=value2";
    check("GET", url, &["application/json", "*/*"], true);
    check("GET", url, &["  application/json, */* "], true);
    check(
        "GET",
        "https://example.org/demo?name1=Value1&Name2=value2&param=added",
        &["application/json", "*/*"],
        true,
    );
    check("POST", "https://example.com/demo?name1=Value1&Name2=value2", &["application/json", "*/*"], false);
    check("GET", url, &["*/*", "application/json"], false);
    check("GET", url, &[], false);
}

/// Conditions of Web Bot Auth, as robots are held to them.
fn robots() -> SignaturePolicy {
    SignaturePolicy {
        covered: &[&["@authority", "@target-uri"]],
        age_max: Span::hours(24),
        has_expiry: true,
        has_nonce: true,
        skew: Span::minutes(1),
    }
}

/// The vectors of the drafts of Web Bot Auth, and of the crate of their authors.
#[test]
fn the_vectors_of_web_bot_auth_verify() {
    let directory = KeyDirectory::read(KEYS.as_bytes()).unwrap();
    assert_eq!(directory.len(), 3);
    let check = |input: &str, signature: &str, agent: Option<&str>, now: i64, host: Option<&str>| {
        let mut list = vec![("Signature-Input", input), ("Signature", signature)];
        list.extend(agent.map(|agent| ("Signature-Agent", agent)));
        let fields = fields(&list);
        let request = request("GET", "https://example.com/path/to/resource", &fields);
        let signatures = read_signatures(&fields).unwrap();
        let signature = &signatures[0];
        assert_eq!(signature.tag(), Some(WEB_BOT_AUTH));
        let now = Time::from_seconds(now);
        let key = directory.key(signature.key_id().unwrap(), now).unwrap();
        assert_eq!(signature_agent(&request, signature).unwrap().as_deref(), host);
        let verified = robots().verify(&request, signature, key, now).unwrap();
        assert!(verified.token.is_some() && verified.expires > now);
    };
    check(
        r#"sig1=("@authority");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=1735693200;nonce="gubxywVx7hzbYKatLgzuKDllDAIXAkz41PydU7aOY7vT+Mb3GJNxW0qD4zJ+IOQ1NVtg+BNbTCRUMt1Ojr5BgA==";tag="web-bot-auth""#,
        "sig1=:uz2SAv+VIemw+Oo890bhYh6Xf5qZdLUgv6/PbiQfCFXcX/vt1A8Pf7OcgL2yUDUYXFtffNpkEr5W6dldqFrkDg==:",
        None,
        1_735_689_600,
        None,
    );
    check(
        r#"sig1=("@authority" "signature-agent");alg="ed25519";keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";nonce="ZO3/XMEZjrvSnLtAP9M7jK0WGQf3J+pbmQRUpKDhF9/jsNCWqUh2sq+TH4WTX3/GpNoSZUa8eNWMKqxWp2/c2g==";tag="web-bot-auth";created=1749331474;expires=1749331484"#,
        "sig1=:3q7S1TtbrFhQhpcZ1gZwHPCFHTvdKXNY1xngkp6lyaqqqv3QZupwpu/wQG5a7qybnrj2vZYMeVKuWepm+rNkDw==:",
        Some(r#""https://myexample.com""#),
        1_749_331_474,
        Some("myexample.com"),
    );
}

const NOW: i64 = 1_800_000_000;
const URL: &str = "https://example.com/path?a=b";

fn now() -> Time {
    Time::from_seconds(NOW)
}

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn public(pair: &Ed25519KeyPair) -> VerificationKey {
    VerificationKey::ed25519(&data_encoding::BASE64URL_NOPAD.encode(pair.public_key().as_ref())).unwrap()
}

/// Signs a request: `input` is the value of `Signature-Input` behind the label, `more` are further fields.
fn signed(
    method: &str,
    url: &str,
    input: &str,
    more: &[(&str, &str)],
    sign: impl Fn(&[u8]) -> Vec<u8>,
) -> Fields {
    let mut list = vec![("signature-input".to_owned(), format!("s={input}").into_bytes())];
    list.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())));
    list.push(("signature".to_owned(), b"s=:AAAA:".to_vec()));
    let mut fields = Fields(list);
    let base = {
        let request = request(method, url, &fields);
        signature_base(&request, &read_signatures(&fields).unwrap()[0])
    };
    // What has no base cannot be signed; it is refused all the same.
    let bytes = base.map(|base| sign(base.as_bytes())).unwrap_or_else(|_| vec![0; 64]);
    let signature = format!("s=:{}:", data_encoding::BASE64.encode(&bytes));
    fields.0.last_mut().unwrap().1 = signature.into_bytes();
    fields
}

fn ed25519(base: &[u8]) -> Vec<u8> {
    pair().sign(base).as_ref().to_vec()
}

/// Parameters of a sound signature.
fn parameters() -> String {
    format!(r#";created={NOW};expires={};keyid="k";nonce="n";tag="web-bot-auth""#, NOW + 60)
}

fn verified(
    request: &SignedRequest<'_>,
    key: &VerificationKey,
) -> Result<VerifiedSignature, SignatureRefusal> {
    let signatures = read_signatures(request.fields)?;
    robots().verify(request, signatures.first().ok_or(SignatureRefusal::Malformed)?, key, now())
}

#[test]
fn signatures_are_refused_for_what_is_wrong_with_them() {
    let key = public(&pair());
    let check = |input: &str, more: &[(&str, &str)], expected: Result<(), SignatureRefusal>| {
        let fields = signed("GET", URL, input, more, ed25519);
        let result = verified(&request("GET", URL, &fields), &key).map(|_| ());
        assert_eq!(result, expected, "{input} {more:?}");
    };
    let with = |input: &str| format!("{input}{}", parameters());
    check(&with(r#"("@authority")"#), &[], Ok(()));
    check(&with(r#"("@method" "@target-uri" "@path" "@query" "@scheme" "@request-target")"#), &[], Ok(()));
    check(
        &with(r#"("@authority" "accept";bs "x";key="a")"#),
        &[("accept", "*/*"), ("x", "a=1, b=(2 3)")],
        Ok(()),
    );
    // Nothing that binds it to the host.
    check(&with("()"), &[], Err(SignatureRefusal::Uncovered));
    check(&with(r#"("@method" "host")"#), &[("host", "example.com")], Err(SignatureRefusal::Uncovered));
    check(&with(r#"("@authority";req)"#), &[], Err(SignatureRefusal::Uncovered));
    // Components that are not there, there twice, or none of a request's.
    check(&with(r#"("@authority" "accept")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "@authority")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "@status")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "@signature-params")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "Accept")"#), &[("accept", "*/*")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "accept";sf)"#), &[("accept", "*/*")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "accept";tr)"#), &[("accept", "*/*")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "accept";bs;tr)"#), &[("accept", "*/*")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "x";key="c")"#), &[("x", "a=1")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "@query-param";name="b")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "@query-param")"#), &[], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "")"#), &[], Err(SignatureRefusal::Component));
    // A value that could be read as two lines of the base.
    check(&with(r#"("@authority" "x")"#), &[("x", "a\n\"@method\": POST")], Err(SignatureRefusal::Component));
    check(&with(r#"("@authority" "x")"#), &[("x", "gr\u{fc}n")], Err(SignatureRefusal::Component));
    // Times.
    let timed = |created: i64, expires: Option<i64>| {
        let expires = expires.map(|expires| format!(";expires={}", NOW + expires)).unwrap_or_default();
        format!(r#"("@authority");created={}{expires};keyid="k";nonce="n""#, NOW + created)
    };
    check(&timed(60, Some(120)), &[], Ok(()));
    check(&timed(61, Some(120)), &[], Err(SignatureRefusal::Future));
    check(&timed(-60, Some(0)), &[], Err(SignatureRefusal::Expired));
    check(&timed(-60, Some(1)), &[], Ok(()));
    check(&timed(0, Some(86_400)), &[], Ok(()));
    check(&timed(0, Some(86_401)), &[], Err(SignatureRefusal::Lasting));
    check(&timed(60, Some(-60)), &[], Err(SignatureRefusal::Expired));
    check(&timed(0, None), &[], Err(SignatureRefusal::Parameter));
    check(
        r#"("@authority");created=999999999999999;expires=999999999999999;keyid="k";nonce="n""#,
        &[],
        Err(SignatureRefusal::Future),
    );
    check(
        r#"("@authority");created=-999999999999999;expires=999999999999999;keyid="k";nonce="n""#,
        &[],
        Err(SignatureRefusal::Lasting),
    );
    // Parameters.
    let without = |name: &str| {
        let all = parameters();
        let kept = all.split(';').filter(|part| !part.starts_with(name)).collect::<Vec<_>>().join(";");
        format!(r#"("@authority"){kept}"#)
    };
    for name in ["created", "expires", "keyid", "nonce"] {
        check(&without(name), &[], Err(SignatureRefusal::Parameter));
    }
    check(
        &with(r#"("@authority");nonce="""#).replace(r#"nonce="n""#, r#"nonce="""#),
        &[],
        Err(SignatureRefusal::Parameter),
    );
    // The algorithm is the key's.
    for alg in ["hmac-sha256", "rsa-pss-sha512", "none", "ED25519", ""] {
        check(
            &format!(r#"("@authority"){};alg="{alg}""#, parameters()),
            &[],
            Err(SignatureRefusal::Algorithm),
        );
    }
    check(&format!(r#"("@authority"){};alg="ed25519""#, parameters()), &[], Ok(()));
}

#[test]
fn a_signature_is_of_one_request() {
    let key = public(&pair());
    let more = [("accept", "text/html"), ("signature-agent", "\"https://robot.example\"")];
    let input =
        format!(r#"("@method" "@authority" "@path" "@query" "accept" "signature-agent"){}"#, parameters());
    let fields = signed("GET", URL, &input, &more, ed25519);
    let check = |request: SignedRequest<'_>, expected: Result<(), SignatureRefusal>| {
        assert_eq!(verified(&request, &key).map(|_| ()), expected, "{request:?}");
    };
    check(request("GET", URL, &fields), Ok(()));
    check(request("GET", "https://EXAMPLE.com:443/path?a=b", &fields), Ok(()));
    for (method, url) in [
        ("POST", URL),
        ("get", URL),
        ("GET", "https://example.org/path?a=b"),
        ("GET", "https://example.com:8443/path?a=b"),
        ("GET", "http://example.com:443/path?a=b"),
        ("GET", "https://example.com/Path?a=b"),
        ("GET", "https://example.com/path/?a=b"),
        ("GET", "https://example.com/path?a=c"),
        ("GET", "https://example.com/path?a=b&a=b"),
        ("GET", "https://example.com/path"),
    ] {
        check(request(method, url, &fields), Err(SignatureRefusal::Forged));
    }
    type HeadChange<'a> = &'a dyn Fn(&mut Vec<(String, Vec<u8>)>, usize);
    let changed = |name: &str, change: HeadChange<'_>| {
        let mut list = fields.0.clone();
        let at = list.iter().position(|(known, _)| known == name).unwrap();
        change(&mut list, at);
        Fields(list)
    };
    let replaced = |name: &str, from: &str, to: &str| {
        changed(name, &|list, at| {
            let text = String::from_utf8(list[at].1.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            list[at].1 = text.replacen(from, to, 1).into_bytes();
        })
    };
    let removed = |name: &str| changed(name, &|list, at| _ = list.remove(at));
    let doubled = |name: &str| {
        changed(name, &|list, at| {
            let again = list[at].clone();
            list.push(again);
        })
    };
    let later = format!("{}", NOW + 3600);
    let check_fields = |fields: Fields, expected: SignatureRefusal| {
        check(request("GET", URL, &fields), Err(expected));
    };
    // Fields changed, removed, doubled.
    check_fields(replaced("accept", "html", "plain"), SignatureRefusal::Forged);
    check_fields(replaced("signature-agent", "robot", "other"), SignatureRefusal::Forged);
    check_fields(removed("accept"), SignatureRefusal::Component);
    check_fields(doubled("accept"), SignatureRefusal::Forged);
    check_fields(removed("signature"), SignatureRefusal::Malformed);
    // A component taken out of what is covered, parameters changed or added.
    check_fields(replaced("signature-input", r#" "accept""#, ""), SignatureRefusal::Forged);
    check_fields(
        replaced("signature-input", &format!("expires={}", NOW + 60), &format!("expires={later}")),
        SignatureRefusal::Forged,
    );
    check_fields(replaced("signature-input", r#"nonce="n""#, r#"nonce="m""#), SignatureRefusal::Forged);
    check_fields(replaced("signature-input", r#"keyid="k""#, r#"keyid="j""#), SignatureRefusal::Forged);
    check_fields(replaced("signature-input", r#"tag="#, r#"x=1;tag="#), SignatureRefusal::Forged);
    check_fields(
        replaced("signature-input", r#"nonce="n""#, r#"nonce="n";nonce="m""#),
        SignatureRefusal::Forged,
    );
    check_fields(
        replaced("signature-input", r#""@path" "@query""#, r#""@query" "@path""#),
        SignatureRefusal::Forged,
    );
    // The last of members of a name counts, and of both fields together.
    check_fields(replaced("signature", "s=:", "s=:AAAA:, s=:AAAA"), SignatureRefusal::Forged);
    // Another label, another type.
    check_fields(replaced("signature", "s=", "t="), SignatureRefusal::Malformed);
    check_fields(replaced("signature-input", "s=(", "t=("), SignatureRefusal::Malformed);
    check_fields(replaced("signature-input", "s=(", "s=1, t=("), SignatureRefusal::Malformed);
    check_fields(replaced("signature", "s=:", "s="), SignatureRefusal::Malformed);
    check_fields(replaced("signature-input", r#"keyid="k""#, "keyid=k"), SignatureRefusal::Malformed);
    check_fields(
        replaced("signature-input", &format!("created={NOW}"), &format!("created={NOW}.5")),
        SignatureRefusal::Malformed,
    );
    // Spaces that structured fields allow change nothing.
    check(request("GET", URL, &replaced("signature-input", r#""accept" "#, r#""accept"   "#)), Ok(()));
    // Each bit of the signature.
    let signature = read_signatures(&fields).unwrap().remove(0);
    for bit in 0..8 * signature.bytes.len() {
        let mut forged = signature.clone();
        forged.bytes[bit / 8] ^= 1 << (bit % 8);
        let result = robots().verify(&request("GET", URL, &fields), &forged, &key, now());
        assert_eq!(result, Err(SignatureRefusal::Forged), "bit {bit}");
    }
    for length in [0, 1, 63, 65, 4096] {
        let mut forged = signature.clone();
        forged.bytes.resize(length, 0);
        let result = robots().verify(&request("GET", URL, &fields), &forged, &key, now());
        assert_eq!(result, Err(SignatureRefusal::Forged), "{length} bytes");
    }
}

/// The public key of a robot is known to all: who takes it for a shared secret lets everybody sign.
#[test]
fn a_public_key_is_no_secret() {
    let key = public(&pair());
    let forge = |base: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(pair().public_key().as_ref()).unwrap();
        mac.update(base);
        mac.finalize().into_bytes().to_vec()
    };
    for alg in [r#";alg="hmac-sha256""#, ""] {
        let fields = signed("GET", URL, &format!(r#"("@authority"){}{alg}"#, parameters()), &[], forge);
        let expected = if alg.is_empty() { SignatureRefusal::Forged } else { SignatureRefusal::Algorithm };
        assert_eq!(verified(&request("GET", URL, &fields), &key), Err(expected));
    }
    // Keys of small order, under which much can be signed by anybody.
    for point in
        ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
    {
        let key = VerificationKey::ed25519(point).unwrap();
        let fields = signed("GET", URL, &format!(r#"("@authority"){}"#, parameters()), &[], |_| vec![0; 64]);
        assert_eq!(verified(&request("GET", URL, &fields), &key), Err(SignatureRefusal::Forged));
    }
}

#[test]
fn what_is_huge_is_refused_before_it_is_read() {
    let key = public(&pair());
    let check = |list: &[(&str, &str)], expected: SignatureRefusal| {
        let fields = fields(list);
        assert_eq!(verified(&request("GET", URL, &fields), &key), Err(expected));
    };
    let signature = ("signature", "s=:AAAA:");
    check(&[("signature-input", &"a".repeat(9000)), signature], SignatureRefusal::TooLarge);
    check(
        &[("signature-input", "s=()"), ("signature", &format!("s=:{}:", "A".repeat(9000)))],
        SignatureRefusal::TooLarge,
    );
    let many: Vec<String> = (0..40).map(|number| format!("\"x{number}\"")).collect();
    check(&[("signature-input", &format!("s=({})", many.join(" "))), signature], SignatureRefusal::TooLarge);
    let five: Vec<String> = (0..5).map(|number| format!("s{number}=()")).collect();
    check(&[("signature-input", &five.join(", ")), signature], SignatureRefusal::TooLarge);
    check(
        &[("signature-input", &format!(r#"s=();nonce="{}""#, "n".repeat(257))), signature],
        SignatureRefusal::Malformed,
    );
    // Many lines of one field are one value.
    let lines: Vec<(&str, &str)> = vec![("signature-input", "s=()"); 2000];
    check(&lines, SignatureRefusal::TooLarge);
    let long = "v".repeat(40_000);
    let input = format!(r#"s=("@authority" "x"){}"#, parameters());
    check(&[("signature-input", &input), signature, ("x", &long)], SignatureRefusal::TooLarge);
    check(&[("signature-input", "s=("), signature], SignatureRefusal::Malformed);
    check(&[("signature-input", ""), signature], SignatureRefusal::Malformed);
    check(&[], SignatureRefusal::Malformed);
}

#[test]
fn directories_of_keys_are_read_within_bounds() {
    let key = |x: &str, more: &str| format!(r#"{{"kty": "OKP", "crv": "Ed25519", "x": "{x}"{more}}}"#);
    let read = |keys: &str| KeyDirectory::read(format!(r#"{{"keys": [{keys}], "purpose": "x"}}"#).as_bytes());
    let check = |keys: &str, now: i64, expected: bool| {
        let known = read(keys).is_ok_and(|all| all.key(THUMBPRINT, Time::from_seconds(now)).is_some());
        assert_eq!(known, expected, "{keys} at {now}");
    };
    check(&key(ED25519, ""), 0, true);
    check(&key(ED25519, r#", "kid": "other", "use": "sig""#), 0, true);
    check(&key(ED25519, r#", "nbf": 100, "exp": 200"#), 99, false);
    check(&key(ED25519, r#", "nbf": 100, "exp": 200"#), 100, true);
    check(&key(ED25519, r#", "nbf": 100, "exp": 200"#), 200, false);
    // Milliseconds, as older drafts have them.
    check(&key(ED25519, r#", "nbf": 1743465600000, "exp": 1743552000000"#), 1_743_500_000, true);
    check(&key(ED25519, r#", "exp": 1e300"#), 1_743_500_000, true);
    check(&key(ED25519, r#", "d": "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU""#), 0, false);
    check(&format!(r#"{{"kty": "oct", "k": "AAAA"}}, {}"#, key(ED25519, "")), 0, true);
    check(&format!("1, null, {}", key(ED25519, "")), 0, true);
    check(&key("AAAA", ""), 0, false);
    check(&key("=!", ""), 0, false);
    assert_eq!(read(""), Err(KeyDirectoryError::Empty));
    assert_eq!(read(&vec![key(ED25519, ""); 65].join(",")), Err(KeyDirectoryError::TooLarge));
    assert_eq!(KeyDirectory::read(&vec![b' '; DIRECTORY_BYTES_MAX + 1]), Err(KeyDirectoryError::TooLarge));
    for text in ["", "[]", "{}", "{\"keys\": 1}", &"[".repeat(100_000)] {
        assert!(
            matches!(KeyDirectory::read(text.as_bytes()), Err(KeyDirectoryError::Malformed(_))),
            "{text:.20}"
        );
    }
}

#[test]
fn signers_name_their_directory_in_a_field_that_they_sign() {
    let check = |component: &str, agent: &[&str], expected: Result<Option<&str>, SignatureRefusal>| {
        let mut list = vec![("signature", "s=:AAAA:")];
        let input = format!(r#"s=("@authority"{component}){}"#, parameters());
        list.push(("signature-input", &input));
        list.extend(agent.iter().map(|agent| ("signature-agent", *agent)));
        let fields = fields(&list);
        let signatures = read_signatures(&fields).unwrap();
        let found = signature_agent(&request("GET", URL, &fields), &signatures[0]);
        assert_eq!(found, expected.map(|host| host.map(str::to_owned)), "{component} {agent:?}");
    };
    let plain = r#" "signature-agent""#;
    check(plain, &[r#""https://Robot.example""#], Ok(Some("robot.example")));
    check(plain, &[r#""https://robot.example:8443/keys?a#b""#], Ok(Some("robot.example:8443")));
    check(plain, &[r#""http://127.0.0.1:1""#], Ok(Some("127.0.0.1:1")));
    check(
        r#" "signature-agent";key="s""#,
        &[r#"t="https://a.example", s="https://b.example""#],
        Ok(Some("b.example")),
    );
    check(
        r#" "signature-agent";key="s""#,
        &[r#"t="https://a.example""#, r#"s="https://b.example""#],
        Ok(Some("b.example")),
    );
    check("", &[], Ok(None));
    check("", &[r#""https://robot.example""#], Err(SignatureRefusal::Uncovered));
    check(
        r#" "signature-agent";key="s" "signature-agent";key="t""#,
        &[r#"s="https://a.example", t="https://b.example""#],
        Err(SignatureRefusal::Uncovered),
    );
    check(r#" "signature-agent";key="u""#, &[r#"t="https://a.example""#], Err(SignatureRefusal::Malformed));
    for agent in [
        "robot.example",
        r#""robot.example""#,
        r#""https://""#,
        r#""https://user@robot.example""#,
        r#""data:,x""#,
        "1",
        r#""ftp://robot.example""#,
    ] {
        check(plain, &[agent], Err(SignatureRefusal::Malformed));
    }
    check(plain, &[r#""https://a.example""#, r#""https://b.example""#], Err(SignatureRefusal::Malformed));
}

fn application() -> Application {
    let version = |name: &str, state, key| ApplicationVersion { name: name.to_owned(), state, key };
    let secret = |text: &str| VerificationKey::secret(text.as_bytes()).unwrap();
    Application {
        name: "shop-ios".to_owned(),
        hosts: vec!["example.com".to_owned()],
        window: Span::minutes(5),
        skew: Span::minutes(1),
        versions: vec![
            version("4.2", VersionState::Active, secret("a secret of 4.2, long")),
            version("4.1", VersionState::Watched, secret("a secret of 4.1, long")),
            version("3.0", VersionState::Retired, secret("a secret of 3.0, long")),
            version("5.0", VersionState::Active, public(&pair())),
        ],
    }
}

#[test]
fn applications_sign_with_the_key_of_their_version() {
    let applications = [application()];
    let hmac = |secret: &'static str| {
        move |base: &[u8]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            mac.update(base);
            mac.finalize().into_bytes().to_vec()
        }
    };
    let all = r#"("@method" "@authority" "@path" "@query")"#;
    let check = |input: String,
                 url: &str,
                 sign: &dyn Fn(&[u8]) -> Vec<u8>,
                 expected: Result<VersionState, SignatureRefusal>| {
        let fields = signed("POST", url, &input, &[], sign);
        let signatures = read_signatures(&fields).unwrap();
        let named = NamedVersion::find(&applications, signatures[0].key_id().unwrap());
        let result = named.ok_or(SignatureRefusal::UnknownKey).and_then(|named| {
            let verified = named.verify(&request("POST", url, &fields), &signatures[0], now())?;
            assert!(verified.token.is_some() && verified.expires == now() + Span::minutes(5));
            Ok(named.version.state)
        });
        assert_eq!(result, expected, "{input} {url}");
    };
    let input = |covered: &str, version: &str| {
        format!(r#"{covered};created={NOW};keyid="shop-ios/{version}";nonce="n";tag="{APPLICATION_TAG}""#)
    };
    check(input(all, "4.2"), URL, &hmac("a secret of 4.2, long"), Ok(VersionState::Active));
    check(
        input(r#"("@method" "@target-uri")"#, "4.2"),
        URL,
        &hmac("a secret of 4.2, long"),
        Ok(VersionState::Active),
    );
    check(input(all, "4.1"), URL, &hmac("a secret of 4.1, long"), Ok(VersionState::Watched));
    check(input(all, "5.0"), URL, &ed25519, Ok(VersionState::Active));
    // A retired version is known by its key, and by nothing else.
    check(input(all, "3.0"), URL, &hmac("a secret of 3.0, long"), Err(SignatureRefusal::Retired));
    check(input(all, "3.0"), URL, &hmac("a secret of 4.2, long"), Err(SignatureRefusal::Forged));
    check(input(all, "4.2"), URL, &hmac("a secret of 4.1, long"), Err(SignatureRefusal::Forged));
    check(input(all, "9.9"), URL, &hmac("a secret of 4.2, long"), Err(SignatureRefusal::UnknownKey));
    check(
        input(all, "4.2"),
        "https://example.org/path",
        &hmac("a secret of 4.2, long"),
        Err(SignatureRefusal::Host),
    );
    for covered in [
        r#"("@method" "@authority" "@path")"#,
        r#"("@authority" "@path" "@query")"#,
        r#"("@method" "@path" "@query")"#,
    ] {
        check(input(covered, "4.2"), URL, &hmac("a secret of 4.2, long"), Err(SignatureRefusal::Uncovered));
    }
    let early = input(all, "4.2").replace(&NOW.to_string(), &(NOW - 301).to_string());
    check(early, URL, &hmac("a secret of 4.2, long"), Err(SignatureRefusal::Expired));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make it panic, and none verify.
    #[test]
    fn any_bytes_are_refused(
        input in proptest::collection::vec(any::<u8>(), 0..200),
        signature in proptest::collection::vec(any::<u8>(), 0..200),
        text in r#"s=\(("[@a-z-]{0,12}"(;[a-z]{1,3}(="?[a-z]{0,3}"?)?)? ?){0,4}\)(;[a-z]{1,7}=("[a-z]{0,3}"|[0-9]{1,4})){0,4}"#,
    ) {
        let key = public(&pair());
        for input in [input.as_slice(), text.as_bytes()] {
            let fields = Fields(vec![
                ("signature-input".to_owned(), input.to_vec()),
                ("signature".to_owned(), signature.clone()),
                ("signature".to_owned(), b"s=:AAAA:".to_vec()),
                ("signature-agent".to_owned(), signature.clone()),
            ]);
            let request = request("GET", URL, &fields);
            prop_assert!(verified(&request, &key).is_err());
            for signature in read_signatures(&fields).unwrap_or_default() {
                let _ = (signature_agent(&request, &signature), signature_base(&request, &signature));
            }
        }
        let _ = KeyDirectory::read(&input);
        let _ = crate::robot::published_networks(&text);
    }
}

//! ID tokens of OpenID Connect: what an identity provider says of who has logged in, signed by one of its keys.
//!
//! ```text
//! KeySet::read (the provider's keys, RFC 7517) ─► IdTokenPolicy::verify(token) ─► IdTokenClaims: who, and what else it says
//! ```
//!
//! The rules are those of OpenID Connect Core 1.0, 3.1.3.7, and of RFC 8725: an algorithm counts only with a key that is made for it,
//! so that neither `none` nor a public key taken for a shared secret signs anything. `ring` checks the signatures.

use data_encoding::BASE64URL_NOPAD;
use event::{Span, Time};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest token. Those with many groups have some 10 KB.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Most keys of a provider.
const KEYS_MAX: usize = 64;
/// The difference that clocks may have.
const SKEW: Span = Span::minutes(1);

/// A key of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProviderKey {
    id: Option<String>,
    /// The only algorithm that it is for, if the provider says one.
    algorithm: Option<String>,
    material: KeyMaterial,
}

/// The numbers of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The keys by which a provider signs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<ProviderKey>,
}

/// A reason for which a token says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// The token is not three parts of base64 with JSON in them.
    #[error("the ID token is not in the form of RFC 7519")]
    Form,
    /// The keys are no JSON Web Key Set.
    #[error("the provider's keys are no JSON Web Key Set (RFC 7517): {0}")]
    Keys(String),
    /// The provider has no key that could have signed it.
    #[error("the provider has no key for the ID token's algorithm `{algorithm}` and key id `{key}`")]
    UnknownKey {
        /// The token's algorithm.
        algorithm: String,
        /// The token's key.
        key: String,
    },
    /// None of its keys has signed it.
    #[error("the ID token's signature is not one of the provider's")]
    Signature,
    /// The token is for somebody else, from somebody else, or for another login.
    #[error("the ID token's `{claim}` is not what was asked for")]
    Claim {
        /// The claim.
        claim: &'static str,
    },
    /// The token is too old, or from the future.
    #[error("the ID token is not valid at this time: compare the clocks of the provider and of this machine")]
    Time,
}

#[derive(Deserialize)]
struct KeySetJson {
    keys: Vec<KeyJson>,
}

/// A key as providers write it; those of other kinds lack these members.
#[derive(Deserialize)]
struct KeyJson {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeyJson {
    /// Returns the key, if it is one of those that are used here.
    fn key(self) -> Option<ProviderKey> {
        if self.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let bytes = |text: Option<&String>| BASE64URL_NOPAD.decode(text?.as_bytes()).ok();
        let point = |length: usize| {
            let (x, y) = (bytes(self.x.as_ref())?, bytes(self.y.as_ref())?);
            (x.len() == length && y.len() == length).then(|| [&[4], &x[..], &y[..]].concat())
        };
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                KeyMaterial::Rsa { modulus: bytes(self.n.as_ref())?, exponent: bytes(self.e.as_ref())? }
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(self.x.as_ref())?),
            _ => return None,
        };
        Some(ProviderKey { id: self.kid, algorithm: self.alg, material })
    }
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of other kinds and for other uses are passed over.
    ///
    /// # Errors
    /// [`IdTokenError::Keys`].
    pub fn read(text: &[u8]) -> Result<KeySet, IdTokenError> {
        let read: KeySetJson =
            serde_json::from_slice(text).map_err(|error| IdTokenError::Keys(error.to_string()))?;
        let keys: Vec<ProviderKey> = read.keys.into_iter().take(KEYS_MAX).filter_map(KeyJson::key).collect();
        if keys.is_empty() {
            return Err(IdTokenError::Keys("none of them signs by RSA, P-256, P-384 or Ed25519".to_owned()));
        }
        Ok(KeySet { keys })
    }

    /// Checks a signature by the keys that may have made it.
    fn check(&self, header: &TokenHeader, message: &[u8], signature: &[u8]) -> Result<(), IdTokenError> {
        let fits = |key: &&ProviderKey| {
            let is_of_id = header.kid.is_none() || key.id.is_none() || key.id == header.kid;
            let is_for = key.algorithm.as_ref().is_none_or(|own| *own == header.alg);
            is_of_id && is_for && key.material.is_for(&header.alg)
        };
        let mut keys = self.keys.iter().filter(fits).peekable();
        if keys.peek().is_none() {
            let (algorithm, key) = (header.alg.clone(), header.kid.clone().unwrap_or_default());
            return Err(IdTokenError::UnknownKey { algorithm, key });
        }
        match keys.any(|key| key.material.has_signed(&header.alg, message, signature)) {
            true => Ok(()),
            false => Err(IdTokenError::Signature),
        }
    }
}

impl KeyMaterial {
    fn is_for(&self, algorithm: &str) -> bool {
        match self {
            KeyMaterial::Rsa { .. } => rsa(algorithm).is_some(),
            KeyMaterial::P256(_) => algorithm == "ES256",
            KeyMaterial::P384(_) => algorithm == "ES384",
            KeyMaterial::Ed25519(_) => matches!(algorithm, "EdDSA" | "Ed25519"),
        }
    }

    fn has_signed(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let by = |scheme: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(scheme, key).verify(message, signature).is_ok()
        };
        match self {
            KeyMaterial::Rsa { modulus, exponent } => rsa(algorithm).is_some_and(|scheme| {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(scheme, message, signature).is_ok()
            }),
            KeyMaterial::P256(point) => by(&ECDSA_P256_SHA256_FIXED, point),
            KeyMaterial::P384(point) => by(&ECDSA_P384_SHA384_FIXED, point),
            KeyMaterial::Ed25519(point) => by(&ED25519, point),
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    match algorithm {
        "RS256" => Some(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Some(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Some(&RSA_PKCS1_2048_8192_SHA512),
        "PS256" => Some(&RSA_PSS_2048_8192_SHA256),
        _ => None,
    }
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood: none is.
    crit: Option<Value>,
}

/// The conditions that a token must meet.
#[derive(Clone, Copy, Debug)]
pub struct IdTokenPolicy<'a> {
    /// The provider, as it names itself.
    pub issuer: &'a str,
    /// The name that we have there.
    pub client: &'a str,
    /// The word that was sent along when this login began.
    pub nonce: &'a str,
    /// The time of the check.
    pub now: Time,
}

/// The claims of a token that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct IdTokenClaims(Map<String, Value>);

impl IdTokenPolicy<'_> {
    /// Checks a token, and returns what it says.
    ///
    /// # Errors
    /// [`IdTokenError`]: the first condition that it does not meet.
    pub fn verify(&self, token: &str, keys: &KeySet) -> Result<IdTokenClaims, IdTokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(IdTokenError::Form);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(IdTokenError::Form)?;
        let (header, claims) = message.split_once('.').ok_or(IdTokenError::Form)?;
        let bytes = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| IdTokenError::Form);
        let header: TokenHeader = serde_json::from_slice(&bytes(header)?).map_err(|_| IdTokenError::Form)?;
        if header.crit.is_some() {
            return Err(IdTokenError::Form);
        }
        keys.check(&header, message.as_bytes(), &bytes(signature)?)?;
        let claims: Map<String, Value> =
            serde_json::from_slice(&bytes(claims)?).map_err(|_| IdTokenError::Form)?;
        let claims = IdTokenClaims(claims);
        self.check(&claims)?;
        Ok(claims)
    }

    fn check(&self, claims: &IdTokenClaims) -> Result<(), IdTokenError> {
        let is = |claim: &'static str, is_met: bool| {
            if is_met { Ok(()) } else { Err(IdTokenError::Claim { claim }) }
        };
        is("iss", claims.text("iss") == Some(self.issuer))?;
        let audience = claims.texts("aud");
        is("aud", audience.contains(&self.client))?;
        // With several audiences the token must say that it was issued to us, and in any case not to another.
        is("azp", claims.text("azp").map_or(audience.len() == 1, |own| own == self.client))?;
        is("nonce", claims.text("nonce") == Some(self.nonce))?;
        is("sub", claims.text("sub").is_some_and(|subject| !subject.is_empty()))?;
        let time = |name: &str| claims.0.get(name).and_then(Value::as_f64).filter(|time| time.abs() < 1e12);
        let now = self.now.0 as f64 / 1e6;
        let skew = SKEW.0 as f64 / 1e6;
        let is_old = time("exp").is_none_or(|end| now >= end + skew);
        let is_early = ["iat", "nbf"].into_iter().filter_map(time).any(|begin| now + skew < begin);
        if is_old || is_early { Err(IdTokenError::Time) } else { Ok(()) }
    }
}

impl IdTokenClaims {
    /// Returns a claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns the texts of a claim that is one, or a list of some.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    /// Made by Python's `cryptography` 48, with the claims of [`claims`].
    const MODULUS: &str = "vOCKJS502Efkdt3Ba2Dn_H6pjeOmo3k46XK6VN8MVKuXhXds4rSFAXZeoPo98laRfU5WUZ9LWz6VS-4cKnTm_LxnRCwT4yeYsE0bAW5LmZdIbeQ5NSwCTaVwg1HSZros7RlcbfHud0sxiHSikOADdEscL_vGxSWkjlmyVYhabd811N3ujQEvLERmaUKSujw-MirdNBNbpC_NEH-1Du40G-miTYvgvo1_NUhZNYIyqh1jrVixcmiMFzkCbVPaSkatr4vDqE5mDSBpawUves2hFq8D3MBiD-NQa_u1FsUUJUvHTXl_mXEJ_BPtJ4OSYYDBOYKq7NvXRFakmQLZF9IQPw";
    const RS256: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJ0b2xsaG91c2UiLCAic3ViIjogIjciLCAibm9uY2UiOiAibiIsICJpYXQiOiAxMDAwLCAiZXhwIjogMTYwMH0.KGGnefFY6OZkatnhe-poynSABwsjvyot7IBIUIeItyE8RG_OEPEv9dOoaQRvDlPuINhtjLByw3QgWtDAgFBvsprwI6Qo782jj5MqsfbYpK2LAqBYI6PZSeBbg426lpfvs93ssYp18Txd6RGZeBcvUGoTPFtagw0pZLLhokybUXNkYtpST1mHVUEuqtsmS3BRtw2iNVR8rNUasg_ipoMTZaLyWcFeP33fie_fmh2UAF6AnY7kCSr23BArMliWYi18AoqI17BrsMdBuYu9lodswUQ45kipR72ygKj5Z9vggt9GcT986bYN5ZrDZoo3ENCOiEBTi0f2N6aBby3tQqTBAw";
    const PS256: &str = "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJ0b2xsaG91c2UiLCAic3ViIjogIjciLCAibm9uY2UiOiAibiIsICJpYXQiOiAxMDAwLCAiZXhwIjogMTYwMH0.IIjY58KasxyKuIDVDcZ-C3FzAHE4UQQJ9LXkCQrdsSwG-ZMykEubo7U5wpMCMD83x2fOBcR1zR8AHY4kmDTa8bib2L6Nn8iymUjQ_3stncAiXLvCun9zEAsZEgLOQyyLMqx8Xu-G-rp04BrIBtg5fdigBTSeynaxXpYRzEyu7WSoA87pkdXjseVfzf8D2kOmTS_36mH2uS_ZMAsNPhblPV_6sDZ-4-GFsZiWNcpxJkhaY-_c_A48PoyNEFtoPmbO3UEKprZtE9ZYE8Y_6C1ANhxpVpzvjJpXu2bHY2439g38suDcsdVGZd9EbTctPJDPsvTXBwWP8FWS3SgplDes7w";

    fn claims() -> Value {
        json!({"iss": "https://id.example", "aud": "tollhouse", "sub": "7", "nonce": "n", "iat": 1000, "exp": 1600})
    }

    fn text(value: &Value) -> String {
        BASE64URL_NOPAD.encode(value.to_string().as_bytes())
    }

    /// A provider with a key of each kind.
    struct TestProvider {
        p256: EcdsaKeyPair,
        ed25519: Ed25519KeyPair,
    }

    impl TestProvider {
        fn new() -> TestProvider {
            let random = SystemRandom::new();
            let scheme = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let p256 = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
            let p256 = EcdsaKeyPair::from_pkcs8(scheme, p256.as_ref(), &random).unwrap();
            let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            TestProvider { p256, ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap() }
        }

        fn keys(&self) -> Value {
            let point = self.p256.public_key().as_ref();
            let [x, y, of] = [&point[1..33], &point[33..], self.ed25519.public_key().as_ref()]
                .map(|part| BASE64URL_NOPAD.encode(part));
            json!({"keys": [
                {"kty": "RSA", "kid": "r", "use": "sig", "n": MODULUS, "e": "AQAB"},
                {"kty": "RSA", "kid": "encryption", "use": "enc", "n": MODULUS, "e": "AQAB"},
                {"kty": "oct", "kid": "shared", "k": "AAAA"},
                {"kty": "EC", "kid": "p", "crv": "P-256", "alg": "ES256", "x": x, "y": y},
                {"kty": "OKP", "kid": "e", "crv": "Ed25519", "x": of},
            ]})
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let message = format!("{}.{}", text(header), text(claims));
            let signature = match header["alg"].as_str() {
                Some("ES256") => {
                    self.p256.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
                }
                _ => self.ed25519.sign(message.as_bytes()).as_ref().to_vec(),
            };
            format!("{message}.{}", BASE64URL_NOPAD.encode(&signature))
        }
    }

    fn verify(keys: &Value, token: &str, now: i64) -> Result<IdTokenClaims, IdTokenError> {
        let keys = KeySet::read(keys.to_string().as_bytes())?;
        let policy = IdTokenPolicy {
            issuer: "https://id.example",
            client: "tollhouse",
            nonce: "n",
            now: Time::from_seconds(now),
        };
        policy.verify(token, &keys)
    }

    #[test]
    fn tokens_of_each_kind_of_key_are_read() {
        let provider = TestProvider::new();
        let own = |header: Value| provider.sign(&header, &claims());
        for token in [
            RS256.to_owned(),
            PS256.to_owned(),
            own(json!({"alg": "ES256", "kid": "p"})),
            own(json!({"alg": "EdDSA", "kid": "e", "typ": "JWT"})),
            own(json!({"alg": "Ed25519"})),
        ] {
            let read = verify(&provider.keys(), &token, 1100).unwrap();
            assert_eq!(read.text("sub"), Some("7"), "{token}");
            // A bit that is another one, anywhere, makes it another token.
            for place in 0..token.len() {
                let mut other = token.clone().into_bytes();
                other[place] = if other[place] == b'A' { b'Q' } else { b'A' };
                let other = String::from_utf8(other).unwrap();
                assert!(other == token || verify(&provider.keys(), &other, 1100).is_err(), "{other}");
            }
        }
    }

    #[test]
    fn claims_are_those_that_were_asked_for() {
        let provider = TestProvider::new();
        let check = |change: Value, now: i64, expected: Option<IdTokenError>| {
            let mut of = claims();
            for (name, value) in change.as_object().unwrap() {
                of[name] = value.clone();
            }
            let token = provider.sign(&json!({"alg": "EdDSA", "kid": "e"}), &of);
            assert_eq!(verify(&provider.keys(), &token, now).err(), expected, "{change} at {now}");
        };
        let wrong = |claim: &'static str| Some(IdTokenError::Claim { claim });
        check(json!({}), 1000, None);
        check(json!({"aud": ["tollhouse"]}), 1000, None);
        check(json!({"aud": ["other", "tollhouse"], "azp": "tollhouse"}), 1000, None);
        check(json!({"aud": ["other", "tollhouse"]}), 1000, wrong("azp"));
        check(json!({"azp": "other"}), 1000, wrong("azp"));
        check(json!({"aud": "other"}), 1000, wrong("aud"));
        check(json!({"aud": null}), 1000, wrong("aud"));
        check(json!({"iss": "https://id.example/"}), 1000, wrong("iss"));
        check(json!({"iss": ["https://id.example"]}), 1000, wrong("iss"));
        check(json!({"nonce": "m"}), 1000, wrong("nonce"));
        check(json!({"nonce": null}), 1000, wrong("nonce"));
        check(json!({"sub": ""}), 1000, wrong("sub"));
        check(json!({}), 1659, None);
        check(json!({}), 1660, Some(IdTokenError::Time));
        check(json!({}), 939, Some(IdTokenError::Time));
        check(json!({"exp": null}), 1000, Some(IdTokenError::Time));
        check(json!({"exp": "1600"}), 1000, Some(IdTokenError::Time));
        check(json!({"exp": 1e300}), 1000, Some(IdTokenError::Time));
        check(json!({"nbf": 1200}), 1100, Some(IdTokenError::Time));
    }

    #[test]
    fn an_algorithm_counts_only_with_its_key() {
        let provider = TestProvider::new();
        let unknown = |token: &str| match verify(&provider.keys(), token, 1100) {
            Err(IdTokenError::UnknownKey { .. }) => (),
            other => panic!("{token}: {other:?}"),
        };
        let claims = text(&claims());
        for header in [
            json!({"alg": "none"}),
            json!({"alg": "HS256", "kid": "r"}),
            json!({"alg": "HS256", "kid": "shared"}),
            json!({"alg": "RS256", "kid": "p"}),
            json!({"alg": "ES256", "kid": "e"}),
            json!({"alg": "RS256", "kid": "encryption"}),
            json!({"alg": "ES384", "kid": "p"}),
            json!({"alg": "rs256", "kid": "r"}),
        ] {
            unknown(&format!("{}.{claims}.", text(&header)));
        }
        let other = TestProvider::new().sign(&json!({"alg": "ES256", "kid": "p"}), &self::claims());
        assert_eq!(verify(&provider.keys(), &other, 1100), Err(IdTokenError::Signature));
        let critical =
            provider.sign(&json!({"alg": "EdDSA", "crit": ["b64"], "b64": false}), &self::claims());
        for form in ["", "..", "a.b", "a.b.c", "e30.e30.", &critical, &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert_eq!(verify(&provider.keys(), form, 1100), Err(IdTokenError::Form), "{form}");
        }
        for keys in [json!([]), json!({}), json!({"keys": []}), json!({"keys": [{"kty": "oct"}]})] {
            assert!(matches!(verify(&keys, RS256, 1100), Err(IdTokenError::Keys(_))), "{keys}");
        }
    }
}

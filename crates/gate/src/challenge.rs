//! Challenges: work that a visitor is asked to do before going on, in version 2 of ALTCHA's format, which its widget and
//! clients solve (<https://altcha.org/docs/v2/>).
//!
//! ```text
//! ChallengeTerms ─► issue ─► JSON ─► a client searches ─► payload ─► open ─► OpenedChallenge ─► is_solved
//!                                                          forged, expired: refused   └─ used? the ledger says
//! ```
//!
//! A solution is a counter for which a key that is derived from nonce, salt and counter begins with a given prefix. The
//! work is the number of tries, 16 for each hexadecimal digit of the prefix, times the cost of one derivation. Issuing costs
//! two random numbers and a signature; verifying costs one derivation, which is the last thing that is done: what is
//! expired, forged, used or meant for somebody else costs none.
//!
//! Everything that a challenge is bound to stands in its `data` and is signed with it. Nonce and salt are random, so nothing
//! can be computed before a challenge is issued, and the solution of one is none of another.

use altcha::{Challenge, ChallengeParameters, CreateChallengeOptions, Payload, VerifySolutionOptions};
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use event::{Span, Time};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::keyring::{Keyring, SigningPurpose};

/// Longest payload that is read, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 4096;
/// Longest text that a challenge is bound to.
pub const BOUND_BYTES_MAX: usize = 100;
/// Most time for which a challenge can be valid.
pub const LIFETIME_MAX: Span = Span::hours(24);
/// The time by which the clocks of nodes may differ.
const SKEW: Span = Span::seconds(60);

/// Least work of a challenge, in units.
pub const COST_MIN: f64 = 1.0;
/// Most work of a challenge, in units.
pub const COST_MAX: f64 = 1_000_000.0;
/// Iterations of a hash in a unit of work.
const ITERATIONS_OF_UNIT: f64 = 1000.0;
/// Iterations of one derivation: so many that what surrounds it hardly counts in a browser, and so few that verifying is cheap.
const ITERATIONS: (f64, f64) = (500.0, 8000.0);
/// Units of work of one derivation by Argon2id with one pass over a mebibyte, and by scrypt with N = 1024 and r = 8, which is a
/// mebibyte, too.
const UNITS_OF_MEBIBYTE: f64 = 2.0;
/// Memory of one derivation by a memory-hard function in mebibytes: least, unless so little work is asked for that it would be too
/// much, and most.
const MEBIBYTES: (f64, f64) = (8.0, 64.0);
/// The number of hexadecimal digits of a prefix: at least one, as clients of the format refuse a challenge without a prefix, and
/// at most.
const DIGITS: (f64, f64) = (1.0, 6.0);

/// The function by which keys are derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChallengeAlgorithm {
    /// PBKDF2 with SHA-256, which browsers have built in.
    #[default]
    Pbkdf2,
    /// SHA-256 over and over.
    Sha256,
    /// scrypt, which takes memory.
    Scrypt,
    /// Argon2id, which takes memory.
    Argon2id,
}

impl ChallengeAlgorithm {
    /// All, each with the word of configurations for it and its name in the format.
    pub const ALL: [(ChallengeAlgorithm, &str, &str); 4] = [
        (ChallengeAlgorithm::Pbkdf2, "pbkdf2", "PBKDF2/SHA-256"),
        (ChallengeAlgorithm::Sha256, "sha-256", "SHA-256"),
        (ChallengeAlgorithm::Scrypt, "scrypt", "SCRYPT"),
        (ChallengeAlgorithm::Argon2id, "argon2id", "ARGON2ID"),
    ];

    /// Returns the name in ALTCHA's format.
    pub fn name(self) -> &'static str {
        ChallengeAlgorithm::ALL.iter().find(|(known, ..)| *known == self).map_or("", |(.., name)| name)
    }

    /// Returns the function that a word of configurations names.
    pub fn of_word(word: &str) -> Option<ChallengeAlgorithm> {
        ChallengeAlgorithm::ALL.iter().find(|(_, known, _)| *known == word).map(|(known, ..)| *known)
    }

    /// Returns true if the function takes so much memory that many at once are too many.
    pub fn is_memory_hard(self) -> bool {
        matches!(self, ChallengeAlgorithm::Scrypt | ChallengeAlgorithm::Argon2id)
    }
}

/// The work of a challenge: tries times the cost of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    /// Hexadecimal digits of the prefix, all zero: 16 tries for each on average.
    digits: u32,
    /// Iterations, or the parameter N of scrypt, or passes of Argon2id.
    cost: u32,
    /// Memory of Argon2id in KiB, or the block size r of scrypt.
    memory_cost: Option<u32>,
}

impl Work {
    /// Returns the work of so many units, as near as the function allows.
    fn of_units(algorithm: ChallengeAlgorithm, units: f64) -> Work {
        let units = if units.is_finite() { units.clamp(COST_MIN, COST_MAX) } else { COST_MIN };
        // So many digits that one derivation is as cheap as it may be.
        let split = |least: f64| {
            let digits = (units / least).log(16.0).floor().clamp(DIGITS.0, DIGITS.1);
            (digits as u32, units / 16f64.powf(digits))
        };
        match algorithm {
            ChallengeAlgorithm::Pbkdf2 | ChallengeAlgorithm::Sha256 => {
                let (digits, units) = split(ITERATIONS.0 / ITERATIONS_OF_UNIT);
                let iterations = (units * ITERATIONS_OF_UNIT).clamp(1.0, ITERATIONS.1);
                Work { digits, cost: iterations as u32, memory_cost: None }
            }
            ChallengeAlgorithm::Scrypt | ChallengeAlgorithm::Argon2id => {
                let (digits, units) = split(MEBIBYTES.0 * UNITS_OF_MEBIBYTE);
                let mebibytes = (units / UNITS_OF_MEBIBYTE).clamp(1.0, MEBIBYTES.1);
                match algorithm {
                    ChallengeAlgorithm::Scrypt => {
                        let power = mebibytes.log2().round().exp2();
                        Work { digits, cost: 1024 * power as u32, memory_cost: Some(8) }
                    }
                    _ => Work { digits, cost: 1, memory_cost: Some(1024 * mebibytes as u32) },
                }
            }
        }
    }

    /// The units of work of a challenge with these parameters, on average; `None` for one that was never issued here.
    fn units(parameters: &ChallengeParameters) -> Option<f64> {
        let (algorithm, ..) =
            ChallengeAlgorithm::ALL.iter().find(|(.., name)| *name == parameters.algorithm)?;
        let each = match algorithm {
            ChallengeAlgorithm::Pbkdf2 | ChallengeAlgorithm::Sha256 => {
                f64::from(parameters.cost) / ITERATIONS_OF_UNIT
            }
            ChallengeAlgorithm::Scrypt => f64::from(parameters.cost) / 1024.0 * UNITS_OF_MEBIBYTE,
            ChallengeAlgorithm::Argon2id => f64::from(parameters.memory_cost?) / 1024.0 * UNITS_OF_MEBIBYTE,
        };
        Some(each * 16f64.powi(i32::try_from(parameters.key_prefix.len()).ok()?))
    }
}

/// The purpose and the conditions of a challenge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChallengeTerms<'a> {
    /// The function by which keys are derived.
    pub algorithm: ChallengeAlgorithm,
    /// The work in units of a thousand iterations of SHA-256.
    pub cost: f64,
    /// The name of what it lets the visitor do: a pipeline.
    pub purpose: &'a str,
    /// The visitor that it is for, as a keyed hash of what is known of it.
    pub visitor: u64,
    /// The decision that asked for it.
    pub decision: &'a str,
    /// A hash of the reason for which it is asked, for statistics.
    pub reason: u32,
    /// The time at which it is issued.
    pub issued: Time,
    /// The time for which it is valid.
    pub lifetime: Span,
}

const PURPOSE: &str = "for";
const VISITOR: &str = "visitor";
const DECISION: &str = "decision";
const REASON: &str = "reason";
const ISSUED: &str = "issued";

/// Issues a challenge: JSON that ALTCHA's clients read. Parameters that the format has no room for give `None`: a purpose or
/// a decision longer than [`BOUND_BYTES_MAX`], or a time before 1970.
pub fn issue(keys: &Keyring, terms: &ChallengeTerms<'_>) -> Option<String> {
    let is_long = [terms.purpose, terms.decision].iter().any(|text| text.len() > BOUND_BYTES_MAX);
    let issued = u64::try_from(terms.issued.0).ok().filter(|_| !is_long)?;
    let lifetime = terms.lifetime.0.clamp(1_000_000, LIFETIME_MAX.0);
    let work = Work::of_units(terms.algorithm, terms.cost);
    let data = [
        (PURPOSE, Value::from(terms.purpose)),
        (VISITOR, Value::from(HEXLOWER.encode(&terms.visitor.to_be_bytes()))),
        (DECISION, Value::from(terms.decision)),
        (REASON, Value::from(terms.reason)),
        // A text: JavaScript has no whole numbers of 64 bits.
        (ISSUED, Value::from(issued.to_string())),
    ];
    let options = CreateChallengeOptions {
        algorithm: terms.algorithm.name().to_owned(),
        cost: work.cost,
        memory_cost: work.memory_cost,
        parallelism: work.memory_cost.map(|_| 1),
        data: Some(data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        expires_at: Some(terms.issued.0.saturating_add(lifetime).div_euclid(1_000_000)),
        key_prefix: "0".repeat(work.digits as usize),
        hmac_signature_secret: Some(secret(keys, terms.issued)),
        ..CreateChallengeOptions::default()
    };
    serde_json::to_string(&altcha::create_challenge(options).ok()?).ok()
}

/// The key of a day in the form that the format's library takes.
fn secret(keys: &Keyring, issued: Time) -> String {
    HEXLOWER.encode(&keys.key(SigningPurpose::Challenge, issued))
}

/// Reasons to refuse a challenge that a visitor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ChallengeRefusal {
    /// Bytes that are no payload of the format, or of another version of it.
    #[error("this is no solved challenge")]
    Unreadable,
    /// A challenge whose time is over.
    #[error("the challenge has expired")]
    Expired,
    /// A challenge that was not issued here, or that was changed.
    #[error("the challenge was not issued here")]
    Forged,
    /// A challenge for another purpose.
    #[error("the challenge is for something else")]
    OtherPurpose,
    /// A challenge for another visitor.
    #[error("the challenge is for somebody else")]
    OtherVisitor,
    /// A challenge that was shown before.
    #[error("the challenge was used before")]
    Used,
    /// A solution that is none.
    #[error("the challenge is not solved")]
    Unsolved,
}

impl ChallengeRefusal {
    /// Returns the word for it in metrics and answers.
    pub fn word(self) -> &'static str {
        match self {
            ChallengeRefusal::Unreadable => "unreadable",
            ChallengeRefusal::Expired => "expired",
            ChallengeRefusal::Forged => "forged",
            ChallengeRefusal::OtherPurpose => "other_purpose",
            ChallengeRefusal::OtherVisitor => "other_visitor",
            ChallengeRefusal::Used => "used",
            ChallengeRefusal::Unsolved => "unsolved",
        }
    }
}

/// A challenge that came back, was issued here and is still valid. Nothing was derived yet.
#[derive(Clone, Debug)]
pub struct OpenedChallenge {
    payload: Payload,
    secret: String,
    purpose: String,
    visitor: u64,
    decision: String,
    reason: u32,
    issued: Time,
    expires: Time,
}

/// Opens what a client sent: base64 of a JSON object with the challenge and its solution.
///
/// # Errors
/// A [`ChallengeRefusal`], after at most three HMACs, one of them over [`PAYLOAD_BYTES_MAX`] bytes.
pub fn open(keys: &Keyring, payload: &[u8], now: Time) -> Result<OpenedChallenge, ChallengeRefusal> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(ChallengeRefusal::Unreadable);
    }
    let json = BASE64
        .decode(payload)
        .or_else(|_| BASE64URL_NOPAD.decode(payload))
        .map_err(|_| ChallengeRefusal::Unreadable)?;
    let payload: Payload = serde_json::from_slice(&json).map_err(|_| ChallengeRefusal::Unreadable)?;
    let parameters = &payload.challenge.parameters;
    let text = |name: &str| parameters.data.as_ref()?.get(name)?.as_str();
    let (Some(purpose), Some(visitor), Some(decision), Some(issued), Some(expires)) =
        (text(PURPOSE), text(VISITOR), text(DECISION), text(ISSUED), parameters.expires_at)
    else {
        return Err(ChallengeRefusal::Forged);
    };
    let visitor = HEXLOWER_PERMISSIVE.decode(visitor.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let issued = issued.parse().ok().filter(|issued: &i64| *issued >= 0).map(Time);
    let (Some(visitor), Some(issued)) = (visitor.map(u64::from_be_bytes), issued) else {
        return Err(ChallengeRefusal::Forged);
    };
    let expires = Time(expires.saturating_mul(1_000_000));
    if expires <= now || issued + LIFETIME_MAX <= now {
        return Err(ChallengeRefusal::Expired);
    }
    if issued > now + SKEW {
        return Err(ChallengeRefusal::Forged);
    }
    let secret = secret(keys, issued);
    let signed = payload.challenge.signature.as_deref().unwrap_or_default();
    if !is_signed(parameters, signed, &secret) {
        return Err(ChallengeRefusal::Forged);
    }
    let reason = parameters.data.as_ref().and_then(|data| data.get(REASON)).and_then(Value::as_u64);
    let reason = reason.and_then(|reason| u32::try_from(reason).ok()).unwrap_or(0);
    let (purpose, decision) = (purpose.to_owned(), decision.to_owned());
    Ok(OpenedChallenge { purpose, visitor, decision, reason, issued, expires, secret, payload })
}

/// Returns the code that signs parameters. They are written with their names in order, which is the format's canonical form.
fn code(parameters: &ChallengeParameters, secret: &str) -> Option<Hmac<Sha256>> {
    let canonical = serde_json::to_vec(parameters).ok()?;
    let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    code.update(&canonical);
    Some(code)
}

/// Returns true if the signature is that of the parameters; compared in constant time.
fn is_signed(parameters: &ChallengeParameters, signature: &str, secret: &str) -> bool {
    let signature = HEXLOWER.decode(signature.as_bytes());
    let code = code(parameters, secret);
    signature.ok().zip(code).is_some_and(|(signature, code)| code.verify_slice(&signature).is_ok())
}

impl OpenedChallenge {
    /// Checks that the challenge is for this purpose and this visitor.
    ///
    /// # Errors
    /// If it is for another one.
    pub fn is_for(&self, purpose: &str, visitor: u64) -> Result<(), ChallengeRefusal> {
        if self.purpose != purpose {
            return Err(ChallengeRefusal::OtherPurpose);
        }
        if self.visitor != visitor {
            return Err(ChallengeRefusal::OtherVisitor);
        }
        Ok(())
    }

    /// The name of what it is for.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// The decision that asked for it.
    pub fn decision(&self) -> &str {
        &self.decision
    }

    /// The hash of the reason for which it was asked.
    pub fn reason(&self) -> u32 {
        self.reason
    }

    /// The time at which it was issued.
    pub fn issued(&self) -> Time {
        self.issued
    }

    /// The time from which it is of no use any more.
    pub fn expires(&self) -> Time {
        self.expires
    }

    /// The bytes that tell it from all others.
    pub fn token(&self) -> &[u8] {
        self.payload.challenge.parameters.nonce.as_bytes()
    }

    /// The work that it was on average, in units.
    pub fn units(&self) -> f64 {
        Work::units(&self.payload.challenge.parameters).unwrap_or(0.0)
    }

    /// The time that the client says it took.
    pub fn solving_time(&self) -> Option<Span> {
        let milliseconds = self.payload.solution.time.filter(|time| (0.0..=86_400_000.0).contains(time))?;
        Some(Span((milliseconds * 1000.0) as i64))
    }

    /// Returns true if verifying takes so much memory that many at once are too many.
    pub fn is_memory_hard(&self) -> bool {
        let name = &self.payload.challenge.parameters.algorithm;
        ChallengeAlgorithm::ALL.iter().any(|(known, _, other)| other == name && known.is_memory_hard())
    }

    /// Returns true if the solution is one. This is the one derivation, and it takes as long as one try of the client.
    pub fn is_solved(&self) -> bool {
        // The signature was checked, and the end of its time compared with the time passed in; the library would take the machine's
        // clock. It gets what the key is derived from alone, signed anew.
        let parameters =
            ChallengeParameters { expires_at: None, data: None, ..self.payload.challenge.parameters.clone() };
        let Some(code) = code(&parameters, &self.secret) else { return false };
        let signature = Some(HEXLOWER.encode(&code.finalize().into_bytes()));
        let challenge = Challenge { parameters, signature };
        let options = VerifySolutionOptions::new(&challenge, &self.payload.solution, self.secret.as_str());
        altcha::verify_solution(options).is_ok_and(|result| result.verified)
    }
}

#[cfg(test)]
mod tests {
    use altcha::{SolveChallengeOptions, solve_challenge};
    use event::Secret;
    use proptest::prelude::*;

    use super::*;

    const NOON: Time = Time(1_790_000_000_000_000);

    fn keys() -> Keyring {
        Keyring::new(Secret::new([7; Secret::BYTES]))
    }

    fn terms(algorithm: ChallengeAlgorithm) -> ChallengeTerms<'static> {
        ChallengeTerms {
            algorithm,
            cost: 20.0,
            purpose: "site",
            visitor: 42,
            decision: "1m84jxhe40000",
            reason: 3,
            issued: NOON,
            lifetime: Span::minutes(10),
        }
    }

    fn solve(challenge: &str) -> Payload {
        let challenge: Challenge = serde_json::from_str(challenge).unwrap();
        let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).unwrap().unwrap();
        Payload { challenge, solution }
    }

    fn encoded(payload: &Payload) -> Vec<u8> {
        BASE64.encode(&serde_json::to_vec(payload).unwrap()).into_bytes()
    }

    fn solved(algorithm: ChallengeAlgorithm) -> Payload {
        solve(&issue(&keys(), &terms(algorithm)).unwrap())
    }

    #[test]
    fn each_function_is_issued_solved_and_verified() {
        for (algorithm, _, name) in ChallengeAlgorithm::ALL {
            let payload = solved(algorithm);
            assert_eq!(payload.challenge.parameters.algorithm, name);
            let opened = open(&keys(), &encoded(&payload), NOON + Span::minutes(1)).unwrap();
            assert_eq!(opened.is_for("site", 42), Ok(()), "{name}");
            assert_eq!((opened.decision(), opened.reason(), opened.issued()), ("1m84jxhe40000", 3, NOON));
            assert!(opened.is_solved() && opened.units() > 0.0, "{name}");
        }
    }

    #[test]
    fn signatures_are_those_of_the_formats_library() {
        for (algorithm, ..) in ChallengeAlgorithm::ALL {
            for cost in [COST_MIN, 40.0, COST_MAX] {
                let issued = issue(&keys(), &ChallengeTerms { cost, ..terms(algorithm) }).unwrap();
                let issued: Challenge = serde_json::from_str(&issued).unwrap();
                let secret = secret(&keys(), NOON);
                let ours = code(&issued.parameters, &secret).unwrap().finalize().into_bytes();
                assert_eq!(Some(HEXLOWER.encode(&ours)), issued.signature, "{algorithm:?}");
            }
        }
    }

    /// Attacks by the name of what they change; each is refused, and for the reason that is given.
    #[test]
    fn attacks_are_refused() {
        let real = solved(ChallengeAlgorithm::Pbkdf2);
        let minute = NOON + Span::minutes(1);
        let check = |name: &str, payload: &Payload, now: Time, refusal: ChallengeRefusal| {
            let opened = open(&keys(), &encoded(payload), now);
            let outcome = opened.and_then(|opened| {
                opened.is_for("site", 42)?;
                if opened.is_solved() { Ok(()) } else { Err(ChallengeRefusal::Unsolved) }
            });
            assert_eq!(outcome, Err(refusal), "{name}");
        };
        let changed = |change: &dyn Fn(&mut Payload)| {
            let mut payload = real.clone();
            change(&mut payload);
            payload
        };
        check("expired", &real, NOON + Span::minutes(11), ChallengeRefusal::Expired);
        check("at its very end", &real, NOON + Span::minutes(10), ChallengeRefusal::Expired);
        check("from the future", &real, Time(NOON.0 - 3_600_000_000), ChallengeRefusal::Forged);
        type Change = (&'static str, fn(&mut Payload));
        let forged: [Change; 16] = [
            ("a later end", |payload| payload.challenge.parameters.expires_at = Some(4_000_000_000)),
            ("no prefix", |payload| payload.challenge.parameters.key_prefix.clear()),
            ("a cheaper cost", |payload| payload.challenge.parameters.cost = 1),
            ("a dearer cost", |payload| payload.challenge.parameters.cost = u32::MAX),
            ("another function", |payload| payload.challenge.parameters.algorithm = "SHA-256".to_owned()),
            ("a short key", |payload| payload.challenge.parameters.key_length = 0),
            ("a huge key", |payload| payload.challenge.parameters.key_length = usize::MAX),
            ("another nonce", |payload| payload.challenge.parameters.nonce = "00".repeat(16)),
            ("another salt", |payload| payload.challenge.parameters.salt = "00".repeat(16)),
            ("memory", |payload| payload.challenge.parameters.memory_cost = Some(u32::MAX)),
            ("a signed key", |payload| payload.challenge.parameters.key_signature = Some("00".to_owned())),
            ("no signature", |payload| payload.challenge.signature = None),
            ("an empty signature", |payload| payload.challenge.signature = Some(String::new())),
            ("no data", |payload| payload.challenge.parameters.data = None),
            ("another purpose", |payload| {
                let data = payload.challenge.parameters.data.as_mut().unwrap();
                data.insert(PURPOSE.to_owned(), "other".into());
            }),
            ("another visitor", |payload| {
                let data = payload.challenge.parameters.data.as_mut().unwrap();
                data.insert(VISITOR.to_owned(), "000000000000002b".into());
            }),
        ];
        for (name, change) in forged {
            check(name, &changed(&change), minute, ChallengeRefusal::Forged);
        }
        // No end at all is none that was issued here.
        let endless = changed(&|payload| payload.challenge.parameters.expires_at = None);
        check("no end", &endless, minute, ChallengeRefusal::Forged);
        for (name, change) in [
            ("another counter", (|payload| payload.solution.counter ^= 1) as fn(&mut Payload)),
            ("another key", |payload| payload.solution.derived_key = "00".repeat(32)),
            ("no key", |payload| payload.solution.derived_key.clear()),
            ("no hexadecimal key", |payload| payload.solution.derived_key = "zz".repeat(32)),
        ] {
            check(name, &changed(&change), minute, ChallengeRefusal::Unsolved);
        }
        // The solution of one for another.
        let other = changed(&|payload| payload.challenge = solved(ChallengeAlgorithm::Pbkdf2).challenge);
        check("a solution of another", &other, minute, ChallengeRefusal::Unsolved);
        // Made with another secret, all of it right.
        let others = Keyring::new(Secret::new([8; Secret::BYTES]));
        let foreign = solve(&issue(&others, &terms(ChallengeAlgorithm::Pbkdf2)).unwrap());
        check("another secret", &foreign, minute, ChallengeRefusal::Forged);
        let mut unprovable = terms(ChallengeAlgorithm::Pbkdf2);
        unprovable.purpose = "elsewhere";
        let elsewhere = solve(&issue(&keys(), &unprovable).unwrap());
        check("for something else", &elsewhere, minute, ChallengeRefusal::OtherPurpose);
        unprovable = ChallengeTerms { visitor: 43, ..terms(ChallengeAlgorithm::Pbkdf2) };
        let somebody = solve(&issue(&keys(), &unprovable).unwrap());
        check("for somebody else", &somebody, minute, ChallengeRefusal::OtherVisitor);
    }

    #[test]
    fn work_is_as_much_as_was_asked_for() {
        for (algorithm, word, _) in ChallengeAlgorithm::ALL {
            assert_eq!(ChallengeAlgorithm::of_word(word), Some(algorithm));
            for units in [1.0, 3.0, 40.0, 256.0, 1000.0, 77_000.0, COST_MAX] {
                let issued = issue(&keys(), &ChallengeTerms { cost: units, ..terms(algorithm) }).unwrap();
                let parameters = serde_json::from_str::<Challenge>(&issued).unwrap().parameters;
                let got = Work::units(&parameters).unwrap();
                // Sixteen tries with a mebibyte are the least work.
                let (least, within) =
                    if algorithm.is_memory_hard() { (32.0, 0.45..2.1) } else { (0.0, 0.9..1.1) };
                let wanted = f64::max(units, least);
                assert!(
                    within.contains(&(got / wanted)),
                    "{algorithm:?} {units} {got} {}",
                    parameters.key_prefix
                );
                // Clients of the format refuse one without a prefix.
                assert!((1..=6).contains(&parameters.key_prefix.len()), "{algorithm:?} {units}");
                assert!(parameters.cost <= 65_536 && parameters.memory_cost.unwrap_or(0) <= 65_536);
            }
        }
        for odd in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -1.0, 0.0] {
            assert!(Work::of_units(ChallengeAlgorithm::Pbkdf2, odd).cost <= 8000);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let refused = |bytes: &[u8]| matches!(
                open(&keys(), bytes, NOON),
                Err(ChallengeRefusal::Unreadable | ChallengeRefusal::Forged)
            );
            prop_assert!(refused(&bytes));
            prop_assert!(refused(BASE64.encode(&bytes).as_bytes()));
        }
    }
}

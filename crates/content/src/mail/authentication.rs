//! Results of SPF, DKIM, DMARC and ARC for a message: as a trusted server wrote them into `Authentication-Results`
//! (RFC 8601), and as a sealer recorded them in `ARC-Authentication-Results` (RFC 8617).
//!
//! Anybody can write such a field. Only fields count that name a server of the configured list and stand above all that
//! the outside could have written: see [`AuthenticationTrust::received`]. That server must remove fields from outside under its
//! name (RFC 8601, section 5).

use event::{Facts, Slot, Value};

use crate::address::MailAddress;
use crate::mail::columns::{MESSAGE_BYTES_MAX, MailColumns};
use crate::mail::mime::{Defects, MailHeader};
use crate::text::truncate;
use crate::web::domain::domain_to_ascii;
use crate::web::link;

/// Most results that are read of one field.
pub const RESULTS_MAX: usize = 64;
/// Most properties that are read of one result.
pub const PROPERTIES_MAX: usize = 16;
/// Most fields that are read of one message.
pub const FIELDS_MAX: usize = 50;
/// Longest word, value or comment; longer ones are cut.
pub const WORD_BYTES_MAX: usize = 512;
/// Largest number of an ARC set (RFC 8617, section 4.2.1).
const INSTANCE_MAX: u32 = 50;

event::columns! {
    /// The columns that tell who vouches for a message, and what reputation lists say of what it comes from and leads to.
    pub struct AuthColumns {
        source: String "auth.source" "Source of the results: `own` checks, or a trusted `authentication-results` field",
        spf: String "auth.spf" "SPF result for the envelope sender's domain (RFC 7208): `none`, `neutral`, `pass`, `fail`, \
            `softfail`, `temperror`, `permerror`",
        spf_domain: String "auth.spf_domain" "Domain checked by SPF: the envelope sender's, for bounces the HELO name's",
        spf_aligned: Bool "auth.spf_aligned" "SPF passed for From's organisation",
        dkim: String "auth.dkim" "Best result of all DKIM signatures (RFC 6376): `pass`, `fail`, `policy` (covers too \
            little or is too weak), `neutral`, `temperror`, `permerror`, `none` (no signature)",
        dkim_pass_domains: List "auth.dkim_pass_domains" "Domains with a valid DKIM signature",
        dkim_aligned: Bool "auth.dkim_aligned" "A valid DKIM signature is of From's organisation",
        dkim_signatures: Integer "auth.dkim_signatures" "DKIM signatures; own checks only",
        dkim_partial: Bool "auth.dkim_partial" "A DKIM signature covers only part of the body (`l=`), so anybody can add \
            to it; own checks only",
        dmarc: String "auth.dmarc" "DMARC result for From's domain: `pass`, `fail`, `none` (no policy), `temperror`, \
            `permerror`",
        dmarc_policy: String "auth.dmarc_policy" "Policy of From's domain for mail that fails: `none`, `quarantine`, \
            `reject`",
        arc: String "auth.arc" "Result of the ARC chain (RFC 8617): `pass`, `fail`, `none`, `temperror`, `permerror`",
        arc_sealer: String "auth.arc_sealer" "Domain of the last sealer of an intact chain",
        arc_trusted: Bool "auth.arc_trusted" "That sealer is configured as trusted",
        arc_spf: String "auth.arc_spf" "SPF result recorded by a trusted sealer",
        arc_dkim: String "auth.arc_dkim" "DKIM result recorded by a trusted sealer",
        arc_dmarc: String "auth.arc_dmarc" "DMARC result recorded by a trusted sealer",
        ptr: String "client.ptr" "Reverse DNS name of the client; a confirmed one, if there is any",
        ptr_confirmed: Bool "client.ptr_confirmed" "A reverse DNS name of the client leads back to its address",
        dnsbl_ip: List "dnsbl.ip" "DNS lists that have the client's address",
        dnsbl_domains: List "dnsbl.domains" "DNS lists that have a domain, or an address other than the client's",
        dnsbl_answers: List "dnsbl.answers" "List and configured meaning of each answer, such as `zen:xbl`",
        dnsbl_listed: List "dnsbl.listed" "List and listed entry, such as `zen:192.0.2.1`",
        dnsbl_failed: List "dnsbl.failed" "DNS lists that were unreachable, too late, or refused to answer",
    }
}

/// The servers and sealers that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationTrust {
    /// Names by which trusted servers identify themselves in `Authentication-Results`, lower case.
    pub servers: Vec<String>,
    /// The number of `Received` fields that one's own servers put on top: a field below more of them is not read.
    pub received: usize,
    /// Domains of trusted ARC sealers, lower case.
    pub sealers: Vec<String>,
}

/// One field: who says it, and what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationResults {
    /// The server that says it, lower case.
    pub server: String,
    /// The results that the server gives, in its order; empty where it made no check.
    pub results: Vec<MethodResult>,
}

/// The result of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodResult {
    /// `spf`, `dkim` and so on, lower case, without a version.
    pub method: String,
    /// `pass`, `fail` and so on, lower case.
    pub result: String,
    /// Comments, joined by spaces.
    pub comment: String,
    /// Such as `header.d` (lower case) and its value.
    pub properties: Vec<(String, String)>,
}

impl MethodResult {
    fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A piece of a field's text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ResultToken<'t> {
    Word(&'t str),
    Quoted(String),
    Comment(&'t str),
    Equals,
    Semicolon,
}

/// Cuts a field's text into tokens. Comments nest; one that is not closed, like an open quote, reaches to the end.
struct ResultTokenIter<'t> {
    rest: &'t str,
    /// A value may contain `=`, such as base64 that is not quoted.
    in_value: bool,
}

impl<'t> Iterator for ResultTokenIter<'t> {
    type Item = ResultToken<'t>;

    fn next(&mut self) -> Option<ResultToken<'t>> {
        self.rest = self.rest.trim_start();
        let first = self.rest.bytes().next()?;
        let in_value = std::mem::take(&mut self.in_value);
        match first {
            b';' => {
                self.rest = &self.rest[1..];
                Some(ResultToken::Semicolon)
            }
            b'=' => {
                self.rest = &self.rest[1..];
                self.in_value = true;
                Some(ResultToken::Equals)
            }
            b'(' => {
                // A comment between `=` and its value changes nothing.
                self.in_value = in_value;
                Some(ResultToken::Comment(self.comment()))
            }
            b'"' => Some(ResultToken::Quoted(self.quoted())),
            _ => {
                let ends = |byte: u8| {
                    byte.is_ascii_whitespace()
                        || matches!(byte, b';' | b'(' | b'"')
                        || byte == b'=' && !in_value
                };
                let end = self.rest.bytes().position(ends).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end.max(1).min(self.rest.len()));
                self.rest = rest;
                Some(ResultToken::Word(word))
            }
        }
    }
}

impl<'t> ResultTokenIter<'t> {
    fn comment(&mut self) -> &'t str {
        let (mut depth, mut escaped) = (0usize, false);
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let comment = &self.rest[1..at];
                self.rest = &self.rest[at + 1..];
                return comment;
            }
        }
        let comment = &self.rest[1..];
        self.rest = "";
        comment
    }

    fn quoted(&mut self) -> String {
        let (mut text, mut escaped) = (String::new(), false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    escaped = false;
                    text.push(c);
                }
                '\\' => escaped = true,
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                c => text.push(c),
            }
        }
        self.rest = "";
        text
    }
}

fn cut(word: &str) -> String {
    truncate(word, WORD_BYTES_MAX).to_owned()
}

/// Reads the value of an `Authentication-Results` field. `None` if it names no server. What is malformed is left
/// out, and the rest read. Linear in the text.
pub fn parse(text: &str) -> Option<AuthenticationResults> {
    statements(&mut ResultTokenIter { rest: text, in_value: false })
}

/// Reads the value of an `ARC-Authentication-Results` field: the number of its set, and the results.
pub fn parse_arc(text: &str) -> Option<(u32, AuthenticationResults)> {
    let mut tokens = ResultTokenIter { rest: text, in_value: false };
    let mut plain = tokens.by_ref().filter(|token| !matches!(token, ResultToken::Comment(_)));
    match (plain.next()?, plain.next()?, plain.next()?, plain.next()?) {
        (ResultToken::Word(i), ResultToken::Equals, ResultToken::Word(number), ResultToken::Semicolon)
            if i.eq_ignore_ascii_case("i") =>
        {
            let number = number.parse().ok().filter(|number| (1..=INSTANCE_MAX).contains(number))?;
            Some((number, statements(&mut tokens)?))
        }
        _ => None,
    }
}

/// The server, and what follows it.
fn statements(tokens: &mut ResultTokenIter<'_>) -> Option<AuthenticationResults> {
    let mut results = AuthenticationResults::default();
    loop {
        match tokens.next()? {
            ResultToken::Comment(_) => {}
            ResultToken::Word(word) => {
                results.server = cut(word).to_lowercase();
                break;
            }
            ResultToken::Quoted(word) => {
                results.server = cut(&word).to_lowercase();
                break;
            }
            ResultToken::Equals | ResultToken::Semicolon => return None,
        }
    }
    // A version may follow.
    tokens.find(|token| *token == ResultToken::Semicolon);
    while !tokens.rest.is_empty() && results.results.len() < RESULTS_MAX {
        results.results.extend(outcome(tokens));
    }
    Some(results)
}

/// Reads up to the next semicolon.
fn outcome(tokens: &mut ResultTokenIter<'_>) -> Option<MethodResult> {
    let mut outcome = MethodResult::default();
    // The word before an equals sign, and whether that sign has come.
    let (mut name, mut equals): (Option<String>, bool) = (None, false);
    let mut is_version = false;
    for token in tokens.by_ref() {
        let value = match token {
            ResultToken::Semicolon => break,
            ResultToken::Comment(comment) => {
                if outcome.comment.len() + comment.len() < WORD_BYTES_MAX {
                    if !outcome.comment.is_empty() {
                        outcome.comment.push(' ');
                    }
                    outcome.comment.push_str(comment.trim());
                }
                continue;
            }
            ResultToken::Equals => {
                equals = true;
                continue;
            }
            ResultToken::Word(_) if std::mem::take(&mut is_version) => continue,
            // Comments may stand within names: `dkim (a) / 1 = pass`, `policy (a) . (b) expired = x`.
            ResultToken::Word(word) if name.is_some() && !equals && word.starts_with('/') => {
                is_version = word == "/";
                continue;
            }
            ResultToken::Word(word) => {
                match name.take_if(|name| !equals && (name.ends_with('.') || word.starts_with('.'))) {
                    Some(begun) => cut(&(begun + word)),
                    None => cut(word),
                }
            }
            ResultToken::Quoted(word) => cut(&word),
        };
        match name.take().filter(|_| std::mem::take(&mut equals)) {
            None => name = Some(value),
            Some(name) if outcome.method.is_empty() => {
                let method = name.split_once('/').map_or(name.as_str(), |(method, _)| method);
                outcome.method = method.to_ascii_lowercase();
                outcome.result = value.to_ascii_lowercase();
            }
            Some(name) if outcome.properties.len() < PROPERTIES_MAX => {
                outcome.properties.push((name.to_ascii_lowercase(), value));
            }
            Some(_) => {}
        }
    }
    Some(outcome).filter(|outcome| !outcome.method.is_empty())
}

/// The words of a method, the more telling first; others are no results.
const SPF: [&str; 7] = ["pass", "fail", "softfail", "neutral", "temperror", "permerror", "none"];
const DKIM: [&str; 7] = ["pass", "fail", "policy", "temperror", "permerror", "neutral", "none"];
const DMARC: [&str; 5] = ["pass", "fail", "temperror", "permerror", "none"];
const ARC: [&str; 5] = ["pass", "fail", "temperror", "permerror", "none"];

/// The most telling of several results of DKIM signatures; `none` where there is no signature.
pub fn best_dkim<'r>(results: impl Iterator<Item = &'r str>) -> &'static str {
    best(&DKIM, results).unwrap_or("none")
}

fn best<'r>(words: &[&'static str], results: impl Iterator<Item = &'r str>) -> Option<&'static str> {
    let ranks = results.filter_map(|result| {
        // Old names, and those of servers that go their own ways.
        let result = match result {
            "hardfail" => "fail",
            "bestguesspass" => "none",
            other => other,
        };
        words.iter().position(|word| *word == result)
    });
    ranks.min().and_then(|rank| words.get(rank).copied())
}

/// The domain of an address, or of a domain.
fn domain(text: &str) -> Option<String> {
    let domain = text.rsplit_once('@').map_or(text, |(_, domain)| domain);
    Some(domain_to_ascii(domain.trim())).filter(|domain| !domain.is_empty())
}

/// The results that trusted fields give for a message. Of several that speak of a method, the topmost does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TrustedResults {
    spf: Option<(&'static str, Option<String>)>,
    dkim: Option<(&'static str, Vec<String>)>,
    dmarc: Option<(&'static str, Option<&'static str>)>,
    arc: Option<&'static str>,
}

impl TrustedResults {
    fn add(&mut self, results: &AuthenticationResults) {
        let of = |method: &'static str| results.results.iter().filter(move |own| own.method == method);
        if self.spf.is_none() {
            self.spf = of("spf").find_map(|own| {
                let result = best(&SPF, [own.result.as_str()].into_iter())?;
                let names = ["smtp.mailfrom", "smtp.mail", "smtp.helo"];
                Some((result, names.iter().find_map(|name| domain(own.property(name)?))))
            });
        }
        if let (None, Some(result)) = (&self.dkim, best(&DKIM, of("dkim").map(|own| own.result.as_str()))) {
            let mut domains = Vec::new();
            for own in of("dkim").filter(|own| own.result == "pass") {
                let named = own.property("header.d").or_else(|| own.property("header.i")).and_then(domain);
                domains.extend(named.filter(|domain| !domains.contains(domain)));
            }
            self.dkim = Some((result, domains));
        }
        if self.dmarc.is_none() {
            self.dmarc = of("dmarc").find_map(|own| {
                let result = best(&DMARC, [own.result.as_str()].into_iter())?;
                Some((result, policy(own)))
            });
        }
        self.arc = self.arc.or_else(|| best(&ARC, of("arc").map(|own| own.result.as_str())));
    }
}

/// The published policy: a property of RFC 8601's registry, or what the large servers write into a comment.
fn policy(own: &MethodResult) -> Option<&'static str> {
    let property = own.property("policy.published-domain-policy").or_else(|| own.property("policy.dmarc"));
    let comment = || {
        let mut words = own.comment.split(|c: char| c.is_whitespace() || c == ',');
        words.find_map(|word| word.get(..2).filter(|key| key.eq_ignore_ascii_case("p=")).map(|_| &word[2..]))
    };
    let said = property.or_else(comment)?;
    ["none", "quarantine", "reject"].into_iter().find(|policy| policy.eq_ignore_ascii_case(said))
}

/// Fills what trusted fields say; nothing if the event brought results of its own, or nobody is trusted. Facts that
/// compare with From are missing where the row has none; fill it first ([`crate::mail::message::features`]).
pub fn features(
    raw: &[u8],
    trust: &AuthenticationTrust,
    mail: &MailColumns,
    columns: &AuthColumns,
    facts: &mut Facts,
) {
    let brought = [columns.source, columns.spf, columns.dkim, columns.dmarc];
    if trust.servers.is_empty() || brought.iter().any(|slot| facts.get(*slot).is_some()) {
        return;
    }
    let raw = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let (header, _) = MailHeader::read(raw, &mut Defects::default());
    let (mut said, mut received, mut read) = (TrustedResults::default(), 0, 0);
    for field in &header.fields {
        if field.is("Received") {
            received += 1;
            if received > trust.received {
                break;
            }
        } else if field.is("Authentication-Results") && read < FIELDS_MAX {
            read += 1;
            let results = parse(&field.text());
            if let Some(results) = results.filter(|results| trust.servers.contains(&results.server)) {
                said.add(&results);
            }
        }
    }
    if said == TrustedResults::default() {
        return;
    }
    facts.set(columns.source, "authentication-results");
    let spf_passed = said.spf.as_ref().filter(|(result, _)| *result == "pass");
    let spf_domain = spf_passed.and_then(|(_, domain)| domain.clone());
    if let Some((result, domain)) = said.spf {
        facts.set(columns.spf, result);
        if let Some(domain) = domain {
            facts.set(columns.spf_domain, domain);
        }
    }
    let from = facts.get(mail.from_domain).and_then(Value::as_str).map(str::to_owned);
    let aligned = |domain: &str| {
        from.as_deref().is_some_and(|from| link::organisation(from) == link::organisation(domain))
    };
    if facts.get(columns.spf).is_some() && from.is_some() {
        facts.set(columns.spf_aligned, spf_domain.as_deref().is_some_and(aligned));
    }
    if let Some((result, domains)) = said.dkim {
        facts.set(columns.dkim, result);
        if from.is_some() {
            facts.set(columns.dkim_aligned, domains.iter().any(|domain| aligned(domain)));
        }
        if !domains.is_empty() {
            facts.set(columns.dkim_pass_domains, domains);
        }
    }
    if let Some((result, policy)) = said.dmarc {
        facts.set(columns.dmarc, result);
        if let Some(policy) = policy {
            facts.set(columns.dmarc_policy, policy);
        }
    }
    if let Some(result) = said.arc {
        facts.set(columns.arc, result);
        sealed(&header, trust, columns, facts);
    }
}

/// Fills who sealed the message last, and what that sealer recorded if it is trusted; nothing unless `auth.arc` says
/// that the chain is intact.
pub fn arc_features(raw: &[u8], trust: &AuthenticationTrust, columns: &AuthColumns, facts: &mut Facts) {
    let raw = &raw[..raw.len().min(MESSAGE_BYTES_MAX)];
    let (header, _) = MailHeader::read(raw, &mut Defects::default());
    sealed(&header, trust, columns, facts);
}

fn sealed(header: &MailHeader<'_>, trust: &AuthenticationTrust, columns: &AuthColumns, facts: &mut Facts) {
    if facts.get(columns.arc).and_then(Value::as_str) != Some("pass") {
        return;
    }
    let tag = |text: &str, wanted: &str| {
        let mut tags = text.split(';').filter_map(|tag| tag.split_once('='));
        tags.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim().to_owned())
    };
    let seals = header.all("ARC-Seal").take(FIELDS_MAX).filter_map(|field| {
        let text = field.text();
        Some((tag(&text, "i")?.parse::<u32>().ok()?, domain(&tag(&text, "d")?)?))
    });
    let Some((last, sealer)) = seals.max_by_key(|(number, _)| *number) else { return };
    let trusted = trust.sealers.contains(&sealer);
    facts.set(columns.arc_trusted, trusted);
    facts.set(columns.arc_sealer, cut(&sealer));
    if !trusted {
        return;
    }
    let recorded = header.all("ARC-Authentication-Results").take(FIELDS_MAX);
    let recorded = recorded.filter_map(|field| parse_arc(&field.text())).find(|(number, _)| *number == last);
    let mut said = TrustedResults::default();
    said.add(&recorded.map(|(_, results)| results).unwrap_or_default());
    let mut set = |slot: Slot, result: Option<&'static str>| {
        if let Some(result) = result {
            facts.set(slot, result);
        }
    };
    set(columns.arc_spf, said.spf.map(|(result, _)| result));
    set(columns.arc_dkim, said.dkim.map(|(result, _)| result));
    set(columns.arc_dmarc, said.dmarc.map(|(result, _)| result));
}

/// The domain that SPF asks about: the envelope sender's, the HELO name's for the null sender.
pub fn spf_identity(sender: Option<&str>, helo: Option<&str>) -> Option<String> {
    let of_sender = sender.and_then(MailAddress::parse).map(|sender| sender.domain);
    match of_sender {
        Some(domain) if !domain.is_empty() => Some(domain),
        _ => helo.and_then(domain),
    }
}

#[cfg(test)]
mod tests {
    use event::SchemaBuilder;
    use proptest::prelude::*;

    use super::*;

    fn shown(results: &AuthenticationResults) -> String {
        let mut lines = vec![results.server.clone()];
        for own in &results.results {
            let properties = own.properties.iter().map(|(name, value)| format!(" {name}={value}"));
            let properties: String = properties.collect();
            lines.push(format!("{}={}{properties} ({})", own.method, own.result, own.comment));
        }
        lines.join("\n")
    }

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(parse(text).as_ref().map(shown).as_deref(), expected, "{text}");
    }

    #[test]
    fn fields_are_read() {
        // RFC 8601, appendix B.
        check("example.org 1; none", Some("example.org"));
        check(
            "example.com;\r\n spf=pass smtp.mailfrom=example.net",
            Some("example.com\nspf=pass smtp.mailfrom=example.net ()"),
        );
        check(
            "example.com; dkim=pass (good signature) header.d=mail-router.example.net; dkim=fail (bad (very) signature)\
             \r\n header.d=newyork.example.com",
            Some(
                "example.com\ndkim=pass header.d=mail-router.example.net (good signature)\n\
                 dkim=fail header.d=newyork.example.com (bad (very) signature)",
            ),
        );
        check(
            "foo.example.net (foobar) 1 (baz); dkim (Because I like it) / 1 (One yay) = (wait for it) fail policy (A dot) \
             .expired (this seems) = (like) 1362471462",
            Some(
                "foo.example.net\ndkim=fail policy.expired=1362471462 (Because I like it One yay wait for it A dot this seems like)",
            ),
        );
        check(
            r#""MX.Example.com"; Dkim=PASS header.i="@a\"b.example" header.b=Ab+/c=; x"#,
            Some("mx.example.com\ndkim=pass header.i=@a\"b.example header.b=Ab+/c= ()"),
        );
        check("", None);
        check(";", None);
        check("; spf=pass", None);
        check("(never closed", None);
    }

    #[test]
    fn sets_have_numbers() {
        let read = |text: &str| parse_arc(text).map(|(number, results)| (number, results.server));
        assert_eq!(read("i=2; mx.example.com; spf=pass"), Some((2, "mx.example.com".to_owned())));
        assert_eq!(read("(a) i = 1 ; lists.example.org; none"), Some((1, "lists.example.org".to_owned())));
        for text in ["i=0; a", "i=51; a", "i=x; a", "mx.example.com; spf=pass", "i=1", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// The facts of a message, those of authentication, as text.
    fn facts(message: &str, trust: &AuthenticationTrust) -> String {
        let mut builder = SchemaBuilder::default();
        let envelope = crate::mail::message::EnvelopeColumns::register(&mut builder).unwrap();
        let mail = MailColumns::register(&mut builder).unwrap();
        let columns = AuthColumns::register(&mut builder).unwrap();
        let schema = builder.finish();
        let mut row = schema.empty_row();
        crate::mail::message::features(
            message.as_bytes(),
            &crate::budget::Budget::ample(),
            &envelope,
            &mail,
            &mut row,
        );
        features(message.as_bytes(), trust, &mail, &columns, &mut row);
        let values = schema.columns().iter().zip(row.values());
        let told = values.filter(|(column, _)| column.name.starts_with("auth."));
        let told =
            told.filter_map(|(column, value)| Some(format!("{}={}", &column.name[5..], value.as_ref()?)));
        told.collect::<Vec<_>>().join(" ")
    }

    fn trust() -> AuthenticationTrust {
        AuthenticationTrust {
            servers: vec!["mx.example.net".to_owned()],
            received: 1,
            sealers: vec!["lists.example.com".to_owned()],
        }
    }

    const RECEIVED: &str = "Received: from a.example by mx.example.net; Sun, 17 May 2026 09:59:00 +0000\r\n";
    const PASSED: &str = "Authentication-Results: mx.example.net; spf=pass smtp.mailfrom=b@news.example.org;\r\n \
        dkim=pass header.d=example.org; dkim=fail header.d=x.example; dmarc=pass (p=REJECT sp=NONE dis=NONE) header.from=example.org\r\n";
    const FROM: &str = "From: ann@example.org\r\n\r\nHello\r\n";
    const SAYS_PASSED: &str = "source=authentication-results spf=pass spf_domain=news.example.org spf_aligned=true \
        dkim=pass dkim_pass_domains=example.org dkim_aligned=true dmarc=pass dmarc_policy=reject";

    #[test]
    fn only_what_own_servers_wrote_counts() {
        let of = |parts: &[&str]| facts(&parts.concat(), &trust());
        assert_eq!(of(&[PASSED, RECEIVED, FROM]), SAYS_PASSED);
        assert_eq!(of(&[RECEIVED, PASSED, FROM]), SAYS_PASSED);
        // What lies below another hop came from outside, whoever it names.
        assert_eq!(of(&[RECEIVED, RECEIVED, PASSED, FROM]), "");
        let foreign = PASSED.replace("mx.example.net", "mx.example.com");
        assert_eq!(of(&[&foreign, RECEIVED, FROM]), "");
        // The topmost speaks.
        let failed = "Authentication-Results: mx.example.net; spf=softfail smtp.mailfrom=example.org\r\n";
        assert!(of(&[failed, PASSED, FROM]).contains("spf=softfail"));
        // Without anybody to trust, nothing is read.
        assert_eq!(facts(&[PASSED, FROM].concat(), &AuthenticationTrust::default()), "");
        // Unknown words are no results.
        let odd = "Authentication-Results: mx.example.net; spf=maybe; dkim=pass header.d=other.example\r\n";
        assert_eq!(
            of(&[odd, FROM]),
            "source=authentication-results dkim=pass dkim_pass_domains=other.example dkim_aligned=false"
        );
    }

    #[test]
    fn a_trusted_sealer_is_heard() {
        let chain = |sealer: &str| {
            format!(
                "Authentication-Results: mx.example.net; arc=pass; dmarc=fail header.from=example.org\r\n\
                 ARC-Seal: i=2; a=rsa-sha256; t=1; cv=pass; d={sealer}; s=s; b=x\r\n\
                 ARC-Authentication-Results: i=2; x.example; spf=fail; dkim=pass header.d=example.org; dmarc=pass\r\n\
                 ARC-Seal: i=1; a=rsa-sha256; t=1; cv=none; d=first.example; s=s; b=x\r\n\
                 ARC-Authentication-Results: i=1; first.example; spf=softfail\r\n{FROM}"
            )
        };
        assert_eq!(
            facts(&chain("lists.example.com"), &trust()),
            "source=authentication-results dmarc=fail arc=pass arc_sealer=lists.example.com arc_trusted=true \
             arc_spf=fail arc_dkim=pass arc_dmarc=pass"
        );
        assert_eq!(
            facts(&chain("evil.example"), &trust()),
            "source=authentication-results dmarc=fail arc=pass arc_sealer=evil.example arc_trusted=false"
        );
        assert!(
            !facts(&chain("lists.example.com").replace("arc=pass", "arc=fail"), &trust()).contains("sealer")
        );
    }

    #[test]
    fn the_null_sender_is_asked_for_by_helo() {
        let check = |sender, helo, expected: Option<&str>| {
            assert_eq!(spf_identity(sender, helo).as_deref(), expected);
        };
        check(Some("a@Example.ORG"), Some("mx.example.net"), Some("example.org"));
        check(Some("<>"), Some("MX.example.net"), Some("mx.example.net"));
        check(Some("<>"), None, None);
        check(None, Some("mx.example.net"), Some("mx.example.net"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_bounds(text in "[a-z=;()\\\\\" .@/ü1]{0,200}") {
            if let Some(results) = parse(&text) {
                prop_assert!(results.results.len() <= RESULTS_MAX);
            }
            parse_arc(&text);
        }

        /// Fields that were written are read back.
        #[test]
        fn written_fields_are_read_back(
            results in proptest::collection::vec(("[a-z]{1,8}", "[a-z]{1,8}", "[a-z]{1,8}", "[a-z@.+/0-9][a-z@.+/=0-9]{0,19}"), 0..9),
        ) {
            let mut text = "mx.example.net".to_owned();
            for (method, result, name, value) in &results {
                text += &format!("; {method}={result} (why) header.{name}={value}");
            }
            let read = parse(&text).unwrap();
            let read: Vec<_> = read.results.into_iter().map(|own| (own.method, own.result, own.properties)).collect();
            let written: Vec<_> = results
                .into_iter()
                .map(|(method, result, name, value)| (method, result, vec![(format!("header.{name}"), value)]))
                .collect();
            prop_assert_eq!(read, written);
        }
    }
}

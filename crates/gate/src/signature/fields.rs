//! `Signature-Input`, `Signature` and `Signature-Agent`, read within bounds.

use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parser};

use super::SignatureRefusal;
use super::request::{FieldSource, SignedRequest, joined};

/// Most bytes of each of the fields.
const FIELD_BYTES_MAX: usize = 8 << 10;
/// Most signatures of a request that are looked at.
const SIGNATURES_MAX: usize = 4;
/// Most components that a signature covers.
pub(super) const COMPONENTS_MAX: usize = 32;
/// Most bytes of a `keyid`, a `nonce` or a `tag`.
const PARAMETER_BYTES_MAX: usize = 256;

/// A signature as the request has it: not verified.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageSignature {
    /// The components that it covers, with its parameters.
    pub(super) input: InnerList,
    /// The signature's bytes.
    pub(super) bytes: Vec<u8>,
}

impl MessageSignature {
    /// Returns the text of a parameter; `None` if there is none, or no text.
    fn text(&self, name: &str) -> Option<&str> {
        self.input.params.get(name).and_then(BareItem::as_string).map(|text| text.as_str())
    }

    /// Returns the time of a parameter in seconds since 1970.
    pub(super) fn seconds(&self, name: &str) -> Option<i64> {
        self.input.params.get(name).and_then(BareItem::as_integer).map(i64::from)
    }

    /// Returns the name of the key.
    pub fn key_id(&self) -> Option<&str> {
        self.text("keyid")
    }

    /// Returns the algorithm that the signature names.
    pub fn algorithm(&self) -> Option<&str> {
        self.text("alg")
    }

    /// Returns the number that is used once.
    pub fn nonce(&self) -> Option<&str> {
        self.text("nonce").filter(|nonce| !nonce.is_empty())
    }

    /// Returns the purpose of the signature.
    pub fn tag(&self) -> Option<&str> {
        self.text("tag")
    }

    /// Returns true if a component without parameters is covered.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.input.items.iter().any(|item| name_of(item) == Some(name) && item.params.is_empty())
    }

    fn is_sound(&self) -> bool {
        let short = |name| match self.input.params.get(name) {
            None => true,
            Some(value) => value.as_string().is_some_and(|text| text.as_str().len() <= PARAMETER_BYTES_MAX),
        };
        let whole = |name| self.input.params.get(name).is_none_or(|value| value.as_integer().is_some());
        ["keyid", "alg", "nonce", "tag"].into_iter().all(short)
            && ["created", "expires"].into_iter().all(whole)
    }
}

/// Returns the name of a component.
pub(super) fn name_of(component: &Item) -> Option<&str> {
    component.bare_item.as_string().map(|name| name.as_str())
}

/// Reads the signatures of a request, in their order; none if it has none.
///
/// # Errors
/// If its fields are not those of signatures, or too large.
pub fn read_signatures(fields: &dyn FieldSource) -> Result<Vec<MessageSignature>, SignatureRefusal> {
    let Some(inputs) = dictionary(fields, "signature-input")? else { return Ok(Vec::new()) };
    let Some(signatures) = dictionary(fields, "signature")? else { return Err(SignatureRefusal::Malformed) };
    if inputs.len() > SIGNATURES_MAX || signatures.len() > SIGNATURES_MAX {
        return Err(SignatureRefusal::TooLarge);
    }
    let mut all = Vec::with_capacity(inputs.len());
    for (label, input) in inputs {
        let ListEntry::InnerList(input) = input else { return Err(SignatureRefusal::Malformed) };
        let Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(bytes), .. })) =
            signatures.get(&label)
        else {
            return Err(SignatureRefusal::Malformed);
        };
        if input.items.len() > COMPONENTS_MAX {
            return Err(SignatureRefusal::TooLarge);
        }
        let signature = MessageSignature { input, bytes: bytes.clone() };
        if !signature.is_sound() {
            return Err(SignatureRefusal::Malformed);
        }
        all.push(signature);
    }
    Ok(all)
}

/// Reads a field that is a dictionary; `None` if the request does not have it.
fn dictionary(fields: &dyn FieldSource, name: &str) -> Result<Option<Dictionary>, SignatureRefusal> {
    let Some(value) = joined(&fields.values(name), FIELD_BYTES_MAX)? else { return Ok(None) };
    Parser::new(&value).parse().map(Some).map_err(|_| SignatureRefusal::Malformed)
}

/// Returns the directory of keys that the signer names in `Signature-Agent`, as `host` or `host:port` in lower case; `None` if it
/// names none. It counts only if the signature covers it (draft-meunier-web-bot-auth-architecture).
///
/// # Errors
/// If the field is there and not covered, or is no URL.
pub fn signature_agent(
    request: &SignedRequest<'_>,
    signature: &MessageSignature,
) -> Result<Option<String>, SignatureRefusal> {
    let Some(value) = joined(&request.fields.values("signature-agent"), FIELD_BYTES_MAX)? else {
        return Ok(None);
    };
    let mut covering = signature.input.items.iter().filter(|item| name_of(item) == Some("signature-agent"));
    let (Some(component), None) = (covering.next(), covering.next()) else {
        return Err(SignatureRefusal::Uncovered);
    };
    let item = match component.params.get("key").and_then(BareItem::as_string) {
        // A dictionary, with a member for each signature.
        Some(key) => match Parser::new(&value).parse::<Dictionary>() {
            Ok(mut members) => match members.swap_remove(key.as_str()) {
                Some(ListEntry::Item(item)) => item,
                _ => return Err(SignatureRefusal::Malformed),
            },
            Err(_) => return Err(SignatureRefusal::Malformed),
        },
        None => Parser::new(&value).parse::<Item>().map_err(|_| SignatureRefusal::Malformed)?,
    };
    let url = item.bare_item.as_string().ok_or(SignatureRefusal::Malformed)?.as_str();
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = !authority.is_empty()
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if is_host { Ok(Some(authority.to_ascii_lowercase())) } else { Err(SignatureRefusal::Malformed) }
}

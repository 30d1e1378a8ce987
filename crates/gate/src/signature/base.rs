//! The signature base of a request: the text that was signed (RFC 9421, section 2.5).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sfv::{BareItem, Dictionary, FieldType, Item, ItemSerializer, List, ListEntry, Parser};

use super::SignatureRefusal;
use super::fields::{MessageSignature, name_of};
use super::request::{SignedRequest, joined};

/// Most bytes of a signature base.
const BASE_BYTES_MAX: usize = 32 << 10;

/// Characters that a query's names and values have encoded in a signature base.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

impl SignedRequest<'_> {
    /// Returns the authority in its normal form: lower case, without the port that the scheme has anyway.
    fn authority(&self) -> String {
        let authority = self.authority.to_ascii_lowercase();
        let port = if self.scheme.eq_ignore_ascii_case("http") { ":80" } else { ":443" };
        authority.strip_suffix(port).map(str::to_owned).unwrap_or(authority)
    }

    fn path(&self) -> &str {
        if self.path.is_empty() { "/" } else { self.path }
    }

    /// Returns the path with its query.
    fn target(&self) -> String {
        match self.query {
            Some(query) => format!("{}?{query}", self.path()),
            None => self.path().to_owned(),
        }
    }

    /// Returns the value of a component that follows from the request.
    fn derived(&self, component: &Item) -> Result<String, SignatureRefusal> {
        let name = name_of(component).unwrap_or_default();
        if name == "@query-param" {
            return self.query_parameter(component);
        }
        if !component.params.is_empty() {
            return Err(SignatureRefusal::Component);
        }
        Ok(match name {
            "@method" => self.method.to_owned(),
            "@authority" => self.authority(),
            "@scheme" => self.scheme.to_ascii_lowercase(),
            "@target-uri" => {
                format!("{}://{}{}", self.scheme.to_ascii_lowercase(), self.authority(), self.target())
            }
            "@request-target" => self.target(),
            "@path" => self.path().to_owned(),
            "@query" => format!("?{}", self.query.unwrap_or_default()),
            _ => return Err(SignatureRefusal::Component),
        })
    }

    /// Returns the value of the query's one parameter of a name.
    fn query_parameter(&self, component: &Item) -> Result<String, SignatureRefusal> {
        let name = component.params.get("name").and_then(BareItem::as_string);
        let (Some(name), 1) = (name, component.params.len()) else { return Err(SignatureRefusal::Component) };
        let form = |text: &str| {
            let decoded = text.replace('+', " ");
            let decoded = percent_decode_str(&decoded).decode_utf8_lossy();
            utf8_percent_encode(&decoded, FORM).to_string()
        };
        let mut found = self.query.unwrap_or_default().split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form(key) == name.as_str()).then(|| form(value))
        });
        match (found.next(), found.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(SignatureRefusal::Component),
        }
    }

    /// Returns the value of a header field, or of a part of it.
    fn field(&self, component: &Item) -> Result<String, SignatureRefusal> {
        let name = name_of(component).unwrap_or_default();
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| {
                !byte.is_ascii_uppercase()
                    && (byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
            });
        if !is_name {
            return Err(SignatureRefusal::Component);
        }
        let values = self.fields.values(name);
        let value = joined(&values, BASE_BYTES_MAX)?.ok_or(SignatureRefusal::Component)?;
        let mut parameters = component.params.iter();
        let (first, more) = (parameters.next(), parameters.next());
        match (first.map(|(name, value)| (name.as_str(), value)), more) {
            (None, None) => Ok(value),
            // A member of a dictionary.
            (Some(("key", key)), None) => {
                let key = key.as_string().ok_or(SignatureRefusal::Component)?;
                let members =
                    Parser::new(&value).parse::<Dictionary>().map_err(|_| SignatureRefusal::Component)?;
                let member = members.get(key.as_str()).ok_or(SignatureRefusal::Component)?;
                let list: List = vec![member.clone()];
                list.serialize().ok_or(SignatureRefusal::Component)
            }
            // Each line's bytes by themselves.
            (Some(("bs", BareItem::Boolean(true))), None) => {
                let lines = values.iter().map(|line| {
                    ListEntry::from(Item::new(BareItem::ByteSequence(line.trim_ascii().to_vec())))
                });
                lines.collect::<List>().serialize().ok_or(SignatureRefusal::Component)
            }
            // `sf` needs to know each field's type; `tr` and `req` are not for the head of a request.
            _ => Err(SignatureRefusal::Component),
        }
    }
}

/// Returns the signature base.
///
/// # Errors
/// If a component cannot be had, or is there twice, or all together are too large.
pub(super) fn signature_base(
    request: &SignedRequest<'_>,
    signature: &MessageSignature,
) -> Result<String, SignatureRefusal> {
    let mut base = String::with_capacity(512);
    let mut seen: Vec<String> = Vec::with_capacity(signature.input.items.len());
    for component in &signature.input.items {
        let name = name_of(component).ok_or(SignatureRefusal::Malformed)?;
        let value =
            if name.starts_with('@') { request.derived(component) } else { request.field(component) }?;
        if value.bytes().any(|byte| !matches!(byte, b'\t' | b' '..=b'~')) {
            return Err(SignatureRefusal::Component);
        }
        let identifier =
            ItemSerializer::new().bare_item(&component.bare_item).parameters(&component.params).finish();
        if seen.contains(&identifier) {
            return Err(SignatureRefusal::Component);
        }
        base += &identifier;
        base += ": ";
        base += &value;
        base.push('\n');
        if base.len() > BASE_BYTES_MAX {
            return Err(SignatureRefusal::TooLarge);
        }
        seen.push(identifier);
    }
    let parameters: List = vec![ListEntry::InnerList(signature.input.clone())];
    base += "\"@signature-params\": ";
    base += &parameters.serialize().ok_or(SignatureRefusal::Malformed)?;
    Ok(base)
}

//! Elements of an XML document, found by a path such as `/Event/EventData[1]/Data[@Name='IpAddress']`.
//!
//! Enough of XML for events of Windows: elements, attributes, text, the five entities and numbers. A document has at most so many
//! elements, so deep.

use std::sync::Arc;

/// Most elements of a document.
const ELEMENTS_MAX: usize = 10_000;
/// Deepest element.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Default)]
struct XmlElement {
    name: String,
    attributes: Vec<(String, String)>,
    /// The text right after the start tag.
    text: String,
    children: Vec<usize>,
}

/// A document: elements by number; the first one holds the roots.
#[derive(Debug, Default)]
pub(crate) struct XmlDocument {
    elements: Vec<XmlElement>,
}

/// The document that was read last: expressions ask one line for many elements.
#[derive(Debug, Default)]
pub(crate) struct XmlCache(Option<(Arc<str>, Arc<XmlDocument>)>);

impl XmlCache {
    /// Reads a text, or takes what was read of it.
    pub(crate) fn document(&mut self, text: &Arc<str>) -> Arc<XmlDocument> {
        match &self.0 {
            Some((known, document)) if known == text => Arc::clone(document),
            _ => {
                let document = Arc::new(XmlDocument::read(text).unwrap_or_default());
                self.0 = Some((Arc::clone(text), Arc::clone(&document)));
                document
            }
        }
    }
}

impl XmlDocument {
    fn read(text: &str) -> Option<XmlDocument> {
        let mut document = XmlDocument { elements: vec![XmlElement::default()] };
        let mut open = vec![0usize];
        let mut rest = text;
        while !rest.is_empty() {
            let Some(tag) = rest.find('<') else {
                document.add_text(&open, rest);
                break;
            };
            document.add_text(&open, &rest[..tag]);
            rest = &rest[tag..];
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = &comment[comment.find("-->")? + 3..];
            } else if let Some(data) = rest.strip_prefix("<![CDATA[") {
                let end = data.find("]]>")?;
                let element = &mut document.elements[*open.last()?];
                if element.children.is_empty() {
                    element.text.push_str(&data[..end]);
                }
                rest = &data[end + 3..];
            } else if rest.starts_with("<?") || rest.starts_with("<!") {
                rest = &rest[rest.find('>')? + 1..];
            } else if rest.starts_with("</") {
                if open.len() > 1 {
                    open.pop();
                }
                rest = &rest[rest.find('>')? + 1..];
            } else {
                let (element, is_empty, after) = start_tag(&rest[1..])?;
                if document.elements.len() >= ELEMENTS_MAX || open.len() >= DEPTH_MAX {
                    return None;
                }
                let number = document.elements.len();
                document.elements.push(element);
                document.elements[*open.last()?].children.push(number);
                if !is_empty {
                    open.push(number);
                }
                rest = after;
            }
        }
        Some(document)
    }

    fn add_text(&mut self, open: &[usize], text: &str) {
        if let Some(element) = open.last().and_then(|number| self.elements.get_mut(*number))
            && element.children.is_empty()
        {
            element.text.push_str(&unescaped(text));
        }
    }

    fn find(&self, path: &str) -> Option<&XmlElement> {
        let mut found = vec![0usize];
        for step in path_steps(path.trim_start_matches('/')) {
            let mut next = Vec::new();
            let (name, filters) = step.split_once('[').map_or((step, ""), |(name, filters)| (name, filters));
            let wanted = name.rsplit_once(':').map_or(name, |(_, name)| name);
            for parent in &found {
                let children = self.elements.get(*parent)?.children.iter().copied();
                let mut children: Vec<usize> =
                    children.filter(|child| wanted == "*" || self.elements[*child].name == wanted).collect();
                for filter in filters.split('[') {
                    let filter = filter.trim_end_matches(']');
                    if let Some(attribute) = filter.strip_prefix('@') {
                        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
                        let value = value.trim_matches(['\'', '"']);
                        children.retain(|child| {
                            let attributes = &self.elements[*child].attributes;
                            attributes.iter().any(|(known, has)| {
                                known == name && (has == value || !attribute.contains('='))
                            })
                        });
                    } else if let Ok(number) = filter.parse::<usize>() {
                        children = children.get(number.wrapping_sub(1)).copied().into_iter().collect();
                    }
                }
                next.extend(children);
            }
            found = next;
        }
        self.elements.get(*found.first()?)
    }

    /// The text of an element; empty if there is none.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.find(path).map_or("", |element| element.text.as_str())
    }

    /// The value of an element's attribute; empty if there is none.
    pub(crate) fn attribute(&self, path: &str, name: &str) -> &str {
        let element = self.find(path);
        let found = element.and_then(|element| element.attributes.iter().find(|(known, _)| known == name));
        found.map_or("", |(_, value)| value.as_str())
    }
}

/// Splits a path at the `/` that are not in a filter.
fn path_steps(path: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    path.split(move |character| {
        match character {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        character == '/' && !is_inside
    })
    .filter(|step| !step.is_empty())
}

/// Reads a start tag after its `<`: the element, whether it is empty, and what follows.
fn start_tag(text: &str) -> Option<(XmlElement, bool, &str)> {
    let end = text.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
    let name = &text[..end];
    let mut element = XmlElement {
        name: name.rsplit_once(':').map_or(name, |(_, name)| name).to_owned(),
        ..XmlElement::default()
    };
    let mut rest = text[end..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("/>") {
            return Some((element, true, after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Some((element, false, after));
        }
        let equals = rest.find('=')?;
        let name = rest[..equals].trim().to_owned();
        let value = rest[equals + 1..].trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let end = value[1..].find(quote)? + 1;
        if element.attributes.len() < 256 {
            element.attributes.push((name, unescaped(&value[1..end])));
        }
        rest = value[end + 1..].trim_start();
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = rest.find(';').filter(|end| *end <= 10).and_then(|end| {
            let name = &rest[1..end];
            let character = match name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let number = name.strip_prefix('#')?;
                    let code = match number.strip_prefix(['x', 'X']) {
                        Some(hex) => u32::from_str_radix(hex, 16),
                        None => number.parse(),
                    };
                    char::from_u32(code.ok()?)?
                }
            };
            Some((character, end + 1))
        });
        match entity {
            Some((character, length)) => {
                plain.push(character);
                rest = &rest[length..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_path() {
        let document = XmlDocument::read(
            "<?xml version='1.0'?><Event xmlns='x'><System><TimeCreated SystemTime='2024'/><ID>46&amp;25</ID></System>\
             <EventData><Data Name='a'>1</Data><Data Name='b'>2</Data></EventData></Event>",
        )
        .expect("XML");
        let check = |path: &str, expected: &str| assert_eq!(document.text(path), expected, "{path}");
        check("/Event/System[1]/ID", "46&25");
        check("/Event/EventData[1]/Data[@Name='b']", "2");
        check("/Event/EventData/Data[2]", "2");
        check("/Event/EventData/Data[@Name='c']", "");
        assert_eq!(document.attribute("/Event/System[1]/TimeCreated", "SystemTime"), "2024");
        for broken in ["<", "<a", "<a b='", "</a>", "&#x;", "<!--", "<a><b></a></a>"] {
            XmlDocument::read(broken).unwrap_or_default().text("/a");
        }
    }
}

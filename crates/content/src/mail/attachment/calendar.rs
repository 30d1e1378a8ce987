//! Calendar objects (RFC 5545): who asks for what, and where it leads.

use crate::address::MailAddress;
use crate::budget::Budget;
use crate::web::link::{self, TextReference};

/// Most bytes that are read.
const BYTES_MAX: usize = 256 * 1024;
/// Steps of a line, and of one in which links are looked for.
const LINE_STEPS: u64 = 40;
const LINKS_STEPS: u64 = 600;

/// The content of an invitation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CalendarInvitation {
    /// Such as `request`, lower case.
    pub(super) method: Option<String>,
    pub(super) organizer: Option<String>,
}

/// Reads an object; links in any of its properties are given to `link`.
pub(super) fn read(text: &str, mut link: impl FnMut(&str), budget: &Budget) -> CalendarInvitation {
    let text = crate::text::truncate(text, BYTES_MAX);
    let unfolded = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "");
    let mut invitation = CalendarInvitation::default();
    for line in unfolded.lines() {
        if !budget.spend(LINE_STEPS) {
            break;
        }
        let Some((property, value)) = line.split_once(':') else { continue };
        let name = property.split(';').next().unwrap_or_default();
        if name.eq_ignore_ascii_case("METHOD") {
            invitation.method = Some(value.trim().to_ascii_lowercase());
        } else if name.eq_ignore_ascii_case("ORGANIZER") {
            let address = value.trim();
            let address = address
                .get(..7)
                .filter(|scheme| scheme.eq_ignore_ascii_case("mailto:"))
                .map_or(address, |_| &address[7..]);
            invitation.organizer = MailAddress::parse(address).map(|address| address.full);
        }
        if (line.contains("://") || line.contains("www."))
            && budget.spend(LINKS_STEPS + link::STEPS_A_BYTE * line.len() as u64)
        {
            let value = line.replace("\\n", " ").replace("\\N", " ").replace("\\,", ",").replace("\\;", ";");
            link::find(&value, |found| {
                if let TextReference::Url(url) = found {
                    link(url);
                }
                budget.spend(LINKS_STEPS)
            });
        }
    }
    invitation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitations_are_read() {
        let text = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nORGANIZER;CN=Ann:mailto:Ann@e.example\r\n\
                    DESCRIPTION:Pay at https://e.exam\r\n ple/pay\\nnow\r\nURL:http://u.example/\r\nEND:VEVENT\r\n";
        let mut links = Vec::new();
        let read = read(text, |link| links.push(link.to_owned()), &Budget::ample());
        assert_eq!(read.method.as_deref(), Some("request"));
        assert_eq!(read.organizer.as_deref(), Some("ann@e.example"));
        assert_eq!(links, ["https://e.example/pay", "http://u.example/"]);
    }
}

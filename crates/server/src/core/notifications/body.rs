//! Bodies: notices in the form of the place that they are sent to. Every value in them is from outside.

use std::net::IpAddr;

use data_encoding::HEXLOWER;
use event::Time;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use plan::{MailDelivery, NotificationForm, NotificationPlan, NotificationTemplate};
use ring::hmac;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::notice::Notice;
use super::text::{line, slack};

/// Most notices that a body lists one by one.
const LISTED_MAX: usize = 200;
/// Most lines of a text for people.
const LINES_MAX: usize = 20;
/// Most characters of a value in a template.
const VALUE_CHARS_MAX: usize = 200;
/// Most characters of a comment at AbuseIPDB.
const COMMENT_CHARS_MAX: usize = 1000;

/// A message as it is sent.
#[derive(Debug)]
pub(super) enum NotificationBody {
    /// A request over HTTP.
    Request(NotificationRequest),
    /// A mail.
    Mail(Box<lettre::Message>),
    /// Nothing: what happened is nothing for this place.
    Nothing,
}

/// A request over HTTP.
#[derive(Debug)]
pub(super) struct NotificationRequest {
    pub(super) is_put: bool,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) bytes: Vec<u8>,
}

/// Returns the id of a message: the same each time that it is sent, and on all nodes that tell of the same.
fn message_id(plan: &NotificationPlan, notices: &[Notice]) -> String {
    let mut hash = Sha256::new();
    hash.update(plan.name.as_bytes());
    for notice in notices {
        hash.update([0]);
        hash.update(notice.occasion.name());
        hash.update([0]);
        hash.update(notice.key.as_bytes());
    }
    format!("msg_{}", HEXLOWER.encode(&hash.finalize()[..16]))
}

/// Returns the text of a notice for people. What the template says stands as it is; values are escaped.
fn sentence(plan: &NotificationPlan, notice: &Notice, escape: fn(&str) -> String) -> String {
    let parsed = plan.template.as_deref().and_then(|template| NotificationTemplate::parse(template).ok());
    match parsed {
        None => escape(&notice.summary),
        Some(template) => template.fill(|name| match name {
            "summary" => escape(&notice.summary),
            name => escape(&line(&notice.text(name), VALUE_CHARS_MAX)),
        }),
    }
}

/// The texts of notices, a line each; one that comes more than once with its number.
fn lines(plan: &NotificationPlan, notices: &[Notice], escape: fn(&str) -> String) -> String {
    let mut counted: Vec<(String, usize)> = Vec::new();
    let mut left = 0;
    for notice in notices {
        let text = sentence(plan, notice, escape);
        match counted.iter().position(|(known, _)| *known == text) {
            Some(place) => counted[place].1 += 1,
            None if counted.len() < LINES_MAX => counted.push((text, 1)),
            None => left += 1,
        }
    }
    let mut lines: Vec<String> = counted
        .into_iter()
        .map(|(text, count)| if count > 1 { format!("{text} ({count} times)") } else { text })
        .collect();
    if left > 0 {
        lines.push(format!("… and {left} more"));
    }
    lines.join("\n")
}

fn as_it_is(text: &str) -> String {
    text.to_owned()
}

/// Makes the message about notices, as it is sent at a time.
///
/// # Errors
/// If a mail cannot be made of its addresses.
pub(super) fn body(
    plan: &NotificationPlan,
    notices: &[Notice],
    now: Time,
) -> Result<NotificationBody, String> {
    let id = message_id(plan, notices);
    let json_header = || ("content-type", "application/json".to_owned());
    let request = match &plan.form {
        NotificationForm::Webhook { key } => {
            let one = |notice: &Notice| notice.json(&sentence(plan, notice, as_it_is));
            let value = match notices {
                [notice] => one(notice),
                _ => json!({
                    "type": "digest",
                    "timestamp": now.to_string(),
                    "data": {
                        "count": notices.len(),
                        "left_off": notices.len().saturating_sub(LISTED_MAX),
                        "notifications": notices.iter().take(LISTED_MAX).map(one).collect::<Vec<Value>>(),
                    },
                }),
            };
            let bytes = value.to_string().into_bytes();
            let seconds = now.0.div_euclid(1_000_000).to_string();
            let mut headers = vec![json_header()];
            if let Some(key) = key {
                headers.push(("webhook-signature", signature(key, &id, &seconds, &bytes)));
            }
            headers.extend([("webhook-id", id), ("webhook-timestamp", seconds)]);
            NotificationRequest { is_put: false, url: plan.url.0.clone(), headers, bytes }
        }
        NotificationForm::Slack => {
            let value =
                json!({ "text": lines(plan, notices, slack), "unfurl_links": false, "unfurl_media": false });
            let bytes = value.to_string().into_bytes();
            NotificationRequest {
                is_put: false,
                url: plan.url.0.clone(),
                headers: vec![json_header()],
                bytes,
            }
        }
        NotificationForm::Matrix { room, token } => {
            // Without `formatted_body` nothing in it is markup, and with these mentions it calls nobody.
            let value =
                json!({ "msgtype": "m.notice", "body": lines(plan, notices, as_it_is), "m.mentions": {} });
            let room = utf8_percent_encode(room, NON_ALPHANUMERIC);
            let home = plan.url.0.trim_end_matches('/');
            NotificationRequest {
                is_put: true,
                url: format!("{home}/_matrix/client/v3/rooms/{room}/send/m.room.message/{id}"),
                headers: vec![json_header(), ("authorization", format!("Bearer {token}"))],
                bytes: value.to_string().into_bytes(),
            }
        }
        NotificationForm::AbuseIpDb { key, categories } => {
            let notice = notices.first();
            let address = notice.and_then(|notice| notice.text("value").parse::<IpAddr>().ok());
            let (Some(notice), Some(address)) = (notice, address.filter(is_public)) else {
                return Ok(NotificationBody::Nothing);
            };
            let comment = line(&sentence(plan, notice, as_it_is), COMMENT_CHARS_MAX);
            let (ip, time) = (address.to_string(), notice.at.to_string());
            let pairs =
                [("ip", &ip), ("categories", categories), ("comment", &comment), ("timestamp", &time)];
            NotificationRequest {
                is_put: false,
                url: plan.url.0.clone(),
                headers: vec![
                    ("content-type", "application/x-www-form-urlencoded".to_owned()),
                    ("accept", "application/json".to_owned()),
                    ("key", key.clone()),
                ],
                bytes: serde_urlencoded::to_string(pairs).map_err(|error| error.to_string())?.into_bytes(),
            }
        }
        NotificationForm::Smtp(mail) => {
            return Ok(NotificationBody::Mail(Box::new(message(plan, mail, notices, &id, now)?)));
        }
    };
    Ok(NotificationBody::Request(request))
}

/// Signs a message as Standard Webhooks does.
fn signature(key: &[u8], id: &str, seconds: &str, bytes: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{id}.{seconds}.").as_bytes());
    context.update(bytes);
    format!("v1,{}", data_encoding::BASE64.encode(context.sign().as_ref()))
}

/// Returns true if an address can be somebody else's in the whole internet.
fn is_public(address: &IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast())
        }
    }
}

/// The mail about notices.
fn message(
    plan: &NotificationPlan,
    mail: &MailDelivery,
    notices: &[Notice],
    id: &str,
    now: Time,
) -> Result<lettre::Message, String> {
    let mailbox = |address: &str| -> Result<Mailbox, String> {
        address
            .parse::<lettre::Address>()
            .map(|address| Mailbox::new(None, address))
            .map_err(|error| error.to_string())
    };
    let subject = match notices {
        [notice] => format!("[tollhouse] {}", line(&notice.summary, 120)),
        _ => format!("[tollhouse] {} notifications", notices.len()),
    };
    let host = mail.from.rsplit_once('@').map_or("localhost", |(_, host)| host);
    let date = std::time::UNIX_EPOCH
        .checked_add(std::time::Duration::from_micros(u64::try_from(now.0).unwrap_or(0)))
        .unwrap_or(std::time::UNIX_EPOCH);
    let mut builder = lettre::Message::builder()
        .from(mailbox(&mail.from)?)
        .subject(subject)
        .date(date)
        .message_id(Some(format!("<{id}@{host}>")))
        .header(ContentType::TEXT_PLAIN);
    for to in &mail.to {
        builder = builder.to(mailbox(to)?);
    }
    let text =
        format!("{}\n\n-- \nTollhouse, notification `{}`\n", lines(plan, notices, as_it_is), plan.name);
    builder.body(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use plan::NotificationOccasion;

    use super::super::queue::tests::place;
    use super::*;

    /// A text of all that has a meaning somewhere.
    const HOSTILE: &str =
        "a\r\n.\r\nBcc: x@example.org\r\n\r\n<script>&\u{0}\u{202E}\"'{summary}{{%0A&categories=1";

    fn notice(value: &str) -> Notice {
        let notice =
            Notice::new(NotificationOccasion::Ban, Time(0), value.to_owned(), &format!("{value} is banned"));
        notice.of_pipeline("web").with("value", value)
    }

    fn request(settings: &str, notices: &[Notice]) -> NotificationRequest {
        let plan = place(&format!("url = 'http://127.0.0.1:1/a'\n{settings}"));
        match body(&plan, notices, Time::from_seconds(1_779_012_000)).unwrap() {
            NotificationBody::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_gathered_comes_as_one() {
        let notices: Vec<Notice> = (0..250).map(|value| notice(&format!("v{}", value % 30))).collect();
        let hook: Value = serde_json::from_slice(&request("", &notices).bytes).unwrap();
        assert_eq!(
            (&hook["type"], &hook["data"]["count"], &hook["data"]["left_off"]),
            (&json!("digest"), &json!(250), &json!(50))
        );
        assert_eq!(hook["data"]["notifications"][199]["data"]["value"], "v19");
        let slack: Value = serde_json::from_slice(&request("type = 'slack'", &notices).bytes).unwrap();
        let lines: Vec<&str> = slack["text"].as_str().unwrap().lines().collect();
        assert_eq!((lines.len(), lines[0], lines[20]), (21, "v0 is banned (9 times)", "… and 80 more"));
    }

    #[test]
    fn an_id_is_that_of_what_is_told() {
        let id = |settings: &str, notices: &[Notice]| {
            let request = request(settings, notices);
            request.headers.iter().find(|(name, _)| *name == "webhook-id").map(|(_, id)| id.clone()).unwrap()
        };
        let (a, b) = (notice("a"), notice("b"));
        assert_eq!(id("", std::slice::from_ref(&a)), id("template = '{value}'", std::slice::from_ref(&a)));
        assert_ne!(id("", std::slice::from_ref(&a)), id("", std::slice::from_ref(&b)));
        assert_ne!(id("", &[a.clone(), b.clone()]), id("", &[b, a]));
    }

    #[test]
    fn hostile_values_stay_values() {
        let notices = [notice(HOSTILE)];
        for form in ["", "type = 'slack'", "type = 'matrix'\nroom = '!a:b'\nsecret = '0123456789abcdef'"] {
            for template in ["", "template = '{value} {summary} {{{rule}'"] {
                let request = request(&format!("{form}\n{template}"), &notices);
                let read: Value = serde_json::from_slice(&request.bytes).unwrap();
                let text = ["text", "body"].into_iter().find_map(|key| read[key].as_str());
                let text = text.or(read["data"]["summary"].as_str()).unwrap();
                assert!(!text.contains(['\r', '\n', '\0', '\u{202E}']), "{text:?}");
                assert!(text.contains("{summary}{{%0A"), "values are no templates: {text:?}");
            }
        }
        let mut report = notice(HOSTILE).with("value", "203.0.113.9");
        report.summary = line(HOSTILE, 500);
        let abuse = "type = 'abuseipdb'\nsecret = '0123456789abcdef'\ncategories = [18]";
        let sent = String::from_utf8(request(abuse, &[report]).bytes).unwrap();
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(&sent).unwrap();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["ip", "categories", "comment", "timestamp"], "{sent}");
    }

    #[test]
    fn only_addresses_of_the_internet_are_reported() {
        let check = |value: &str, expected: bool| {
            let plan = place("type = 'abuseipdb'\nsecret = '0123456789abcdef'\ncategories = [18]");
            let made = body(&plan, &[notice(value)], Time(0)).unwrap();
            assert_eq!(matches!(made, NotificationBody::Request(_)), expected, "{value}");
        };
        check("203.0.113.9", true);
        check("2001:db8::1", true);
        for value in [
            "10.0.0.1",
            "127.0.0.1",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "192.0.2.0/24",
            "ann",
            "",
        ] {
            check(value, false);
        }
    }

    #[test]
    fn no_value_ends_a_mail_or_a_header() {
        let settings =
            "type = 'smtp'\nurl = 'smtp://127.0.0.1:1'\nfrom = 'a@example.org'\nto = ['b@example.org']\n";
        for template in ["", "template = '{value}'"] {
            let plan = place(&format!("{settings}{template}"));
            let NotificationBody::Mail(mail) = body(&plan, &[notice(HOSTILE)], Time(0)).unwrap() else {
                panic!("it is a mail");
            };
            let text = String::from_utf8(mail.formatted()).unwrap();
            let (head, _) = text.split_once("\r\n\r\n").unwrap();
            let names: Vec<&str> = head
                .lines()
                .filter(|line| !line.starts_with([' ', '\t']))
                .map(|line| line.split(':').next().unwrap_or_default())
                .collect();
            assert!(!names.contains(&"Bcc") && names.contains(&"Subject"), "{names:?}");
            assert!(!text.contains("\r\n.\r\n"), "{text}");
        }
    }
}

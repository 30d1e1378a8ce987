//! Headers of a request to Rspamd. Pure.

use content::mail::message::Envelope;

use crate::protocol::content_encoding::MessageEncoding;
use crate::protocol::mail::header::{addresses, ip};

/// The content of a request beside the message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RspamdRequest {
    pub(crate) envelope: Envelope,
    /// The mail server's name for the message.
    pub(crate) queue_id: Option<String>,
    /// The settings it wants, which here is a pipeline's name.
    pub(crate) settings_id: Option<String>,
    /// The content encoding of the message, and the header that named it, in which the answer is to name the same.
    pub(crate) encoding: Option<(MessageEncoding, &'static str)>,
    /// The controller's password.
    pub(crate) password: Option<String>,
}

/// Reasons for a refused request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RspamdRefusal {
    #[error("`{0}` names a file, and no file is read for a client")]
    File(&'static str),
    #[error("`{0}` is not understood here: {1}")]
    Unsupported(&'static str, &'static str),
}

/// Headers and parameters by which Rspamd reads a file or another process's memory instead of the body.
const FILES: [&str; 5] = ["file", "path", "shm", "shm-offset", "shm-length"];
/// Bytes of a queue's id that are looked at.
const ID_BYTES_MAX: usize = 64;
/// Ids that mail servers give where there is none.
const NO_IDS: [&str; 3] = ["", "undef", "NOQUEUE"];

/// Reads headers: names in lower case, and values. Those that Rspamd knows and that have no meaning here are passed
/// over, as unknown ones are.
///
/// # Errors
/// If one names a file, or asks for what cannot be done.
pub(crate) fn asked<'h>(
    headers: impl Iterator<Item = (&'h str, &'h str)>,
) -> Result<RspamdRequest, RspamdRefusal> {
    let mut asked = RspamdRequest::default();
    for (name, value) in headers {
        let value = value.trim();
        let said = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "from" => asked.envelope.sender = Some(value.to_owned()),
            "rcpt" => asked.envelope.recipients.extend(addresses(value)),
            "ip" => asked.envelope.client_ip = ip(value),
            "helo" => asked.envelope.helo = said(),
            "user" => asked.envelope.user = said(),
            "queue-id" => {
                let fits = value.len() <= ID_BYTES_MAX && !NO_IDS.contains(&value);
                asked.queue_id = fits.then(|| value.to_owned());
            }
            "settings-id" => asked.settings_id = said(),
            "password" => asked.password = said(),
            "compression" | "content-encoding" => {
                let name = if name == "compression" { "Compression" } else { "Content-Encoding" };
                asked.encoding = match value.to_ascii_lowercase().as_str() {
                    "zstd" => Some((MessageEncoding::Zstd, name)),
                    "identity" | "" => None,
                    _ => return Err(RspamdRefusal::Unsupported(name, "only zstd is")),
                };
            }
            "dictionary" => return Err(RspamdRefusal::Unsupported("Dictionary", "compress without one")),
            "key" => return Err(RspamdRefusal::Unsupported("Key", "the connection is not encrypted")),
            name => {
                if let Some(file) = FILES.iter().find(|file| **file == name) {
                    return Err(RspamdRefusal::File(file));
                }
            }
        }
    }
    Ok(asked)
}

/// Checks the query of a URL: Rspamd would take `?file=` or `?path=` for a file's name.
///
/// # Errors
/// If it names a file.
pub(crate) fn query(query: &str) -> Result<(), RspamdRefusal> {
    let names = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let names_file = |name: &str| FILES.into_iter().find(|file| file.eq_ignore_ascii_case(name));
    names.filter_map(names_file).next().map_or(Ok(()), |file| Err(RspamdRefusal::File(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Result<RspamdRequest, RspamdRefusal> {
        asked(headers.iter().copied())
    }

    #[test]
    fn headers_say_the_envelope() {
        let said = read(&[
            ("from", "<a@x.org>"),
            ("rcpt", "<b@y.org>"),
            ("rcpt", "c@y.org, \"d,e\"@y.org"),
            ("ip", "::ffff:192.0.2.1"),
            ("helo", "mail.x.org"),
            ("user", "joe"),
            ("queue-id", "4XyZ"),
            ("settings-id", "outgoing"),
            ("flags", "body_block"),
            ("filename", "stdin"),
            ("hostname", "mail.x.org"),
        ])
        .unwrap();
        assert_eq!(
            said,
            RspamdRequest {
                envelope: Envelope {
                    client_ip: Some([192, 0, 2, 1].into()),
                    helo: Some("mail.x.org".to_owned()),
                    sender: Some("<a@x.org>".to_owned()),
                    recipients: vec![
                        "<b@y.org>".to_owned(),
                        "c@y.org".to_owned(),
                        "\"d,e\"@y.org".to_owned()
                    ],
                    user: Some("joe".to_owned()),
                },
                queue_id: Some("4XyZ".to_owned()),
                settings_id: Some("outgoing".to_owned()),
                ..RspamdRequest::default()
            }
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_said() {
        let said = read(&[("ip", "unknown"), ("helo", ""), ("queue-id", "undef"), ("user", " ")]).unwrap();
        assert_eq!(said, RspamdRequest::default());
        assert_eq!(read(&[("queue-id", &"a".repeat(65))]).unwrap(), RspamdRequest::default());
        assert_eq!(read(&[("from", "<>")]).unwrap().envelope.sender.as_deref(), Some("<>"));
    }

    #[test]
    fn no_file_is_named() {
        for name in FILES {
            assert_eq!(read(&[(name, "/etc/passwd")]), Err(RspamdRefusal::File(name)));
            assert_eq!(
                query(&format!("a=b&{}=/etc/passwd", name.to_uppercase())),
                Err(RspamdRefusal::File(name))
            );
        }
        assert_eq!(query("file"), Err(RspamdRefusal::File("file")));
        assert_eq!(query("profile=1&a"), Ok(()));
    }

    #[test]
    fn the_content_encoding_is_zstd_or_none() {
        assert_eq!(
            read(&[("compression", "zstd")]).unwrap().encoding,
            Some((MessageEncoding::Zstd, "Compression"))
        );
        let encoded = read(&[("content-encoding", "ZSTD")]).unwrap();
        assert_eq!(encoded.encoding, Some((MessageEncoding::Zstd, "Content-Encoding")));
        assert!(matches!(read(&[("content-encoding", "gzip")]), Err(RspamdRefusal::Unsupported(..))));
        assert!(matches!(read(&[("dictionary", "1")]), Err(RspamdRefusal::Unsupported(..))));
        assert!(matches!(read(&[("key", "a")]), Err(RspamdRefusal::Unsupported(..))));
    }
}

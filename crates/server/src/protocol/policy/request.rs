//! Requests of Postfix's policy delegation, as its SMTPD_POLICY_README describes them: lines `name=value`, and an empty
//! one at the end.

use content::mail::message::Envelope;
use content::text::received;

/// Longest request that is read.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest value that is kept; RFC 5321 allows paths of 256 bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// The only request that is known.
const ACCESS_POLICY: &[u8] = b"smtpd_access_policy";

/// Reasons to refuse bytes as a request. The next request cannot be found then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRequestError {
    /// Longer than [`REQUEST_BYTES_MAX`].
    #[error("a request of more than {REQUEST_BYTES_MAX} bytes")]
    TooLong,
    /// A line that is no attribute.
    #[error("a line without `=`")]
    Line,
    /// The request asks for something else.
    #[error("a request for something else than an access policy")]
    Kind,
}

/// The subject of a request of Postfix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRequest {
    /// The stage of the SMTP conversation: `CONNECT`, `EHLO`, `MAIL`, `RCPT`, `DATA`, `END-OF-MESSAGE`, ...
    pub state: String,
    /// The instance, equal in all requests about one message; empty where Postfix is older than 2.1.
    pub instance: String,
    /// The envelope, as far as it is known by then.
    pub envelope: Envelope,
    /// Postfix's name for the message, empty before the first recipient.
    pub queue_id: String,
}

impl PolicyRequest {
    /// Reads the lines of a request, without the empty one. Of an attribute that stands twice the last counts.
    fn read(lines: &[u8]) -> Result<PolicyRequest, PolicyRequestError> {
        let mut request = PolicyRequest::default();
        let (mut kind, mut sender) = (None, None);
        for line in lines.split(|byte| *byte == b'\n') {
            let at = line.iter().position(|byte| *byte == b'=').ok_or(PolicyRequestError::Line)?;
            let (name, value) = (&line[..at], &line[at + 1..]);
            let PolicyRequest { state, instance, envelope, queue_id } = &mut request;
            match name {
                b"request" => kind = Some(value),
                b"protocol_state" => *state = text(value),
                b"instance" => *instance = text(value),
                b"queue_id" => *queue_id = text(value),
                b"client_address" => envelope.client_ip = text(value).parse().ok(),
                b"helo_name" => envelope.helo = given(value),
                b"sasl_username" => envelope.user = given(value),
                b"sender" => sender = Some(text(value)),
                b"recipient" => envelope.recipients = given(value).into_iter().collect(),
                _ => {}
            }
        }
        if kind != Some(ACCESS_POLICY) {
            return Err(PolicyRequestError::Kind);
        }
        // Before MAIL an empty sender is none, and after it the null sender.
        let is_known = !matches!(request.state.as_str(), "CONNECT" | "HELO" | "EHLO" | "VRFY" | "ETRN");
        request.envelope.sender = sender.filter(|_| is_known);
        Ok(request)
    }
}

fn given(value: &[u8]) -> Option<String> {
    (!value.is_empty()).then(|| text(value))
}

fn text(value: &[u8]) -> String {
    received(&value[..value.len().min(TEXT_BYTES_MAX)]).into_owned()
}

/// Cuts what comes in into requests. Holds at most one and what was fed in with its end.
#[derive(Debug, Default)]
pub struct PolicyDecoder {
    buffer: Vec<u8>,
    /// The position in the buffer up to which it was read.
    at: usize,
    /// Up to where no end was found yet.
    searched: usize,
}

impl PolicyDecoder {
    /// Takes in what has come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.searched -= self.at;
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next request, if all of it is there.
    ///
    /// # Errors
    /// If there is none to come of what was fed in. The next call says the same.
    pub fn next_request(&mut self) -> Result<Option<PolicyRequest>, PolicyRequestError> {
        let end = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\n\n");
        let Some(end) = end.map(|end| end + self.searched) else {
            // The last byte may be the first of the end.
            self.searched = self.buffer.len().saturating_sub(1).max(self.at);
            let waiting = self.buffer.len() - self.at;
            return if waiting > REQUEST_BYTES_MAX { Err(PolicyRequestError::TooLong) } else { Ok(None) };
        };
        if end - self.at > REQUEST_BYTES_MAX {
            return Err(PolicyRequestError::TooLong);
        }
        let request = PolicyRequest::read(&self.buffer[self.at..end])?;
        self.at = end + 2;
        self.searched = self.at;
        Ok(Some(request))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], piece: usize) -> Vec<Result<PolicyRequest, PolicyRequestError>> {
        let mut decoder = PolicyDecoder::default();
        let mut requests = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.feed(piece);
            while let Some(request) = decoder.next_request().transpose() {
                let failed = request.is_err();
                requests.push(request);
                if failed {
                    return requests;
                }
            }
        }
        requests
    }

    #[test]
    fn requests_are_read() {
        let text = "request=smtpd_access_policy\nprotocol_state=RCPT\nclient_address=2001:db8::1\nhelo_name=a.example\n\
            sender=\nrecipient=b=c@example.org\ninstance=1.2\nqueue_id=\nsasl_username=\nnew_attribute=x\n\n";
        let envelope = Envelope {
            client_ip: Some("2001:db8::1".parse().unwrap()),
            helo: Some("a.example".to_owned()),
            sender: Some(String::new()),
            recipients: vec!["b=c@example.org".to_owned()],
            user: None,
        };
        let first = PolicyRequest {
            state: "RCPT".to_owned(),
            instance: "1.2".to_owned(),
            envelope,
            queue_id: String::new(),
        };
        let second = PolicyRequest { state: "CONNECT".to_owned(), ..PolicyRequest::default() };
        let both = format!(
            "{text}request=smtpd_access_policy\nprotocol_state=CONNECT\nsender=\nclient_address=unknown\n\n"
        );
        for piece in [1, 2, 7, both.len()] {
            assert_eq!(read(both.as_bytes(), piece), [Ok(first.clone()), Ok(second.clone())], "{piece}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(read(b"request=smtpd_access_policy\nhello\n\n", 9), [Err(PolicyRequestError::Line)]);
        assert_eq!(read(b"\n\n", 1), [Err(PolicyRequestError::Line)]);
        assert_eq!(read(b"request=other\n\n", 5), [Err(PolicyRequestError::Kind)]);
        assert_eq!(read(b"a=b\n\n", 5), [Err(PolicyRequestError::Kind)]);
        let long = vec![b'a'; REQUEST_BYTES_MAX + 1];
        assert_eq!(read(&long, 1000), [Err(PolicyRequestError::TooLong)]);
        assert_eq!(read(&[&long[..], b"\n\n"].concat(), usize::MAX), [Err(PolicyRequestError::TooLong)]);
    }

    proptest! {
        /// However the bytes are cut, the requests are the same.
        #[test]
        fn chunking_changes_nothing(
            lines in proptest::collection::vec("(request=smtpd_access_policy|sender=[a-c]{0,3}|[a-c=]{0,4}|)\n", 0..20),
            piece in 1usize..20,
        ) {
            let text = lines.concat();
            prop_assert_eq!(read(text.as_bytes(), piece), read(text.as_bytes(), usize::MAX));
        }
    }
}

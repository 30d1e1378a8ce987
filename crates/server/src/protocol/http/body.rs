//! The body of a request: read whole, unpacked, and no more memory than is accounted.

use std::error::Error;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use content::budget::{Budget, Cancellation};
use content::deflate::{self, DeflateFormat, StreamEnd, gzip_head, inflate_pieces};
use http_body_util::BodyExt;

use crate::core::node::Node;
use crate::core::pace::TooSlow;
use crate::core::problem::{HttpFailure, INVALID_BODY, SLOW_REQUEST, TOO_LARGE, UNSUPPORTED_TYPE, shown};
use crate::core::shares::{Caller, Share};
use crate::protocol::content_encoding::{DecompressError, Frames, zstd_pieces};

/// Memory that is taken for a body of an announced length before so much of it has come.
const AHEAD_BYTES_MAX: usize = 1 << 20;
/// Most bytes that one packed byte may become, beyond the first MiB.
const RATIO_MAX: usize = 200;

/// The advice about a body with more in it than one packed stream.
const ALONE: &str = "send one member, and nothing behind it";

/// A reason for which zstd is not unpacked.
enum BodyRejection {
    Encoding(DecompressError),
    Body(HttpFailure),
}

impl From<DecompressError> for BodyRejection {
    fn from(error: DecompressError) -> BodyRejection {
        BodyRejection::Encoding(error)
    }
}

/// The content encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEncoding {
    Gzip,
    Deflate,
    Zstd,
}

/// Memory for a body, each byte of it accounted.
pub(crate) struct AccountedBody {
    bytes: Vec<u8>,
    room: Option<Share>,
    /// The length that was announced.
    expected: usize,
    max: usize,
    caller: Caller,
}

impl AccountedBody {
    fn new(caller: Caller, expected: usize, max: usize) -> AccountedBody {
        AccountedBody { bytes: Vec::new(), room: None, expected: expected.min(max), max, caller }
    }

    /// Adds bytes. While what is there moves to a larger place, both places are accounted.
    fn push(&mut self, node: &Node, more: &[u8]) -> Result<(), HttpFailure> {
        let length = self.bytes.len().saturating_add(more.len());
        if length > self.max {
            return Err(too_large(self.max));
        }
        if length > self.bytes.capacity() {
            let ahead = if length < AHEAD_BYTES_MAX { AHEAD_BYTES_MAX } else { usize::MAX };
            let announced = self.expected.min(ahead);
            let doubled = self.bytes.capacity().saturating_mul(2).min(self.max);
            let capacity = if announced >= length { announced } else { doubled.max(length) };
            let room = node.body_room(self.caller, capacity)?;
            let mut larger = Vec::with_capacity(capacity);
            larger.extend_from_slice(&self.bytes);
            (self.bytes, self.room) = (larger, Some(room));
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

/// Reads a body whole, of at most `most` bytes if that is less than the node takes. What it holds of the node's memory is held as long as the permit.
pub(crate) async fn read(
    node: &std::sync::Arc<Node>,
    caller: Caller,
    headers: &HeaderMap,
    mut body: Body,
    most: Option<usize>,
) -> Result<(Bytes, Option<Share>), HttpFailure> {
    let max = usize::try_from(node.plan().body_max).unwrap_or(usize::MAX);
    let max = most.map_or(max, |most| most.min(max));
    let coding = coding(headers)?;
    let announced = announced(headers);
    let waits = headers.contains_key(header::EXPECT);
    if waits && announced.is_some_and(|length| length > max) {
        return Err(too_large(max));
    }
    let mut whole = AccountedBody::new(caller, announced.unwrap_or(0), max);
    let mut excess = 0usize;
    let mut paced = node.pace.body();
    while let Some(frame) = paced.wait(body.frame()).await.map_err(too_slow)? {
        let Ok(data) = frame.map_err(unreadable)?.into_data() else { continue };
        paced.add(data.len());
        if excess > 0 || data.len() > max - whole.bytes.len() {
            // Clients read the answer only once they have sent everything: hear some more of them out.
            whole = AccountedBody::new(caller, 0, max);
            excess = excess.saturating_add(data.len());
            if excess > max {
                break;
            }
            continue;
        }
        whole.push(node, &data)?;
    }
    if excess > 0 {
        return Err(too_large(max));
    }
    let Some(coding) = coding else { return Ok((whole.bytes.into(), whole.room)) };
    let (bytes, at) = (whole.bytes.len(), std::sync::Arc::clone(node));
    let unpacked = node.reading.read(bytes, move |cancellation| unpack(&at, &whole, coding, cancellation));
    let plain = unpacked.await??;
    Ok((plain.bytes.into(), plain.room))
}

/// Reads the first bytes of a body, at most so many, and leaves the rest. Nothing is read of a body that is packed.
pub(crate) async fn read_first(
    node: &Node,
    caller: Caller,
    headers: &HeaderMap,
    body: &mut Body,
    most: usize,
) -> Result<(Bytes, Option<Share>), HttpFailure> {
    if !matches!(coding(headers), Ok(None)) {
        return Ok((Bytes::new(), None));
    }
    let mut first = AccountedBody::new(caller, announced(headers).unwrap_or(0), most);
    let mut paced = node.pace.body();
    while first.bytes.len() < most
        && let Some(frame) = paced.wait(body.frame()).await.map_err(too_slow)?
    {
        let Ok(data) = frame.map_err(unreadable)?.into_data() else { continue };
        paced.add(data.len());
        first.push(node, &data[..data.len().min(most - first.bytes.len())])?;
    }
    Ok((first.bytes.into(), first.room))
}

/// Returns the length of a body that its head says.
fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unreadable(error: axum::Error) -> HttpFailure {
    tracing::debug!(error = error.source(), "a body could not be read");
    INVALID_BODY.failure("the body ended early or is framed wrongly")
}

fn too_slow(slow: TooSlow) -> HttpFailure {
    SLOW_REQUEST.failure(format!("the body: {slow}")).help("send it faster; `body_rate_min` is the bound")
}

fn too_large(max: usize) -> HttpFailure {
    TOO_LARGE.failure(format!("the body has more than {max} bytes")).help("send less, or raise `body_max`")
}

/// Returns how a body is packed, as the header says.
fn coding(headers: &HeaderMap) -> Result<Option<BodyEncoding>, HttpFailure> {
    let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    let coding = match text.to_ascii_lowercase().as_str() {
        "identity" => None,
        "gzip" | "x-gzip" => Some(BodyEncoding::Gzip),
        "deflate" => Some(BodyEncoding::Deflate),
        "zstd" => Some(BodyEncoding::Zstd),
        _ => return Err(not_unpacked(text)),
    };
    if given.next().is_some() { Err(not_unpacked("several")) } else { Ok(coding) }
}

fn not_unpacked(text: &str) -> HttpFailure {
    UNSUPPORTED_TYPE
        .failure(format!("Content-Encoding: `{}` is not unpacked here", shown(text)))
        .help("send one of `gzip`, `deflate`, `zstd`, or the plain body")
}

/// Unpacks a body. Costs what a body as long as the packed one may, beside bringing forth what comes out, and ends where nobody
/// waits for it any more.
fn unpack(
    node: &Node,
    packed: &AccountedBody,
    coding: BodyEncoding,
    cancellation: &Cancellation,
) -> Result<AccountedBody, HttpFailure> {
    let budget = Budget::of_message(packed.bytes.len(), cancellation);
    let ratio = AHEAD_BYTES_MAX.saturating_add(packed.bytes.len().saturating_mul(RATIO_MAX));
    let mut plain = AccountedBody::new(packed.caller, 0, packed.max);
    let mut push = |piece: &[u8]| {
        plain.push(node, piece)?;
        if plain.bytes.len() > ratio {
            return Err(TOO_LARGE
                .failure(format!("the body unpacks to more than {RATIO_MAX} times its length"))
                .help("send it plain"));
        }
        Ok(())
    };
    match coding {
        BodyEncoding::Gzip => {
            let (_, deflated) = gzip_head(&packed.bytes).ok_or_else(damaged)?;
            let (mut sum, mut length) = (crc32fast::Hasher::new(), 0u32);
            let rest = inflated(deflated, DeflateFormat::Raw, &budget, |piece| {
                sum.update(piece);
                length = length.wrapping_add(piece.len() as u32);
                push(piece)
            })?;
            // A second member could hide behind the first.
            let trailer = [sum.finalize().to_le_bytes(), length.to_le_bytes()].concat();
            alone(rest == trailer)?;
        }
        BodyEncoding::Deflate => {
            alone(inflated(&packed.bytes, DeflateFormat::Zlib, &budget, push)?.is_empty())?
        }
        BodyEncoding::Zstd => {
            let push = |piece: &[u8]| push(piece).map_err(BodyRejection::Body);
            zstd_pieces(&packed.bytes, Frames::One, &budget, push).map_err(|refused| match refused {
                BodyRejection::Encoding(DecompressError::TooCostly) => too_costly(),
                BodyRejection::Encoding(_) => damaged().help(ALONE),
                BodyRejection::Body(failure) => failure,
            })?;
        }
    }
    Ok(plain)
}

/// Inflates a stream to its end; answers what follows it.
fn inflated<'p>(
    packed: &'p [u8],
    wrapping: DeflateFormat,
    budget: &Budget,
    mut push: impl FnMut(&[u8]) -> Result<(), HttpFailure>,
) -> Result<&'p [u8], HttpFailure> {
    let mut refused = Ok(());
    let (read, end) = inflate_pieces(packed, wrapping, budget, |piece| {
        budget.grant(piece.len() as u64 * deflate::STEPS_A_BYTE);
        refused = push(piece);
        refused.is_ok()
    });
    refused?;
    match end {
        StreamEnd::Whole => Ok(&packed[read..]),
        StreamEnd::TooCostly => Err(too_costly()),
        StreamEnd::Damaged | StreamEnd::TooLarge => Err(damaged()),
    }
}

fn damaged() -> HttpFailure {
    INVALID_BODY.failure("the body cannot be unpacked as Content-Encoding says")
}

fn too_costly() -> HttpFailure {
    TOO_LARGE.failure("the body costs too much to unpack").help("send it plain")
}

fn alone(is_alone: bool) -> Result<(), HttpFailure> {
    if is_alone { Ok(()) } else { Err(damaged().help(ALONE)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use engine::Engine;
    use plan::{Config, Overrides, Plan};

    use super::*;

    fn node(body_max: &str) -> Node {
        let flags = vec![("server.body_max".to_owned(), body_max.to_owned())];
        let config = Config::from_preset("web", &Overrides { flags, ..Overrides::default() });
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        Node::new(
            std::sync::Arc::new(Engine::ephemeral(plan).unwrap()),
            crate::Clock::of(crate::SystemClock, None),
        )
    }

    /// Checks that what is taken from the node's room is what the body takes of its memory, at each step; `moves` is how
    /// often it moves.
    fn check(announced: usize, length: usize, piece: usize, moves: usize) {
        let node = node("8MiB");
        let (max, all) = (8 << 20, node.room().free());
        let (mut body, mut moved) = (AccountedBody::new(Caller::Known, announced, max), 0);
        let bytes = vec![7; length];
        for piece in bytes.chunks(piece) {
            let before = body.bytes.capacity();
            body.push(&node, piece).unwrap();
            moved += usize::from(body.bytes.capacity() != before);
            assert_eq!(all - node.room().free(), body.bytes.capacity());
            assert!(body.bytes.capacity() <= max);
        }
        assert_eq!((body.bytes == bytes, moved), (true, moves), "{announced} {length} {piece}");
        drop(body);
        assert_eq!(node.room().free(), all);
    }

    #[test]
    fn what_a_body_takes_is_accounted() {
        check(100, 100, 7, 1);
        check(3 << 20, 3 << 20, 10_000, 2);
        // Nobody said how long, or not the truth.
        check(0, 1 << 20, 1 << 16, 5);
        check(10, 1 << 20, 1 << 16, 5);
        // An announcement alone takes no more than a little.
        check(8 << 20, 100, 100, 1);
    }

    /// Blocks that yield nothing are charged, and a body of them is refused.
    #[test]
    fn a_body_that_yields_nothing_is_refused() {
        let node = node("1MiB");
        let empty = b"\x02\x08\x20\x80\0".repeat(100_000);
        let gzip = [b"\x1f\x8b\x08\0\0\0\0\0\0\x03".as_slice(), &empty].concat();
        let zlib = [b"\x78\x9c".as_slice(), &empty].concat();
        let zstd = [b"\x28\xb5\x2f\xfd\0\0".as_slice(), &[0; 900_000]].concat();
        for (bytes, coding) in
            [(gzip, BodyEncoding::Gzip), (zlib, BodyEncoding::Deflate), (zstd, BodyEncoding::Zstd)]
        {
            let packed = AccountedBody { bytes, ..AccountedBody::new(Caller::Known, 0, 1 << 20) };
            let refused = unpack(&node, &packed, coding, &Cancellation::default()).err().unwrap();
            assert!(format!("{refused:?}").contains("costs too much"), "{coding:?}: {refused:?}");
        }
    }

    /// However much a body may have, a short one costs no more than a short one; and who packs well is not refused for it.
    #[test]
    fn costs_go_by_what_came_in() {
        let node = node("32MiB");
        let unpack = |bytes, coding| {
            let packed = AccountedBody { bytes, ..AccountedBody::new(Caller::Known, 0, 32 << 20) };
            unpack(&node, &packed, coding, &Cancellation::default())
        };
        let zlib = [b"\x78\x9c".as_slice(), &b"\x02\x08\x20\x80\0".repeat(20_000)].concat();
        let zstd = [b"\x28\xb5\x2f\xfd\0\0".as_slice(), &[0; 150_000]].concat();
        for (bytes, coding) in [(zlib, BodyEncoding::Deflate), (zstd, BodyEncoding::Zstd)] {
            let refused = unpack(bytes, coding).err().unwrap();
            assert!(format!("{refused:?}").contains("costs too much"), "{coding:?}: {refused:?}");
        }
        let lines = (0..14_000u64).map(|line| format!("{:02048x}", line.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let plain = lines.collect::<String>().into_bytes();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&plain).unwrap();
        let zlib = encoder.finish().unwrap();
        assert!(zlib.len() < plain.len() / 60, "{}", zlib.len());
        assert!(unpack(zlib, BodyEncoding::Deflate).is_ok_and(|unpacked| unpacked.bytes == plain));
    }

    /// While a body moves to a larger place, both places are there: whoever cannot have both is told.
    #[test]
    fn a_body_that_finds_no_room_gives_up_what_it_has() {
        let node = node("1MiB");
        let all = node.room().free();
        let held = [6 << 20, 1 << 20].map(|bytes| node.body_room(Caller::Known, bytes).unwrap());
        assert_eq!(node.room().free(), all - (7 << 20));
        let mut body = AccountedBody::new(Caller::Known, 0, 1 << 20);
        body.push(&node, &vec![0; 600 << 10]).unwrap();
        assert!(body.push(&node, &vec![0; 100 << 10]).is_err());
        drop(body);
        assert_eq!(node.room().free(), 1 << 20);
        drop(held);
    }
}

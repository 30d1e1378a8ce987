//! PDF documents (ISO 32000-1): actions, scripts, files and links in them, by the names of dictionaries.
//!
//! Nothing is resolved: names are looked for wherever they can stand, outside streams and in streams that hold
//! objects, which are inflated within the budget. Pictures are handed on as they are packed, by what the dictionary before
//! them says.

use memchr::{memchr, memmem};

use super::image_reader::PdfImage;
use crate::budget::Budget;
use crate::deflate::{DeflateFormat, inflate};

/// The findings about a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PdfFindings {
    pub(super) script: bool,
    /// The document has an action for its opening, or for a page's.
    pub(super) action: bool,
    /// A program or another document is started.
    pub(super) launch: bool,
    pub(super) is_encrypted: bool,
    /// Files are attached, or media run.
    pub(super) embeds: bool,
}

/// Most bytes of a document that are looked over.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest target of a link.
const LINK_BYTES_MAX: usize = 1_024;
/// Most bytes that all object streams of a document are inflated to.
const OBJECTS_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Steps of a byte that is looked over: each may begin a name.
const STEPS_A_BYTE: u64 = 10;
/// Steps of a stream that is passed by.
const STREAM_STEPS: u64 = 200;
/// Steps of the dictionary of a picture.
const IMAGE_STEPS: u64 = 1_000;

/// Looks over a document; targets of links are given to `link`, pictures to `image`. `inflatable` is how many bytes may come out of streams.
pub(super) fn read(
    content: &[u8],
    inflatable: &mut usize,
    budget: &Budget,
    mut link: impl FnMut(&str),
    mut image: impl FnMut(PdfImage, &[u8]),
) -> PdfFindings {
    let mut found = PdfFindings::default();
    let mut left = OBJECTS_BYTES_MAX.min(*inflatable);
    let mut rest = budget.cut_bytes(&content[..content.len().min(DOCUMENT_BYTES_MAX)], STEPS_A_BYTE);
    while !rest.is_empty() && budget.spend(STREAM_STEPS) {
        let end = memmem::find(rest, b"stream").unwrap_or(rest.len());
        let outside = &rest[..end];
        names(outside, &mut found, &mut link);
        let Some(stream) = rest.get(end + b"stream".len()..) else { break };
        let length = memmem::find(stream, b"endstream").unwrap_or(stream.len());
        // The dictionary before a stream says what it is; a kilobyte is more than any has before it.
        let dictionary = &outside[outside.len().saturating_sub(1_024)..];
        if left > 0 && memmem::find(dictionary, b"/ObjStm").is_some() {
            let data = stream[..length].trim_ascii_start();
            let objects = inflate(data, DeflateFormat::Zlib, left, budget).bytes;
            left -= objects.len();
            *inflatable = inflatable.saturating_sub(objects.len());
            names(budget.cut_bytes(&objects, STEPS_A_BYTE), &mut found, &mut link);
        } else if memmem::find(dictionary, b"/Image").is_some() && budget.spend(IMAGE_STEPS) {
            let data = stream[..length].strip_prefix(b"\r").unwrap_or(&stream[..length]);
            image(image_of(dictionary), data.strip_prefix(b"\n").unwrap_or(data));
        }
        rest = stream.get(length + b"endstream".len()..).unwrap_or_default();
    }
    found
}

/// Reads what the last dictionary of a piece says of a picture.
fn image_of(piece: &[u8]) -> PdfImage {
    let dictionary = &piece[memmem::rfind(piece, b" obj").unwrap_or(0)..];
    let number = |name: &[u8]| {
        let behind = dictionary[memmem::find(dictionary, name)? + name.len()..].trim_ascii_start();
        let digits = behind.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&behind[..digits]).ok()?.parse::<usize>().ok()
    };
    let has = |name: &[u8]| memmem::find(dictionary, name).is_some();
    PdfImage {
        width: number(b"/Width").unwrap_or(0),
        height: number(b"/Height").unwrap_or(0),
        depth: number(b"/BitsPerComponent").unwrap_or(1),
        is_filtered: number(b"/Predictor").is_some_and(|predictor| predictor >= 10),
        is_deflated: has(b"/FlateDecode"),
        is_jpeg: has(b"/DCTDecode"),
    }
}

/// Looks at each name in a piece of a document.
fn names(piece: &[u8], found: &mut PdfFindings, link: &mut impl FnMut(&str)) {
    const NAME_BYTES_MAX: usize = 32;
    let mut rest = piece;
    while let Some(at) = memchr(b'/', rest) {
        rest = &rest[at + 1..];
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'#' | b'_' | b'-' | b'.');
        let length = rest.iter().take(3 * NAME_BYTES_MAX).take_while(|byte| is_name(byte)).count();
        let mut buffer = [0; NAME_BYTES_MAX];
        match plain(&rest[..length], &mut buffer) {
            b"JavaScript" | b"JS" => found.script = true,
            b"OpenAction" | b"AA" => found.action = true,
            b"Launch" | b"GoToR" | b"GoToE" | b"SubmitForm" | b"ImportData" => found.launch = true,
            b"Encrypt" => found.is_encrypted = true,
            b"EmbeddedFile" | b"EmbeddedFiles" | b"RichMedia" | b"XFA" => found.embeds = true,
            b"URI" => {
                if let Some(text) = rest[length..].trim_ascii_start().strip_prefix(b"(") {
                    let text = &text[..memchr(b')', &text[..text.len().min(LINK_BYTES_MAX)]).unwrap_or(0)];
                    link(&String::from_utf8_lossy(text));
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
}

/// A name with its escapes (`#61` for `a`) undone.
fn plain<'b>(name: &[u8], buffer: &'b mut [u8; 32]) -> &'b [u8] {
    let mut length = 0;
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first()
        && length < buffer.len()
    {
        rest = after;
        buffer[length] = byte;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        if let (b'#', [a, b, after @ ..]) = (byte, after)
            && let (Some(a), Some(b)) = (digit(*a), digit(*b))
        {
            buffer[length] = (a * 16 + b) as u8;
            rest = after;
        }
        length += 1;
    }
    &buffer[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &[u8], expected: PdfFindings, links: &[&str]) {
        let mut seen = Vec::new();
        let found =
            read(content, &mut 1_000_000, &Budget::ample(), |link| seen.push(link.to_owned()), |_, _| {});
        assert_eq!((found, seen), (expected, links.iter().map(|link| (*link).to_owned()).collect()));
    }

    #[test]
    fn documents_tell_what_they_do() {
        let none = PdfFindings::default();
        check(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>", none, &[]);
        check(
            b"<</OpenAction 2 0 R>> <</S/JavaScript/JS(x)>>",
            PdfFindings { action: true, script: true, ..none },
            &[],
        );
        check(b"<</S /J#61vaScript>>", PdfFindings { script: true, ..none }, &[]);
        check(b"<</S /URI /URI (http://e.example/)>>", none, &["http://e.example/"]);
        check(
            b"<<>>stream\n/JS /Launch\nendstream /Encrypt",
            PdfFindings { is_encrypted: true, ..none },
            &[],
        );
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, b"<</S/Launch>>").unwrap();
        let packed = encoder.finish().unwrap();
        let document = [b"<</Type/ObjStm>>stream\r\n".as_slice(), &packed, b"\nendstream"].concat();
        check(&document, PdfFindings { launch: true, ..none }, &[]);
    }

    #[test]
    fn pictures_are_handed_on() {
        let document = b"1 0 obj<</Width 9>>endobj 2 0 obj\n<</Type/XObject/Subtype/Image/Width 30/Height 20\
            /BitsPerComponent 8/ColorSpace 5 0 R/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 30>>\
            /Length 4>>stream\r\n\rabc\nendstream endobj 3 0 obj<</Subtype /Image /Width 7 /Height 8\
            /ImageMask true /Filter [/DCTDecode]>> stream\nxyz\nendstream 4 0 obj<<>>stream\nendstream";
        let mut seen = Vec::new();
        let image = |image: PdfImage, data: &[u8]| seen.push((image, data.to_vec()));
        read(document, &mut 1_000_000, &Budget::ample(), |_| {}, image);
        let deflated = PdfImage {
            width: 30,
            height: 20,
            depth: 8,
            is_filtered: true,
            is_deflated: true,
            is_jpeg: false,
        };
        let jpeg = PdfImage { width: 7, height: 8, depth: 1, is_jpeg: true, ..PdfImage::default() };
        assert_eq!(seen, [(deflated, b"\rabc\n".to_vec()), (jpeg, b"xyz\n".to_vec())]);
    }
}

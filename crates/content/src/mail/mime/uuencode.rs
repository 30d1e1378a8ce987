//! Files that stand uuencoded in the text (POSIX `uuencode`), as mail had them before MIME and spam has them still.

use memchr::memmem;

/// Most files that are taken out of one text.
const FILES_MAX: usize = 100;

/// A file and the lines of the text that it takes up.
struct UuencodedFile<'t> {
    name: &'t [u8],
    /// The line of its `begin`, and the line behind its `end`.
    lines: (usize, usize),
    content: Vec<u8>,
}

/// The files of a text, and the text without them.
pub(super) struct ExtractedFiles {
    /// Names and contents.
    pub(super) files: Vec<(String, Vec<u8>)>,
    pub(super) text: Vec<u8>,
}

/// Takes the files out of a text. `None` when there are none.
pub(super) fn take_out(text: &[u8]) -> Option<ExtractedFiles> {
    let mut files = Vec::new();
    let mut rest_of_text = Vec::new();
    let mut at = 0;
    for start in memmem::find_iter(text, b"begin ") {
        if files.len() == FILES_MAX {
            break;
        }
        if start < at || start > 0 && text[start - 1] != b'\n' {
            continue;
        }
        let Some(found) = read(text, start) else { continue };
        rest_of_text.extend_from_slice(&text[at..found.lines.0]);
        at = found.lines.1;
        files.push((String::from_utf8_lossy(found.name).into_owned(), found.content));
    }
    if files.is_empty() {
        return None;
    }
    rest_of_text.extend_from_slice(&text[at..]);
    Some(ExtractedFiles { files, text: rest_of_text })
}

/// The content of the first file in a text that is said to be uuencoded; the text itself if there is none.
pub(super) fn first(text: &[u8]) -> Vec<u8> {
    let mut starts = memmem::find_iter(text, b"begin ").filter(|&at| at == 0 || text[at - 1] == b'\n');
    let found = starts.next().and_then(|start| read(text, start));
    found.map_or_else(|| text.to_vec(), |found| found.content)
}

/// Reads `begin MODE NAME`, lines, and perhaps `end`. The first line must be one of data, or the word stood in
/// prose.
fn read(text: &[u8], start: usize) -> Option<UuencodedFile<'_>> {
    let mut lines = text[start..].split_inclusive(|&byte| byte == b'\n');
    let head = lines.next()?;
    let mode_and_name = head.strip_prefix(b"begin ")?.trim_ascii();
    let space = mode_and_name.iter().position(|&byte| byte == b' ')?;
    let (mode, name) = mode_and_name.split_at(space);
    if !(3..=4).contains(&mode.len()) || !mode.iter().all(|byte| (b'0'..=b'7').contains(byte)) {
        return None;
    }
    let mut end = start + head.len();
    let mut content = Vec::new();
    for (number, line) in lines.enumerate() {
        let data = line.trim_ascii_end();
        if data == b"end" {
            end += line.len();
            break;
        }
        match (decode_line(data, &mut content), number) {
            (true, _) => end += line.len(),
            (false, 0) => return None,
            (false, _) => break,
        }
    }
    Some(UuencodedFile { name: name.trim_ascii(), lines: (start, end), content })
}

/// Decodes a line; false if it is none. The first character says how many bytes it holds; blanks at its end may
/// have been lost on the way.
fn decode_line(line: &[u8], content: &mut Vec<u8>) -> bool {
    let Some((&first, digits)) = line.split_first() else { return false };
    if !(b' '..=b'`').contains(&first) || !digits.iter().all(|byte| (b' '..=b'`').contains(byte)) {
        return false;
    }
    let length = usize::from((first - b' ') & 63);
    // Lines of up to two checksum characters more than needed are seen.
    if digits.len() > length.div_ceil(3) * 4 + 2 {
        return false;
    }
    let mut left = length;
    for group in digits.chunks(4) {
        let bits = (0..4)
            .fold(0u32, |bits, i| bits << 6 | u32::from(group.get(i).map_or(0, |digit| (digit - b' ') & 63)));
        let bytes = left.min(3);
        content.extend_from_slice(&bits.to_be_bytes()[1..=bytes]);
        left -= bytes;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_out_of_text() {
        let text = b"Hi,\nbegin 644 cat.txt\n#0V%T\n`\nend\nbye\nbegin the beguine\n";
        let ExtractedFiles { files, text: rest } = take_out(text).unwrap();
        assert_eq!(files, [("cat.txt".to_owned(), b"Cat".to_vec())]);
        assert_eq!(rest, b"Hi,\nbye\nbegin the beguine\n");
        assert_eq!(first(text), b"Cat");
        for prose in
            ["begin 644 \n", "to begin 644 x\n#0V%T\n", "begin 999 x\n", "begin 644 x\nlower case\n", ""]
        {
            assert!(take_out(prose.as_bytes()).is_none(), "{prose:?}");
        }
    }

    #[test]
    fn what_is_cut_short_is_read() {
        let ExtractedFiles { files, text: rest } = take_out(b"begin 600 a\n#0V%T\nand so on\n").unwrap();
        assert_eq!((files[0].1.as_slice(), rest.as_slice()), (b"Cat".as_slice(), b"and so on\n".as_slice()));
    }
}

//! Messages that are made to cost their reader as much as can be: families of them, to measure with and to search in.
//!
//! A family repeats a unit within something that a reader opens. The units that are listed are the worst that are known; a
//! search makes others out of them. Nothing here is used when mail is read.

/// A family of messages.
#[derive(Clone, Copy, Debug)]
pub struct WorstCaseFamily {
    /// The reader that it is for.
    pub name: &'static str,
    /// Units that cost much.
    pub units: &'static [&'static [u8]],
    frame: FamilyFrame,
}

/// The frame around the units of a family.
#[derive(Clone, Copy, Debug)]
enum FamilyFrame {
    /// In the header, each of them whole fields.
    Fields,
    /// In fields of a name, each as long as fields are read.
    Field(&'static str),
    /// The units are the body, behind these fields.
    Body(&'static str),
    /// The units are the body of a page, behind this.
    Page(&'static str),
    /// The units are an attached file of a name, behind these bytes.
    File(&'static str, &'static [u8]),
    /// The units are the pixels of an attached grey picture of 512 pixels a row.
    Picture,
    /// The units are the content that 500 entries of a ZIP archive share, deflated.
    Shared,
    /// The units are the pages of a message in this encoding, nested eight times.
    Nested,
}

const PLAIN: &str = "Content-Type: text/plain; charset=utf-8\n\n";
const QUOTED: &str = "Content-Transfer-Encoding: quoted-printable\n\n";
const BASE64: &str = "Content-Transfer-Encoding: base64\n\n";
const MIXED: &str = "Content-Type: multipart/mixed; boundary=b\n\n";
const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// A picture of 512 by 512 pixels, up to its packed rows.
const PNG_ROWS: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\0\0\0\x02\0\x08\0\0\0\0\0\0\0\0\x7f\xff\xff\xffIDAT\x78\x01";
/// A progressive picture of 512 by 512 pixels, up to its first scan.
const JPEG: &[u8] = b"\xff\xd8\xff\xdb\0\x43\0\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \xff\xc2\0\x0b\x08\x02\0\x02\0\x01\x01\x11\0\
    \xff\xc4\0\x15\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \xff\xc4\0\x15\x10\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
const TAR: &[u8] = b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    0000644\x000000000\x000000000\x0000000000000\x0000000000000\x00000000\x000\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    ustar";

const fn family(name: &'static str, frame: FamilyFrame, units: &'static [&'static [u8]]) -> WorstCaseFamily {
    WorstCaseFamily { name, units, frame }
}

/// All families.
pub const FAMILIES: &[WorstCaseFamily] = &[
    family(
        "header fields",
        FamilyFrame::Fields,
        &[
            b"a:\n",
            b"X-A: b\r\n",
            b"X-A: a\r\n b\r\n",
            b"Received: from a.example (b.example [192.0.2.1]) by c.example (Postfix) with ESMTP id 1 for <a@b.example>; Sun, 22 Nov 2026 10:00:00 +0000\r\n",
            b"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=s; h=from; bh=AAAA; b=AAAA\r\n",
            b"Authentication-Results: mx.example.net; spf=pass smtp.mailfrom=a@b.example; dkim=pass header.d=a.example\r\n",
            b"From a\n",
            b"Content-Type: message/rfc822\n\n",
            b"Content-Type: multipart/mixed; boundary=b\n\n--b\n",
        ],
    ),
    family(
        "subject",
        FamilyFrame::Field("Subject"),
        &[b"=?utf-8?q?a?= ", b"=?a?q?x", b"=?utf-8?b?4Zie?=", b"=?", b"?=", b"a\n ", "\u{fdfa}".as_bytes(), b"=?utf-7?q?+?="],
    ),
    family(
        "addresses",
        FamilyFrame::Field("To"),
        &[b"a@b.example, ", b"=?utf-8?q?a?= <a@b.example>, ", b"a:", b"(", b"\"", b"<", b"a:b;", b",", b"(a) <a@b>", b"\\"],
    ),
    family("received", FamilyFrame::Field("Received"), &[b"from ", b"(", b"[", b"by a ", b";", b"from a by b; ", b"a@"]),
    family(
        "media types",
        FamilyFrame::Field("Content-Type"),
        &[b"; name*1*=a", b"; a*0*=b", b"; filename=\"", b"(", b"; name=a b=", b"\\\"", b"; name=\"\\", b"; a=b\n "],
    ),
    family(
        "parts",
        FamilyFrame::Body(MIXED),
        &[
            b"--b\n\n\n",
            b"--b\nContent-Type: application/x; name=a.b\nContent-Transfer-Encoding: base64\n\nAAAA\n",
            b"--b\nContent-Type: multipart/mixed; boundary=x\n\n",
            b"--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nCgo=\n",
            b"--b\nContent-Type: text/html\n\n<a href=//x>\n",
            b"--c\n",
            b"--b--\n",
            b"--b\nContent-Type: message/rfc822\n\n",
            b"--b\nContent-Type: multipart/digest; boundary=b\n\n",
        ],
    ),
    family("messages in messages", FamilyFrame::Nested, &[b"hi ", b"begin 644 a\n#0V%T\nend\n", b"<div>"]),
    family(
        "quoted-printable",
        FamilyFrame::Body(QUOTED),
        &[b"=", b" ", b"= ", b"=\n", b"                                                                      \r\n", b"=20\n", b"\r", b"=C2=A0"],
    ),
    family("base64", FamilyFrame::Body(BASE64), &[b"!", b"A", b"=", b"A=", b"AAAA", b"4Zie", b"77e6"]),
    family(
        "charsets",
        FamilyFrame::Body("Content-Type: text/plain; charset=utf-7\n\n"),
        &[b"+ADw-", b"+", b"+AGE-a", b"+/fo-"],
    ),
    family(
        "wide charsets",
        FamilyFrame::Body("Content-Type: text/plain; charset=utf-16be\n\n"),
        &[b"\xd8\0", b"\0a", b"\xfd\xfa", b"\xfe\xff"],
    ),
    family(
        "shifting charsets",
        FamilyFrame::Body("Content-Type: text/plain; charset=iso-2022-jp\n\n"),
        &[b"\x1b$B\x1b(B", b"\x1b$B", b"!!", b"\x1b"],
    ),
    family("long charsets", FamilyFrame::Body("Content-Type: text/plain; charset=gb18030\n\n"), &[b"\x81\x30\x81\x30", b"\x81", b"\xff"]),
    family("uuencoded files", FamilyFrame::Body(PLAIN), &[b"begin 644 a\n`\n", b"begin 644 a\n#0V%T\nend\n", b"begin 644 a\nzz\n", b"begin "]),
    family(
        "text",
        FamilyFrame::Body(PLAIN),
        &[
            b"a",
            b"\n",
            b"a b ",
            b"a.b.d.",
            b"v1agra ",
            b"a1",
            b"a1b",
            b"the and ",
            b"\xff\xfe\x80",
            "\u{fdfa}".as_bytes(),
            "\u{fdfb}".as_bytes(),
            "\u{3316}".as_bytes(),
            "\u{301}\u{323}".as_bytes(),
            "\u{e38}\u{e48}".as_bytes(),
            "\u{5b0}\u{5b4}\u{5bc}".as_bytes(),
            "\u{1112}\u{1161}\u{11ab}".as_bytes(),
            "\u{d55c}".as_bytes(),
            "\u{430}b".as_bytes(),
            "\u{440}\u{430}yp\u{430}l ".as_bytes(),
            "\u{437}a\u{440}a\u{431}o\u{442} ".as_bytes(),
            "\u{1d400}".as_bytes(),
            "a\u{200b}".as_bytes(),
            "\u{1f468}\u{200d}\u{1f469}".as_bytes(),
            "\u{201c}".as_bytes(),
            "\u{2460}".as_bytes(),
            "\u{967}".as_bytes(),
            "\u{ff11}".as_bytes(),
            "\u{130}\u{1e9e}".as_bytes(),
            "\u{4e00}".as_bytes(),
            "\u{767c} ".as_bytes(),
            "\u{5f00},\u{53d1}\u{7968}".as_bytes(),
            "1\u{489}".as_bytes(),
            "a\u{e38}".as_bytes(),
            "\u{1f170}\u{1d00}".as_bytes(),
            "\u{627}".as_bytes(),
            "\u{e9}".as_bytes(),
        ],
    ),
    family(
        "links in text",
        FamilyFrame::Body(PLAIN),
        &[
            b"a.",
            b":",
            b"a@",
            b"@.",
            b"http://",
            b"www.",
            b"a:www.",
            b"http://example.com/a ",
            b"a.b@c:",
            b"a@b.example ",
            b"README.md ",
            b"http://a.example/?u=http://b.example/?u=http://c.example/ ",
            b"http://a.example/?u=%2525%2525%2525%2525%2525%2525%2525%2525 ",
            b"http://0x7f.1/ ",
            b"//",
            "http://\u{e4}.\u{f6}.\u{fc}.example/ ".as_bytes(),
            "http://\u{430}\u{440}\u{440}le.example/ ".as_bytes(),
            b"http://xn--80ak6aa92e.example/ ",
            b"http://paypal.com@example.net/ ",
            b"http://a/?utm_a=b&utm_c=d ",
        ],
    ),
    family(
        "telephone numbers and wallets",
        FamilyFrame::Body(PLAIN),
        &[
            b"1",
            b"1 ",
            b"1 2 - 3 ",
            b"+1 800 555 1239 ",
            b"one two ",
            b"(",
            b"800 555 1239",
            b"4111 1111 1111 1111 ",
            b"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed ",
            b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb ",
            b"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq ",
            "\u{4e00}".as_bytes(),
            b"0l",
        ],
    ),
    family(
        "what is hidden",
        FamilyFrame::Body(PLAIN),
        &[
            b"(",
            b"a(at)b(dot)c ",
            b"(at)",
            b" dot com",
            b"x dot com ",
            b"hxxp://",
            b"hxxp://a[.]example ",
            b"telegram @abcdef ",
            b"telegram",
            b"telegram:",
            b"telegram id ",
            b"q q 1",
            "\u{52a0}v".as_bytes(),
            "\u{5fae}\u{4fe1}\u{53f7}:ab1 ".as_bytes(),
            b"@abcdef ",
            b"@",
            b"joe at example dot com ",
        ],
    ),
    family(
        "HTML",
        FamilyFrame::Page(""),
        &[
            b"<",
            b"<!--",
            b"<!-- -->a",
            b"<div>",
            b"<div>a",
            b"</p>",
            b"<br>",
            b"<li>",
            b"<p>",
            b"<b a=b c=d>",
            b"<i hidden>b</i>",
            b"<div style=color:#fff>x",
            b"<p style='display:none;color:red;font-size:1px;font:1px a;left:-999px;clip:rect(0,0,0,0)'>x",
            b"<font color=#fff>",
            b"<table><tr><td>",
            b"<td>a</td>",
            b"&amp;",
            b"&CounterClockwiseContourIntegral;",
            b"&aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            b"&#x0000000000000000000041;",
            b"<a href=http://a.example/b>c</a>",
            b"<a href=x>a.b.c.d</a>",
            b"<a href=//x>",
            b"<img src=http://a.example/ width=1 height=1>",
            b"<input type=password>",
            b"<form action=a>",
            b"<script>",
            b"<title>a</title>",
            b"<svg><![CDATA[",
            b"<style>.a{color:red}</style>",
            b"<q w='",
        ],
    ),
    family(
        "HTML deep within",
        FamilyFrame::Page(DEEP),
        &[b"<li>", b"<li></li>", b"<tr>", b"<p>", b"</b>", b"<dd>", b"<option>", b"<i></i>", b"<td></td>"],
    ),
    family(
        "style sheets",
        FamilyFrame::Page(SHEET),
        &[
            b"<p class='a b c d e f g h i j k l m n o p' id=a>",
            b"<p class=a>",
            b"<style>a{}</style>",
            b"<style>.a,.b,.c,.d,.e{color:#fff;left:-999px}</style>",
            b"<style>/**/</style>",
            b"<style>@media{a{}",
        ],
    ),
    family(
        "relative links",
        FamilyFrame::Page(BASE),
        &[b"<a href=b>c</a>", b"<a href=../../../../b>", b"<a href=http://a.example/>", b"<a href=?>", b"<base href=b>"],
    ),
    family(
        "ZIP archives",
        FamilyFrame::File("a.zip", b""),
        &[
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0",
            b"PK\x03\x04\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0a\0\0\0\xff\xff",
            b"PK\x03\x04\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0a\x02\x08\x20\x80\0",
            b"PK\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x04\0\0\0\x05\0\0\0a.exeMZaa",
        ],
    ),
    family(
        "files that lie over each other",
        FamilyFrame::Shared,
        &[b"\0\0\0\xff\xff", b"\x02\x08\x20\x80\0", b"\x04\xc0\x01\0\0\0\0\0\x10"],
    ),
    family("gzip", FamilyFrame::File("a.gz", GZIP), &[b"\0\0\0\xff\xff", b"\x02\x08\x20\x80\0", b"a", b"\0\x01\0\xfe\xffa", b"\x4a\x04\0"]),
    family("tar", FamilyFrame::File("a.tar", TAR), &[TAR, b"\0", b"0"]),
    family(
        "TNEF",
        FamilyFrame::File("winmail.dat", b"\x78\x9f\x3e\x22\x01\0"),
        &[
            b"\x02\x02\x90\x06\0\0\0\0\0\0\0",
            b"\x02\x05\x90\x06\0\0\0\0\0\0\0",
            b"\x02\x02\x90\x06\0\0\0\0\0\0\0\x02\x0f\x80\x06\0\x02\0\0\0hi\0\0",
        ],
    ),
    family(
        "PDF",
        FamilyFrame::File("a.pdf", b"%PDF-1.4\n"),
        &[
            b"/",
            b"/URI (http://a.example/)",
            b"/ObjStm stream endstream ",
            b"stream",
            b"/ObjStm stream\n\x78\x9c\0\0\0\xff\xff endstream ",
            b"/#4a#61#76#61",
            b"/URI(",
        ],
    ),
    family(
        "PDF streams",
        FamilyFrame::File("a.pdf", b"%PDF-1.4\n/ObjStm stream\n\x78\x9c"),
        &[b"\0\0\0\xff\xff", b"\x02\x08\x20\x80\0"],
    ),
    family(
        "compound files",
        FamilyFrame::File("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        &[
            b"V\0B\0A\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"AutoOpe",
            b"\x04\0\x01",
        ],
    ),
    family("rich text", FamilyFrame::File("a.rtf", b"{\\rtf1"), &[b"\\objdat", b"\\*\\template htt", b"{", b"\\"]),
    family(
        "calendars",
        FamilyFrame::File("a.ics", b"BEGIN:VCALENDAR\n"),
        &[
            b"ORGANIZER:mailto:a@b.example\r\nURL:http://a.example/\r\n",
            b"\n ",
            b":\n",
            b"a:www.",
            b"URL:http://a.example/?\\n\\,\n",
            b"METHOD:a\n",
        ],
    ),
    family(
        "attached pages",
        FamilyFrame::File("a.html", b"<html>"),
        &[b"<a href=http://a.example/b>", b"<li>", b"<", b"atob", b"<style>a{}</style>"],
    ),
    family(
        "JPEG images",
        FamilyFrame::File("a.jpg", b"\xff\xd8\xff\xe0\0\x02"),
        &[
            b"\xff\xe1\0\x02",
            b"\xff",
            b"\xff\xc0\0\0",
            b"\xff\xc4\0\x14\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\xff\xda",
        ],
    ),
    family(
        "JPEG scans",
        FamilyFrame::File("a.jpg", JPEG),
        &[
            b"\xff\xda\0\x08\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0\0\0",
            b"\0",
            b"\x55\xaa",
            b"\xff\0",
        ],
    ),
    family("PNG images", FamilyFrame::File("a.png", PNG), &[b"\0\0\0\0IDAT\0\0\0\0", b"\0\0\0\0IHDR\0\0\0\0", b"\0"]),
    family("PNG rows", FamilyFrame::File("a.png", PNG_ROWS), &[b"\0\0\0\xff\xff", b"\x02\x08\x20\x80\0", b"\x4a\x04\0", b"a"]),
    family(
        "GIF images",
        FamilyFrame::File("a.gif", b"GIF89a\0\x02\0\x02\0\0\0,\0\0\0\0\0\x02\0\x02\0\x08"),
        &[b"\x09\0\x01\x02\x04\x08\x10\x20\x40\x80", b"\x01\0", b"\x08abcdefgh", b"!\xff\0", b","],
    ),
    family(
        "QR codes",
        FamilyFrame::Picture,
        &[
            b"\0\xff\0\0\0\xff\0\xff\xff",
            b"\0\xff\0\0\0\xff\0\xff",
            b"\0\xff",
            b"\0\0\xff\xff\0\0\0\0\0\0\xff\xff\0\0\xff\xff",
            b"\x12\xfe\x37\x9a\x05\xc1\x66\xe8\x90\x2b\x71",
            b"\0",
        ],
    ),
    family(
        "pictures in PDFs",
        FamilyFrame::File("a.pdf", b"%PDF-1.4\n<</Subtype/Image/Width 512/Height 8000/BitsPerComponent 8>>stream\n"),
        &[b"\0\xff\0\0\0\xff\0\xff\xff", b"/Image/Width 9/Height 9 stream endstream "],
    ),
    family("programs", FamilyFrame::File("a.exe", b"MZ"), &[b"\0", b"a", b"\x81\x3b"]),
    family("scripts", FamilyFrame::File("a.js", b""), &[b"wscript", b"a", b" "]),
];

/// The most open elements that are known, none of which a list item closes.
const DEEP: &str = "<b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b>\
    <b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b>\
    <b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b><b>";
const SHEET: &str =
    "<style>.a{color:red}.b{left:1px}p.c{top:1px}#a{color:#fff}p{color:blue}.d{}.e{}.f{}.g{}.h{}</style>";
const BASE: &str = "<base href='http://a.example/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/\
    x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/'>";
const HEAD: &str = "From: a@b.example\nTo: c@d.example\nSubject: costly\nDate: Sun, 17 May 2026 10:00:00 +0000\nMIME-Version: 1.0\n";
/// Bytes of a field that are read.
const FIELD_BYTES: usize = crate::mail::mime::FIELD_BYTES_MAX;
/// Entries of an archive that share their data.
const ENTRIES: usize = 500;

impl WorstCaseFamily {
    /// Returns a message of about so many bytes that repeats a unit.
    pub fn message(&self, unit: &[u8], bytes: usize) -> Vec<u8> {
        let repeated = |bytes: usize| unit.repeat((bytes / unit.len().max(1)).max(1));
        let of_text = |head: &str| [HEAD.as_bytes(), head.as_bytes(), &repeated(bytes)].concat();
        match self.frame {
            FamilyFrame::Fields => [HEAD.as_bytes(), &repeated(bytes), b"\nhi\n"].concat(),
            FamilyFrame::Field(name) => {
                let field = [name.as_bytes(), b": ", &repeated(FIELD_BYTES), b"\n"].concat();
                let fields = field.repeat((bytes / field.len()).max(1));
                [&fields, HEAD.as_bytes(), b"\nhi\n"].concat()
            }
            FamilyFrame::Body(head) => of_text(head),
            FamilyFrame::Page(start) => {
                of_text(&format!("Content-Type: text/html; charset=utf-8\n\n{start}"))
            }
            // Binary, so that the reader gets the most for each byte.
            FamilyFrame::File(name, start) => file(name, &[start, &repeated(bytes)].concat()),
            FamilyFrame::Picture => file("a.png", &picture(&repeated(bytes))),
            FamilyFrame::Shared => file("a.zip", &shared(&repeated(bytes))),
            FamilyFrame::Nested => {
                let mut inner = [b"Content-Type: text/html\n\n".as_slice(), &repeated(bytes)].concat();
                for _ in 0..8 {
                    inner = [
                        b"Content-Type: message/rfc822\nContent-Transfer-Encoding: binary\n\n".as_slice(),
                        &inner,
                    ]
                    .concat();
                }
                [HEAD.as_bytes(), &inner].concat()
            }
        }
    }
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    let head = format!(
        "{HEAD}Content-Type: application/octet-stream; name={name}\nContent-Disposition: attachment\n\n"
    );
    [head.as_bytes(), content].concat()
}

/// An archive each of whose entries is the same deflated file.
fn shared(data: &[u8]) -> Vec<u8> {
    let size = u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes();
    let sizes = [[0; 4], size, size].concat();
    let local =
        [b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, &[1, 0, 0, 0], b"a", data].concat();
    let entry =
        [b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0".as_slice(), &sizes, &[1, 0, 0, 0], &[0; 14], b"a"];
    let directory = entry.concat().repeat(ENTRIES);
    let count = u16::try_from(ENTRIES).unwrap_or(u16::MAX).to_le_bytes();
    let length = |of: usize| u32::try_from(of).unwrap_or(u32::MAX).to_le_bytes();
    let end = [
        b"PK\x05\x06\0\0\0\0".as_slice(),
        &count,
        &count,
        &length(directory.len()),
        &length(local.len()),
        &[0, 0],
    ];
    [local, directory, end.concat()].concat()
}

/// A PNG file of grey pixels, each row a block that is not packed.
fn picture(pixels: &[u8]) -> Vec<u8> {
    const WIDTH: usize = 512;
    let height = (pixels.len() / WIDTH).max(1);
    let length = |of: usize| u32::try_from(of).unwrap_or(u32::MAX).to_be_bytes();
    let chunk = |kind: &[u8], data: &[u8]| [&length(data.len()), kind, data, &[0; 4]].concat();
    let header = [&length(WIDTH)[..], &length(height), &[8, 0, 0, 0, 0]].concat();
    let row = |row: &[u8]| [b"\0\x01\x02\xfe\xfd\0".as_slice(), row].concat();
    let rows = pixels.chunks_exact(WIDTH).flat_map(row);
    let packed: Vec<u8> = [0x78, 0x01].into_iter().chain(rows).chain(*b"\x01\0\0\xff\xff").collect();
    [PNG, &chunk(b"IHDR", &header), &chunk(b"IDAT", &packed)].concat()
}

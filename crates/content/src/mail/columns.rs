//! The facts of messages, and bounds of what they hold.

use event::{Column, ColumnError, SchemaBuilder};

use crate::field::{ContentKind, TEXTS, TextColumns};

/// Most bytes of a message that are looked at.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

event::columns! {
    /// The columns of what is known of a message before its content is looked at.
    pub struct EnvelopeColumns {
        client_ip: Ip "client.ip" "Address of the client that handed the message over",
        client_net: String "client.net" "Network of the client's address in CIDR notation",
        helo: String "client.helo" "Name by which the client introduced itself",
        user: String "client.user" "Name under which the client was authenticated",
        sender: String "mail.sender" "Envelope sender, `<>` for the null sender of bounces",
        sender_domain: String "mail.sender_domain" "Domain of the envelope sender",
        recipients: List "mail.recipients" "Envelope recipients",
    }
}

event::columns! {
    /// The columns of what a message's header and body say.
    pub struct MailColumns {
        from: String "mail.from" "First address of the From field",
        from_domain: String "mail.from_domain" "Domain of the From address",
        display_name: String "mail.display_name" "Name shown beside the From address",
        claimed_names: List "mail.claimed_names" "Words in the shown name, deobfuscated, and two or three in a row joined, but for those in From's registrable domain: `wells`, `fargo`, `wellsfargo`",
        page_names: List "mail.page_names" "Such words in a page's title, in the text for its first image and behind `©`, but for those in From's registrable domain or in that of a link",
        reply_to: String "mail.reply_to" "First address of the Reply-To field",
        reply_to_domain: String "mail.reply_to_domain" "Domain of the Reply-To address",
        to_count: Integer "mail.to_count" "Number of addresses in To and Cc",
        refers: Bool "mail.refers" "Whether a field refers to another message",
        thread: String "mail.thread" "Identifier of the first message of its thread: of References, else In-Reply-To, else its own",
        quotes: Bool "mail.quotes" "Whether it quotes another message",
        subject: String "mail.subject" "Subject, decoded",
        date: Time "mail.date" "Time in the Date field",
        message_id_host: String "mail.message_id_host" "Host in the Message-ID",
        mailer: String "mail.mailer" "Program named in X-Mailer or User-Agent, each run of digits written as 0",
        list_id: String "mail.list_id" "Identifier in the List-Id field",
        dkim_domains: List "mail.dkim_domains" "Domains that DKIM signatures name, not verified",
        header_order: String "mail.header_order" "Names of the header fields in order, repeats folded",
        shapes: List "mail.shapes" "Shapes of identifiers, dates, addresses and boundaries in well-known header fields",
        other_fields: String "mail.other_fields" "Header fields that few programs write, `name: value` a line, lower case; none that delivery, filters or lists add",
        relays: List "mail.relays" "Names, networks and programs of the servers before the client",
        header_start: String "mail.header_start" "Beginning of the header as it stands, behind the client, without fields that delivery, filters and mailboxes here have added: journalled, so that a classifier can learn it later",
        header_count: Integer "mail.header_count" "Number of header fields",
        received_count: Integer "mail.received_count" "Number of Received fields",
        has_subject: Bool "mail.has_subject" "Whether there is a Subject that is not empty",
        has_date: Bool "mail.has_date" "Whether there is a Date that can be read",
        has_message_id: Bool "mail.has_message_id" "Whether there is a Message-ID",
        has_list_headers: Bool "mail.has_list_headers" "Whether it presents itself as list or bulk mail",
        upper_share: Float "mail.upper_share" "Share of capitals among the cased letters of the subject",
        subject_exclaims: Integer "mail.subject_exclaims" "Number of exclamation marks in the subject",
        reply_without_references: Bool "mail.reply_without_references" "Whether the subject claims a reply but no field refers to another message",
        from_reply_to_differ: Bool "mail.from_reply_to_differ" "Whether From and Reply-To are of different registrable domains",
        from_sender_differ: Bool "mail.from_sender_differ" "Whether From and envelope sender are of different registrable domains",
        display_name_address_differ: Bool "mail.display_name_address_differ" "Whether the shown name contains an address or host of another registrable domain than From",
        recipients_in_to: Bool "mail.recipients_in_to" "Whether an envelope recipient stands in To or Cc",

        size: Integer "mail.size" "Size in bytes",
        parts: Integer "mail.parts" "Number of leaf parts",
        defects: List "mail.defects" "Defects of form, such as `unclosed` or `bad-encoding`",
        defect_count: Integer "mail.defect_count" "Number of kinds of defects of form",
        cut_short: Bool "mail.cut_short" "Whether reading stopped early because it cost too much or took too long: the facts are of what was read",
        source_start: String "mail.source_start" "Beginning of the decoded text parts as they stand, HTML with its elements: journalled, so that a classifier can learn it later",
        charset: String "mail.charset" "Charset of the first text part, lower case",
        has_html: Bool "mail.has_html" "Whether there is an HTML part",
        html_only: Bool "mail.html_only" "Whether there is an HTML part and no plain one",
        base64_text: Bool "mail.base64_text" "Whether a text part of plain ASCII is encoded in base64",

        test_pattern: String "mail.test_pattern" "What a test text asks for: `reject` (GTUBE), `tag` (Rspamd's variants of it)",
        subject_disguised: Bool "mail.subject_disguised" "Whether subject or shown name are obfuscated in one of these ways",
        subject_emoji: Integer "mail.subject_emoji" "Number of emoji in the subject",


        attachment_names: List "mail.attachment_names" "Names of the attachments, lower case",
        attachment_types: List "mail.attachment_types" "Declared media types of the attachments",
        attachment_sums: List "mail.attachment_sums" "SHA-256 of the contents of attachments, and of the files in archives, in hexadecimal",
        attachment_count: Integer "mail.attachment_count" "Number of attachments",
        executable_attachment: Bool "mail.executable_attachment" "Whether an attachment's name ends like a program's",
        double_extension: Bool "mail.double_extension" "Whether an attachment or a file in one looks like a document, such as `a.pdf.exe`",
        attachment_kinds: List "mail.attachment_kinds" "Kinds of attachments and files in them by content, such as `pdf`, `pe`, `zip`, `office`",
        attachment_mismatch: Bool "mail.attachment_mismatch" "Whether a file's content does not match its name or declared type",
        attachment_disguised: Bool "mail.attachment_disguised" "Whether a file's name hides its extension by writing direction or length",
        executable_content: Bool "mail.executable_content" "Whether an attachment or a file in one is a program or script by its content",
        attachment_pieces: List "mail.attachment_pieces" "Near-duplicate fingerprints of attachments: files that are nearly the same share some",
        image_pieces: List "mail.image_pieces" "Size and checksum of attached images without their metadata",
        attachment_links: List "mail.attachment_links" "Normalised URLs in attached pages, documents and invitations",
        attachment_link_domains: List "mail.attachment_link_domains" "Registrable domains of those",
        qr_codes: Integer "mail.qr_codes" "Number of QR codes in images, also in those of PDFs and Office documents",
        qr_links: List "mail.qr_links" "Normalised URLs in QR codes; they are among `mail.links`, too",
        qr_link_domains: List "mail.qr_link_domains" "Registrable domains of those",
        images_unread: Bool "mail.images_unread" "Whether images were not searched for QR codes: too large, too many",
        archive_names: List "mail.archive_names" "Names of the files in attached archives, lower case",
        archive_depth: Integer "mail.archive_depth" "Depth of archives around the innermost file that was read",
        archive_executable: Bool "mail.archive_executable" "Whether a file in an archive is a program by name or content",
        archive_encrypted: Bool "mail.archive_encrypted" "Whether a file in an archive is encrypted",
        archive_bomb: Bool "mail.archive_bomb" "Whether an archive inflates to more than a hundred times its size",
        archive_inconsistent: Bool "mail.archive_inconsistent" "Whether an archive's directory and its files contradict each other",
        archive_unread: Bool "mail.archive_unread" "Whether files in archives were not read: of another format, too deep, too many, too large",
        office_macros: Bool "mail.office_macros" "Whether a document has macros",
        office_auto_macros: Bool "mail.office_auto_macros" "Whether macros run when the document is opened or closed",
        office_encrypted: Bool "mail.office_encrypted" "Whether a document is encrypted",
        office_object: Bool "mail.office_object" "Whether a document contains another program's object or file",
        office_fetches: Bool "mail.office_fetches" "Whether a document fetches a template or object when it is opened",
        pdf_script: Bool "mail.pdf_script" "Whether a PDF has a script",
        pdf_action: Bool "mail.pdf_action" "Whether a PDF does something when it or a page is opened",
        pdf_launch: Bool "mail.pdf_launch" "Whether a PDF starts a program, opens another document or sends a form",
        pdf_encrypted: Bool "mail.pdf_encrypted" "Whether a PDF is encrypted",
        pdf_embeds: Bool "mail.pdf_embeds" "Whether a PDF has files attached, media or XFA forms",
        page_attachment: Bool "mail.page_attachment" "Whether an HTML or SVG page is attached",
        page_attachment_script: Bool "mail.page_attachment_script" "Whether an attached page runs a script or redirects by itself",
        page_attachment_form: Bool "mail.page_attachment_form" "Whether an attached page has a form or asks for a password",
        page_attachment_builds: Bool "mail.page_attachment_builds" "Whether an attached page can build a page or file from its own text",
        page_attachment_posts: Bool "mail.page_attachment_posts" "Whether a form in an attached page is sent to another host",
        page_attachment_leads: Bool "mail.page_attachment_leads" "Whether an attached page goes on to another by itself",
        svg_script: Bool "mail.svg_script" "Whether an attached SVG image runs a script or holds a page",
        calendar_method: String "mail.calendar_method" "What an invitation asks for, such as `request`",
        calendar_organizer: String "mail.calendar_organizer" "Address of the organizer of an invitation",
        calendar_links: List "mail.calendar_links" "Normalised URLs in invitations; they are among `mail.links`, too",
        calendar_link_domains: List "mail.calendar_link_domains" "Registrable domains of those",
    } with {
        body: TextColumns = body_columns, "The columns of what the visible text shows",
    }
}

/// Adds the columns of the visible text: those of any field of HTML, under names of their own.
fn body_columns(builder: &mut SchemaBuilder) -> Result<TextColumns, ColumnError> {
    TextColumns::register(builder, ContentKind::Html, &|column: Column| {
        let name = match column.name.as_str() {
            own @ ("text" | "empty" | "addresses") => format!("mail.body_{own}"),
            own => format!("mail.{own}"),
        };
        let doc = column.doc.replace(TEXTS, "subject, shown name and text");
        Column { name, doc, ..column }
    })
}

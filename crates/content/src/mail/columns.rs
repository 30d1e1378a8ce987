//! The facts of messages, and bounds of what they hold.

use event::{Column, ColumnError, SchemaBuilder};

use crate::field::{ContentKind, TEXTS, TextColumns};

/// Most bytes of a message that are looked at.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

event::columns! {
    /// The columns of what is known of a message before its content is looked at.
    pub struct EnvelopeColumns {
        client_ip: Ip "client.ip" "Client address",
        client_net: String "client.net" "Network of the client's address, in CIDR notation",
        helo: String "client.helo" "HELO name of the client",
        user: String "client.user" "Authenticated user",
        sender: String "mail.sender" "Envelope sender; `<>` for bounces",
        sender_domain: String "mail.sender_domain" "Domain of the envelope sender",
        recipients: List "mail.recipients" "Envelope recipients",
    }
}

event::columns! {
    /// The columns of what a message's header and body say.
    pub struct MailColumns {
        from: String "mail.from" "First address in From",
        from_domain: String "mail.from_domain" "Domain of the From address",
        display_name: String "mail.display_name" "Display name in From",
        claimed_names: List "mail.claimed_names" "Words of the display name, deobfuscated, and two or three in a row \
            joined, without those in From's registrable domain: `wells`, `fargo`, `wellsfargo`",
        page_names: List "mail.page_names" "Such words in a page's title, its first image's text and behind `©`, without \
            those in From's or a link's registrable domain",
        reply_to: String "mail.reply_to" "First address in Reply-To",
        reply_to_domain: String "mail.reply_to_domain" "Domain of the Reply-To address",
        to_count: Integer "mail.to_count" "Addresses in To and Cc",
        refers: Bool "mail.refers" "A field refers to another message",
        thread: String "mail.thread" "Identifier of the thread's first message: from References, else In-Reply-To, else \
            its own",
        quotes: Bool "mail.quotes" "Quotes another message",
        subject: String "mail.subject" "Decoded subject",
        date: Time "mail.date" "Time in Date",
        message_id_host: String "mail.message_id_host" "Host in the Message-ID",
        mailer: String "mail.mailer" "Program in X-Mailer or User-Agent, each run of digits written as 0",
        list_id: String "mail.list_id" "Identifier in List-Id",
        dkim_domains: List "mail.dkim_domains" "Domains that DKIM signatures name, unverified",
        header_order: String "mail.header_order" "Header field names in order, repeats folded",
        shapes: List "mail.shapes" "Shapes of identifiers, dates, addresses and boundaries in well-known header fields",
        other_fields: String "mail.other_fields" "Header fields that few programs write, as lower-case lines `name: \
            value`, without those of delivery, filters and lists",
        relays: List "mail.relays" "Names, networks and programs of the servers before the client",
        header_start: String "mail.header_start" "Beginning of the raw header, behind the client, without fields added by \
            your delivery, filters and mailboxes; journalled for later training of classifiers",
        header_count: Integer "mail.header_count" "Header fields",
        received_count: Integer "mail.received_count" "Received fields",
        has_subject: Bool "mail.has_subject" "Has a Subject that is not empty",
        has_date: Bool "mail.has_date" "Has a readable Date",
        has_message_id: Bool "mail.has_message_id" "Has a Message-ID",
        has_list_headers: Bool "mail.has_list_headers" "Presents itself as list or bulk mail",
        upper_share: Float "mail.upper_share" "Share of capitals among the subject's cased letters",
        subject_exclaims: Integer "mail.subject_exclaims" "Exclamation marks in the subject",
        reply_without_references: Bool "mail.reply_without_references" "The subject claims a reply, but no field refers to \
            another message",
        from_reply_to_differ: Bool "mail.from_reply_to_differ" "From and Reply-To have different registrable domains",
        from_sender_differ: Bool "mail.from_sender_differ" "From and envelope sender have different registrable domains",
        display_name_address_differ: Bool "mail.display_name_address_differ" "The display name has an address or host of \
            another registrable domain than From",
        recipients_in_to: Bool "mail.recipients_in_to" "An envelope recipient is in To or Cc",

        size: Integer "mail.size" "Size in bytes",
        parts: Integer "mail.parts" "Leaf parts",
        defects: List "mail.defects" "Defects of form, such as `unclosed` or `bad-encoding`",
        defect_count: Integer "mail.defect_count" "Kinds of defects of form",
        cut_short: Bool "mail.cut_short" "Reading stopped early because it cost too much or took too long; the facts cover \
            what was read",
        source_start: String "mail.source_start" "Beginning of the decoded text parts, HTML with its elements; journalled \
            for later training of classifiers",
        charset: String "mail.charset" "Charset of the first text part, lower case",
        has_html: Bool "mail.has_html" "Has an HTML part",
        html_only: Bool "mail.html_only" "Has an HTML part and no plain one",
        base64_text: Bool "mail.base64_text" "A text part of plain ASCII is in base64",

        test_pattern: String "mail.test_pattern" "Action that a test text asks for: `reject` (GTUBE), `tag` (Rspamd's \
            variants of it)",
        subject_obfuscated: Bool "mail.subject_obfuscated" "Subject or display name are obfuscated",
        subject_emoji: Integer "mail.subject_emoji" "Emoji in the subject",


        attachment_names: List "mail.attachment_names" "Attachment names, lower case",
        attachment_types: List "mail.attachment_types" "Declared media types of attachments",
        attachment_sums: List "mail.attachment_sums" "SHA-256 of attachments and of files in archives, in hexadecimal",
        attachment_count: Integer "mail.attachment_count" "Attachments",
        executable_attachment: Bool "mail.executable_attachment" "An attachment is named like a program",
        double_extension: Bool "mail.double_extension" "An attachment or a file in one poses as a document by a double \
            extension, such as `a.pdf.exe`",
        attachment_kinds: List "mail.attachment_kinds" "Kinds of attachments and files in them by content, such as `pdf`, \
            `pe`, `zip`, `office`",
        attachment_mismatch: Bool "mail.attachment_mismatch" "A file's content contradicts its name or declared type",
        attachment_obfuscated: Bool "mail.attachment_obfuscated" "A file's name hides its extension by writing direction or \
            length",
        executable_content: Bool "mail.executable_content" "An attachment or a file in one is a program or script by \
            content",
        attachment_pieces: List "mail.attachment_pieces" "Near-duplicate fingerprints of attachments: nearly identical \
            files share some",
        image_pieces: List "mail.image_pieces" "Size and checksum of attached images, without metadata",
        attachment_links: List "mail.attachment_links" "Normalised URLs in attached pages, documents and invitations",
        attachment_link_domains: List "mail.attachment_link_domains" "Registrable domains of `mail.attachment_links`",
        qr_codes: Integer "mail.qr_codes" "QR codes in images, including those in PDFs and Office documents",
        qr_links: List "mail.qr_links" "Normalised URLs in QR codes; also in `mail.links`",
        qr_link_domains: List "mail.qr_link_domains" "Registrable domains of `mail.qr_links`",
        images_unread: Bool "mail.images_unread" "Images were too large or too many to search for QR codes",
        archive_names: List "mail.archive_names" "Names of files in attached archives, lower case",
        archive_depth: Integer "mail.archive_depth" "Depth of archives around the innermost file read",
        archive_executable: Bool "mail.archive_executable" "A file in an archive is a program by name or content",
        archive_encrypted: Bool "mail.archive_encrypted" "A file in an archive is encrypted",
        archive_bomb: Bool "mail.archive_bomb" "An archive inflates to more than a hundred times its size",
        archive_inconsistent: Bool "mail.archive_inconsistent" "An archive's directory contradicts its files",
        archive_unread: Bool "mail.archive_unread" "Files in archives were not read: unknown format, too deep, too many, \
            too large",
        office_macros: Bool "mail.office_macros" "A document has macros",
        office_auto_macros: Bool "mail.office_auto_macros" "Macros run when the document is opened or closed",
        office_encrypted: Bool "mail.office_encrypted" "A document is encrypted",
        office_object: Bool "mail.office_object" "A document contains another program's object or file",
        office_fetches: Bool "mail.office_fetches" "A document fetches a template or object when opened",
        pdf_script: Bool "mail.pdf_script" "A PDF has a script",
        pdf_action: Bool "mail.pdf_action" "A PDF acts when it or a page is opened",
        pdf_launch: Bool "mail.pdf_launch" "A PDF starts a program, opens another document or sends a form",
        pdf_encrypted: Bool "mail.pdf_encrypted" "A PDF is encrypted",
        pdf_embeds: Bool "mail.pdf_embeds" "A PDF has attached files, media or XFA forms",
        page_attachment: Bool "mail.page_attachment" "An HTML or SVG page is attached",
        page_attachment_script: Bool "mail.page_attachment_script" "An attached page runs a script or redirects by itself",
        page_attachment_form: Bool "mail.page_attachment_form" "An attached page has a form or asks for a password",
        page_attachment_builds: Bool "mail.page_attachment_builds" "An attached page can build a page or file from its own \
            text",
        page_attachment_posts: Bool "mail.page_attachment_posts" "A form in an attached page is sent to another host",
        page_attachment_leads: Bool "mail.page_attachment_leads" "An attached page goes on to another by itself",
        svg_script: Bool "mail.svg_script" "An attached SVG image runs a script or holds a page",
        calendar_method: String "mail.calendar_method" "Method of an invitation, such as `request`",
        calendar_organizer: String "mail.calendar_organizer" "Organizer's address in an invitation",
        calendar_links: List "mail.calendar_links" "Normalised URLs in invitations; also in `mail.links`",
        calendar_link_domains: List "mail.calendar_link_domains" "Registrable domains of `mail.calendar_links`",
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

//! Input of commands: messages from files, directories, mailboxes and standard input, and lines of events.
//!
//! All of it may be hostile or endless: reading is streamed, and what is held of one message or line is bounded.

pub(crate) mod line_batch;
pub(crate) mod lines;
pub(crate) mod mbox;
pub(crate) mod messages;

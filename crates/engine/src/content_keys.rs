//! Keys of the content that decisions are logged with, in pipelines whose `journal_content` is `encrypted`.
//!
//! ```text
//! content.keys: KEY-ID MADE KEY, one a line          the last one encrypts, all decrypt
//! a row's `journal.sealed`: 1 ‖ key id (4) ‖ nonce (24) ‖ XChaCha20-Poly1305 of the content ‖ tag (16)
//! bound to the decision's id and version
//! ```
//!
//! The keys have nothing to do with the secret: who has a copy of the journal and of the secret reads no content, and a key that is
//! lost or deleted costs the content and nothing else. A nonce is drawn by chance, for which 24 bytes are enough however many
//! decisions a key sees.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use data_encoding::HEXLOWER;
use event::{Facts, Slot, Span, Time, Value};
use journal::{DecisionRow, RecordId, VersionDescription};
use judge::{Reason, Verdict};
use parking_lot::{Mutex, RwLock};
use plan::{JournalContent, Pipeline};
use serde::{Deserialize, Serialize};

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "content.keys";
/// Bytes of the file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The age at which a key is replaced.
const ROTATE: Span = Span::days(30);
/// The time of a key that was made before the time was known.
const UNDATED: Time = Time(0);
/// The form of what is sealed.
const FORM: u8 = 1;
const ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 24;

/// Reasons for content that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The key is not there.
    #[error("its content is encrypted, and `content.keys` has no key `{0}`")]
    NoKey(String),
    /// The bytes are not what was sealed by the key.
    #[error("its content is encrypted, and damaged")]
    Damaged,
}

/// A key.
#[derive(Clone)]
struct ContentKey {
    id: [u8; ID_BYTES],
    made: Time,
    key: [u8; 32],
}

/// The keys of a data directory. Without a file there are none, and content is left out of the journal.
#[derive(Default)]
pub(crate) struct ContentKeys {
    path: Option<PathBuf>,
    keys: RwLock<Arc<Vec<ContentKey>>>,
    /// Held by who replaces the file.
    replacing: Mutex<()>,
    /// True once it was told that there is no key.
    is_reported: AtomicBool,
}

/// The content of a decision: the facts that are not logged in the clear, and the reasons with the values that they saw.
#[derive(Serialize, Deserialize)]
struct SealedContent {
    facts: Vec<(u16, Value)>,
    reasons: [Vec<Reason>; 2],
}

impl std::fmt::Debug for ContentKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentKeys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ContentKeys {
    /// Reads the keys of a data directory. Blocks.
    ///
    /// # Errors
    /// If the file is there and cannot be read. A line that is no key is passed over, and told.
    pub(crate) fn open(directory: &Path) -> io::Result<ContentKeys> {
        let path = directory.join(FILE);
        let keys = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long for a file of keys"));
            }
            Ok(_) => parse(&fs::read_to_string(&path)?),
        };
        Ok(ContentKeys { path: Some(path), keys: RwLock::new(Arc::new(keys)), ..ContentKeys::default() })
    }

    /// Makes a key where pipelines need one and there is none, or the last one is old. Blocks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn ensure<'p>(
        &self,
        mut pipelines: impl Iterator<Item = &'p Arc<Pipeline>>,
        now: Option<Time>,
    ) -> io::Result<()> {
        if !pipelines.any(|pipeline| matches!(pipeline.journal_content, JournalContent::Encrypted { .. })) {
            return Ok(());
        }
        let Some(path) = &self.path else { return Ok(()) };
        let _replacing = self.replacing.lock();
        let known = Arc::clone(&self.keys.read());
        let made = match (known.last(), now) {
            (Some(last), Some(now)) if last.made == UNDATED => return self.replace(path, dated(&known, now)),
            (Some(last), Some(now)) if now - last.made >= ROTATE => now,
            (Some(_), _) => return Ok(()),
            (None, now) => now.unwrap_or(UNDATED),
        };
        let mut fresh = [0; ID_BYTES + 32];
        getrandom::fill(&mut fresh).map_err(|error| io::Error::other(error.to_string()))?;
        let (mut id, mut key) = ([0; ID_BYTES], [0; 32]);
        id.copy_from_slice(&fresh[..ID_BYTES]);
        key.copy_from_slice(&fresh[ID_BYTES..]);
        let mut keys = (*known).clone();
        keys.push(ContentKey { id, made, key });
        self.replace(path, keys)?;
        tracing::info!(
            key = HEXLOWER.encode(&id),
            "content of decisions is encrypted by a new key from now on"
        );
        Ok(())
    }

    fn replace(&self, path: &Path, keys: Vec<ContentKey>) -> io::Result<()> {
        disk::replace(path, write(&keys).as_bytes())?;
        *self.keys.write() = Arc::new(keys);
        Ok(())
    }

    /// Takes out of a row what its pipeline does not log in the clear, and puts it back encrypted where it is to be kept. Returns
    /// the verdict as it is to be logged, if that is another one.
    pub(crate) fn seal(
        &self,
        id: RecordId,
        pipeline: &Pipeline,
        facts: &mut Facts,
        verdict: &Verdict,
    ) -> Option<Verdict> {
        let (slots, sealed) = match &pipeline.journal_content {
            JournalContent::Plain => return None,
            JournalContent::Omitted { slots } => (slots, None),
            JournalContent::Encrypted { slots, sealed } => (slots, Some(*sealed)),
        };
        let content = slots.iter().filter_map(|slot| Some((slot.0, facts.clear(*slot)?)));
        let content: Vec<(u16, Value)> = content.collect();
        if let Some(sealed) = sealed {
            let reasons = [verdict.reasons.clone(), verdict.shadow.clone()];
            match self.encrypted(id, &pipeline.version, &SealedContent { facts: content, reasons }) {
                Some(bytes) => facts.set(sealed, Value::Bytes(bytes.into())),
                // It is left out rather than written in the clear.
                None if !self.is_reported.swap(true, Ordering::Relaxed) => {
                    tracing::error!("content cannot be encrypted, and is left out of the journal");
                }
                None => {}
            }
        }
        let mut logged = verdict.clone();
        let is_open = |name: &str| {
            pipeline.schema.slot(name).is_none_or(|slot| pipeline.schema.column(slot).journalled)
        };
        for reason in logged.reasons.iter_mut().chain(&mut logged.shadow) {
            if !reason.values.iter().all(|(name, _)| is_open(name)) {
                reason.values.retain(|(name, _)| is_open(name));
                reason.detail.clear();
            }
        }
        Some(logged)
    }

    fn encrypted(&self, id: RecordId, version: &str, content: &SealedContent) -> Option<Vec<u8>> {
        let keys = Arc::clone(&self.keys.read());
        let key = keys.last()?;
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).ok()?;
        let content = postcard::to_stdvec(content).ok()?;
        let payload = Payload { msg: &content, aad: &bound(id, version) };
        let cipher = XChaCha20Poly1305::new(&key.key.into());
        let encrypted = cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
        Some([&[FORM][..], &key.id, &nonce, &encrypted].concat())
    }

    /// Puts the content of a logged decision back into its row, where it was encrypted.
    ///
    /// # Errors
    /// If it cannot be read: the row is as it would be without it.
    pub(crate) fn unseal(
        &self,
        id: RecordId,
        row: &mut DecisionRow,
        description: &VersionDescription,
    ) -> Result<(), ContentError> {
        let Some(slot) = description.slot(plan::SEALED_COLUMN) else { return Ok(()) };
        let Some(Value::Bytes(bytes)) = row.facts.clear(slot) else { return Ok(()) };
        let content = self.decrypted(id, &row.version, &bytes)?;
        let SealedContent { facts, reasons: [reasons, shadow] } = content;
        for (slot, value) in facts {
            let column = description.columns.get(usize::from(slot));
            if column.is_some_and(|column| column.kind == value.type_of()) {
                row.facts.set(Slot(slot), value);
            }
        }
        (row.verdict.reasons, row.verdict.shadow) = (reasons, shadow);
        Ok(())
    }

    fn decrypted(&self, id: RecordId, version: &str, bytes: &[u8]) -> Result<SealedContent, ContentError> {
        let (form, rest) = bytes.split_first().ok_or(ContentError::Damaged)?;
        let (key_id, rest) = rest.split_at_checked(ID_BYTES).ok_or(ContentError::Damaged)?;
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(ContentError::Damaged)?;
        if *form != FORM {
            return Err(ContentError::Damaged);
        }
        let keys = Arc::clone(&self.keys.read());
        let key = keys.iter().find(|key| key.id == key_id);
        let key = key.ok_or_else(|| ContentError::NoKey(HEXLOWER.encode(key_id)))?;
        let payload = Payload { msg: encrypted, aad: &bound(id, version) };
        let cipher = XChaCha20Poly1305::new(&key.key.into());
        let content = cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| ContentError::Damaged)?;
        postcard::from_bytes(&content).map_err(|_| ContentError::Damaged)
    }
}

/// Returns keys of which those without a time have this one.
fn dated(keys: &[ContentKey], now: Time) -> Vec<ContentKey> {
    let date = |key: &ContentKey| match key.made {
        UNDATED => ContentKey { made: now, ..key.clone() },
        _ => key.clone(),
    };
    keys.iter().map(date).collect()
}

/// The bytes to which content is bound, so that it is not read as another decision's.
fn bound(id: RecordId, version: &str) -> Vec<u8> {
    [&id.0.to_le_bytes(), version.as_bytes()].concat()
}

fn parse(text: &str) -> Vec<ContentKey> {
    let mut keys: Vec<ContentKey> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match key(line) {
            Some(key) => keys.push(key),
            None => {
                tracing::warn!(line = number, "this line of `content.keys` is no key, and is passed over")
            }
        }
    }
    // Whoever puts files together need not keep an order.
    keys.sort_by_key(|key| key.made);
    keys
}

fn key(line: &str) -> Option<ContentKey> {
    let mut words = line.split_ascii_whitespace();
    let id = HEXLOWER.decode(words.next()?.as_bytes()).ok()?.try_into().ok()?;
    let made = words.next()?.parse().ok()?;
    let key = HEXLOWER.decode(words.next()?.as_bytes()).ok()?.try_into().ok()?;
    words.next().is_none().then_some(ContentKey { id, made, key })
}

fn write(keys: &[ContentKey]) -> String {
    let mut text = "# Keys of the content of logged decisions: id, time at which it was made, key. The last one encrypts.\n\
        # Without its key content is lost, and nothing else. Keep a copy apart from that of the data directory.\n"
        .to_owned();
    for ContentKey { id, made, key } in keys {
        text += &format!("{} {made} {}\n", HEXLOWER.encode(id), HEXLOWER.encode(key));
    }
    text
}

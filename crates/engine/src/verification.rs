//! All of a data directory, settings included: whether it can still be read.

use event::{Secret, Time};

use crate::EngineOpenError;
use crate::directory::verification::{DirectoryPart, DirectoryVerification};
use crate::directory::{Directory, DirectoryError, MissingFile};
use plan::{Config, Overrides, Plan};

impl Directory {
    /// Reads all files, checks every checksum, that every key's image is where it should be and is a cell of its
    /// definition, and that every row has its description. The directory is locked meanwhile. Of a crash before, the
    /// ledger's torn tail is put aside, as by any opening; nothing else changes. With `now` statistics are looked for that lie
    /// ahead of it. `progress` hears of bytes read and of all bytes.
    ///
    /// # Errors
    /// [`EngineOpenError::Device`] of the kind `WouldBlock` if it is in use, and what the device says. What is damaged is in
    /// the answer.
    pub fn verify(
        &self,
        now: Option<Time>,
        progress: &mut dyn FnMut(DirectoryPart, u64, u64),
    ) -> Result<DirectoryVerification, EngineOpenError> {
        let secret = self.secret();
        let fingerprint = secret.as_ref().ok().map(Secret::fingerprint);
        let latest = now.map(|now| self.latest(now));
        let mut verified = self.verify_data(fingerprint, latest, progress)?;
        verified.secret = secret.err();
        self.look_at_settings(&mut verified);
        verified.exposed = self.exposed();
        Ok(verified)
    }

    /// Looks at all that is neither ledger nor journal.
    fn look_at_settings(&self, verified: &mut DirectoryVerification) {
        let DirectoryVerification { settings: into, missing, journal, .. } = verified;
        match self.missing() {
            // A list that is missing beside segments is told with these.
            Ok(files) => {
                let is_reported =
                    |file: &MissingFile| file.file.starts_with("journal/") && journal.segments > 0;
                *missing = files.into_iter().filter(|file| !is_reported(file)).collect();
            }
            Err(error) => into.push(error.parts()),
        }
        if self.lacks_contents() {
            let why = "missing: whether another file is cannot be known; the next start makes it anew";
            into.push((self.path().join("contents.json"), why.to_owned()));
        }
        match self.stored_numbers() {
            Ok(stored) => into.extend(stored.faults),
            Err(error) => into.push(error.parts()),
        }
        into.extend(crate::limit::read_exceptions(&self.limits_path()).err().map(DirectoryError::parts));
        into.extend(
            crate::posted_values::PostedValues::read(&self.values_path()).err().map(DirectoryError::parts),
        );
        into.extend(crate::saved_searches::read(&self.searches_path()).err().map(DirectoryError::parts));
        into.extend(self.stored_scores().err().map(DirectoryError::parts));
        into.extend(self.stored_sink_positions().err().map(DirectoryError::parts));
        into.extend(self.stored_source_positions().err().map(DirectoryError::parts));
        into.extend(self.stored_counts().err().map(DirectoryError::parts));
        match self.stored_learners() {
            Ok(stored) => into.extend(stored.damaged_logs().iter().cloned()),
            Err(error) => into.push(error.parts()),
        }
        into.extend(crate::reload::check_history(&self.rules_path()));
        let labels = self.ban_list_path();
        match crate::ban_list::damaged_lines(&labels) {
            Ok(0) => {}
            Ok(lines) => into.push((labels, format!("{lines} labels cannot be read"))),
            Err(error) => into.push((labels, error.to_string())),
        }
        match self.open_reviews() {
            Ok(reviews) => {
                let lost = reviews.lost_bytes();
                let said = format!("{lost} bytes of reviews cannot be read");
                into.extend((lost > 0).then(|| (self.path().join(crate::review_queue::IMAGES), said)));
            }
            Err(error) => into.push(error.parts()),
        }
        let path = self.config_path();
        // A snapshot may have none.
        if path.exists()
            && let Err(problems) = Plan::compile(&Config::load(&path, &Overrides::default()))
        {
            into.push((path, problems.to_string()));
        }
    }
}

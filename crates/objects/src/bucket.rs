//! A bucket, or a directory, that is read and written by name.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use disk::Blob;
use futures_util::{StreamExt, TryStreamExt};
use journal::{JournalError, SegmentError};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    RetryConfig, WriteMultipart,
};
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// Threads that wait for the network.
const THREADS: usize = 2;
/// The longest that one request may take, and that a connection may take to come about.
const REQUEST_WITHIN: &str = "60 seconds";
const CONNECT_WITHIN: &str = "5 seconds";
/// The number of times, and the time, for which a request is tried again at once. Whoever calls tries later.
const TRIES: usize = 3;
const TRIES_WITHIN: Duration = Duration::from_secs(20);
/// Bytes of a file that are sent at once: larger ones are sent in parts of so many.
const PART_BYTES: usize = 8 << 20;
/// Requests of one call that are under way at once.
pub(crate) const AT_ONCE: usize = 16;

/// Reasons for what could not be done with a bucket.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The address names no bucket.
    #[error(
        "{url}: {why}: expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY"
    )]
    Url {
        /// The address.
        url: String,
        /// The fault.
        why: String,
    },
    /// The storage says no, or nothing.
    #[error("{what}: {error}")]
    Store {
        /// The object, or the place.
        what: String,
        /// The answer.
        error: Box<object_store::Error>,
    },
    /// A file cannot be read, or no thread is left.
    #[error("{what}: {error}")]
    Io {
        /// The subject.
        what: String,
        /// The system's answer.
        error: io::Error,
    },
    /// An object is not what was uploaded.
    #[error("{what}: {why}")]
    Unsound {
        /// The object.
        what: String,
        /// The fault.
        why: &'static str,
    },
    /// The journal.
    #[error(transparent)]
    Journal(JournalError),
    /// The work was stopped.
    #[error("stopped")]
    Stopped,
    /// The work has taken longer than it may.
    #[error("{0} does not answer in time")]
    Late(String),
}

/// An error of a journal that reads a bucket. Where the bucket failed, its own error is what a caller asks for.
impl From<JournalError> for ObjectError {
    fn from(error: JournalError) -> ObjectError {
        let (at, error) = match error {
            JournalError::Io { path, error } => (path, error),
            JournalError::Segment { path, error: SegmentError::Io(error) } => (path, error),
            other => return ObjectError::Journal(other),
        };
        match error.downcast::<ObjectError>() {
            Ok(own) => own,
            Err(error) => ObjectError::Journal(JournalError::Io { path: at, error }),
        }
    }
}

/// A place in object storage. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ObjectBucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    url: Arc<str>,
    /// The moment up to which calls are waited for; `None` for as long as they take.
    deadline: Option<Instant>,
    runtime: Arc<BucketRuntime>,
}

/// The threads that wait for the network. They may be dropped anywhere, also where nothing may block.
#[derive(Debug)]
struct BucketRuntime(Option<Runtime>);

impl Drop for BucketRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl ObjectBucket {
    /// Opens the place at an address. Credentials, regions and endpoints are those of the environment, by the names that the
    /// makers of the storage use. Nothing is asked yet.
    ///
    /// # Errors
    /// [`ObjectError::Url`] for an address or an environment that names no place.
    pub fn open(address: &str) -> Result<ObjectBucket, ObjectError> {
        let wrong = |why: String| ObjectError::Url { url: address.to_owned(), why };
        let url = Url::parse(address).map_err(|error| wrong(error.to_string()))?;
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|error| wrong(error.to_string()))?;
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: TRIES,
            retry_timeout: TRIES_WITHIN,
        };
        let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match scheme {
            // Rows are forgotten here once they are there.
            ObjectStoreScheme::Local => Ok(Arc::new(LocalFileSystem::new().with_fsync(true))),
            scheme => {
                // It may be that another part of the process has chosen one before.
                let _ = rustls::crypto::ring::default_provider().install_default();
                match scheme {
                    ObjectStoreScheme::AmazonS3 => {
                        let builder = AmazonS3Builder::from_env().with_url(address).with_retry(retry);
                        let builder = builder
                            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST_WITHIN);
                        let builder = builder.with_config(
                            AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout),
                            CONNECT_WITHIN,
                        );
                        builder.build().map(|store| Arc::new(store) as _)
                    }
                    ObjectStoreScheme::GoogleCloudStorage => {
                        let builder =
                            GoogleCloudStorageBuilder::from_env().with_url(address).with_retry(retry);
                        let builder = builder
                            .with_config(GoogleConfigKey::Client(ClientConfigKey::Timeout), REQUEST_WITHIN);
                        let builder = builder.with_config(
                            GoogleConfigKey::Client(ClientConfigKey::ConnectTimeout),
                            CONNECT_WITHIN,
                        );
                        builder.build().map(|store| Arc::new(store) as _)
                    }
                    ObjectStoreScheme::MicrosoftAzure => {
                        let builder = MicrosoftAzureBuilder::from_env().with_url(address).with_retry(retry);
                        let builder = builder
                            .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), REQUEST_WITHIN);
                        let builder = builder.with_config(
                            AzureConfigKey::Client(ClientConfigKey::ConnectTimeout),
                            CONNECT_WITHIN,
                        );
                        builder.build().map(|store| Arc::new(store) as _)
                    }
                    _ => return Err(wrong("no storage has this scheme".to_owned())),
                }
            }
        };
        let store = store.map_err(|error| wrong(error.to_string()))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("objects")
            .enable_all()
            .build()
            .map_err(|error| ObjectError::Io { what: address.to_owned(), error })?;
        let runtime = Arc::new(BucketRuntime(Some(runtime)));
        Ok(ObjectBucket { store, prefix, url: address.into(), deadline: None, runtime })
    }

    /// Returns the address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the same place, of which calls fail with [`ObjectError::Late`] once so much time has passed from now on.
    pub fn within(&self, patience: Duration) -> ObjectBucket {
        ObjectBucket { deadline: Instant::now().checked_add(patience), ..self.clone() }
    }

    pub(crate) fn wait<T>(
        &self,
        call: impl Future<Output = Result<T, ObjectError>>,
    ) -> Result<T, ObjectError> {
        let Some(runtime) = &self.runtime.0 else { return Err(ObjectError::Stopped) };
        match self.deadline {
            None => runtime.block_on(call),
            // A call that would be answered at once could be in time or not.
            Some(deadline) if deadline <= Instant::now() => Err(ObjectError::Late(self.url.to_string())),
            Some(deadline) => runtime
                .block_on(async { tokio::time::timeout_at(deadline.into(), call).await })
                .unwrap_or_else(|_| Err(ObjectError::Late(self.url.to_string()))),
        }
    }

    fn path(&self, name: &str) -> Result<Path, ObjectError> {
        let whole = match self.prefix.as_ref() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(&whole).map_err(|error| self.failed(name)(error.into()))
    }

    fn failed(&self, name: &str) -> impl FnOnce(object_store::Error) -> ObjectError {
        let what = format!("{}/{name}", self.url.trim_end_matches('/'));
        move |error| ObjectError::Store { what, error: Box::new(error) }
    }

    pub(crate) fn unsound(&self, name: &str, why: &'static str) -> ObjectError {
        ObjectError::Unsound { what: format!("{}/{name}", self.url.trim_end_matches('/')), why }
    }

    /// Puts bytes in the place of an object: it has them all, or is what it was.
    pub(crate) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let path = self.path(name)?;
        self.store.put(&path, bytes.into()).await.map(drop).map_err(self.failed(name))
    }

    /// Puts a file in the place of an object, all of it or nothing, with a few parts of it in memory. Returns its length.
    pub(crate) async fn put_file(&self, name: &str, file: &dyn Blob) -> Result<u64, ObjectError> {
        let path = self.path(name)?;
        let read = |offset: u64| {
            let mut part = vec![0; PART_BYTES];
            let count = disk::read_full(file, offset, &mut part);
            let count = count.map_err(|error| ObjectError::Io { what: name.to_owned(), error })?;
            part.truncate(count);
            Ok::<_, ObjectError>(part)
        };
        let mut part = read(0)?;
        let mut length = part.len() as u64;
        if part.len() < PART_BYTES {
            self.store.put(&path, part.into()).await.map_err(self.failed(name))?;
            return Ok(length);
        }
        let upload = self.store.put_multipart(&path).await.map_err(self.failed(name))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let sent = loop {
            if part.is_empty() {
                break Ok(());
            }
            upload.put(Bytes::from(part));
            if let Err(error) = upload.wait_for_capacity(2).await {
                break Err(self.failed(name)(error));
            }
            part = match read(length) {
                Ok(part) => part,
                Err(error) => break Err(error),
            };
            length += part.len() as u64;
        };
        match sent {
            Ok(()) => upload.finish().await.map(|_| length).map_err(self.failed(name)),
            Err(error) => {
                // Of its parts nothing is kept; a process that is killed leaves them to the bucket's rules.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    /// The bytes of an object, at most so many; `None` if it is not there.
    pub(crate) async fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Bytes>, ObjectError> {
        let path = self.path(name)?;
        let found = match self.store.get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(self.failed(name))?,
        };
        if found.meta.size > bytes_max {
            return Err(self.unsound(name, "it is too long"));
        }
        found.bytes().await.map(Some).map_err(self.failed(name))
    }

    /// A stretch of an object, and the length of the whole; `None` if it is not there.
    pub(crate) async fn range(
        &self,
        name: &str,
        range: Range<u64>,
    ) -> Result<Option<(Bytes, u64)>, ObjectError> {
        let path = self.path(name)?;
        let options = GetOptions::new().with_range(Some(GetRange::Bounded(range)));
        let found = match self.store.get_opts(&path, options).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(self.failed(name))?,
        };
        let length = found.meta.size;
        found.bytes().await.map(|bytes| Some((bytes, length))).map_err(self.failed(name))
    }

    /// The length of an object; `None` if it is not there.
    pub(crate) async fn length(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        let path = self.path(name)?;
        match self.store.head(&path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            found => found.map(|meta| Some(meta.size)).map_err(self.failed(name)),
        }
    }

    /// Removes objects; those that are not there are no error.
    pub(crate) async fn remove(&self, names: impl IntoIterator<Item = String>) -> Result<(), ObjectError> {
        futures_util::stream::iter(names)
            .map(|name| async move {
                let path = self.path(&name)?;
                match self.store.delete(&path).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(()),
                    removed => removed.map_err(self.failed(&name)),
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The names and lengths of all objects below a folder, in order.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, ObjectError> {
        let path = self.path(folder)?;
        let listed = self.store.list(Some(&path)).map_err(self.failed_often(folder));
        let named = listed.map_ok(|object| self.name(&object.location).map(|name| (name, object.size)));
        let mut names: Vec<(String, u64)> =
            named.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the folders right below a folder, in order.
    pub(crate) async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError> {
        let path = self.path(folder)?;
        let listed = self.store.list_with_delimiter(Some(&path)).await.map_err(self.failed(folder))?;
        let last = |path: &Path| path.parts().next_back().map(|part| part.as_ref().to_owned());
        let mut names: Vec<String> = listed.common_prefixes.iter().filter_map(last).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn failed_often(&self, name: &str) -> impl Fn(object_store::Error) -> ObjectError {
        let what = format!("{}/{name}", self.url.trim_end_matches('/'));
        move |error| ObjectError::Store { what: what.clone(), error: Box::new(error) }
    }

    /// The name of an object of the bucket.
    fn name(&self, path: &Path) -> Option<String> {
        let rest = path.as_ref().strip_prefix(self.prefix.as_ref())?;
        Some(rest.trim_start_matches('/').to_owned())
    }
}

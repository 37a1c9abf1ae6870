//! Where exports go: stdout, a file, a folder, or an S3 bucket. Never half a file: what was begun appears whole or not at all.
//!
//! [`Destination`] is what was typed, [`OpenDestination`] the same ready for use, [`Upload`] one file in the making.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ClientConfigKey, ObjectStoreExt, RetryConfig, WriteMultipart};
use rlinks_store::database::atomic_file::{AtomicFile, AtomicFileError, Overwrite, final_name};

use super::ExportError;

/// S3 wants parts of at least 5 MiB, all but the last of one size.
const UPLOAD_PART_BYTES: usize = 8 << 20;
/// Parts on their way while the next is filled: the network has work, and memory its bound.
const MAX_CONCURRENT_PARTS: usize = 2;
/// S3's own limit; with our parts 78 GiB.
const MAX_PARTS: usize = 10_000;

/// What has not been written to for so long, nobody writes.
const MIN_LEFTOVER_AGE: Duration = Duration::from_hours(24);

/// With the pauses between, some seconds: a short break is survived, and a wrong address is told soon.
const MAX_RETRIES: usize = 8;
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);

/// A place as somebody typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    // `-`
    Stdout,
    /// A path or a `file:` URL. One that ends in `/` is a folder, whether it exists or not.
    Path(PathBuf),
    /// `s3://bucket/key`. A key that is empty or ends in `/` is a folder.
    Bucket {
        bucket: String,
        /// The object's name, or the beginning of the names of all parts.
        key: String,
    },
}

impl Destination {
    /// Reads what was typed. Looks at no disk and asks nobody.
    pub fn parse(text: &str) -> Result<Self, ExportError> {
        let wrong = |why: &str| Err(ExportError::InvalidDestination(why.to_owned()));
        if text.is_empty() {
            return wrong("the place for the export is empty; give a path, -, or s3://bucket/name");
        }
        if text == "-" {
            return Ok(Self::Stdout);
        }
        let is_scheme =
            |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        match text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
            None => Ok(Self::Path(text.into())),
            Some(("file", _)) => match url::Url::parse(text).ok().and_then(|url| url.to_file_path().ok()) {
                // The conversion keeps a final slash, which means a folder.
                Some(path) => Ok(Self::Path(path)),
                None => wrong("a file: URL has three slashes and a whole path, like file:///var/exports/"),
            },
            Some(("s3", rest)) => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                // What is wrong is not shown: somebody may have typed a key before an @.
                if bucket.is_empty()
                    || !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
                {
                    return wrong("that is no name of a bucket; write s3://bucket/name");
                }
                parse_key(key)?;
                Ok(Self::Bucket { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            Some((scheme, _)) => wrong(&format!(
                "exports do not go to {scheme}://; give a path, -, file:///path or s3://bucket/name"
            )),
        }
    }

    /// Makes the place ready. `options` are the usual `AWS_` variables, such as `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP`; what S3 does not know is skipped, so all of the environment can come.
    pub fn open(&self, options: &[(String, String)]) -> Result<OpenDestination, ExportError> {
        let to = match self {
            Self::Stdout => DestinationHandle::Stdout,
            Self::Path(path) => DestinationHandle::Path(path.clone()),
            Self::Bucket { bucket, key } => DestinationHandle::Bucket {
                store: Arc::new(open_bucket(bucket, options)?),
                bucket: bucket.clone(),
                key: key.clone(),
            },
        };
        Ok(OpenDestination { destination: self.clone(), to })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => out.write_str("stdout"),
            Self::Path(path) => path.display().fmt(out),
            Self::Bucket { bucket, key } => write!(out, "s3://{bucket}/{key}"),
        }
    }
}

/// A place that is ready.
pub struct OpenDestination {
    destination: Destination,
    to: DestinationHandle,
}

enum DestinationHandle {
    Stdout,
    Path(PathBuf),
    Bucket { store: Arc<AmazonS3>, bucket: String, key: String },
}

impl OpenDestination {
    /// A folder or a prefix: every part is a file of its own, with a name.
    pub fn takes_parts(&self) -> bool {
        match &self.to {
            DestinationHandle::Stdout => false,
            // Every byte counts here: `Path` itself does not see a final slash.
            DestinationHandle::Path(path) => {
                path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir()
            }
            DestinationHandle::Bucket { key, .. } => key.is_empty() || key.ends_with('/'),
        }
    }

    /// What a file is called wherever one stands; stdout has no name.
    pub(super) fn named(&self, part: Option<&str>) -> Option<String> {
        let part = part.unwrap_or_default();
        match &self.to {
            DestinationHandle::Stdout => None,
            DestinationHandle::Path(path) => {
                let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                Some(if part.is_empty() { whole } else { whole.join(part) }.to_string_lossy().into_owned())
            }
            DestinationHandle::Bucket { bucket, key, .. } => Some(format!("s3://{bucket}/{key}{part}")),
        }
    }

    /// Begins a file: `part` is its name where the place takes parts (it may hold folders), and nothing where it does not.
    ///
    /// Whether something is there is asked now and again at the end, so that the answer comes before the work. On a disk the
    /// second time is part of the move itself. S3 has no such question for large objects: of two exports to one name
    /// that end in the same moment, the last stays.
    pub async fn begin(&self, part: Option<&str>, overwrite: Overwrite) -> Result<Upload, ExportError> {
        let place = &self.destination;
        let part = match (part, self.takes_parts()) {
            (Some(part), true) => Some(parse_part(part)?),
            (None, false) => None,
            (None, true) => {
                return Err(ExportError::InvalidDestination(format!(
                    "{place} is a folder; name a file in it"
                )));
            }
            (Some(_), false) => {
                let why =
                    format!("{place} is one file, and there are parts; end it with / to make it a folder");
                return Err(ExportError::InvalidDestination(why));
            }
        };
        Ok(Upload(match &self.to {
            DestinationHandle::Stdout => OutputSink::Stdout,
            DestinationHandle::Path(path) => {
                OutputSink::File(FileUpload::begin(path, part.as_ref(), overwrite)?)
            }
            DestinationHandle::Bucket { store, bucket, key } => {
                let key = parse_key(&format!("{key}{}", part.as_ref().map_or("", AsRef::as_ref)))?;
                let named = format!("s3://{bucket}/{key}");
                let mut object = ObjectUpload {
                    store: Arc::clone(store),
                    key,
                    named,
                    overwrite,
                    part: Vec::new(),
                    sent: 0,
                    multipart: None,
                };
                object.refuse_existing().await?;
                OutputSink::Object(object)
            }
        }))
    }
}

/// One file in the making. Dropped before its end, it leaves nothing behind, as far as that can be done from a `drop`.
pub struct Upload(OutputSink);

enum OutputSink {
    Stdout,
    File(FileUpload),
    Object(ObjectUpload),
}

impl Upload {
    /// Adds bytes. Returns when memory has room for the next.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        match &mut self.0 {
            OutputSink::Stdout => Ok(std::io::stdout().write_all(bytes)?),
            OutputSink::File(file) => file.write(bytes),
            OutputSink::Object(object) => object.write(bytes).await,
        }
    }

    /// Puts the whole file in its place. After this it is there, and on the disk.
    pub async fn finish(self) -> Result<(), ExportError> {
        match self.0 {
            OutputSink::Stdout => Ok(std::io::stdout().flush()?),
            // Waiting for a disk may take long, and other tasks of this thread should not wait too.
            OutputSink::File(file) => tokio::task::spawn_blocking(|| file.finish())
                .await
                .map_err(|error| ExportError::Failed(error.to_string()))?,
            OutputSink::Object(object) => object.finish().await,
        }
    }

    /// Leaves nothing behind, and waits until that is so. Better than dropping where the program is about to end.
    pub async fn abandon(self) {
        if let OutputSink::Object(mut object) = self.0
            && let Some(multipart) = object.multipart.take()
        {
            // Nobody can do more: a bucket's own lifecycle rule removes what stays.
            let _ = multipart.abort().await;
        }
    }

    /// Whether it is stdout.
    pub const fn is_stdout(&self) -> bool {
        matches!(self.0, OutputSink::Stdout)
    }
}

/// Clicks are about people: only the owner may read the file.
struct FileUpload {
    file: AtomicFile,
    path: PathBuf,
}

impl FileUpload {
    fn begin(path: &Path, part: Option<&Key>, overwrite: Overwrite) -> Result<Self, ExportError> {
        let path = part.map_or_else(|| path.to_owned(), |part| path.join(part.as_ref()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A folder is made for parts only: a file's missing folder is more likely a typing error.
        if part.is_some() {
            std::fs::create_dir_all(folder).map_err(|error| failed(&path.display(), &error))?;
        }
        let file = AtomicFile::create(&path, overwrite).map_err(|error| refused(&path, error))?;
        if let (Ok(now), Some(name)) = (file.modified(), path.file_name()) {
            remove_leftovers(folder, name, now);
        }
        Ok(Self { file, path })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.file.write_all(bytes).map_err(|error| failed(&self.path.display(), &error))
    }

    fn finish(self) -> Result<(), ExportError> {
        self.file.finish().map_err(|error| refused(&self.path, error))
    }
}

fn refused(path: &Path, error: AtomicFileError) -> ExportError {
    let path = path.display();
    match error {
        AtomicFileError::Exists => ExportError::Exists(path.to_string()),
        AtomicFileError::NotAFile => {
            ExportError::InvalidDestination(format!("{path} is no file and is not replaced"))
        }
        AtomicFileError::NoName => ExportError::InvalidDestination(format!("{path} is no name for a file")),
        AtomicFileError::Io(error) => failed(&path, &io::Error::from(error.kind())),
    }
}

/// Removes what killed exports of this file, or of parts, have left in a folder. What cannot be removed harms nobody.
fn remove_leftovers(folder: &Path, name: &OsStr, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_old = || {
            let file = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            now.duration_since(file.modified().ok()?).ok().filter(|age| *age > MIN_LEFTOVER_AGE)
        };
        if final_name(&entry.file_name()).is_some_and(|made| made == name || is_part(made))
            && is_old().is_some()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether a name is one that is given to parts.
fn is_part(name: &str) -> bool {
    ["clicks-", "archive-"].iter().any(|start| name.starts_with(start))
        && [".jsonl", ".parquet"].iter().any(|end| name.ends_with(end))
}

/// An object that S3 shows when its last part is there. A small one is a single request.
struct ObjectUpload {
    store: Arc<AmazonS3>,
    key: Key,
    named: String,
    overwrite: Overwrite,
    part: Vec<u8>,
    sent: usize,
    multipart: Option<WriteMultipart>,
}

impl ObjectUpload {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), ExportError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(UPLOAD_PART_BYTES - self.part.len()));
            self.part.extend_from_slice(now);
            if self.part.len() == UPLOAD_PART_BYTES {
                self.send_part().await?;
            }
            bytes = later;
        }
        Ok(())
    }

    async fn send_part(&mut self) -> Result<(), ExportError> {
        if self.sent + 1 >= MAX_PARTS {
            let why = format!("{} is larger than an object may be; export to a folder, in parts", self.named);
            return Err(ExportError::InvalidDestination(why));
        }
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            none => {
                let upload = self.store.put_multipart(&self.key).await;
                let upload = upload.map_err(|error| failed(&self.named, &error))?;
                none.insert(WriteMultipart::new_with_chunk_size(upload, UPLOAD_PART_BYTES))
            }
        };
        multipart
            .wait_for_capacity(MAX_CONCURRENT_PARTS)
            .await
            .map_err(|error| failed(&self.named, &error))?;
        multipart.put(std::mem::take(&mut self.part).into());
        self.sent += 1;
        Ok(())
    }

    async fn finish(mut self) -> Result<(), ExportError> {
        self.refuse_existing().await?;
        let last = std::mem::take(&mut self.part);
        let done = match self.multipart.take() {
            None => self.store.put(&self.key, last.into()).await,
            Some(mut multipart) => {
                multipart.put(last.into());
                multipart.finish().await
            }
        };
        done.map(drop).map_err(|error| failed(&self.named, &error))
    }

    /// Takes it mutably because an upload cannot be shared between threads, and whoever waits here may change threads.
    async fn refuse_existing(&mut self) -> Result<(), ExportError> {
        if self.overwrite == Overwrite::Replace {
            return Ok(());
        }
        match self.store.head(&self.key).await {
            Ok(_) => Err(ExportError::Exists(self.named.clone())),
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(&self.named, &error)),
        }
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let Some(multipart) = self.multipart.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(multipart.abort());
        }
    }
}

fn open_bucket(bucket: &str, options: &[(String, String)]) -> Result<AmazonS3, ExportError> {
    // The client takes the process's TLS provider and panics without one. If one was chosen before, it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let known = options.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let key: AmazonS3ConfigKey = name.starts_with("aws_").then(|| name.parse().ok())??;
        (!value.is_empty()).then_some((key, value))
    });
    let builder = known.fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value));
    // The client would only say "builder error", and only at its first request.
    let of = |key| builder.get_config_value(&key);
    let is_plain = of(AmazonS3ConfigKey::Endpoint).is_some_and(|url| url.starts_with("http://"));
    if is_plain && of(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).as_deref() != Some("true") {
        let why = "AWS_ENDPOINT_URL begins with http://, without encryption; if that is meant, set AWS_ALLOW_HTTP=true";
        return Err(ExportError::InvalidDestination(why.to_owned()));
    }
    // Without keys the client would ask the machine it runs on for a role. Nobody should find that out from a firewall.
    let credential_keys = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
        AmazonS3ConfigKey::MetadataEndpoint,
        AmazonS3ConfigKey::SkipSignature,
    ];
    if credential_keys.into_iter().all(|key| of(key).is_none_or(|value| value.is_empty() || value == "false"))
    {
        let why = "S3 needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for the role of an EC2 machine set AWS_METADATA_ENDPOINT=http://169.254.169.254";
        return Err(ExportError::InvalidDestination(why.to_owned()));
    }
    let retry =
        RetryConfig { max_retries: MAX_RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let built = builder.with_bucket_name(bucket).with_retry(retry).build();
    built.map_err(|error| ExportError::InvalidDestination(format!("s3://{bucket} cannot be used: {error}")))
}

/// Names of objects and parts: no empty piece, no `.` and no `..`, so nothing leaves its folder.
fn parse_key(text: &str) -> Result<Key, ExportError> {
    Key::parse(text).map_err(|_| {
        ExportError::InvalidDestination(format!(
            "`{text}` is no name for an object: no part of it may be empty, `.` or `..`"
        ))
    })
}

/// The library forgives a slash at the ends and an empty name; a part must be a file of that name.
fn parse_part(text: &str) -> Result<Key, ExportError> {
    let key = parse_key(text)?;
    if text.is_empty() || key.as_ref() != text {
        return Err(ExportError::InvalidDestination(format!("`{text}` is no name for a part")));
    }
    Ok(key)
}

fn failed(named: &dyn fmt::Display, error: &dyn fmt::Display) -> ExportError {
    ExportError::Failed(format!("{named} cannot be written: {error}"))
}

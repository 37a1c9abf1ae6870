use std::path::Path;

use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{Destination, Export, ExportError, Format, OpenDestination};

use crate::support::sample_clicks::many;
use rlinks_store::database::atomic_file::Overwrite;

#[track_caller]
fn parsed(text: &str, expected: &str) {
    let shown = match Destination::parse(text) {
        Ok(Destination::Stdout) => "stdout".to_owned(),
        Ok(Destination::Path(path)) => format!("path {}", path.display()),
        Ok(Destination::Bucket { bucket, key }) => format!("bucket {bucket} key {key}"),
        Err(error) => format!("error {error}"),
    };
    assert_eq!(shown, expected, "{text}");
}

fn target(text: impl AsRef<Path>) -> OpenDestination {
    Destination::parse(text.as_ref().to_str().unwrap()).unwrap().open(&[]).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn valid_destinations_are_parsed() {
    parsed("-", "stdout");
    parsed("clicks.jsonl", "path clicks.jsonl");
    parsed("out/", "path out/");
    parsed("/a b/ü", "path /a b/ü");
    parsed("./a://b", "path ./a://b");
    parsed("file:///var/exports/", "path /var/exports/");
    parsed("file:///var/a%20b.parquet", "path /var/a b.parquet");
    parsed("s3://bucket", "bucket bucket key ");
    parsed("s3://bucket/", "bucket bucket key ");
    parsed("s3://my.bucket-1/a/b.parquet", "bucket my.bucket-1 key a/b.parquet");
    parsed("s3://bucket/a/", "bucket bucket key a/");
}

#[test]
fn invalid_destinations_are_rejected() {
    parsed("", "error the place for the export is empty; give a path, -, or s3://bucket/name");
    let no_scheme = |scheme| {
        format!("error exports do not go to {scheme}://; give a path, -, file:///path or s3://bucket/name")
    };
    parsed("gs://bucket/a", &no_scheme("gs"));
    parsed("https://example.com/", &no_scheme("https"));
    let three = "error a file: URL has three slashes and a whole path, like file:///var/exports/";
    parsed("file://host/a", three);
    parsed("s3://", "error that is no name of a bucket; write s3://bucket/name");
    parsed("s3://key:secret@bucket/a", "error that is no name of a bucket; write s3://bucket/name");
    let dots = "error `a/../b` is no name for an object: no part of it may be empty, `.` or `..`";
    parsed("s3://bucket/a/../b", dots);
}

#[test]
fn plain_http_endpoint_needs_explicit_permission() {
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let place = Destination::parse("s3://bucket/a").unwrap();
    let plain = option("AWS_ENDPOINT_URL", "http://127.0.0.1:9000");
    for allow in [option("OTHER", "x"), option("AWS_ALLOW_HTTP", "false"), option("AWS_ALLOW_HTTP", "")] {
        let refused = place.open(&[plain.clone(), allow]).err().unwrap();
        assert!(refused.to_string().contains("set AWS_ALLOW_HTTP=true"), "{refused}");
    }
    let allowed = [plain, option("AWS_ALLOW_HTTP", "true")];
    let refused = place.open(&allowed).err().unwrap().to_string();
    assert!(
        refused.contains("AWS_ACCESS_KEY_ID"),
        "the machine it runs on is not asked for a role unasked: {refused}"
    );
    let keys = [option("AWS_ACCESS_KEY_ID", "a"), option("AWS_SECRET_ACCESS_KEY", "b")];
    assert!(place.open(&[allowed.as_slice(), keys.as_slice()].concat()).is_ok());
    for endpoint in ["https://127.0.0.1:9000", ""] {
        let encrypted = [option("AWS_ENDPOINT_URL", endpoint)];
        assert!(place.open(&[encrypted.as_slice(), keys.as_slice()].concat()).is_ok());
    }
}

#[tokio::test]
async fn file_appears_only_when_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clicks.jsonl");
    let mut upload = target(&path).begin(None, Overwrite::Refuse).await.unwrap();
    upload.write(b"one\n").await.unwrap();
    assert!(!path.exists());
    assert_eq!(names(folder.path()).len(), 1, "the bytes wait under another name beside it");
    upload.write(b"two\n").await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    assert_eq!(names(folder.path()), ["clicks.jsonl"]);
}

#[tokio::test]
async fn dropped_or_aborted_upload_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = target(folder.path().join("clicks.jsonl"));
    let mut dropped = target.begin(None, Overwrite::Refuse).await.unwrap();
    dropped.write(b"half").await.unwrap();
    drop(dropped);
    let mut abandoned = target.begin(None, Overwrite::Refuse).await.unwrap();
    abandoned.write(b"half").await.unwrap();
    abandoned.abandon().await;
    assert!(names(folder.path()).is_empty());
}

#[tokio::test]
async fn existing_file_is_replaced_only_when_forced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clicks.jsonl");
    let late = target(&path).begin(None, Overwrite::Refuse).await.unwrap();
    std::fs::write(&path, "old").unwrap();

    let refused = target(&path).begin(None, Overwrite::Refuse).await.err().unwrap();
    assert_eq!(refused.to_string(), format!("{} exists already; nothing was written", path.display()));
    // Somebody was faster: the answer is the same at the end.
    assert!(matches!(late.finish().await, Err(ExportError::Exists(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");

    let mut forced = target(&path).begin(None, Overwrite::Replace).await.unwrap();
    forced.write(b"new").await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    forced.finish().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(folder.path()), ["clicks.jsonl"]);
}

#[tokio::test]
async fn a_device_is_never_replaced() {
    let refused = target("/dev/null").begin(None, Overwrite::Replace).await.err().unwrap();
    assert_eq!(refused.to_string(), "/dev/null is no file and is not replaced");
}

#[tokio::test]
async fn only_folders_accept_part_names() {
    let folder = tempfile::tempdir().unwrap();
    let new = format!("{}/new/", folder.path().display());
    for (place, part) in
        [(new.as_str(), "a.jsonl"), (folder.path().to_str().unwrap(), "day=20260129/b.jsonl")]
    {
        let target = target(place);
        assert!(target.takes_parts());
        let mut upload = target.begin(Some(part), Overwrite::Refuse).await.unwrap();
        upload.write(b"x").await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(std::fs::read(Path::new(place).join(part)).unwrap(), b"x");
        let unnamed = target.begin(None, Overwrite::Refuse).await.err().unwrap();
        assert_eq!(unnamed.to_string(), format!("{place} is a folder; name a file in it"));
        for outside in ["../c", "/c", "c/", "a//c", "a/../../c", ".", ""] {
            let refused = target.begin(Some(outside), Overwrite::Refuse).await.err();
            assert!(matches!(refused, Some(ExportError::InvalidDestination(_))), "{outside}");
        }
    }
    let file = target(folder.path().join("one.jsonl"));
    assert!(!file.takes_parts());
    assert!(matches!(
        file.begin(Some("a"), Overwrite::Refuse).await,
        Err(ExportError::InvalidDestination(_))
    ));
}

#[tokio::test]
async fn missing_folder_is_an_error_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typo/clicks.jsonl");
    let failed = target(&path).begin(None, Overwrite::Refuse).await.err().unwrap();
    assert!(failed.to_string().starts_with(&format!("{} cannot be written: ", path.display())), "{failed}");
    assert!(names(folder.path()).is_empty());
}

#[tokio::test]
async fn parquet_to_stdout_is_rejected() {
    let upload = target("-").begin(None, Overwrite::Refuse).await.unwrap();
    let refused = Export::begin(upload, Format::Parquet).err().unwrap();
    assert_eq!(refused.to_string(), "Parquet cannot go to stdout; name a file, or choose JSON lines");
}

#[tokio::test]
async fn exported_file_holds_exactly_the_bytes_of_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let clicks = many(1_000);
    let mut lines = rlinks_clicks::export::jsonl::Writer::new(Vec::new(), Form::Short);
    lines.write(&clicks).unwrap();
    let mut parquet = rlinks_clicks::export::parquet::Writer::new(Vec::new()).unwrap();
    parquet.write(&clicks).unwrap();
    for (name, format, bytes) in [
        ("a.jsonl", Format::Lines(Form::Short), lines.finish().unwrap()),
        ("a.parquet", Format::Parquet, parquet.finish().unwrap()),
    ] {
        let upload = target(folder.path()).begin(Some(name), Overwrite::Refuse).await.unwrap();
        let mut export = Export::begin(upload, format).unwrap();
        for batch in clicks.chunks(300) {
            export.write(batch).await.unwrap();
        }
        export.finish().await.unwrap();
        assert!(std::fs::read(folder.path().join(name)).unwrap() == bytes, "{name}");
    }
}

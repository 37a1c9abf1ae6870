//! A real S3 server, started by `scripts/with-s3`. Without its variables these tests fail.

use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, aws::AmazonS3};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{Destination, Export, ExportError, Format, OpenDestination};

use crate::support::sample_clicks::many;
use rlinks_store::database::atomic_file::Overwrite;

#[expect(clippy::disallowed_methods, reason = "the server's address comes from the script that started it")]
fn settings() -> (String, Vec<(String, String)>) {
    let bucket = std::env::var("RLINKS_TEST_S3_BUCKET").expect("run this through scripts/with-s3");
    (bucket, std::env::vars().collect())
}

fn target(key: &str) -> OpenDestination {
    let (bucket, options) = settings();
    Destination::parse(&format!("s3://{bucket}/{key}")).unwrap().open(&options).unwrap()
}

fn bucket() -> AmazonS3 {
    let (bucket, _) = settings();
    // The library's own reading of the environment, to see that ours means the same.
    AmazonS3Builder::from_env().with_bucket_name(bucket).build().unwrap()
}

async fn content(key: &str) -> Vec<u8> {
    bucket().get(&Key::from(key)).await.unwrap().bytes().await.unwrap().to_vec()
}

/// Whether the server has a multipart upload for this key that was begun and neither completed nor aborted.
async fn has_begun(key: &str) -> bool {
    let (bucket, options) = settings();
    let (_, endpoint) = options.iter().find(|(name, _)| name == "AWS_ENDPOINT_URL").unwrap();
    let list = reqwest::get(format!("{endpoint}/{bucket}?uploads")).await.unwrap().text().await.unwrap();
    assert!(list.contains("ListMultipartUploadsResult"), "{list}");
    list.contains(&format!("<Key>{key}</Key>"))
}

#[tokio::test]
async fn small_object_appears_when_complete_and_is_not_replaced() {
    let target = target("small/a.jsonl");
    let mut upload = target.begin(None, Overwrite::Refuse).await.unwrap();
    upload.write(b"one\n").await.unwrap();
    assert!(bucket().head(&Key::from("small/a.jsonl")).await.is_err());
    let late = target.begin(None, Overwrite::Refuse).await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(content("small/a.jsonl").await, b"one\n");

    let refused = target.begin(None, Overwrite::Refuse).await.err().unwrap();
    assert_eq!(refused.to_string(), "s3://clicks/small/a.jsonl exists already; nothing was written");
    assert!(matches!(late.finish().await, Err(ExportError::Exists(_))));
    let mut forced = target.begin(None, Overwrite::Replace).await.unwrap();
    forced.write(b"two\n").await.unwrap();
    forced.finish().await.unwrap();
    assert_eq!(content("small/a.jsonl").await, b"two\n");
}

#[tokio::test]
async fn large_object_is_uploaded_in_parts_without_loss() {
    // Sizes around the borders of a part.
    for size in [(8 << 20) - 1, 8 << 20, (8 << 20) + 1, 50 << 20] {
        let bytes: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(size).collect();
        let mut upload = target("large.bin").begin(None, Overwrite::Replace).await.unwrap();
        for piece in bytes.chunks(3_000_000) {
            upload.write(piece).await.unwrap();
        }
        upload.finish().await.unwrap();
        assert!(content("large.bin").await == bytes, "{size}");
    }
}

#[tokio::test]
async fn dropped_or_aborted_upload_leaves_nothing() {
    let bytes = vec![1; 20 << 20];
    let begun = async |key: &str| {
        let mut upload = target(key).begin(None, Overwrite::Refuse).await.unwrap();
        upload.write(&bytes).await.unwrap();
        assert!(has_begun(key).await);
        upload
    };
    begun("abandoned.bin").await.abandon().await;
    assert!(!has_begun("abandoned.bin").await);
    drop(begun("dropped.bin").await);
    let gone = async {
        while has_begun("dropped.bin").await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("what was begun is taken back");
    assert!(bucket().head(&Key::from("dropped.bin")).await.is_err());
}

#[tokio::test]
async fn export_to_a_prefix_writes_part_objects() {
    let clicks = many(3_000);
    let target = target("exports/");
    assert!(target.takes_parts());
    for (name, format) in
        [("day=20260201/a.jsonl", Format::Lines(Form::Full)), ("a.parquet", Format::Parquet)]
    {
        let upload = target.begin(Some(name), Overwrite::Refuse).await.unwrap();
        let mut export = Export::begin(upload, format).unwrap();
        export.write(&clicks).await.unwrap();
        export.finish().await.unwrap();
    }
    let lines = content("exports/day=20260201/a.jsonl").await;
    assert_eq!(String::from_utf8(lines).unwrap().lines().count(), 3_000);
    let parquet = content("exports/a.parquet").await;
    assert_eq!((&parquet[..4], &parquet[parquet.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
}

#[tokio::test]
async fn missing_bucket_or_server_fails_the_export() {
    let (_, mut options) = settings();
    let place = Destination::parse("s3://no-such-bucket/a").unwrap().open(&options).unwrap();
    let mut upload = place.begin(None, Overwrite::Replace).await.unwrap();
    upload.write(b"x").await.unwrap();
    let failed = upload.finish().await.err().unwrap();
    assert!(matches!(failed, ExportError::Failed(_)), "{failed}");

    // Nobody listens on port 1.
    options.push(("AWS_ENDPOINT_URL".to_owned(), "http://127.0.0.1:1".to_owned()));
    let place = Destination::parse("s3://clicks/a").unwrap().open(&options).unwrap();
    let failed = place.begin(None, Overwrite::Refuse).await.err().unwrap();
    assert!(matches!(failed, ExportError::Failed(_)), "{failed}");
}

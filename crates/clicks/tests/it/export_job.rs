//! Exports that go on where the last one ended.

use std::path::Path;

use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{
    Destination as Where, ExportError, ExportReport, ExportRequest, Format, watermark_name,
};
use rlinks_core::{Id, Timestamp};
use rlinks_store::database::atomic_file::Overwrite;
use rlinks_store::database::pool::{Pool, run_in};

use crate::support::clicks::{ClickFixture, MAIN, click, moment};
use crate::support::database::{TestStore, contract};

contract!(watermark_allows_one_export_at_a_time, interrupted_export_rewrites_only_its_own_file,);

async fn fixture_with_clicks(test_store: TestStore, count: u64) -> (ClickFixture, Id) {
    let mut fixture = ClickFixture::new(test_store).await;
    let link = fixture.link("a").await;
    for visitor in 0..count {
        fixture.record(&[click(link, moment("2026-11-10T12:00:00Z"), visitor)]);
    }
    fixture.store_all().await;
    (fixture, link)
}

impl ClickFixture {
    /// Exports what no export by the same watermark has written.
    async fn export_since(&self, to: &Path, link: Option<Id>) -> Result<ExportReport, ExportError> {
        let target = Where::parse(to.to_str().unwrap()).unwrap().open(&[]).unwrap();
        let wanted = ExportRequest {
            filter: EventFilter {
                workspace: MAIN,
                link,
                during: Timestamp::from_ms(0)..Timestamp::from_ms(i64::MAX),
            },
            format: Format::Lines(Form::Short),
            overwrite: Overwrite::Refuse,
            watermark: Some(&watermark_name(MAIN, link)),
            stem: "clicks",
            upto: None,
        };
        let mut codes = Codes::new(self.store.reader());
        self.clicks.export(&mut codes, &target, &wanted, moment("2026-11-11"), |_| ()).await
    }

    async fn change(&self, sql: &'static str, name: String) {
        let mut tx = self.clicks.pool().begin().await.unwrap();
        run_in!(&mut tx, sql, name).unwrap();
        tx.commit().await.unwrap();
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

async fn watermark_allows_one_export_at_a_time(test_store: TestStore) {
    let (mut fixture, link) = fixture_with_clicks(test_store.clone(), 50).await;
    let [one, two, three, four] =
        ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"].map(|name| test_store.folder().join(name));
    let (first, second, other) = tokio::join!(
        fixture.export_since(&one, None),
        fixture.export_since(&two, None),
        fixture.export_since(&three, Some(link))
    );
    let (done, refused) = if first.is_ok() { (first, second) } else { (second, first) };
    assert_eq!(done.unwrap().clicks, 50);
    assert!(matches!(refused, Err(ExportError::Busy)), "{refused:?}");
    assert!(one.exists() != two.exists());
    assert_eq!(other.unwrap().clicks, 50, "another watermark is nobody's business");
    // The next one may, and writes what is new.
    fixture.record(&[click(link, moment("2026-11-10T13:00:00Z"), 1)]);
    fixture.store_all().await;
    assert_eq!(fixture.export_since(&four, None).await.unwrap().clicks, 1);
    assert_eq!(lines(&four), 1);
    if let Pool::Sqlite { file, .. } = fixture.clicks.pool() {
        let names = file.path().parent().unwrap().read_dir().unwrap();
        let left: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("export"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

async fn interrupted_export_rewrites_only_its_own_file(test_store: TestStore) {
    let (mut fixture, link) = fixture_with_clicks(test_store.clone(), 5).await;
    let folder = test_store.folder().join("out/");
    let done = fixture.export_since(&folder, None).await.unwrap();
    assert_eq!((done.clicks, done.parts.as_slice()), (5, &["clicks-000000000001.jsonl".to_owned()][..]));
    let file = folder.join(&done.parts[0]);

    // As if it had ended between writing the file and moving the watermark; meanwhile there is one click more.
    let note = format!("begun:{}:{}", watermark_name(MAIN, None), file.display());
    fixture.change("update exports set name = $1, upto = 0", note).await;
    fixture.record(&[click(link, moment("2026-11-10T13:00:00Z"), 1)]);
    fixture.store_all().await;
    assert_eq!(fixture.export_since(&folder, None).await.unwrap().clicks, 6);
    assert_eq!(lines(&file), 6);

    // A file of that name that no such export has begun is somebody's.
    fixture.change("delete from exports where name = $1", watermark_name(MAIN, None)).await;
    std::fs::write(&file, "precious").unwrap();
    let refused = fixture.export_since(&folder, None).await;
    assert!(matches!(refused, Err(ExportError::Exists(_))), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(fixture.clicks.watermark(&watermark_name(MAIN, None)).await.unwrap(), 0);
    // And stays somebody's however often it is tried.
    assert!(matches!(fixture.export_since(&folder, None).await, Err(ExportError::Exists(_))));
}

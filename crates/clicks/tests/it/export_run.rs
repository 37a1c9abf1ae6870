//! Exports that go on where the last one ended.

use std::path::Path;

use rlinks_clicks::events::{Codes, EventFilter};
use rlinks_clicks::export::jsonl::Form;
use rlinks_clicks::export::{
    Destination as Where, ExportError, ExportReport, ExportRequest, Format, Overwrite, watermark_name,
};
use rlinks_core::{Id, Timestamp};
use rlinks_store::database::pool::{Pool, run_in};

use crate::database::{Place, contract};
use crate::desk::{Desk, MAIN, click, moment};

contract!(
    one_export_at_a_time_goes_by_a_watermark,
    an_export_that_was_cut_off_writes_its_own_file_again_and_no_other,
);

async fn desk_with_clicks(place: Place, count: u64) -> (Desk, Id) {
    let mut desk = Desk::new(place).await;
    let link = desk.link("a").await;
    for visitor in 0..count {
        desk.record(&[click(link, moment("2026-11-10T12:00:00Z"), visitor)]);
    }
    desk.store_all().await;
    (desk, link)
}

impl Desk {
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
        let mut codes = Codes::new(self.store.clone());
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

async fn one_export_at_a_time_goes_by_a_watermark(place: Place) {
    let (mut desk, link) = desk_with_clicks(place.clone(), 50).await;
    let [one, two, three, four] =
        ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"].map(|name| place.folder().join(name));
    let (first, second, other) = tokio::join!(
        desk.export_since(&one, None),
        desk.export_since(&two, None),
        desk.export_since(&three, Some(link))
    );
    let (done, refused) = if first.is_ok() { (first, second) } else { (second, first) };
    assert_eq!(done.unwrap().clicks, 50);
    assert!(matches!(refused, Err(ExportError::Busy)), "{refused:?}");
    assert!(one.exists() != two.exists());
    assert_eq!(other.unwrap().clicks, 50, "another watermark is nobody's business");
    // The next one may, and writes what is new.
    desk.record(&[click(link, moment("2026-11-10T13:00:00Z"), 1)]);
    desk.store_all().await;
    assert_eq!(desk.export_since(&four, None).await.unwrap().clicks, 1);
    assert_eq!(lines(&four), 1);
    if let Pool::Sqlite { file, .. } = desk.clicks.pool() {
        let names = file.path().parent().unwrap().read_dir().unwrap();
        let left: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("export"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

async fn an_export_that_was_cut_off_writes_its_own_file_again_and_no_other(place: Place) {
    let (mut desk, link) = desk_with_clicks(place.clone(), 5).await;
    let folder = place.folder().join("out/");
    let done = desk.export_since(&folder, None).await.unwrap();
    assert_eq!((done.clicks, done.parts.as_slice()), (5, &["clicks-000000000001.jsonl".to_owned()][..]));
    let file = folder.join(&done.parts[0]);

    // As if it had ended between writing the file and moving the watermark; meanwhile there is one click more.
    let note = format!("begun:{}:{}", watermark_name(MAIN, None), file.display());
    desk.change("update exports set name = $1, upto = 0", note).await;
    desk.record(&[click(link, moment("2026-11-10T13:00:00Z"), 1)]);
    desk.store_all().await;
    assert_eq!(desk.export_since(&folder, None).await.unwrap().clicks, 6);
    assert_eq!(lines(&file), 6);

    // A file of that name that no such export has begun is somebody's.
    desk.change("delete from exports where name = $1", watermark_name(MAIN, None)).await;
    std::fs::write(&file, "precious").unwrap();
    let refused = desk.export_since(&folder, None).await;
    assert!(matches!(refused, Err(ExportError::Exists(_))), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(desk.clicks.watermark(&watermark_name(MAIN, None)).await.unwrap(), 0);
    // And stays somebody's however often it is tried.
    assert!(matches!(desk.export_since(&folder, None).await, Err(ExportError::Exists(_))));
}

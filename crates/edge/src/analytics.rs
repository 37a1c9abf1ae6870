//! Profile `edge`: clicks as Analytics Engine events, and what is asked of it. It samples when there is much to count, so counts
//! are sums of `_sample_interval`, never numbers of rows.

use rlinks_core::click::attribution::parse_referrer;
use rlinks_core::{Code, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::cached_link::seconds;
use crate::request::EdgeRequest;

/// The dataset events go to.
pub const DATASET: &str = "edge_shortener_events";
/// Events need a while to arrive. What is younger is left for the next run.
pub const SETTLING_SECONDS: i64 = 300;
/// Analytics Engine forgets after three months.
const RETENTION_SECONDS: i64 = 90 * 86_400;
/// Days of a link's statistics.
pub const STATS_DAYS: i64 = 30;

/// One event: its index and its blobs, in lines.
pub fn event_lines(code: &Code, request: &EdgeRequest, agent_characters: usize) -> String {
    let referrer = parse_referrer(request.referrer.as_bytes());
    let agent: String = request.user_agent.chars().take(agent_characters).collect();
    let or = |text: &str, unknown: &str| if text.is_empty() { unknown } else { text }.to_owned();
    [
        code.as_str(),
        referrer.as_deref().unwrap_or_default(),
        &or(&request.country, "XX"),
        &or(&request.colo, "UNKNOWN"),
        &agent,
    ]
    .join("\n")
}

/// Visits of every link between two moments: behind the first, up to the second.
pub fn visits_query(from: i64, to: i64) -> String {
    format!(
        "SELECT blob1 AS slug, SUM(_sample_interval) AS visits FROM {DATASET} \
         WHERE timestamp > toDateTime({from}) AND timestamp <= toDateTime({to}) GROUP BY slug FORMAT JSON"
    )
}

/// What to fold in now, given where the last run stopped: nothing when nothing has settled.
pub fn unfolded_window(watermark: Option<i64>, now: Timestamp) -> Option<(i64, i64)> {
    let to = seconds(now) - SETTLING_SECONDS;
    let from = watermark.unwrap_or(to - RETENTION_SECONDS);
    (from < to).then_some((from, to))
}

/// A question about one link's last days: its name in the answer, and how it is asked.
pub fn stats_queries(code: &Code, now: Timestamp) -> [(&'static str, String); 3] {
    // A code has neither quotes nor backslashes.
    let from = seconds(now).div_euclid(86_400) * 86_400 - (STATS_DAYS - 1) * 86_400;
    let ask = |what: &str, more: &str, order: &str| {
        format!(
            "SELECT {what} AS value, SUM(_sample_interval) AS clicks FROM {DATASET} WHERE index1 = '{code}' \
             AND timestamp >= toDateTime({from}){more} GROUP BY value ORDER BY {order} FORMAT JSON"
        )
    };
    [
        ("series", ask("toStartOfInterval(timestamp, INTERVAL '1' DAY)", "", "value")),
        ("referrers", ask("blob2", " AND blob2 != ''", "clicks DESC LIMIT 10")),
        ("countries", ask("blob3", " AND blob3 != 'XX'", "clicks DESC LIMIT 10")),
    ]
}

/// A value and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueCount {
    pub value: String,
    pub clicks: i64,
}

/// Reads `{"data":[{...}]}` with a text under `name` and a number under `count`. Large numbers come as texts.
pub fn parse_rows(json: &str, name: &str, count: &str) -> Option<Vec<ValueCount>> {
    let answer: Value = serde_json::from_str(json).ok()?;
    let rows = answer.get("data")?.as_array()?;
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "a sum of sample intervals is a whole number")]
        value => value.as_i64().or_else(|| value.as_f64().map(|number| number.round() as i64)),
    };
    rows.iter()
        .map(|row| {
            Some(ValueCount { value: row.get(name)?.as_str()?.to_owned(), clicks: number(row.get(count)?)? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rlinks_core::{Code, Timestamp};

    use super::{ValueCount, event_lines, parse_rows, stats_queries, unfolded_window, visits_query};
    use crate::request::EdgeRequest;

    #[test]
    fn event_matches_the_documented_format() {
        let request = EdgeRequest {
            referrer: "https://news.example/a?secret".to_owned(),
            country: "NL".to_owned(),
            colo: "AMS".to_owned(),
            user_agent: "ä".repeat(300),
            ..EdgeRequest::default()
        };
        let code = Code::from_path("ok").unwrap();
        assert_eq!(
            event_lines(&code, &request, 256),
            format!("ok\nhttps://news.example/a\nNL\nAMS\n{}", "ä".repeat(256))
        );
        assert_eq!(event_lines(&code, &EdgeRequest::default(), 256), "ok\n\nXX\nUNKNOWN\n");
    }

    #[test]
    fn counts_sum_sample_intervals_after_the_watermark() {
        assert!(visits_query(5, 9).contains("SUM(_sample_interval) AS visits"));
        assert!(visits_query(5, 9).contains("timestamp > toDateTime(5) AND timestamp <= toDateTime(9)"));
        let code = Code::from_path("ok").unwrap();
        assert!(stats_queries(&code, Timestamp::from_ms(0)).iter().all(|(_, sql)| !sql.contains("COUNT")));
        let now = Timestamp::from_ms(1_000_000_000_000);
        assert_eq!(unfolded_window(Some(5), now), Some((5, 999_999_700)));
        assert_eq!(unfolded_window(Some(999_999_700), now), None);
        assert_eq!(unfolded_window(None, now), Some((999_999_700 - 7_776_000, 999_999_700)));
    }

    #[test]
    fn numbers_are_read_from_strings_too() {
        let json = r#"{"meta":[],"data":[{"slug":"a","visits":"12"},{"slug":"b","visits":3},{"slug":"c","visits":2.0}],"rows":3}"#;
        let counted = |value: &str, clicks| ValueCount { value: value.to_owned(), clicks };
        assert_eq!(
            parse_rows(json, "slug", "visits"),
            Some(vec![counted("a", 12), counted("b", 3), counted("c", 2)])
        );
        assert_eq!(parse_rows("{}", "slug", "visits"), None);
        assert_eq!(parse_rows(r#"{"data":[{"slug":1}]}"#, "slug", "visits"), None);
    }
}

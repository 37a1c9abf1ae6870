use rlinks_clicks::Click;
use rlinks_clicks::export::jsonl::{Form, Writer};

use crate::support::sample_clicks::{complete_click, many, minimal_click};

fn lines(clicks: &[Click], form: Form) -> String {
    let mut writer = Writer::new(Vec::new(), form);
    writer.write(clicks).unwrap();
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn short_form_has_seven_fields() {
    assert_eq!(
        lines(&[minimal_click(), complete_click()], Form::Short),
        concat!(
            r#"{"key":"hit:parity:20260129:019c0c33-1018-7001-8000-000700000001","ts":"2026-01-29T23:59:59Z","code":"parity","country":null,"ua_hash":null,"referrer":null,"ip_prefix":null}"#,
            "\n",
            r#"{"key":"hit:grüße:20260130:019c0c33-142a-7002-8000-000700000001","ts":"2026-01-30T00:00:00.042Z","code":"grüße","country":"DE","ua_hash":"00000000000000ab","referrer":"https://example.com/\"quoted\"\n","ip_prefix":"2001:db8:1::/48"}"#,
            "\n",
        )
    );
}

#[test]
fn full_form_extends_the_short_form() {
    assert_eq!(
        lines(&[minimal_click(), complete_click()], Form::Full),
        concat!(
            r#"{"key":"hit:parity:20260129:019c0c33-1018-7001-8000-000700000001","ts":"2026-01-29T23:59:59Z","code":"parity","country":null,"ua_hash":null,"referrer":null,"ip_prefix":null,"#,
            r#""id":"019c0c33-1018-7001-8000-000700000001","link_id":"9007199254740993","workspace_id":"1","user_agent":null,"city":null,"latitude":null,"longitude":null,"device":"unknown","#,
            r#""browser":null,"browser_version":null,"system":null,"system_version":null,"utm_source":null,"utm_medium":null,"utm_campaign":null,"visitor":null,"bot":false}"#,
            "\n",
            r#"{"key":"hit:grüße:20260130:019c0c33-142a-7002-8000-000700000001","ts":"2026-01-30T00:00:00.042Z","code":"grüße","country":"DE","ua_hash":"00000000000000ab","referrer":"https://example.com/\"quoted\"\n","ip_prefix":"2001:db8:1::/48","#,
            r#""id":"019c0c33-142a-7002-8000-000700000001","link_id":"9223372036854775807","workspace_id":"2","user_agent":"Mozilla/5.0 (🦊)","city":"München","latitude":48.1374,"longitude":-11.5,"device":"bot","#,
            r#""browser":"Firefox","browser_version":"147","system":"Linux","system_version":"","utm_source":"news","utm_medium":"mail","utm_campaign":"winter","visitor":"ffffffffffffffff","bot":true}"#,
            "\n",
        )
    );
}

#[test]
fn output_does_not_depend_on_the_batch_size() {
    let clicks = many(2_000);
    let mut writer = Writer::new(Vec::new(), Form::Full);
    for batch in clicks.chunks(7) {
        writer.write(batch).unwrap();
    }
    assert_eq!(String::from_utf8(writer.finish().unwrap()).unwrap(), lines(&clicks, Form::Full));
    assert_eq!(lines(&[], Form::Full), "");
}

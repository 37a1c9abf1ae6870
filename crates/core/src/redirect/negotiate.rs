//! JSON for programs, a page for people: what an error answers with.

/// Whether an error is answered as JSON: the path is the API's, `application/json` is preferred to `text/html`, or it is
/// named and `text/html` is not.
pub fn wants_json(path: &str, accept: Option<&str>) -> bool {
    path == "/api" || path.starts_with("/api/") || accept.is_some_and(prefers_json)
}

fn prefers_json(accept: &str) -> bool {
    let (mut json, mut html) = (None::<u16>, None::<u16>);
    for range in accept.split(',') {
        let mut parts = range.split(';');
        let kind = parts.next().unwrap_or_default().trim();
        let quality = parts.find_map(quality).unwrap_or(1000);
        if kind.eq_ignore_ascii_case("application/json") {
            json = json.max(Some(quality));
        } else if kind.eq_ignore_ascii_case("text/html") {
            html = html.max(Some(quality));
        }
    }
    json.is_some_and(|json| json > 0 && html.is_none_or(|html| json > html))
}

/// `q=0.8` as thousandths. What is no number between 0 and 1 counts as not said.
fn quality(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let value: f32 = value.trim().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000 by the range check"
    )]
    (0.0..=1.0).contains(&value).then(|| (value * 1000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::wants_json;

    #[track_caller]
    fn check(accept: &str, json: bool) {
        assert_eq!(wants_json("/x", Some(accept)), json, "{accept}");
    }

    #[test]
    fn json_is_chosen_only_when_requested() {
        check("application/json", true);
        check("Application/JSON", true);
        check("application/json, text/plain, */*", true);
        check("text/html;q=0.9, application/json", true);
        check("text/html;q=0.1, application/json;q=0.2", true);
        check("application/json;charset=utf-8;q=0.5, */*", true);
        check("*/*", false);
        check("", false);
        check("text/html", false);
        check("text/html, application/json", false);
        check("application/json;q=0.5, text/html;q=0.5", false);
        check("application/json;q=0", false);
        check("application/*", false);
        check("application/jsonx", false);
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false);
        check("application/json;q=oops", true);
        check("application/json;q=0.1, text/html;q=0", true);
        assert!(!wants_json("/x", None));
        assert!(
            wants_json("/api/v1/links", Some("text/html"))
                && wants_json("/api", None)
                && !wants_json("/apix", None)
        );
    }
}

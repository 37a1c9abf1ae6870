//! The OpenAPI document as a page for people: one HTML text, no script, nothing loaded from anywhere.
//!
//! The document is ours, but it is read as if it were not: everything is escaped, a `$ref` that leads nowhere or in circles
//! is shown as such, and the page has a bound. Operations are `<details>`; the address of one is on what is inside it, so that
//! a browser that follows a link opens it.

mod operations;
mod schemas;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use rlinks_core::redirect::public_pages::escape;
use serde_json::Value;

use self::words::{anchor, badge, inline};

/// The style of the page, as it stands in its `<style>`.
pub const STYLE: &str = include_str!("docs/style.css");

/// Fields inside fields that an operation shows before it only links.
const MAX_DEPTH: usize = 4;
/// References that lead to references.
const MAX_REFERENCES: usize = 8;
/// A page that has grown this long follows no more references inside schemas; it only links them.
const LONG_BYTES: usize = 2 << 20;
/// The order in which a path's operations are shown.
const METHODS: [&str; 8] = ["get", "post", "put", "patch", "delete", "head", "options", "trace"];

/// What allows [`STYLE`] in the `style-src` of a content security policy: `'sha256-...'`.
pub fn style_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, STYLE.as_bytes())))
}

/// The page of a document.
pub fn page(openapi: &Value) -> String {
    let mut page = Page { document: openapi, html: String::new() };
    let groups = groups(&page);
    let title = text(&openapi["info"], "title").unwrap_or("API");
    page.add(&format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>{}</title><style>{STYLE}</style></head><body><a class=\"skip\" href=\"#main\">Skip to the content</a><div class=\"frame\">",
        escape(title)
    ));
    page.head(title);
    page.contents(&groups);
    page.add("<main id=\"main\">");
    page.authentication(&groups);
    for group in &groups {
        page.group(group);
    }
    page.schemas();
    page.add("</main></div></body></html>\n");
    page.html
}

/// Operations that share a tag.
struct Group<'a> {
    name: &'a str,
    description: Option<&'a str>,
    operations: Vec<Operation<'a>>,
}

struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    /// What all operations of the path share.
    item: &'a Value,
    spec: &'a Value,
    id: String,
}

impl Operation<'_> {
    fn summary(&self) -> &str {
        text(self.spec, "summary").unwrap_or_default()
    }
}

/// The groups in the document's order, those it does not name after them.
fn groups<'a>(page: &Page<'a>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = list(&page.document["tags"])
        .iter()
        .filter_map(|tag| {
            let description = text(tag, "description");
            Some(Group { name: text(tag, "name")?, description, operations: Vec::new() })
        })
        .collect();
    let mut taken = BTreeSet::new();
    for (path, item) in entries(&page.document["paths"]) {
        let item = page.resolve(item).unwrap_or(item);
        for method in METHODS {
            let Some(spec) = item.get(method) else { continue };
            let name = list(&spec["tags"]).first().and_then(Value::as_str).unwrap_or("Other");
            let words = text(spec, "operationId").map_or_else(|| format!("{method} {path}"), str::to_owned);
            let mut id = anchor("operation", &words);
            while !taken.insert(id.clone()) {
                id.push_str("-2");
            }
            let operation = Operation { method, path, item, spec, id };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.operations.push(operation),
                None => groups.push(Group { name, description: None, operations: vec![operation] }),
            }
        }
    }
    groups.retain(|group| !group.operations.is_empty());
    groups
}

/// The page while it is written.
struct Page<'a> {
    document: &'a Value,
    html: String,
}

/// Whether references inside a schema are followed, or only linked.
#[derive(Clone, Copy, PartialEq)]
enum References {
    Follow,
    Link,
}

impl<'a> Page<'a> {
    fn add(&mut self, html: &str) {
        self.html.push_str(html);
    }

    // ---- the frame ----

    fn contents(&mut self, groups: &[Group<'a>]) {
        self.add("<nav aria-labelledby=\"contents\"><h2 id=\"contents\">Contents</h2><ul>");
        self.add("<li><a href=\"#authentication\">Authentication</a></li>");
        for group in groups {
            let _ = write!(
                self.html,
                "<li><a href=\"#{}\">{}</a><ul>",
                anchor("tag", group.name),
                escape(group.name)
            );
            for operation in &group.operations {
                let words = Some(operation.summary()).filter(|words| !words.is_empty());
                let _ = write!(
                    self.html,
                    "<li>{} <a href=\"#{}\">{}</a></li>",
                    badge(operation.method),
                    operation.id,
                    escape(words.unwrap_or(operation.path))
                );
            }
            self.add("</ul></li>");
        }
        if !entries(&self.document["components"]["schemas"]).is_empty() {
            self.add("<li><a href=\"#schemas\">Schemas</a></li>");
        }
        self.add("</ul></nav>");
    }

    fn head(&mut self, title: &str) {
        let info = &self.document["info"];
        let _ = write!(self.html, "<header><h1>{}</h1><p class=\"version\">", escape(title));
        if let Some(version) = text(info, "version") {
            let _ = write!(self.html, "Version {}", escape(version));
        }
        if let Some(server) = text(&self.document["servers"][0], "url") {
            let _ = write!(self.html, " · <code>{}</code>", escape(server));
        }
        self.add("</p>");
        self.prose(text(info, "description"));
        self.add("</header>");
    }

    fn authentication(&mut self, groups: &[Group<'a>]) {
        self.add("<section aria-labelledby=\"authentication\"><h2 id=\"authentication\">Authentication</h2>");
        let schemes = entries(&self.document["components"]["securitySchemes"]);
        if schemes.is_empty() {
            self.add("<p>No credential is needed.</p></section>");
            return;
        }
        self.add("<ul>");
        for (name, scheme) in schemes {
            let scheme = self.resolve(scheme).unwrap_or(scheme);
            let _ = write!(self.html, "<li>{}", way_in(name, scheme));
            self.prose(text(scheme, "description"));
            self.add("</li>");
        }
        self.add("</ul>");
        let _ =
            write!(self.html, "<p>For example:</p><pre><code>{}</code></pre>", escape(&self.curl(groups)));
        self.add("</section>");
    }

    /// A request anybody can try: the first that only reads and needs nothing filled in.
    fn curl(&self, groups: &[Group<'a>]) -> String {
        let operations = || groups.iter().flat_map(|group| &group.operations);
        let is_simple = |operation: &&Operation<'_>| {
            operation.method == "get" && !operation.path.contains('{') && self.needs_credential(operation)
        };
        let path = operations().find(is_simple).map_or("/", |operation| operation.path);
        let server = text(&self.document["servers"][0], "url").unwrap_or_default().trim_end_matches('/');
        let host = if server.contains("://") { "" } else { "https://your-host" };
        format!("curl -H \"Authorization: Bearer $API_KEY\" {host}{server}{path}")
    }

    fn needs_credential(&self, operation: &Operation<'a>) -> bool {
        let security = operation.spec.get("security").unwrap_or(&self.document["security"]);
        !list(security).is_empty() && !list(security).iter().any(|way| entries(way).is_empty())
    }

    // ---- references and words ----

    /// What a value is after its references; nothing when they lead nowhere or in circles.
    fn resolve(&self, value: &'a Value) -> Option<&'a Value> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            match text(value, "$ref") {
                Some(reference) => value = self.look_up(reference)?,
                None => return Some(value),
            }
        }
        None
    }

    /// `#/components/schemas/Link`; other documents are not fetched.
    fn look_up(&self, reference: &str) -> Option<&'a Value> {
        self.document.pointer(reference.strip_prefix('#')?)
    }

    /// Paragraphs, lists and `code`: as much of Markdown as descriptions need.
    fn prose(&mut self, words: Option<&str>) {
        let Some(words) = words else { return };
        for paragraph in words.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
            if paragraph.lines().all(|line| line.trim_start().starts_with("- ")) {
                self.add("<ul>");
                for line in paragraph.lines() {
                    let _ =
                        write!(self.html, "<li>{}</li>", inline(line.trim_start().trim_start_matches("- ")));
                }
                self.add("</ul>");
            } else {
                let _ = write!(self.html, "<p>{}</p>", inline(paragraph));
            }
        }
    }
}

/// How a credential is sent.
fn way_in(name: &str, scheme: &Value) -> String {
    let place = escape(text(scheme, "name").unwrap_or(name));
    let words = match (text(scheme, "type"), text(scheme, "scheme"), text(scheme, "in")) {
        (Some("http"), Some(kind), _) if kind.eq_ignore_ascii_case("bearer") => {
            "send it as <code>Authorization: Bearer …</code>".to_owned()
        }
        (Some("http"), Some(kind), _) => format!("send it as <code>Authorization: {} …</code>", escape(kind)),
        (Some("apiKey"), _, Some(kind)) => format!("the {} <code>{place}</code>", escape(kind)),
        (Some("openIdConnect"), ..) => "an access token of the configured OpenID provider".to_owned(),
        (kind, ..) => escape(kind.unwrap_or("another way")),
    };
    format!("<strong>{}</strong>: {words}", escape(name))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().map_or_else(Vec::new, |object| object.iter().collect())
}

fn first_example(examples: &Value) -> Option<&Value> {
    examples.as_object()?.values().find_map(|example| example.get("value"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{STYLE, page, style_source};

    fn sample() -> Value {
        json!({
            "openapi": "3.1.0",
            "info": {"title": "Short & sweet", "version": "1.2.3", "description": "Links.\n\n- one `code`\n- two"},
            "servers": [{"url": "/api/v1"}],
            "security": [{"key": []}],
            "tags": [{"name": "Links", "description": "What redirects."}, {"name": "Unused"}],
            "paths": {
                "/links": {
                    "get": {"tags": ["Links"], "summary": "List links", "x-scope": "links:read", "responses": {
                        "200": {"description": "Some links", "content": {"application/json": {"schema": {
                            "type": "object", "required": ["data"], "properties": {
                                "data": {"type": "array", "items": {"$ref": "#/components/schemas/Link"}}
                            }
                        }}}},
                        "404": {"$ref": "#/components/responses/Error"}
                    }},
                    "post": {"tags": ["Links"], "summary": "Make <script>alert(1)</script>", "operationId": "makeLink",
                        "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewLink"}}}},
                        "responses": {"201": {"description": "Made", "headers": {"Location": {"description": "Where it \"is\""}}}}}
                },
                "/links/{code}": {
                    "parameters": [
                        {"$ref": "#/components/parameters/Code"},
                        {"name": "at", "in": "query", "description": "hidden by the operation", "schema": true}
                    ],
                    "delete": {"tags": ["Links"], "deprecated": true, "parameters": [
                        {"name": "at", "in": "query", "description": "when", "schema": {"type": ["string", "null"], "format": "date-time"}},
                        {"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5, "enum": [1, 5, 9]}}
                    ]}
                },
                "/health": {"get": {"summary": "Health", "security": []}}
            },
            "components": {
                "securitySchemes": {
                    "key": {"type": "http", "scheme": "bearer"},
                    "session": {"type": "apiKey", "in": "cookie", "name": "sid"}
                },
                "parameters": {"Code": {"name": "code", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^<$"}}},
                "responses": {"Error": {"description": "None there", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}},
                "schemas": {
                    "Link": {"type": "object", "properties": {"code": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Link"}}},
                    "NewLink": {"type": "object", "required": ["target"], "properties": {
                        "target": {"type": "string", "format": "uri", "description": "Where `it` leads"},
                        "title": {"type": "string", "maxLength": 500},
                        "tags": {"type": "array", "items": {"type": "string"}, "example": ["a<b"]}
                    }},
                    "Error": {"type": "object", "properties": {"only_in_error": {"type": "string"}}}
                }
            }
        })
    }

    #[track_caller]
    fn shows(page: &str, parts: &[&str]) {
        for part in parts {
            assert!(page.contains(part), "the page lacks {part}\n{page}");
        }
    }

    #[test]
    fn every_operation_is_on_the_page_and_in_the_contents() {
        let document = sample();
        let html = page(&document);
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                let shown = format!(
                    "<span class=\"method {method}\">{}</span> <code class=\"path\">{}</code>",
                    method.to_uppercase(),
                    path.replace('/', "<wbr>/")
                );
                assert_eq!(html.matches(&shown).count(), 1, "{shown}");
            }
        }
        let links: Vec<&str> =
            html.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        assert!(links.len() >= 9, "{links:?}");
        for link in links {
            assert_eq!(
                html.matches(&format!(" id=\"{link}\"")).count(),
                1,
                "{link} is somewhere, and only there"
            );
        }
        assert!(!html.contains("Unused"), "a tag without operations");
    }

    #[test]
    fn document_text_is_escaped_everywhere() {
        let html = page(&sample());
        assert!(!html.contains("<script"));
        shows(&html, &["<title>Short &amp; sweet</title>", "Make &lt;script&gt;alert(1)&lt;/script&gt;"]);
        shows(&html, &["like <code>^&lt;$</code>", "Where it &quot;is&quot;", "a&lt;b"]);

        // The same with markup in every key and every string at once.
        let hostile = serde_json::to_string(&sample()).unwrap().replace("Link", "<b id='x'>&amp;");
        let html = page(&serde_json::from_str(&hostile).unwrap());
        assert!(!html.contains("<b id") && html.contains("&lt;b id=&#39;x&#39;&gt;&amp;amp;"), "{html}");
    }

    #[test]
    fn operation_shows_its_requirements_and_responses() {
        let html = page(&sample());
        shows(
            &html,
            &["Version 1.2.3", "Needs the scope <code>links:read</code>.", "No credential is needed."],
        );
        shows(&html, &["<li>one <code>code</code></li><li>two</li>"]);
        shows(
            &html,
            &[
                "<strong>key</strong>: send it as <code>Authorization: Bearer …</code>",
                "the cookie <code>sid</code>",
            ],
        );
        shows(
            &html,
            &["curl -H &quot;Authorization: Bearer $API_KEY&quot; https://your-host/api/v1/links</code>"],
        );
        shows(
            &html,
            &["<code>code</code> <span class=\"quiet\">in path</span> <span class=\"flag\">required</span>"],
        );
        shows(
            &html,
            &[
                "string (date-time) or null",
                "one of <code>1</code>, <code>5</code>, <code>9</code>; 1 to 9; default <code>5</code>",
            ],
        );
        shows(&html, &["list of <a href=\"#schema-Link\">Link</a>", "<summary>Fields of Link</summary>"]);
        shows(&html, &["Where <code>it</code> leads", "at most 500 characters"]);
        shows(&html, &["&quot;target&quot;: &quot;https://example.com/&quot;"]);
        assert!(
            !html.contains("&quot;title&quot;"),
            "an example has what is required or was given an example"
        );
        assert!(!html.contains("hidden by the operation"));
        assert_eq!(
            html.matches("only_in_error").count(),
            1,
            "an error's fields stand among the schemas only"
        );
    }

    #[test]
    fn unresolved_and_cyclic_references_are_marked() {
        let mut document = sample();
        let schema = &mut document["components"]["schemas"];
        schema["Nowhere"] = json!({"$ref": "#/components/schemas/Missing<"});
        schema["Elsewhere"] = json!({"properties": {"x": {"$ref": "https://example.com/x.json"}}});
        schema["Itself"] = json!({"$ref": "#/components/schemas/Itself"});
        schema["Ping"] = json!({"allOf": [{"$ref": "#/components/schemas/Pong"}]});
        schema["Pong"] = json!({"oneOf": [{"$ref": "#/components/schemas/Ping"}, {"items": {"$ref": "#"}}]});
        let bodies = ["Nowhere", "Elsewhere", "Itself", "Ping", "Link"];
        for name in bodies {
            let schema = json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
            let operation = json!({
                "parameters": [{"$ref": "#/nowhere"}, {"name": "x", "in": "query", "schema": schema["schema"]}],
                "requestBody": {"content": {"application/json": schema}},
                "responses": {"200": {"content": {"application/json": schema}}, "default": {"$ref": "#/paths"}}
            });
            document["paths"][format!("/{name}")] =
                json!({"post": operation, "get": {"requestBody": {"$ref": "#/no"}}});
        }
        let html = page(&document);
        shows(&html, &["<code>#/components/schemas/Missing&lt;</code> (not in this document)"]);
        shows(&html, &["<code>https://example.com/x.json</code> (not in this document)"]);
    }

    #[test]
    fn deeply_nested_schemas_are_truncated() {
        let mut document = sample();
        let many = |to: usize| -> Value {
            (0..40)
                .map(|n| (format!("f{n}"), json!({"$ref": format!("#/components/schemas/S{to}")})))
                .collect()
        };
        for n in 0..10 {
            document["components"]["schemas"][format!("S{n}")] =
                json!({"type": "object", "properties": many((n + 1) % 10)});
        }
        document["paths"]["/links"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] =
            json!({"$ref": "#/components/schemas/S0"});
        let html = page(&document);
        assert!(html.len() < 2 * super::LONG_BYTES, "{}", html.len());
    }

    #[test]
    fn any_json_document_renders() {
        for document in
            [json!(null), json!([]), json!("x"), json!({"paths": []}), json!({"paths": {"/": {"get": 7}}})]
        {
            shows(&page(&document), &["<h1>API</h1>", "</html>"]);
        }
    }

    #[test]
    fn headings_are_in_order_and_no_resource_is_loaded() {
        let html = page(&sample());
        let mut last = 0;
        for heading in html.split("<h").skip(1) {
            let Some(level) = heading.chars().next().and_then(|digit| digit.to_digit(10)) else { continue };
            assert!(level <= last + 1, "h{level} after h{last}");
            last = level;
        }
        for word in ["<script", "<img", "<link", " style=", "url(", "@import", " onclick"] {
            assert!(!html.contains(word), "{word}");
        }
    }

    #[test]
    fn inline_style_matches_the_content_security_policy() {
        let html = page(&sample());
        let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert_eq!(style, STYLE);
        let source = style_source();
        assert!(source.starts_with("'sha256-") && source.ends_with("='") && source.len() == 53, "{source}");
    }
}

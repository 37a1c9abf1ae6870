//! Operations on the page: what each needs, takes and gives.

use std::fmt::Write as _;

use rlinks_core::redirect::public_pages::escape;
use serde_json::Value;

use super::words::{REQUIRED, anchor, badge, breakable, code, inline, plain, pretty};
use super::{Group, MAX_DEPTH, Operation, Page, References, entries, first_example, list, text};

impl<'a> Page<'a> {
    pub(crate) fn group(&mut self, group: &Group<'a>) {
        let id = anchor("tag", group.name);
        let _ = write!(
            self.html,
            "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>",
            escape(group.name)
        );
        self.prose(group.description);
        for operation in &group.operations {
            self.operation(operation);
        }
        self.add("</section>");
    }

    fn operation(&mut self, operation: &Operation<'a>) {
        let is_deprecated = operation.spec["deprecated"] == true;
        let _ = write!(
            self.html,
            "<details class=\"operation{}\"><summary><h3>{} <code class=\"path\">{}</code> <span class=\"what\">{}{}</span></h3></summary>\
             <div class=\"inside\" id=\"{}\">",
            if is_deprecated { " gone" } else { "" },
            badge(operation.method),
            breakable(operation.path),
            escape(operation.summary()),
            if is_deprecated { " <span class=\"flag\">deprecated</span>" } else { "" },
            operation.id,
        );
        self.prose(text(operation.spec, "description"));
        self.credential(operation);
        self.parameters(operation);
        self.request_body(&operation.spec["requestBody"]);
        self.responses(&operation.spec["responses"]);
        self.add("</div></details>");
    }

    fn credential(&mut self, operation: &Operation<'a>) {
        let scopes: Vec<String> = match &operation.spec["x-scope"] {
            Value::String(scope) => vec![format!("<code>{}</code>", escape(scope))],
            Value::Array(scopes) => {
                scopes.iter().map(|scope| format!("<code>{}</code>", escape(&plain(scope)))).collect()
            }
            _ => Vec::new(),
        };
        if !scopes.is_empty() {
            let _ = write!(self.html, "<p>Needs the scope {}.</p>", scopes.join(" or "));
        } else if !self.needs_credential(operation) {
            self.add("<p class=\"soft\">No credential is needed.</p>");
        }
    }

    fn parameters(&mut self, operation: &Operation<'a>) {
        let parameters = self.parameters_of(operation);
        if parameters.is_empty() {
            return;
        }
        // The roles are what a table has anyway; said aloud, they stay when a narrow screen shows the cells as blocks.
        self.add(
            "<h4>Parameters</h4><table class=\"parameters\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">\
             <th role=\"columnheader\" scope=\"col\">Name</th><th role=\"columnheader\" scope=\"col\">Type</th>\
             <th role=\"columnheader\" scope=\"col\">Meaning</th></tr></thead><tbody role=\"rowgroup\">",
        );
        for parameter in parameters {
            let schema = &parameter["schema"];
            let _ = write!(
                self.html,
                "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\"><code>{}</code> <span class=\"quiet\">in {}</span>{}</th>\
                 <td role=\"cell\"><span class=\"type\">{}</span></td><td role=\"cell\">",
                escape(text(parameter, "name").unwrap_or("?")),
                escape(text(parameter, "in").unwrap_or("?")),
                if parameter["required"] == true { REQUIRED } else { "" },
                self.kind(schema, 0),
            );
            self.prose(text(parameter, "description").or_else(|| text(schema, "description")));
            self.rules(self.resolve(schema).unwrap_or(schema));
            if let Some(example) = parameter.get("example") {
                let _ = write!(self.html, "<p class=\"rules\">For example {}</p>", code(example));
            }
            self.add("</td></tr>");
        }
        self.add("</tbody></table>");
    }

    /// Those of the whole path, then those of the operation; one of its own hides the path's of the same name and place.
    fn parameters_of(&self, operation: &Operation<'a>) -> Vec<&'a Value> {
        let of = |spec: &'a Value| -> Vec<&'a Value> {
            list(&spec["parameters"])
                .iter()
                .map(|parameter| self.resolve(parameter).unwrap_or(parameter))
                .collect()
        };
        let own = of(operation.spec);
        let is_hidden =
            |shared: &Value| own.iter().any(|own| own["name"] == shared["name"] && own["in"] == shared["in"]);
        let mut parameters = of(operation.item);
        parameters.retain(|shared| !is_hidden(shared));
        parameters.extend(&own);
        parameters
    }

    fn request_body(&mut self, body: &'a Value) {
        let body = self.resolve(body).unwrap_or(body);
        let contents = entries(&body["content"]);
        if contents.is_empty() {
            return;
        }
        self.add("<h4>Request body</h4>");
        self.prose(text(body, "description"));
        for (media_type, content) in contents {
            let schema = &content["schema"];
            let _ = write!(
                self.html,
                "<p><code>{}</code> <span class=\"type\">{}</span>{}</p>",
                escape(media_type),
                self.kind(schema, 0),
                if body["required"] == true { REQUIRED } else { "" },
            );
            self.fields(schema, MAX_DEPTH, References::Follow, &mut Vec::new());
            if let Some(example) = self.example_of(content) {
                let _ = write!(self.html, "<p>For example:</p><pre><code>{}</code></pre>", escape(&example));
            }
        }
    }

    fn responses(&mut self, responses: &'a Value) {
        let responses = entries(responses);
        if responses.is_empty() {
            return;
        }
        self.add("<h4>Responses</h4><dl>");
        for (status, response) in responses {
            let response = self.resolve(response).unwrap_or(response);
            let class = status.bytes().next().filter(u8::is_ascii_digit).map_or('0', char::from);
            let _ = write!(self.html, "<dt class=\"status s{class}\">{}</dt><dd>", escape(status));
            self.prose(text(response, "description"));
            for (name, header) in entries(&response["headers"]) {
                let header = self.resolve(header).unwrap_or(header);
                let _ = write!(self.html, "<p>Header <code>{}</code>", escape(name));
                if let Some(words) = text(header, "description") {
                    let _ = write!(self.html, ": {}", inline(words));
                }
                self.add("</p>");
            }
            for (media_type, content) in entries(&response["content"]) {
                // Every operation fails alike: errors are linked, not repeated.
                let references =
                    if matches!(class, '4' | '5') { References::Link } else { References::Follow };
                self.answer(media_type, content, references);
            }
            self.add("</dd>");
        }
        self.add("</dl>");
    }

    fn answer(&mut self, media_type: &str, content: &'a Value, references: References) {
        let schema = &content["schema"];
        let _ = write!(
            self.html,
            "<p><code>{}</code> <span class=\"type\">{}</span></p>",
            escape(media_type),
            self.kind(schema, 0)
        );
        let is_linked = references == References::Link && schema.get("$ref").is_some();
        if !is_linked && self.has_fields(schema, MAX_DEPTH) {
            self.add("<details class=\"more\"><summary>Fields</summary>");
            self.fields(schema, MAX_DEPTH, references, &mut Vec::new());
            self.add("</details>");
        }
        let example = content.get("example").or_else(|| first_example(&content["examples"]));
        if let Some(example) = example {
            self.add("<details class=\"more\"><summary>Example</summary>");
            let _ = write!(self.html, "<pre><code>{}</code></pre></details>", escape(&pretty(example)));
        }
    }
}

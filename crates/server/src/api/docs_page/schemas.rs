//! Schemas on the page: their fields, their rules, and examples made of them.

use std::fmt::Write as _;

use rlinks_core::redirect::public_pages::escape;
use serde_json::{Map, Value};

use super::words::{REQUIRED, anchor, code, plain, pretty};
use super::{LONG_BYTES, MAX_DEPTH, Page, References, entries, first_example, list, text};

impl<'a> Page<'a> {
    pub(crate) fn schemas(&mut self) {
        let schemas = entries(&self.document["components"]["schemas"]);
        if schemas.is_empty() {
            return;
        }
        self.add("<section aria-labelledby=\"schemas\"><h2 id=\"schemas\">Schemas</h2>");
        for (name, schema) in schemas {
            let _ = write!(
                self.html,
                "<details class=\"schema\"><summary><h3><code class=\"path\">{}</code> <span class=\"what\">{}</span></h3></summary>\
                 <div class=\"inside\" id=\"{}\">",
                escape(name),
                text(schema, "title").map(escape).unwrap_or_default(),
                anchor("schema", name)
            );
            self.prose(text(schema, "description"));
            let _ = write!(self.html, "<p class=\"type\">{}</p>", self.kind(schema, 0));
            self.rules(schema);
            self.fields(schema, MAX_DEPTH, References::Link, &mut Vec::new());
            if let Some(example) = schema.get("example").or_else(|| list(&schema["examples"]).first()) {
                let _ = write!(
                    self.html,
                    "<p>For example:</p><pre><code>{}</code></pre>",
                    escape(&pretty(example))
                );
            }
            self.add("</div></details>");
        }
        self.add("</section>");
    }

    /// What a value is, in a few words; schemas that have a name are links.
    pub(crate) fn kind(&self, schema: &'a Value, depth: usize) -> String {
        if depth > MAX_DEPTH {
            return "…".to_owned();
        }
        if let Some(reference) = text(schema, "$ref") {
            return self.link(reference);
        }
        for (key, word) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
            if let Some(parts) = schema[key].as_array() {
                let parts: Vec<String> = parts.iter().map(|part| self.kind(part, depth + 1)).collect();
                return parts.join(word);
            }
        }
        let one = |name: &str| match name {
            "array" => format!("list of {}", self.kind(&schema["items"], depth + 1)),
            "object" if schema["additionalProperties"].is_object() => {
                format!("object of {}", self.kind(&schema["additionalProperties"], depth + 1))
            }
            name => match text(schema, "format").filter(|_| name != "null") {
                Some(format) => format!("{} ({})", escape(name), escape(format)),
                None => escape(name),
            },
        };
        match &schema["type"] {
            Value::String(name) => one(name),
            Value::Array(names) => {
                names.iter().map(|name| one(&plain(name))).collect::<Vec<_>>().join(" or ")
            }
            _ if schema.get("const").is_some() => code(&schema["const"]),
            _ if schema.get("enum").is_some() => "one of a few".to_owned(),
            _ if schema.get("properties").is_some() => "object".to_owned(),
            _ if *schema == Value::Bool(false) => "nothing".to_owned(),
            _ => "anything".to_owned(),
        }
    }

    pub(crate) fn link(&self, reference: &str) -> String {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if self.look_up(reference).is_none() {
            return format!("<code>{}</code> (not in this document)", escape(reference));
        }
        match reference.strip_prefix("#/components/schemas/") {
            Some(name) => format!("<a href=\"#{}\">{}</a>", anchor("schema", name), escape(name)),
            None => escape(name),
        }
    }

    /// The limits a value has, as far as a schema states them.
    pub(crate) fn rules(&mut self, schema: &Value) {
        let mut rules = Vec::new();
        if let Some(values) = schema["enum"].as_array() {
            rules.push(format!("one of {}", values.iter().map(code).collect::<Vec<_>>().join(", ")));
        }
        for (least, most, unit) in [
            ("minimum", "maximum", ""),
            ("minLength", "maxLength", " characters"),
            ("minItems", "maxItems", " items"),
            ("minProperties", "maxProperties", " keys"),
        ] {
            match (schema.get(least), schema.get(most)) {
                (Some(least), Some(most)) => rules.push(format!("{} to {}{unit}", plain(least), plain(most))),
                (Some(least), None) => rules.push(format!("at least {}{unit}", plain(least))),
                (None, Some(most)) => rules.push(format!("at most {}{unit}", plain(most))),
                (None, None) => {}
            }
        }
        if let Some(pattern) = text(schema, "pattern") {
            rules.push(format!("like <code>{}</code>", escape(pattern)));
        }
        if let Some(default) = schema.get("default") {
            rules.push(format!("default {}", code(default)));
        }
        for (key, words) in
            [("readOnly", "read only"), ("writeOnly", "write only"), ("deprecated", "deprecated")]
        {
            if schema[key] == true {
                rules.push(words.to_owned());
            }
        }
        if !rules.is_empty() {
            let _ = write!(self.html, "<p class=\"rules\">{}</p>", rules.join("; "));
        }
    }

    /// Whether there is anything inside a value that could be shown.
    pub(crate) fn has_fields(&self, schema: &'a Value, depth: usize) -> bool {
        let Some(schema) = self.resolve(schema).filter(|_| depth > 0) else { return false };
        !entries(&schema["properties"]).is_empty()
            || inner_schemas(schema).iter().any(|inner| self.has_fields(inner, depth - 1))
    }

    /// The fields of an object, of the objects in a list, or of each alternative. `above` holds the references being followed:
    /// what contains itself is not written again.
    pub(crate) fn fields(
        &mut self,
        schema: &'a Value,
        depth: usize,
        references: References,
        above: &mut Vec<&'a str>,
    ) {
        if depth == 0 {
            return;
        }
        if let Some(reference) = text(schema, "$ref") {
            // The first reference of an answer is the answer itself.
            if above.contains(&reference) {
                return;
            }
            if let Some(schema) = self.resolve(schema) {
                above.push(reference);
                self.fields(schema, depth, references, above);
                above.pop();
            }
            return;
        }
        let mut properties = entries(&schema["properties"]);
        if !properties.is_empty() {
            let required: Vec<&str> = list(&schema["required"]).iter().filter_map(Value::as_str).collect();
            properties.sort_by_key(|(name, _)| !required.contains(&name.as_str()));
            self.add("<ul class=\"fields\">");
            for (name, field) in properties {
                let _ = write!(
                    self.html,
                    "<li><code>{}</code> <span class=\"type\">{}</span>{}",
                    escape(name),
                    self.kind(field, 0),
                    if required.contains(&name.as_str()) { REQUIRED } else { "" }
                );
                self.prose(text(field, "description"));
                self.rules(field);
                self.inner(field, depth - 1, references, above);
                self.add("</li>");
            }
            self.add("</ul>");
        }
        for inner in inner_schemas(schema) {
            self.inner(inner, depth, references, above);
        }
    }

    /// What is inside a field: written at once, or behind a line to open when it has a name of its own.
    pub(crate) fn inner(
        &mut self,
        schema: &'a Value,
        depth: usize,
        references: References,
        above: &mut Vec<&'a str>,
    ) {
        let Some(reference) = text(schema, "$ref") else {
            self.fields(schema, depth, references, above);
            return;
        };
        let is_linked = references == References::Link || self.html.len() > LONG_BYTES;
        if is_linked || above.contains(&reference) || !self.has_fields(schema, depth) {
            return;
        }
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let _ = write!(self.html, "<details class=\"more\"><summary>Fields of {}</summary>", escape(name));
        self.fields(schema, depth, references, above);
        self.add("</details>");
    }

    /// The example somebody wrote, or one made from what the schema says.
    pub(crate) fn example_of(&self, content: &'a Value) -> Option<String> {
        if let Some(example) = content.get("example").or_else(|| first_example(&content["examples"])) {
            return Some(pretty(example));
        }
        let example = self.example(&content["schema"], MAX_DEPTH)?;
        Some(pretty(&example))
    }

    /// Required fields and those that have an example of their own; all of them when that leaves none.
    pub(crate) fn example(&self, schema: &'a Value, depth: usize) -> Option<Value> {
        let schema = self.resolve(schema).filter(|_| depth > 0)?;
        let written = [
            schema.get("example"),
            list(&schema["examples"]).first(),
            schema.get("const"),
            schema.get("default"),
        ];
        if let Some(example) = written.into_iter().flatten().next().or_else(|| list(&schema["enum"]).first())
        {
            return Some(example.clone());
        }
        let properties = entries(&schema["properties"]);
        if !properties.is_empty() {
            let required = list(&schema["required"]);
            let is_shown = |name: &str, field: &Value| {
                required.iter().any(|required| required == name)
                    || field.get("example").is_some()
                    || field.get("examples").is_some()
            };
            let has_shown = properties.iter().any(|(name, field)| is_shown(name, field));
            let shown = properties.iter().filter(|(name, field)| !has_shown || is_shown(name, field));
            return Some(
                shown
                    .filter_map(|(name, field)| Some(((*name).clone(), self.example(field, depth - 1)?)))
                    .collect(),
            );
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().filter_map(|part| self.example(part, depth - 1));
            return Some(Value::Object(
                parts.filter_map(|part| part.as_object().cloned()).flatten().collect(),
            ));
        }
        if let Some(first) = ["oneOf", "anyOf"].iter().find_map(|key| list(&schema[*key]).first()) {
            return self.example(first, depth - 1);
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str())?;
        Some(match kind {
            "array" => Value::Array(self.example(&schema["items"], depth - 1).into_iter().collect()),
            "object" => Value::Object(Map::new()),
            "boolean" => Value::Bool(true),
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
            "string" if schema["format"] == "date-time" => "2026-01-29T12:34:56Z".into(),
            "string" if schema["format"] == "uri" => "https://example.com/".into(),
            "string" => "text".into(),
            _ => return None,
        })
    }
}

/// The schemas inside a schema that have no name: items of a list, further keys, alternatives.
fn inner_schemas(schema: &Value) -> Vec<&Value> {
    let one = ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
    let many = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|key| list(&schema[key]));
    one.chain(many).filter(|inner| inner.is_object()).collect()
}

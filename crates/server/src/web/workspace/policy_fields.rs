//! The fields of a policy, as people change them: what each is called, what it means, and what it may be.

use rlinks_core::Policy;
use rlinks_core::workspace::policy::SignInMethod;
use serde_json::Value;

pub(crate) struct PolicyField {
    /// Its path, as the command line and the API have it.
    pub(crate) path: &'static str,
    pub(crate) group: &'static str,
    pub(crate) label: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) kind: FieldKind,
}

/// What a field may be.
pub(crate) enum FieldKind {
    /// One of these: the value, and its words.
    Choice(&'static [(&'static str, &'static str)]),
    /// A number. `empty` is what no number means, where there may be none.
    Number {
        empty: Option<&'static str>,
    },
    Text,
}

impl PolicyField {
    /// A value of it, as people read it.
    pub(crate) fn in_words(&self, value: &str) -> String {
        match &self.kind {
            FieldKind::Choice(choices) => {
                choices.iter().find(|(name, _)| *name == value).map_or(value, |(_, words)| words).to_owned()
            }
            FieldKind::Number { empty: Some(words) } if value.is_empty() => (*words).to_owned(),
            FieldKind::Number { .. } | FieldKind::Text => value.to_owned(),
        }
    }
}

/// The rules fields keep together: how a policy's own words about each begin, and the same for people who see no paths.
const RULE_MESSAGES: [(&str, &str); 8] = [
    (
        "code.min and code.max",
        "The shortest code has at least 1 character, the longest at most 64, and the shortest is not longer than the longest",
    ),
    (
        "code.fold_case needs the alphabet",
        "Upper and lower case can be the same only where codes are lower-case letters, digits, hyphen",
    ),
    (
        "code.fold_case needs the generator",
        "Upper and lower case can be the same only where a code is made of seven random lower-case characters",
    ),
    ("max_target_bytes", "Choose a number between 16 and 65536"),
    (
        "reuse needs the generator",
        "The same target can get the same code only where a code is made as a hash of the target",
    ),
    ("reuse needs visibility", "The same target can get the same code only where every member sees a link"),
    ("limits.requests_per_hour", "Choose at least 1, or leave it empty for no limit"),
    ("cache.max_age", "Choose at most 31536000 seconds, which is a year"),
];

impl PolicyField {
    /// What is wrong with a value of it, from what the policy says, without its paths and types.
    pub(crate) fn error_message(&self, value: &str, said: &str) -> String {
        if let Some((_, words)) = RULE_MESSAGES.iter().find(|(begins, _)| said.starts_with(begins)) {
            return (*words).to_owned();
        }
        match &self.kind {
            FieldKind::Number { .. }
                if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() =>
            {
                "This number is too large".to_owned()
            }
            FieldKind::Number { empty: Some(_) } => "Write a whole number, or leave it empty".to_owned(),
            FieldKind::Number { empty: None } => "Write a whole number".to_owned(),
            FieldKind::Text => "Write hashed, or a whole number up to 512".to_owned(),
            FieldKind::Choice(_) => "Choose one of these".to_owned(),
        }
    }
}

/// The ways to sign in: the field, its words, and the way.
pub(crate) const SIGN_IN_METHODS: [(&str, &str, SignInMethod); 3] = [
    ("sign_in.password", "a password kept here", SignInMethod::Password),
    ("sign_in.oidc", "an OpenID provider", SignInMethod::Oidc),
    ("sign_in.keys", "API keys, for programs", SignInMethod::Keys),
];

/// A field's value as a form has it: without quotes, and empty where there is none.
pub(crate) fn value_of(policy: &Policy, path: &str) -> String {
    let json = serde_json::to_value(policy).expect("a policy is JSON");
    match path.split('.').try_fold(&json, |at, step| at.get(step)) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

const YES_NO: &[(&str, &str)] = &[("true", "yes"), ("false", "no")];
const INACTIVE_RESPONSES: &[(&str, &str)] =
    &[("404", "404, as if it had never been"), ("410", "410, saying that it is gone")];
const REQUIRED_NUMBER: FieldKind = FieldKind::Number { empty: None };
const OPTIONAL_LIMIT: FieldKind = FieldKind::Number { empty: Some("no limit") };

const CODES_GROUP: &str = "Codes";
const REDIRECTS_GROUP: &str = "Redirects";
const INACTIVE_LINKS_GROUP: &str = "Links that do not answer";
const TARGETS_GROUP: &str = "Targets";
const PRIVACY_GROUP: &str = "Who sees what, and for how long";
const LIMITS_GROUP: &str = "Limits";

pub(crate) const POLICY_FIELDS: [PolicyField; 23] = [
    PolicyField {
        path: "code.alphabet",
        group: CODES_GROUP,
        label: "Characters of a new code",
        meaning: "Codes that were given out before keep answering, whatever they are made of.",
        kind: FieldKind::Choice(&[
            ("a-z0-9-", "lower-case letters, digits, hyphen"),
            ("A-Za-z0-9-", "letters, digits, hyphen"),
            ("A-Za-z0-9_-", "letters, digits, underscore, hyphen"),
        ]),
    },
    PolicyField {
        path: "code.min",
        group: CODES_GROUP,
        label: "Shortest code",
        meaning: "Characters, at least 1.",
        kind: REQUIRED_NUMBER,
    },
    PolicyField {
        path: "code.max",
        group: CODES_GROUP,
        label: "Longest code",
        meaning: "Characters, at most 64.",
        kind: REQUIRED_NUMBER,
    },
    PolicyField {
        path: "code.fold_case",
        group: CODES_GROUP,
        label: "Upper and lower case are the same",
        meaning: "A visitor who types /Parity gets /parity. Needs lower-case codes and the generator of seven characters.",
        kind: FieldKind::Choice(YES_NO),
    },
    PolicyField {
        path: "code.unique_fold",
        group: CODES_GROUP,
        label: "Refuse codes that differ by case alone",
        meaning: "With /Sale taken, nobody gets /sale.",
        kind: FieldKind::Choice(YES_NO),
    },
    PolicyField {
        path: "generator",
        group: CODES_GROUP,
        label: "How a code is made when none is chosen",
        meaning: "A hash is the same for the same target, so whoever knows the target can guess it.",
        kind: FieldKind::Choice(&[
            ("random7", "seven random lower-case characters"),
            ("random8", "eight random characters"),
            ("snowflake", "the link’s number, written short"),
            ("hash", "a hash of the target"),
        ]),
    },
    PolicyField {
        path: "reuse",
        group: CODES_GROUP,
        label: "The same target gets the same code",
        meaning: "Who shortens what was shortened before gets the link that is there. Needs the generator hash.",
        kind: FieldKind::Choice(YES_NO),
    },
    PolicyField {
        path: "redirect_status",
        group: REDIRECTS_GROUP,
        label: "Status of a redirect",
        meaning: "For links that do not choose one themselves.",
        kind: FieldKind::Choice(&[
            ("301", "301, permanent"),
            ("302", "302, temporary"),
            ("307", "307, temporary, the method stays"),
            ("308", "308, permanent, the method stays"),
        ]),
    },
    PolicyField {
        path: "cache.scope",
        group: REDIRECTS_GROUP,
        label: "Who may keep a redirect",
        meaning: "What is kept is not asked for again: it is faster, is not counted, and changes are seen late.",
        kind: FieldKind::Choice(&[
            ("private", "the visitor’s browser"),
            ("public", "anybody on the way, proxies too"),
            ("no-store", "nobody"),
        ]),
    },
    PolicyField {
        path: "cache.max_age",
        group: REDIRECTS_GROUP,
        label: "For how many seconds",
        meaning: "Never beyond a link’s expiry. 0: it is asked for every time.",
        kind: REQUIRED_NUMBER,
    },
    PolicyField {
        path: "answers.expired",
        group: INACTIVE_LINKS_GROUP,
        label: "An expired link answers",
        meaning: "Past its time.",
        kind: FieldKind::Choice(INACTIVE_RESPONSES),
    },
    PolicyField {
        path: "answers.disabled",
        group: INACTIVE_LINKS_GROUP,
        label: "A disabled link answers",
        meaning: "Switched off by somebody. 410 would confirm that it existed.",
        kind: FieldKind::Choice(INACTIVE_RESPONSES),
    },
    PolicyField {
        path: "answers.deleted",
        group: INACTIVE_LINKS_GROUP,
        label: "A deleted link answers",
        meaning: "Its code stays taken in any case.",
        kind: FieldKind::Choice(INACTIVE_RESPONSES),
    },
    PolicyField {
        path: "delete",
        group: INACTIVE_LINKS_GROUP,
        label: "What a deletion leaves",
        meaning: "Either way it can be restored.",
        kind: FieldKind::Choice(&[
            ("tombstone", "a tombstone: its code is given out again only on purpose"),
            ("soft", "the link, marked deleted, with its statistics"),
        ]),
    },
    PolicyField {
        path: "sweep",
        group: INACTIVE_LINKS_GROUP,
        label: "What happens to expired links",
        meaning: "Once a day.",
        kind: FieldKind::Choice(&[
            ("none", "they stay and can be extended"),
            ("daily", "they are purged; a tombstone stays"),
        ]),
    },
    PolicyField {
        path: "https_only",
        group: TARGETS_GROUP,
        label: "Targets must be https",
        meaning: "For links that do not say otherwise themselves.",
        kind: FieldKind::Choice(YES_NO),
    },
    PolicyField {
        path: "max_target_bytes",
        group: TARGETS_GROUP,
        label: "Longest target",
        meaning: "Bytes, between 16 and 65536.",
        kind: REQUIRED_NUMBER,
    },
    PolicyField {
        path: "visibility",
        group: PRIVACY_GROUP,
        label: "Who sees a link",
        meaning: "Admins see all links in any case. Where links are their owner’s alone, they are deleted with the account.",
        kind: FieldKind::Choice(&[("workspace", "every member"), ("owner", "its owner, and admins")]),
    },
    PolicyField {
        path: "user_agent",
        group: PRIVACY_GROUP,
        label: "What a click keeps of the user agent",
        meaning: "The word hashed, or how many of its first characters, up to 512. No address of a visitor is ever kept.",
        kind: FieldKind::Text,
    },
    PolicyField {
        path: "retention_days",
        group: PRIVACY_GROUP,
        label: "For how many days single clicks are kept",
        meaning: "Empty: for ever. The sums of days and months stay longer.",
        kind: FieldKind::Number { empty: Some("for ever") },
    },
    PolicyField {
        path: "limits.live_links",
        group: LIMITS_GROUP,
        label: "Links that are neither deleted nor expired",
        meaning: "Of the whole workspace. Empty: no limit.",
        kind: OPTIONAL_LIMIT,
    },
    PolicyField {
        path: "limits.creations_per_hour",
        group: LIMITS_GROUP,
        label: "Links one person makes in an hour",
        meaning: "Empty: no limit.",
        kind: OPTIONAL_LIMIT,
    },
    PolicyField {
        path: "limits.requests_per_hour",
        group: LIMITS_GROUP,
        label: "Requests of one key in an hour",
        meaning: "Empty: no limit.",
        kind: OPTIONAL_LIMIT,
    },
];

#[cfg(test)]
mod tests {
    use rlinks_core::{Policy, Preset};
    use serde_json::Value;

    use super::{FieldKind, POLICY_FIELDS, value_of};

    fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    leaves(&path, value, found);
                }
            }
            _ => found.push(path.to_owned()),
        }
    }

    #[test]
    fn every_field_of_a_policy_is_on_the_page() {
        let json = serde_json::to_value(Policy::preset(Preset::Fabric)).unwrap();
        let mut all = Vec::new();
        leaves("", &json, &mut all);
        all.retain(|path| path != "preset" && path != "sign_in");
        let mut shown: Vec<_> = POLICY_FIELDS.iter().map(|field| field.path.to_owned()).collect();
        all.sort();
        shown.sort();
        assert_eq!(all, shown);
    }

    #[test]
    fn every_choice_is_valid_and_covers_every_preset() {
        for preset in Preset::ALL {
            let policy = Policy::preset(preset);
            for field in &POLICY_FIELDS {
                let FieldKind::Choice(choices) = &field.kind else { continue };
                let value = value_of(&policy, field.path);
                assert!(choices.iter().any(|(name, _)| *name == value), "{} is {value}", field.path);
                for (name, _) in *choices {
                    // Some need another field changed first, and say so; none is unknown.
                    if let Err(error) = policy.set_field(field.path, name) {
                        assert!(!error.message.contains("cannot be"), "{error:?}");
                    }
                }
            }
        }
    }
}

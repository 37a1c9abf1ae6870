//! The fields of a policy, as people change them: what each is called, what it means, and what it may be.

use rlinks_core::Policy;
use rlinks_core::workspace::policy::SignIn;
use serde_json::Value;

/// One field.
pub(crate) struct Field {
    /// Its path, as the command line and the API have it.
    pub(crate) path: &'static str,
    pub(crate) group: &'static str,
    pub(crate) label: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    pub(crate) kind: Kind,
}

/// What a field may be.
pub(crate) enum Kind {
    /// One of these: the value, and its words.
    Choice(&'static [(&'static str, &'static str)]),
    /// A number. `empty` is what no number means, where there may be none.
    Number { empty: Option<&'static str> },
    /// Text.
    Text,
}

impl Field {
    /// A value of it, as people read it.
    pub(crate) fn in_words(&self, value: &str) -> String {
        match &self.kind {
            Kind::Choice(choices) => {
                choices.iter().find(|(name, _)| *name == value).map_or(value, |(_, words)| words).to_owned()
            }
            Kind::Number { empty: Some(words) } if value.is_empty() => (*words).to_owned(),
            Kind::Number { .. } | Kind::Text => value.to_owned(),
        }
    }
}

/// The rules fields keep together: how a policy's own words about each begin, and the same for people who see no paths.
const RULES: [(&str, &str); 8] = [
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

impl Field {
    /// What is wrong with a value of it, from what the policy says, without its paths and types.
    pub(crate) fn wrong(&self, value: &str, said: &str) -> String {
        if let Some((_, words)) = RULES.iter().find(|(begins, _)| said.starts_with(begins)) {
            return (*words).to_owned();
        }
        match &self.kind {
            Kind::Number { .. } if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() => {
                "This number is too large".to_owned()
            }
            Kind::Number { empty: Some(_) } => "Write a whole number, or leave it empty".to_owned(),
            Kind::Number { empty: None } => "Write a whole number".to_owned(),
            Kind::Text => "Write hashed, or a whole number up to 512".to_owned(),
            Kind::Choice(_) => "Choose one of these".to_owned(),
        }
    }
}

/// The ways to sign in: the field, its words, and the way.
pub(crate) const SIGN_IN: [(&str, &str, SignIn); 3] = [
    ("sign_in.password", "a password kept here", SignIn::Password),
    ("sign_in.oidc", "an OpenID provider", SignIn::Oidc),
    ("sign_in.keys", "API keys, for programs", SignIn::Keys),
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
const UNUSABLE: &[(&str, &str)] =
    &[("404", "404, as if it had never been"), ("410", "410, saying that it is gone")];
const NUMBER: Kind = Kind::Number { empty: None };
const LIMIT: Kind = Kind::Number { empty: Some("no limit") };

const CODES: &str = "Codes";
const REDIRECTS: &str = "Redirects";
const GONE: &str = "Links that do not answer";
const TARGETS: &str = "Targets";
const PRIVACY: &str = "Who sees what, and for how long";
const LIMITS: &str = "Limits";

pub(crate) const FIELDS: [Field; 23] = [
    Field {
        path: "code.alphabet",
        group: CODES,
        label: "Characters of a new code",
        meaning: "Codes that were given out before keep answering, whatever they are made of.",
        kind: Kind::Choice(&[
            ("a-z0-9-", "lower-case letters, digits, hyphen"),
            ("A-Za-z0-9-", "letters, digits, hyphen"),
            ("A-Za-z0-9_-", "letters, digits, underscore, hyphen"),
        ]),
    },
    Field {
        path: "code.min",
        group: CODES,
        label: "Shortest code",
        meaning: "Characters, at least 1.",
        kind: NUMBER,
    },
    Field {
        path: "code.max",
        group: CODES,
        label: "Longest code",
        meaning: "Characters, at most 64.",
        kind: NUMBER,
    },
    Field {
        path: "code.fold_case",
        group: CODES,
        label: "Upper and lower case are the same",
        meaning: "A visitor who types /Parity gets /parity. Needs lower-case codes and the generator of seven characters.",
        kind: Kind::Choice(YES_NO),
    },
    Field {
        path: "code.unique_fold",
        group: CODES,
        label: "Refuse codes that differ by case alone",
        meaning: "With /Sale taken, nobody gets /sale.",
        kind: Kind::Choice(YES_NO),
    },
    Field {
        path: "generator",
        group: CODES,
        label: "How a code is made when none is chosen",
        meaning: "A hash is the same for the same target, so whoever knows the target can guess it.",
        kind: Kind::Choice(&[
            ("random7", "seven random lower-case characters"),
            ("random8", "eight random characters"),
            ("snowflake", "the link’s number, written short"),
            ("hash", "a hash of the target"),
        ]),
    },
    Field {
        path: "reuse",
        group: CODES,
        label: "The same target gets the same code",
        meaning: "Who shortens what was shortened before gets the link that is there. Needs the generator hash.",
        kind: Kind::Choice(YES_NO),
    },
    Field {
        path: "redirect_status",
        group: REDIRECTS,
        label: "Status of a redirect",
        meaning: "For links that do not choose one themselves.",
        kind: Kind::Choice(&[
            ("301", "301, permanent"),
            ("302", "302, temporary"),
            ("307", "307, temporary, the method stays"),
            ("308", "308, permanent, the method stays"),
        ]),
    },
    Field {
        path: "cache.scope",
        group: REDIRECTS,
        label: "Who may keep a redirect",
        meaning: "What is kept is not asked for again: it is faster, is not counted, and changes are seen late.",
        kind: Kind::Choice(&[
            ("private", "the visitor’s browser"),
            ("public", "anybody on the way, proxies too"),
            ("no-store", "nobody"),
        ]),
    },
    Field {
        path: "cache.max_age",
        group: REDIRECTS,
        label: "For how many seconds",
        meaning: "Never beyond a link’s expiry. 0: it is asked for every time.",
        kind: NUMBER,
    },
    Field {
        path: "answers.expired",
        group: GONE,
        label: "An expired link answers",
        meaning: "Past its time.",
        kind: Kind::Choice(UNUSABLE),
    },
    Field {
        path: "answers.disabled",
        group: GONE,
        label: "A disabled link answers",
        meaning: "Switched off by somebody. 410 would confirm that it existed.",
        kind: Kind::Choice(UNUSABLE),
    },
    Field {
        path: "answers.deleted",
        group: GONE,
        label: "A deleted link answers",
        meaning: "Its code stays taken in any case.",
        kind: Kind::Choice(UNUSABLE),
    },
    Field {
        path: "delete",
        group: GONE,
        label: "What a deletion leaves",
        meaning: "Either way it can be restored.",
        kind: Kind::Choice(&[
            ("tombstone", "a tombstone: its code is given out again only on purpose"),
            ("soft", "the link, marked deleted, with its statistics"),
        ]),
    },
    Field {
        path: "sweep",
        group: GONE,
        label: "What happens to expired links",
        meaning: "Once a day.",
        kind: Kind::Choice(&[
            ("none", "they stay and can be extended"),
            ("daily", "they are purged; a tombstone stays"),
        ]),
    },
    Field {
        path: "https_only",
        group: TARGETS,
        label: "Targets must be https",
        meaning: "For links that do not say otherwise themselves.",
        kind: Kind::Choice(YES_NO),
    },
    Field {
        path: "max_target_bytes",
        group: TARGETS,
        label: "Longest target",
        meaning: "Bytes, between 16 and 65536.",
        kind: NUMBER,
    },
    Field {
        path: "visibility",
        group: PRIVACY,
        label: "Who sees a link",
        meaning: "Admins see all links in any case. Where links are their owner’s alone, they are deleted with the account.",
        kind: Kind::Choice(&[("workspace", "every member"), ("owner", "its owner, and admins")]),
    },
    Field {
        path: "user_agent",
        group: PRIVACY,
        label: "What a click keeps of the user agent",
        meaning: "The word hashed, or how many of its first characters, up to 512. No address of a visitor is ever kept.",
        kind: Kind::Text,
    },
    Field {
        path: "retention_days",
        group: PRIVACY,
        label: "For how many days single clicks are kept",
        meaning: "Empty: for ever. The sums of days and months stay longer.",
        kind: Kind::Number { empty: Some("for ever") },
    },
    Field {
        path: "limits.live_links",
        group: LIMITS,
        label: "Links that are neither deleted nor expired",
        meaning: "Of the whole workspace. Empty: no limit.",
        kind: LIMIT,
    },
    Field {
        path: "limits.creations_per_hour",
        group: LIMITS,
        label: "Links one person makes in an hour",
        meaning: "Empty: no limit.",
        kind: LIMIT,
    },
    Field {
        path: "limits.requests_per_hour",
        group: LIMITS,
        label: "Requests of one key in an hour",
        meaning: "Empty: no limit.",
        kind: LIMIT,
    },
];

#[cfg(test)]
mod tests {
    use rlinks_core::{Policy, Preset};
    use serde_json::Value;

    use super::{FIELDS, Kind, value_of};

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
        let mut shown: Vec<_> = FIELDS.iter().map(|field| field.path.to_owned()).collect();
        all.sort();
        shown.sort();
        assert_eq!(all, shown);
    }

    #[test]
    fn every_choice_is_one_the_policy_takes_and_every_preset_is_among_them() {
        for preset in Preset::ALL {
            let policy = Policy::preset(preset);
            for field in &FIELDS {
                let Kind::Choice(choices) = &field.kind else { continue };
                let value = value_of(&policy, field.path);
                assert!(choices.iter().any(|(name, _)| *name == value), "{} is {value}", field.path);
                for (name, _) in *choices {
                    // Some need another field changed first, and say so; none is unknown.
                    if let Err(error) = policy.with(field.path, name) {
                        assert!(!error.message.contains("cannot be"), "{error:?}");
                    }
                }
            }
        }
    }
}

//! The four presets: the rules of one source document each.

use super::policy::{
    CacheRules, CacheScope, Deletion, ExpiredLinks, Generator, InactiveResponse, InactiveResponses, Limits,
    Policy, Preset, SignInMethod, UserAgentRetention, Visibility,
};
use crate::RedirectStatus;
use crate::link::code::{Alphabet, CodeRules};

impl Policy {
    /// The rules of a preset.
    pub fn preset(preset: Preset) -> Self {
        use InactiveResponse::{Gone, NotFound};
        let fabric = Self {
            preset,
            code: CodeRules {
                alphabet: Alphabet::Lower,
                min: 1,
                max: 64,
                fold_case: true,
                unique_fold: false,
            },
            generator: Generator::Random7,
            redirect_status: RedirectStatus::MovedPermanently,
            cache: CacheRules { scope: CacheScope::Private, max_age: 0 },
            answers: InactiveResponses { expired: Gone, disabled: NotFound, deleted: NotFound },
            delete: Deletion::Tombstone,
            sweep: ExpiredLinks::Keep,
            https_only: true,
            max_target_bytes: 2048,
            reuse: false,
            visibility: Visibility::Workspace,
            sign_in: vec![SignInMethod::Password, SignInMethod::Oidc, SignInMethod::Keys],
            user_agent: UserAgentRetention::Hashed,
            retention_days: None,
            limits: Limits::default(),
        };
        match preset {
            Preset::Fabric => fabric,
            Preset::Edge => Self {
                code: CodeRules {
                    alphabet: Alphabet::Word,
                    min: 1,
                    max: 32,
                    fold_case: false,
                    unique_fold: false,
                },
                generator: Generator::Random8,
                redirect_status: RedirectStatus::Found,
                cache: CacheRules { scope: CacheScope::Public, max_age: 300 },
                answers: InactiveResponses { expired: NotFound, disabled: NotFound, deleted: NotFound },
                sweep: ExpiredLinks::PurgeDaily,
                https_only: false,
                sign_in: vec![SignInMethod::Password, SignInMethod::Keys],
                user_agent: UserAgentRetention::Truncated(256),
                retention_days: Some(90),
                limits: Limits { live_links: Some(1000), ..Limits::default() },
                ..fabric
            },
            Preset::Platform => Self {
                code: CodeRules {
                    alphabet: Alphabet::Letters,
                    min: 3,
                    max: 50,
                    fold_case: false,
                    unique_fold: true,
                },
                generator: Generator::Snowflake,
                redirect_status: RedirectStatus::Found,
                cache: CacheRules { scope: CacheScope::Private, max_age: 60 },
                answers: InactiveResponses { expired: Gone, disabled: Gone, deleted: Gone },
                delete: Deletion::Soft,
                https_only: false,
                visibility: Visibility::Owner,
                sign_in: vec![SignInMethod::Oidc, SignInMethod::Keys],
                user_agent: UserAgentRetention::Truncated(512),
                retention_days: Some(5 * 365 + 1),
                limits: Limits {
                    creations_per_hour: Some(100),
                    requests_per_hour: Some(1000),
                    ..Limits::default()
                },
                ..fabric
            },
            Preset::Team => Self {
                code: CodeRules {
                    alphabet: Alphabet::Word,
                    min: 1,
                    max: 20,
                    fold_case: false,
                    unique_fold: false,
                },
                generator: Generator::Hash,
                redirect_status: RedirectStatus::Found,
                cache: CacheRules { scope: CacheScope::NoStore, max_age: 0 },
                answers: InactiveResponses { expired: Gone, disabled: Gone, deleted: NotFound },
                delete: Deletion::Soft,
                https_only: false,
                max_target_bytes: 65_536,
                reuse: true,
                user_agent: UserAgentRetention::Truncated(512),
                retention_days: Some(396),
                limits: Limits { requests_per_hour: Some(1000), ..Limits::default() },
                ..fabric
            },
        }
    }
}

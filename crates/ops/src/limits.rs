//! Rate limits, in memory and in a limited amount of it.
//!
//! | to find | look in |
//! |---|---|
//! | how often a subject may act in any hour | [`sliding_hour`] |
//! | how fast a network may guess codes | [`token_bucket`] |
//!
//! Both are this process's own: several servers on one store each count for themselves.

pub mod sliding_hour;
pub mod token_bucket;

pub use self::sliding_hour::{HourlyLimits, LimitedSubject, RateLimitStatus};
pub use self::token_bucket::{NetworkLimiter, NetworkRate, NetworkSubject};

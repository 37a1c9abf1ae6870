//! Whether to ask Cloudflare once more, and after how long. Pure: the caller waits.
//!
//! Everything asked of the key-value API may be repeated: a value put twice is there once, a key deleted twice is gone.

use std::time::Duration;

/// Why there is no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransientError {
    /// 429: too many questions. Cloudflare may say for how many seconds it wants none.
    RateLimited(Option<u64>),
    // 5xx.
    ServerError,
    /// No answer came, or only a part of one.
    NoResponse,
}

/// How often one thing is asked.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// How long a whole command waits. An account that asked too much is refused for five minutes: a long job outlives one such pause.
pub(crate) const MAX_TOTAL_WAIT: Duration = Duration::from_secs(330);
const INITIAL_DELAY: Duration = Duration::from_millis(200);
/// Where Cloudflare does not say for how long, its limit of one write a second for each key is the likely reason.
const INITIAL_RATE_LIMIT_DELAY: Duration = Duration::from_secs(1);

/// The pause before the next try, or none where it is time to give up. `tried` is how often it was asked, `waited` how long this
/// command has waited altogether.
pub(crate) fn retry_delay(transient: TransientError, tried: u32, waited: Duration) -> Option<Duration> {
    if tried >= MAX_ATTEMPTS {
        return None;
    }
    let doubled = 2_u32.saturating_pow(tried.saturating_sub(1));
    let pause = match transient {
        TransientError::RateLimited(Some(seconds)) => Duration::from_secs(seconds),
        TransientError::RateLimited(None) => INITIAL_RATE_LIMIT_DELAY * doubled,
        TransientError::ServerError | TransientError::NoResponse => INITIAL_DELAY * doubled,
    };
    (waited.saturating_add(pause) <= MAX_TOTAL_WAIT).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    #[test]
    fn backoff_doubles_until_retries_run_out() {
        let pauses: Vec<_> = (1..=MAX_ATTEMPTS)
            .map(|tried| retry_delay(TransientError::ServerError, tried, NO_WAIT))
            .collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [ms(200), ms(400), ms(800), ms(1600), ms(3200), None]);
    }

    #[test]
    fn retry_after_header_sets_the_pause() {
        assert_eq!(
            retry_delay(TransientError::RateLimited(Some(7)), 1, NO_WAIT),
            Some(Duration::from_secs(7))
        );
        assert_eq!(retry_delay(TransientError::RateLimited(Some(0)), 1, NO_WAIT), Some(NO_WAIT));
        assert_eq!(retry_delay(TransientError::RateLimited(None), 2, NO_WAIT), Some(Duration::from_secs(2)));
    }

    #[test]
    fn retry_gives_up_at_the_total_wait_limit() {
        assert_eq!(
            retry_delay(TransientError::RateLimited(Some(300)), 1, NO_WAIT),
            Some(Duration::from_mins(5))
        );
        assert_eq!(retry_delay(TransientError::RateLimited(Some(3600)), 1, NO_WAIT), None);
        assert_eq!(retry_delay(TransientError::RateLimited(Some(u64::MAX)), 1, MAX_TOTAL_WAIT), None);
        assert_eq!(retry_delay(TransientError::RateLimited(Some(60)), 1, Duration::from_mins(5)), None);
    }
}

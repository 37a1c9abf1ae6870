//! Whether to ask Cloudflare once more, and after how long. Pure: the caller waits.
//!
//! Everything asked of the key-value API may be repeated: a value put twice is there once, a key deleted twice is gone.

use std::time::Duration;

/// Why there is no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// 429: too many questions. Cloudflare may say for how many seconds it wants none.
    TooMany(Option<u64>),
    /// 5xx.
    Failing,
    /// No answer came, or only a part of one.
    Lost,
}

/// How often one thing is asked.
pub(crate) const TRIES: u32 = 6;
/// How long a whole command waits. An account that asked too much is refused for five minutes: a long job outlives one such pause.
pub(crate) const PATIENCE: Duration = Duration::from_secs(330);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Where Cloudflare does not say for how long, its limit of one write a second for each key is the likely reason.
const FIRST_PAUSE_OF_TOO_MANY: Duration = Duration::from_secs(1);

/// The pause before the next try, or none where it is time to give up. `tried` is how often it was asked, `waited` how long this
/// command has waited altogether.
pub(crate) fn pause(trouble: Trouble, tried: u32, waited: Duration) -> Option<Duration> {
    if tried >= TRIES {
        return None;
    }
    let doubled = 2_u32.saturating_pow(tried.saturating_sub(1));
    let pause = match trouble {
        Trouble::TooMany(Some(seconds)) => Duration::from_secs(seconds),
        Trouble::TooMany(None) => FIRST_PAUSE_OF_TOO_MANY * doubled,
        Trouble::Failing | Trouble::Lost => FIRST_PAUSE * doubled,
    };
    (waited.saturating_add(pause) <= PATIENCE).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn pauses_double_and_tries_end() {
        let pauses: Vec<_> = (1..=TRIES).map(|tried| pause(Trouble::Failing, tried, NONE)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [ms(200), ms(400), ms(800), ms(1600), ms(3200), None]);
    }

    #[test]
    fn cloudflare_says_for_how_long() {
        assert_eq!(pause(Trouble::TooMany(Some(7)), 1, NONE), Some(Duration::from_secs(7)));
        assert_eq!(pause(Trouble::TooMany(Some(0)), 1, NONE), Some(NONE));
        assert_eq!(pause(Trouble::TooMany(None), 2, NONE), Some(Duration::from_secs(2)));
    }

    #[test]
    fn nobody_waits_longer_than_patience_lasts() {
        assert_eq!(pause(Trouble::TooMany(Some(300)), 1, NONE), Some(Duration::from_mins(5)));
        assert_eq!(pause(Trouble::TooMany(Some(3600)), 1, NONE), None);
        assert_eq!(pause(Trouble::TooMany(Some(u64::MAX)), 1, PATIENCE), None);
        assert_eq!(pause(Trouble::TooMany(Some(60)), 1, Duration::from_mins(5)), None);
    }
}

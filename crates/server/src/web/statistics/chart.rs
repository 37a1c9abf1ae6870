//! Drawings made of numbers. What they say in words stands in the templates; here are only coordinates, so nothing needs escaping.

use std::fmt::Write as _;

/// Seven days beside a link.
pub struct Sparkline {
    /// The bars as one path, 68 wide and [`Sparkline::HEIGHT`] high.
    pub path: String,
    /// The same in words: `0, 2, 1, ...`.
    pub words: String,
}

impl Sparkline {
    pub const DAYS: i64 = 7;
    pub const HEIGHT: u64 = 20;

    /// Of the days in their order; as many nothings where a link was never clicked.
    pub fn from_days(days: Option<&Vec<u64>>) -> Self {
        let nothing = vec![0; 7];
        let days = days.unwrap_or(&nothing);
        let most = days.iter().copied().max().unwrap_or_default().max(1);
        let mut path = String::new();
        for (x, clicks) in (0..).step_by(10).zip(days) {
            let height = scaled(*clicks, most, Self::HEIGHT - 1) + 1;
            let _ = write!(path, "M{x} {}v-{height}h8v{height}z", Self::HEIGHT);
        }
        let words: Vec<String> = days.iter().map(ToString::to_string).collect();
        Self { path, words: words.join(", ") }
    }
}

/// Clicks and visitors over time.
pub struct Chart {
    pub bars: Vec<Bar>,
    /// The visitors as points of a line.
    pub line: String,
    /// What the top of the drawing stands for.
    most: u64,
    pub width: u64,
}

/// One hour, day, week or month of it.
pub struct Bar {
    pub label: String,
    /// The same below the drawing.
    short: String,
    pub clicks: u64,
    pub visitors: u64,
    pub bots: u64,
    pub x: u64,
    pub y: u64,
    pub height: u64,
}

impl Chart {
    pub const HEIGHT: u64 = 160;
    /// Of one bar with the gap beside it.
    pub const STEP: u64 = 12;

    /// Of labels, long and short, with clicks, visitors and bots, in their order.
    pub fn from_points(points: impl Iterator<Item = (String, String, [u64; 3])>) -> Self {
        let points: Vec<_> = points.collect();
        let most = points.iter().map(|(_, _, [clicks, visitors, _])| *clicks.max(visitors)).max();
        let most = round_up(most.unwrap_or_default());
        let mut line = String::new();
        let mut bars = Vec::with_capacity(points.len());
        for (x, (label, short, [clicks, visitors, bots])) in (0..).step_by(usize_of(Self::STEP)).zip(points) {
            let height = scaled(clicks, most, Self::HEIGHT);
            let _ = write!(
                line,
                "{},{} ",
                x + Self::STEP / 2,
                Self::HEIGHT - scaled(visitors, most, Self::HEIGHT)
            );
            bars.push(Bar { label, short, clicks, visitors, bots, x, y: Self::HEIGHT - height, height });
        }
        let width = u64::try_from(bars.len()).unwrap_or_default().max(1) * Self::STEP;
        Self { bars, line, most, width }
    }

    /// What the top of the drawing stands for, as people read it.
    pub fn top(&self) -> String {
        format_number(self.most)
    }

    /// The label of the first bar, of the one in the middle, and of the last.
    pub fn labels(&self) -> [&str; 3] {
        let at = |index: usize| self.bars.get(index).map_or("", |bar| bar.short.as_str());
        let last = self.bars.len().saturating_sub(1);
        [at(0), if last > 1 { at(last / 2) } else { "" }, if last > 0 { at(last) } else { "" }]
    }
}

/// How often something was, and how much of the most that is.
pub struct Share {
    pub name: String,
    pub count: String,
    // Of 100.
    pub width: u64,
}

/// The shares of some values, the most of which fills the whole width.
pub fn shares(values: Vec<(String, u64)>) -> Vec<Share> {
    let most = values.iter().map(|(_, clicks)| *clicks).max().unwrap_or_default().max(1);
    let share =
        |(name, clicks)| Share { name, count: format_number(clicks), width: scaled(clicks, most, 100) };
    values.into_iter().map(share).collect()
}

/// A number as people read it: 1,234,567.
pub fn format_number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Something is never nothing.
fn scaled(value: u64, most: u64, height: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let scaled = u128::from(value) * u128::from(height) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(height).clamp(1, height)
}

/// The next number that is round and can be halved.
fn round_up(most: u64) -> u64 {
    if let Some(top) = [4, 6, 8].into_iter().find(|top| *top >= most) {
        return top;
    }
    let mut unit: u64 = 1;
    loop {
        for factor in [10, 12, 16, 20, 24, 30, 40, 50, 60, 80] {
            let top = unit.saturating_mul(factor);
            if top >= most {
                return top;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

fn usize_of(value: u64) -> usize {
    usize::try_from(value).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::{Chart, Sparkline, format_number, round_up};

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown = [0, 999, 1000, 1_234_567].map(format_number);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn axis_maximum_is_a_round_number() {
        assert_eq!(
            [0, 5, 9, 11, 51, 500, 801, u64::MAX].map(round_up),
            [4, 6, 10, 12, 60, 500, 1000, u64::MAX]
        );
    }

    #[test]
    fn single_click_among_millions_is_visible() {
        let point = |counts| ("2026-01-29".to_owned(), "29 Jan".to_owned(), counts);
        let chart = Chart::from_points([point([1, 0, 0]), point([6_000_000, 9, 0])].into_iter());
        let seen: Vec<_> = chart.bars.iter().map(|bar| (bar.y, bar.height)).collect();
        assert_eq!(seen, [(159, 1), (0, 160)]);
        assert_eq!(chart.line, "6,160 18,159 ");
        let spark = Sparkline::from_days(Some(&vec![0, 0, 0, 0, 0, 1, 2]));
        assert!(spark.path.ends_with("M50 20v-10h8v10zM60 20v-20h8v20z"), "{}", spark.path);
        assert_eq!(Sparkline::from_days(None).words, "0, 0, 0, 0, 0, 0, 0");
    }
}

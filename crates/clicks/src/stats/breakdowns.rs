//! Breakdowns: the foremost of the values that many days added up to.

use serde::{Deserialize, Deserializer, Serialize};

use super::Bots;
use crate::day_values::Values;
use crate::enrich::country;
use crate::rollup::{OTHER_VALUE, PeopleAndBots};

/// Clicks with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Which; `(other)` is what had no name of its own, and comes last.
    pub value: String,
    pub clicks: u64,
}

/// Clicks from one country.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountryValue {
    /// Two letters of ISO 3166.
    pub value: String,
    /// Its English name, where it has one.
    pub name: Option<&'static str>,
    pub clicks: u64,
}

impl From<Value> for CountryValue {
    fn from(Value { value, clicks }: Value) -> Self {
        Self { name: country::name(&value), value, clicks }
    }
}

/// The name follows from the letters.
impl<'de> Deserialize<'de> for CountryValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// The values with the most clicks, then by name. What has no name follows them.
pub(super) fn take_top(values: &mut Values, dimension: usize, most: usize, bots: Bots) -> Vec<Value> {
    let counted =
        |PeopleAndBots(people, machines)| Some(bots.clicks(people, machines)).filter(|clicks| *clicks > 0);
    let mut clicks = values.take(dimension);
    let other = clicks.remove(OTHER_VALUE).and_then(counted);
    let mut values: Vec<Value> = clicks
        .into_iter()
        .filter(|(value, _)| !value.is_empty())
        .filter_map(|(value, pair)| Some(Value { value, clicks: counted(pair)? }))
        .collect();
    let order = |a: &Value, b: &Value| b.clicks.cmp(&a.clicks).then_with(|| a.value.cmp(&b.value));
    if values.len() > most {
        values.select_nth_unstable_by(most, order);
        values.truncate(most);
    }
    values.sort_unstable_by(order);
    values.extend(other.map(|clicks| Value { value: OTHER_VALUE.to_owned(), clicks }));
    values
}

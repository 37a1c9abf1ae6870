//! Breakdowns: the values of many days added up, and the foremost of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use rlinks_store::StoreError;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::Bots;
use crate::country;
use crate::roll::{DIMENSIONS, OTHER, Pair};

/// Clicks with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Which; `(other)` is what had no name of its own, and comes last.
    pub value: String,
    /// How many.
    pub clicks: u64,
}

/// Clicks from one country.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountryValue {
    /// Two letters of ISO 3166.
    pub value: String,
    /// Its English name, where it has one.
    pub name: Option<&'static str>,
    /// How many.
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

/// Clicks by value for each of [`DIMENSIONS`], over many days. As many as the days have: each has a bound of its own.
pub(super) struct Values {
    bots: Bots,
    clicks: [HashMap<String, u64>; DIMENSIONS.len()],
}

impl Values {
    pub(super) fn new(bots: Bots) -> Self {
        Self { bots, clicks: Default::default() }
    }

    /// Adds a day as its table keeps it: the text of a [`crate::roll::Dimensions`]. Only names that are new are copied.
    pub(super) fn add(&mut self, dimensions: &str) -> Result<(), StoreError> {
        let mut text = serde_json::Deserializer::from_str(dimensions);
        let added = AllSeed(self).deserialize(&mut text);
        added.map_err(|error| StoreError::Unreadable(format!("the values of a day: {error}")))
    }

    /// The values with the most clicks, then by name. What has no name follows them.
    pub(super) fn take_top(&mut self, dimension: usize, most: usize) -> Vec<Value> {
        let mut clicks = std::mem::take(&mut self.clicks[dimension]);
        let other = clicks.remove(OTHER);
        let mut values: Vec<Value> = clicks
            .into_iter()
            .filter(|(value, _)| !value.is_empty())
            .map(|(value, clicks)| Value { value, clicks })
            .collect();
        let order = |a: &Value, b: &Value| b.clicks.cmp(&a.clicks).then_with(|| a.value.cmp(&b.value));
        if values.len() > most {
            values.select_nth_unstable_by(most, order);
            values.truncate(most);
        }
        values.sort_unstable_by(order);
        values.extend(other.map(|clicks| Value { value: OTHER.to_owned(), clicks }));
        values
    }
}

struct AllSeed<'a>(&'a mut Values);

impl<'de> DeserializeSeed<'de> for AllSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AllSeed<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the values of each dimension")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let bots = self.0.bots;
        for clicks in &mut self.0.clicks {
            if all.next_element_seed(OneSeed { bots, clicks })?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

struct OneSeed<'a> {
    bots: Bots,
    clicks: &'a mut HashMap<String, u64>,
}

impl<'de> DeserializeSeed<'de> for OneSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// A name that is copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for OneSeed<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("clicks by value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while let Some((Name(name), Pair(people, bots))) = values.next_entry::<Name<'de>, Pair>()? {
            let clicks = self.bots.clicks(people, bots);
            if clicks == 0 {
                continue;
            }
            match self.clicks.get_mut(&*name) {
                Some(known) => *known += clicks,
                None => {
                    self.clicks.insert(name.into_owned(), clicks);
                }
            }
        }
        Ok(())
    }
}

//! Breakdowns: the values of many days added up, and the foremost of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use rlinks_store::StoreError;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::Bots;
use crate::enrich::country;
use crate::rollup::{DIMENSIONS, OTHER, Pair};

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
#[derive(Default)]
pub(super) struct Values {
    clicks: [HashMap<String, Pair>; DIMENSIONS.len()],
}

impl Values {
    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.clicks.iter().map(HashMap::len).sum()
    }

    /// Adds what others have.
    pub(super) fn merge(&mut self, others: &Self) {
        for (clicks, more) in self.clicks.iter_mut().zip(&others.clicks) {
            for (name, add) in more {
                match clicks.get_mut(name) {
                    Some(known) => known.add(*add),
                    None => {
                        clicks.insert(name.clone(), *add);
                    }
                }
            }
        }
    }

    /// Adds a day as its table keeps it: the text of a [`crate::rollup::Dimensions`]. Only names that are new are copied.
    pub(super) fn add(&mut self, dimensions: &str) -> Result<(), StoreError> {
        let mut text = serde_json::Deserializer::from_str(dimensions);
        let added = AllSeed(self).deserialize(&mut text);
        added.map_err(|error| StoreError::Unreadable(format!("the values of a day: {error}")))
    }

    /// The values with the most clicks, then by name. What has no name follows them.
    pub(super) fn take_top(&mut self, dimension: usize, most: usize, bots: Bots) -> Vec<Value> {
        let counted =
            |Pair(people, machines)| Some(bots.clicks(people, machines)).filter(|clicks| *clicks > 0);
        let mut clicks = std::mem::take(&mut self.clicks[dimension]);
        let other = clicks.remove(OTHER).and_then(counted);
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
        for clicks in &mut self.0.clicks {
            if all.next_element_seed(OneSeed(clicks))?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

struct OneSeed<'a>(&'a mut HashMap<String, Pair>);

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
        while let Some((Name(name), pair)) = values.next_entry::<Name<'de>, Pair>()? {
            match self.0.get_mut(&*name) {
                Some(known) => known.add(pair),
                None => {
                    self.0.insert(name.into_owned(), pair);
                }
            }
        }
        Ok(())
    }
}

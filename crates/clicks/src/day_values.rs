//! The values that days have counted, added up over many days.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use rlinks_store::StoreError;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::rollup::{DIMENSIONS, PeopleAndBots};

/// Clicks by value for each of [`DIMENSIONS`], over many days. As many as the days have: each has a bound of its own.
#[derive(Default)]
pub(crate) struct Values {
    clicks: [HashMap<String, PeopleAndBots>; DIMENSIONS.len()],
}

impl Values {
    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.clicks.iter().map(HashMap::len).sum()
    }

    /// Adds what others have.
    pub(crate) fn merge(&mut self, others: &Self) {
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
    pub(crate) fn add(&mut self, dimensions: &str) -> Result<(), StoreError> {
        let mut text = serde_json::Deserializer::from_str(dimensions);
        let added = AllSeed(self).deserialize(&mut text);
        added.map_err(|error| StoreError::Unreadable(format!("the values of a day: {error}")))
    }

    /// Takes the clicks by value of one of [`DIMENSIONS`], and leaves none.
    pub(crate) fn take(&mut self, dimension: usize) -> HashMap<String, PeopleAndBots> {
        std::mem::take(&mut self.clicks[dimension])
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

struct OneSeed<'a>(&'a mut HashMap<String, PeopleAndBots>);

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
        while let Some((Name(name), pair)) = values.next_entry::<Name<'de>, PeopleAndBots>()? {
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

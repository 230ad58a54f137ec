//! A JSON object that preserves the order of its members, for sort orders and accelerations.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Members in written order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs(pub Vec<(String, Value)>);

impl Pairs {
    /// Parses a JSON object; `None` if the text is not a JSON object.
    pub fn parse(text: &str) -> Option<Pairs> {
        serde_json::from_str(text).ok()
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Pairs;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

//! Lossless text form of numbers: shortest decimal notation, parsed by the standard library.
//!
//! Only finite numbers are accepted when parsing.

use serde::{Deserialize, Deserializer, Serializer};

fn parse_number<E: serde::de::Error>(text: &str) -> Result<f64, E> {
    let number: f64 = text.parse().map_err(|_| E::custom(format!("`{text}` is not a number")))?;
    if number.is_finite() { Ok(number) } else { Err(E::custom("a number is not finite")) }
}

/// Writes a number.
pub(crate) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{number:e}"))
}

/// Reads a number.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    parse_number(&String::deserialize(from)?)
}

/// A list of numbers as one text, separated by blanks.
pub(crate) mod list {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a list.
    pub(crate) fn serialize<S: Serializer>(numbers: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let words: Vec<String> = numbers.iter().map(|number| format!("{number:e}")).collect();
        to.serialize_str(&words.join(" "))
    }

    /// Reads a list.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        String::deserialize(from)?.split_ascii_whitespace().map(super::parse_number).collect()
    }
}

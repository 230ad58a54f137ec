//! Options of an algorithm and their interpretation.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use crate::LearnError;

/// Options by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Options {
        Options(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Options {
    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These options, and the options of `other` that are missing here.
    pub fn or(&self, other: &Options) -> Options {
        Options(other.0.iter().chain(&self.0).map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Error for an invalid option value.
    pub(crate) fn invalid_option(&self, name: &str, wants: impl Display) -> LearnError {
        let got = self.get(name).unwrap_or_default().to_owned();
        LearnError::Option { name: name.to_owned(), wants: wants.to_string(), got }
    }

    pub(crate) fn boolean(&self, name: &str, default: bool) -> Result<bool, LearnError> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("t" | "true" | "1" | "yes" | "y") => Ok(true),
            Some("f" | "false" | "0" | "no" | "n") => Ok(false),
            Some(_) => Err(self.invalid_option(name, "true or false")),
        }
    }

    /// A number within bounds; `None` if the option is not given.
    pub(crate) fn number<T: FromStr + PartialOrd + Debug + Copy>(
        &self,
        name: &str,
        bounds: (T, T),
    ) -> Result<Option<T>, LearnError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let fits = |number: &T| *number >= bounds.0 && *number <= bounds.1;
        let read = text.trim().parse().ok().filter(fits);
        read.map(Some)
            .ok_or_else(|| self.invalid_option(name, format!("a number from {:?} to {:?}", bounds.0, bounds.1)))
    }

    /// The random seed; constant by default, so that equal rows yield equal models.
    pub(crate) fn seed(&self) -> Result<u64, LearnError> {
        Ok(self.number("random_state", (0, u64::from(u32::MAX)))?.unwrap_or(DEFAULT_SEED))
    }
}

/// Default of `random_state`.
const DEFAULT_SEED: u64 = 42;

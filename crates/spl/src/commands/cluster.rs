//! `cluster`: groups rows with similar texts.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "cluster",
    &["t", "delims", "showcount", "countfield", "labelfield", "field", "labelonly", "match"],
);

/// `cluster`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterCommand {
    /// `t=` (default `0.8`): similarity of the texts in a cluster, above 0 and below 1.
    pub threshold: f64,
    /// `delims=`: characters between words; `None` for everything but letters and digits.
    pub delimiters: Option<String>,
    /// `showcount=` (default `f`): whether the size of a cluster is shown.
    pub shows_count: bool,
    /// `countfield=` (default `cluster_count`): field with the size of a cluster.
    pub count_field: String,
    /// `labelfield=` (default `cluster_label`): field with the number of a cluster.
    pub label_field: String,
    /// `field=` (default `_raw`): field with the text.
    pub field: String,
    /// `labelonly=` (default `f`): whether every row is kept, rather than one row of each cluster.
    pub label_only: bool,
    /// `match=` (default `termlist`): similarity measure.
    pub matching: ClusterMatch,
}

/// Similarity measure of `cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterMatch {
    /// Compares words position by position.
    TermList,
    /// Compares sets of words.
    TermSet,
    /// Compares sets of three-character sequences.
    NGramSet,
}

impl Syntax for ClusterCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "cluster [t=N] [showcount=] [field=] [labelonly=] [match=termlist|termset|ngramset]",
        summary: "Groups rows with similar texts",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ClusterCommand> {
        let mut command = ClusterCommand {
            threshold: 0.8,
            delimiters: None,
            shows_count: false,
            count_field: "cluster_count".to_owned(),
            label_field: "cluster_label".to_owned(),
            field: "_raw".to_owned(),
            label_only: false,
            matching: ClusterMatch::TermList,
        };
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "t" => {
                    command.threshold = option.number()?;
                    if !(command.threshold > 0.0 && command.threshold < 1.0) {
                        return Err(option.invalid_value("a number above 0 and below 1"));
                    }
                }
                "delims" => command.delimiters = Some(option.value),
                "showcount" => command.shows_count = option.boolean()?,
                "countfield" => command.count_field = option.value,
                "labelfield" => command.label_field = option.value,
                "field" => command.field = option.value,
                "labelonly" => command.label_only = option.boolean()?,
                _ => {
                    command.matching = match option.value.to_ascii_lowercase().as_str() {
                        "termlist" => ClusterMatch::TermList,
                        "termset" => ClusterMatch::TermSet,
                        "ngramset" => ClusterMatch::NGramSet,
                        _ => return Err(option.invalid_value("termlist, termset or ngramset")),
                    }
                }
            }
        }
        Ok(command)
    }
}

impl Semantics for ClusterCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.field);
        after
    }
}

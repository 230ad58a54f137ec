//! `score`: evaluates predictions. Also contains the table of methods that names and options are checked against.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{FieldPattern, LearnOption, Span};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// `score`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreCommand {
    /// The method, a row of [`SCORES`]; serialized as its name.
    #[serde(with = "method_name")]
    pub method: &'static ScoreRow,
    /// Fields before `against`: the true values, or the cluster of each row.
    pub actual: Vec<FieldPattern>,
    /// Fields after `against`: the predicted values, or the coordinates of each row.
    pub predicted: Vec<FieldPattern>,
    /// Options of the method.
    pub options: Vec<LearnOption>,
    /// Position of the method.
    pub span: Span,
}

/// A method of `score`.
#[derive(Debug, PartialEq, Eq)]
pub struct ScoreRow {
    /// Name as written in a search.
    pub name: &'static str,
    /// Options that the method reads.
    pub options: &'static [&'static str],
}

const fn score(name: &'static str, options: &'static [&'static str]) -> ScoreRow {
    ScoreRow { name, options }
}

/// Serializes a method as its name.
mod method_name {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::{SCORES, ScoreRow};

    pub(super) fn serialize<S: Serializer>(row: &&'static ScoreRow, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(row.name)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static ScoreRow, D::Error> {
        let name = String::deserialize(from)?;
        let row = SCORES.iter().find(|row| row.name == name);
        row.ok_or_else(|| D::Error::custom(format!("score has no method {name}")))
    }
}

/// Methods of `score` by name.
pub static SCORES: &[ScoreRow] = &[
    score("accuracy_score", &["normalize"]),
    score("confusion_matrix", &[]),
    score("explained_variance_score", &[]),
    score("f1_score", &["average", "pos_label"]),
    score("mean_absolute_error", &[]),
    score("mean_squared_error", &[]),
    score("precision_recall_fscore_support", &[]),
    score("precision_score", &["average", "pos_label"]),
    score("r2_score", &[]),
    score("recall_score", &["average", "pos_label"]),
    score("roc_auc_score", &["pos_label"]),
    score("silhouette_score", &["metric"]),
];

impl Syntax for ScoreCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "score METHOD FIELD... against FIELD... [OPTION=VALUE]...",
        summary: "Measures how well predictions fit",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ScoreCommand> {
        let word = parser.expect_field("a method")?;
        let Some(method): Option<&'static ScoreRow> = SCORES.iter().find(|row| row.name == word.text) else {
            parser.report_unsupported(format!("score:{}", word.text));
            let names: Vec<&str> = SCORES.iter().map(|row| row.name).collect();
            let message = format!("score: there is no method `{}`; expected one of: {}", word.text, names.join(", "));
            return Err(Diagnostic::error(message, word.span).suggest(&word.text, names));
        };
        let known = OptionNames::new("score", method.options);
        let (mut actual, mut predicted, mut options) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_against = false;
        loop {
            while let Some(option) = parser.option(known)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if !is_against && (parser.eat_keyword("against") || parser.eat('~')) {
                is_against = true;
                continue;
            }
            let field = parser.expect_field("a field")?.field();
            if is_against { predicted.push(field) } else { actual.push(field) }
        }
        if actual.is_empty() || predicted.is_empty() {
            let remark = Diagnostic::error(format!("score: {} has nothing to compare", method.name), word.span);
            return Err(remark.with_hint(format!("write `score {} FIELD against FIELD`", method.name)));
        }
        Ok(ScoreCommand { method, actual, predicted, options, span: word.span })
    }
}

impl Semantics for ScoreCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        needs.add_all(self.actual.iter().chain(&self.predicted));
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_sorted() {
        assert!(SCORES.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

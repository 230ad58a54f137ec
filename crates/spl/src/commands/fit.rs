//! `fit`: trains a model on the rows. Also contains the table of algorithms that names and options are checked
//! against.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Effect, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{FieldPattern, LearnOption, ModelName, Span};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

/// The only algorithm with `by`.
const GROUPED_ALGORITHM: &str = "DensityFunction";
/// Maximum number of fields of `by`.
const BY_FIELDS_MAX: usize = 5;

/// `fit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FitCommand {
    /// The algorithm, a row of [`ALGORITHMS`]; serialized as its name.
    #[serde(with = "algorithm_name")]
    pub algorithm: &'static AlgorithmRow,
    /// Position of the algorithm.
    pub span: Span,
    /// Field to predict; `None` for algorithms without a target.
    pub target: Option<FieldPattern>,
    /// Fields to learn from.
    pub features: Vec<FieldPattern>,
    /// `by`: fields; each combination of their values gets a model of its own.
    pub by: Vec<String>,
    /// `into`: name of the saved model.
    pub model: Option<ModelName>,
    /// `as`: name of the output field.
    pub output: Option<String>,
    /// Options of the algorithm.
    pub options: Vec<LearnOption>,
}

/// Purpose of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmKind {
    /// Predicts a categorical field.
    Classifier,
    /// Predicts a number.
    Regressor,
    /// Computes new fields from other fields without a target.
    Transformer,
}

/// An algorithm of `fit`.
#[derive(Debug, PartialEq, Eq)]
pub struct AlgorithmRow {
    /// Name as written in a search.
    pub name: &'static str,
    /// Purpose of the algorithm.
    pub kind: AlgorithmKind,
    /// Options that the algorithm reads.
    pub options: &'static [&'static str],
}

const fn algorithm(name: &'static str, kind: AlgorithmKind, options: &'static [&'static str]) -> AlgorithmRow {
    AlgorithmRow { name, kind, options }
}

/// Serializes an algorithm as its name.
mod algorithm_name {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::{ALGORITHMS, AlgorithmRow};

    pub(super) fn serialize<S: Serializer>(row: &&'static AlgorithmRow, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(row.name)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static AlgorithmRow, D::Error> {
        let name = String::deserialize(from)?;
        let row = ALGORITHMS.iter().find(|row| row.name == name);
        row.ok_or_else(|| D::Error::custom(format!("fit has no algorithm {name}")))
    }
}

/// Algorithms by name.
pub static ALGORITHMS: &[AlgorithmRow] = &[
    algorithm("DBSCAN", AlgorithmKind::Transformer, &["eps", "min_samples"]),
    algorithm(
        "DecisionTreeClassifier",
        AlgorithmKind::Classifier,
        &[
            "criterion",
            "max_depth",
            "max_features",
            "max_leaf_nodes",
            "min_samples_leaf",
            "min_samples_split",
            "probabilities",
            "random_state",
        ],
    ),
    algorithm(
        "DecisionTreeRegressor",
        AlgorithmKind::Regressor,
        &["max_depth", "max_features", "max_leaf_nodes", "min_samples_leaf", "min_samples_split", "random_state"],
    ),
    algorithm(
        "DensityFunction",
        AlgorithmKind::Transformer,
        &["dist", "lower_threshold", "metric", "show_density", "threshold", "upper_threshold"],
    ),
    algorithm("ElasticNet", AlgorithmKind::Regressor, &["alpha", "fit_intercept", "l1_ratio"]),
    algorithm("GaussianNB", AlgorithmKind::Classifier, &["probabilities", "var_smoothing"]),
    algorithm("KMeans", AlgorithmKind::Transformer, &["k", "random_state"]),
    algorithm("Lasso", AlgorithmKind::Regressor, &["alpha", "fit_intercept"]),
    algorithm("LinearRegression", AlgorithmKind::Regressor, &["fit_intercept"]),
    algorithm("LogisticRegression", AlgorithmKind::Classifier, &["fit_intercept", "probabilities"]),
    algorithm("PCA", AlgorithmKind::Transformer, &["k", "variance"]),
    algorithm(
        "RandomForestClassifier",
        AlgorithmKind::Classifier,
        &[
            "criterion",
            "max_depth",
            "max_features",
            "max_leaf_nodes",
            "min_samples_leaf",
            "min_samples_split",
            "n_estimators",
            "probabilities",
            "random_state",
        ],
    ),
    algorithm(
        "RandomForestRegressor",
        AlgorithmKind::Regressor,
        &[
            "max_depth",
            "max_features",
            "max_leaf_nodes",
            "min_samples_leaf",
            "min_samples_split",
            "n_estimators",
            "random_state",
        ],
    ),
    algorithm("Ridge", AlgorithmKind::Regressor, &["alpha", "fit_intercept"]),
    algorithm("RobustScaler", AlgorithmKind::Transformer, &["quantile_range", "with_centering", "with_scaling"]),
    algorithm("StandardScaler", AlgorithmKind::Transformer, &["with_mean", "with_std"]),
];

/// The list to which the next field of `fit` belongs.
#[derive(Clone, Copy, PartialEq)]
enum FieldList {
    First,
    From,
    By,
}

impl Syntax for FitCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "fit ALGORITHM [TARGET from] FIELD... [by FIELD...] [into [app:]MODEL] [as NEW] [OPTION=VALUE]...",
        summary: "Fits a model to the rows and applies it",
        group: Group::Patterns,
        capability: Some("output_file"),
        kind: Kind::Blocking,
        clauses: &["from"],
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<FitCommand> {
        let word = parser.expect_field("an algorithm")?;
        let Some(algorithm) = ALGORITHMS.iter().find(|row| row.name == word.text) else {
            parser.report_unsupported(format!("algorithm:{}", word.text));
            let names: Vec<&str> = ALGORITHMS.iter().map(|row| row.name).collect();
            let message = format!("fit: there is no algorithm `{}`; expected one of: {}", word.text, names.join(", "));
            return Err(Diagnostic::error(message, word.span).suggest(&word.text, names));
        };
        let known = OptionNames::new("fit", algorithm.options);
        let (mut model, mut output, mut options) = (None, None, Vec::new());
        let (mut first, mut from, mut by) = (Vec::new(), Vec::new(), Vec::new());
        let mut part = FieldList::First;
        loop {
            while let Some(option) = parser.option(known)? {
                options.push(LearnOption { name: option.name, value: option.value, span: option.value_span });
            }
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.eat_keyword("from") {
                part = FieldList::From;
            } else if parser.eat_keyword("by") {
                part = FieldList::By;
            } else if parser.eat_keyword("into") {
                model = Some(parser.model_name("fit")?);
            } else if parser.eat_keyword("as") {
                output = Some(parser.expect_field("the name of a field")?.text);
            } else {
                let field = parser.expect_field("a field")?.field();
                match part {
                    FieldList::First => first.push(field),
                    FieldList::From => from.push(field),
                    FieldList::By => by.push(field),
                }
            }
        }
        let by = parser.fit_by(algorithm, &by)?;
        let (target, features) = parser.fit_fields(algorithm, first, from, part != FieldList::First)?;
        Ok(FitCommand { algorithm, span: word.span, target, features, by, model, output, options })
    }
}

impl Semantics for FitCommand {
    fn effect(&self) -> Option<Effect<'_>> {
        self.model.as_ref().map(|model| Effect::Model(&model.text))
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(self.target.iter().chain(&self.features));
        self.by.iter().for_each(|field| after.add(field));
        after
    }

    /// Without `into` nothing is written.
    fn capability(&self, declared: Option<&'static str>) -> Option<&'static str> {
        declared.filter(|_| self.model.is_some())
    }
}

impl Parser<'_> {
    /// Parses the fields of `by`; one pair of quotes may contain several fields.
    fn fit_by(&mut self, algorithm: &AlgorithmRow, by: &[FieldPattern]) -> ParseResult<Vec<String>> {
        let Some(first) = by.first() else { return Ok(Vec::new()) };
        if algorithm.name != GROUPED_ALGORITHM {
            let message = format!("fit: {} has no `by`; only {GROUPED_ALGORITHM} supports it", algorithm.name);
            return Err(Diagnostic::error(message, first.span));
        }
        let names = by.iter().flat_map(|field| field.text.split(',')).map(|name| name.trim().to_owned());
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if names.len() > BY_FIELDS_MAX {
            let message = format!("fit: {} fields after `by`; the limit is {BY_FIELDS_MAX}", names.len());
            return Err(Diagnostic::error(message, first.span));
        }
        Ok(names)
    }

    /// Parses the target and the features.
    fn fit_fields(
        &mut self,
        algorithm: &AlgorithmRow,
        mut first: Vec<FieldPattern>,
        from: Vec<FieldPattern>,
        has_more: bool,
    ) -> ParseResult<(Option<FieldPattern>, Vec<FieldPattern>)> {
        let name = algorithm.name;
        if algorithm.kind == AlgorithmKind::Transformer {
            first.extend(from);
            let Some(field) = first.first() else {
                let remark = Diagnostic::error(format!("fit: {name} has no fields to learn from"), self.here());
                return Err(remark.with_hint(format!("write `fit {name} FIELD...`, or `fit {name} *`")));
            };
            if name == GROUPED_ALGORITHM && first.len() > 1 {
                return Err(Diagnostic::error(format!("fit: {name} needs exactly one field"), field.span));
            }
            return Ok((None, first));
        }
        let hint = format!("write `fit {name} FIELD from FIELD...`");
        let Some(target) = first.first().cloned() else {
            let remark = Diagnostic::error(format!("fit: {name} needs a field to predict"), self.here());
            return Err(remark.with_hint(hint));
        };
        if first.len() > 1 || target.is_wildcard() || !has_more || from.is_empty() {
            let message = format!("fit: {name} needs one field to predict, `from`, and fields to learn from");
            return Err(Diagnostic::error(message, target.span).with_hint(hint));
        }
        Ok((Some(target), from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_sorted() {
        assert!(ALGORITHMS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(ALGORITHMS.iter().all(|row| row.options.is_sorted()));
    }
}

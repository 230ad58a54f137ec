//! Syntax of the commands of machine learning: fit, apply, score, summary, listmodels, deletemodel; and the tables of what
//! can be learnt and scored, which the parser checks names and options against.

use super::{FieldPattern, Span};

/// A command of machine learning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnCommand {
    /// `fit`.
    Fit(FitCommand),
    /// `apply`.
    Apply(ApplyCommand),
    /// `score`.
    Score(ScoreCommand),
    /// `summary`.
    Summary(ModelName),
    /// `listmodels`.
    ListModels,
    /// `deletemodel`.
    DeleteModel(ModelName),
}

impl LearnCommand {
    /// How it is written.
    pub fn name(&self) -> &'static str {
        match self {
            LearnCommand::Fit(_) => "fit",
            LearnCommand::Apply(_) => "apply",
            LearnCommand::Score(_) => "score",
            LearnCommand::Summary(_) => "summary",
            LearnCommand::ListModels => "listmodels",
            LearnCommand::DeleteModel(_) => "deletemodel",
        }
    }

    /// Whether it makes rows of its own and has to come first.
    pub fn generates(&self) -> bool {
        matches!(self, LearnCommand::Summary(_) | LearnCommand::ListModels | LearnCommand::DeleteModel(_))
    }
}

/// Name of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// Letters, digits, `_` and `-`.
    pub text: String,
    /// `app:NAME`: the one that the users of the app share.
    pub shared: bool,
    /// Place.
    pub span: Span,
}

/// `name=value` as it is given to the algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnOption {
    /// Name in lower case.
    pub name: String,
    /// Value, unquoted.
    pub value: String,
    /// Place of the value.
    pub span: Span,
}

/// `fit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitCommand {
    /// Row of [`ALGORITHMS`].
    pub algorithm: &'static AlgorithmRow,
    /// Place of the algorithm.
    pub span: Span,
    /// What is foretold; none where the algorithm foretells nothing.
    pub target: Option<FieldPattern>,
    /// What it is learnt from.
    pub features: Vec<FieldPattern>,
    /// `by`: a model for each combination of values.
    pub by: Vec<String>,
    /// `into`: what the model is kept as.
    pub model: Option<ModelName>,
    /// `as`: name of the field that is made.
    pub output: Option<String>,
    /// Options of the algorithm.
    pub options: Vec<LearnOption>,
}

/// `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyCommand {
    /// The model.
    pub model: ModelName,
    /// `as`: name of the field that is made.
    pub output: Option<String>,
    /// Options that stand in for those of `fit`.
    pub options: Vec<LearnOption>,
}

/// `score`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreCommand {
    /// Row of [`SCORES`].
    pub method: &'static ScoreRow,
    /// Fields before `against`: what is true, or the group of each row.
    pub actual: Vec<FieldPattern>,
    /// Fields behind it: what was foretold, or where each row lies.
    pub predicted: Vec<FieldPattern>,
    /// Options of the method.
    pub options: Vec<LearnOption>,
    /// Place of the method.
    pub span: Span,
}

/// What an algorithm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmKind {
    /// Foretells one of several values of a field.
    Classifier,
    /// Foretells a number.
    Regressor,
    /// Makes fields of other fields, and foretells none.
    Transformer,
}

/// An algorithm of `fit`.
#[derive(Debug, PartialEq, Eq)]
pub struct AlgorithmRow {
    /// Name as it is written.
    pub name: &'static str,
    /// What it is for.
    pub kind: AlgorithmKind,
    /// Options it reads.
    pub options: &'static [&'static str],
}

/// A method of `score`.
#[derive(Debug, PartialEq, Eq)]
pub struct ScoreRow {
    /// Name as it is written.
    pub name: &'static str,
    /// Options it reads.
    pub options: &'static [&'static str],
}

const fn algorithm(name: &'static str, kind: AlgorithmKind, options: &'static [&'static str]) -> AlgorithmRow {
    AlgorithmRow { name, kind, options }
}

const fn score(name: &'static str, options: &'static [&'static str]) -> ScoreRow {
    ScoreRow { name, options }
}

/// Options of `apply`; those that the model's algorithm does not have are refused when it is read.
pub const APPLY_OPTIONS: &[&str] =
    &["lower_threshold", "probabilities", "show_density", "threshold", "upper_threshold"];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(ALGORITHMS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(SCORES.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(ALGORITHMS.iter().all(|row| row.options.is_sorted()));
    }
}

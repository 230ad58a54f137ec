//! Contents of a fitted model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bayes::Bayes;
use crate::cluster::Clusters;
use crate::density::Densities;
use crate::encode::Encoding;
use crate::linear_regression::Linear;
use crate::logistic_regression::Logistic;
use crate::options::Options;
use crate::pca::Axes;
use crate::scale::Scales;
use crate::tree::Forest;

/// Names of the algorithms, sorted.
pub const ALGORITHMS: &[&str] = &[
    "DBSCAN",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DensityFunction",
    "ElasticNet",
    "GaussianNB",
    "KMeans",
    "Lasso",
    "LinearRegression",
    "LogisticRegression",
    "PCA",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "Ridge",
    "RobustScaler",
    "StandardScaler",
];

/// A fitted model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Options given to `fit`.
    pub options: BTreeMap<String, String>,
    /// The target field; `None` if the algorithm has no target.
    pub target: Option<String>,
    /// Classes of a classifier, sorted.
    pub classes: Vec<String>,
    /// Name of the resulting field given to `fit`.
    pub output: Option<String>,
    /// Group-by fields.
    pub by: Vec<String>,
    /// Encoding of rows as numbers.
    pub encoding: Encoding,
    /// Fitted parameters.
    pub body: Body,
}

/// Fitted parameters by algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// Linear regressions.
    Linear(Linear),
    /// Logistic regression.
    Logistic(Logistic),
    /// Naive Bayes.
    Bayes(Bayes),
    /// Trees and forests.
    Forest(Forest),
    /// k-means.
    Clusters(Clusters),
    /// Principal components.
    Axes(Axes),
    /// Scalers.
    Scales(Scales),
    /// Densities.
    Densities(Densities),
    /// No parameters: the algorithm only labels the rows to which it is fitted.
    Nothing,
}

/// A predicted value.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputValue {
    /// No value.
    Null,
    /// A number.
    Number(f64),
    /// A whole number.
    Whole(i64),
    /// A text.
    Text(Arc<str>),
    /// Several texts.
    List(Arc<[String]>),
}

impl Model {
    /// A model that reads no field and predicts 0.
    pub fn empty() -> Model {
        Model {
            algorithm: "LinearRegression".to_owned(),
            options: BTreeMap::new(),
            target: Some("y".to_owned()),
            classes: Vec::new(),
            output: None,
            by: Vec::new(),
            encoding: Encoding::default(),
            body: Body::Linear(Linear { coefficients: Vec::new(), intercept: 0.0 }),
        }
    }

    /// Fields that the model reads.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.encoding.features.iter().map(|feature| feature.field.as_str()).chain(self.by.iter().map(String::as_str))
    }

    /// The options of `fit`.
    pub fn options(&self) -> Options {
        self.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether the model can be applied to other rows.
    pub fn can_be_applied(&self) -> bool {
        self.body != Body::Nothing
    }
}

use std::borrow::Cow;

use crate::density::{Density, Threshold, normal_quantile};
use crate::matrix::Matrix;
use crate::model::{Body, OutputValue};
use crate::rng::Rng;
use crate::score::score;
use crate::{
    ALGORITHMS, Column, FitControl, FitRequest, FitResult, LearnError, Model, Options, Values, fit, sample, wire,
};

/// Cells as texts; an empty cell has no value.
struct Cells(Vec<String>);

impl Values for Cells {
    fn is_null(&self, row: usize) -> bool {
        self.0[row].is_empty()
    }

    fn number(&self, row: usize) -> Option<f64> {
        self.0[row].parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn text(&self, row: usize) -> Option<Cow<'_, str>> {
        (!self.is_null(row)).then(|| Cow::Borrowed(self.0[row].as_str()))
    }
}

/// A table parsed from CSV without quotes.
struct Table {
    names: Vec<String>,
    columns: Vec<Cells>,
    rows: usize,
}

impl Table {
    fn new(csv: &str) -> Table {
        let mut lines = csv.lines();
        let names: Vec<String> = lines.next().unwrap().split(',').map(str::to_owned).collect();
        let mut columns: Vec<Cells> = names.iter().map(|_| Cells(Vec::new())).collect();
        let mut rows = 0;
        for line in lines {
            rows += 1;
            line.split(',').zip(&mut columns).for_each(|(cell, column)| column.0.push(cell.to_owned()));
        }
        Table { names, columns, rows }
    }

    fn columns(&self, names: &str) -> Vec<Column<'_>> {
        names.split_whitespace().map(|name| self.column(name)).collect()
    }

    fn column(&self, name: &str) -> Column<'_> {
        let at = self.names.iter().position(|known| known == name).unwrap();
        Column { name: &self.names[at], values: &self.columns[at] }
    }

    fn fit(&self, algorithm: &str, target: &str, features: &str, options: &str) -> Result<FitResult, LearnError> {
        let options = options.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let mut request = FitRequest {
            algorithm,
            target: (!target.is_empty()).then(|| self.column(target)),
            features: self.columns(features),
            by: Vec::new(),
            rows: self.rows,
            options: options.collect(),
            output: None,
        };
        if let Some(by) = request.options.get("by").map(str::to_owned) {
            request.by = by.split(',').map(|name| self.column(name)).collect();
            request.options = request.options.iter().filter(|(name, _)| *name != "by").collect();
        }
        fit(&request, FitControl { stop: &|| false, should_end: &|| false })
    }

    fn predict(&self, model: &Model) -> Vec<Vec<OutputValue>> {
        let columns: Vec<Column<'_>> = self.names.iter().map(|name| self.column(name)).collect();
        model.clone().prepare(&Options::default(), None).unwrap().apply(&columns, self.rows, &|| false).unwrap()
    }
}

fn number(answer: &OutputValue) -> f64 {
    match answer {
        OutputValue::Number(number) => *number,
        OutputValue::Whole(number) => *number as f64,
        other => panic!("{other:?}"),
    }
}

fn assert_near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "got {got}, want {want}");
}

fn coefficients(fitted: &FitResult) -> (Vec<f64>, f64) {
    match &fitted.model.body {
        Body::Linear(linear) => (linear.coefficients.clone(), linear.intercept),
        other => panic!("{other:?}"),
    }
}

/// Two fields, two distant classes and some noise.
fn two_class_table() -> Table {
    let mut rng = Rng::new(7);
    let mut csv = "a,b,color,kind,size\n".to_owned();
    for row in 0..120 {
        let is_big = row % 3 == 0;
        let (a, b) = (rng.unit() + if is_big { 3.0 } else { 0.0 }, rng.unit() * 10.0);
        let color = ["red", "green", "blue"][row % 3];
        let kind = if is_big { "big" } else { "small" };
        csv.push_str(&format!("{a},{b},{color},{kind},{}\n", a * 2.0 + b));
    }
    Table::new(&csv)
}

#[test]
fn lines_are_found_exactly() {
    let table = Table::new("x,z,y\n1,0,3\n2,1,6\n3,0,7\n4,1,10\n,1,9\n");
    let (slope, start) = coefficients(&table.fit("LinearRegression", "y", "x z", "").unwrap());
    // y = 1 + 2 x + z
    assert_near(slope[0], 2.0);
    assert_near(slope[1], 1.0);
    assert_near(start, 1.0);
    let fitted = table.fit("LinearRegression", "y", "x z", "").unwrap();
    let said = table.predict(&fitted.model);
    assert_near(number(&said[0][3]), 10.0);
    assert_eq!(said[0][4], OutputValue::Null, "a row without x");
    let (slope, start) = coefficients(&table.fit("LinearRegression", "y", "x", "fit_intercept=f").unwrap());
    assert_near(slope[0], (3.0 + 12.0 + 21.0 + 40.0) / 30.0);
    assert_near(start, 0.0);
}

#[test]
fn penalties_match_their_definitions() {
    // After centring, x is -1, 0, 1 and y is -2, 0, 2: their product is 4, the square of x is 2.
    let table = Table::new("x,y\n1,0\n2,2\n3,4\n");
    assert_near(coefficients(&table.fit("Ridge", "y", "x", "alpha=2").unwrap()).0[0], 4.0 / (2.0 + 2.0));
    assert_near(
        coefficients(&table.fit("Lasso", "y", "x", "alpha=0.5").unwrap()).0[0],
        (4.0 / 3.0 - 0.5) / (2.0 / 3.0),
    );
    assert_near(coefficients(&table.fit("Lasso", "y", "x", "alpha=5").unwrap()).0[0], 0.0);
    let net = coefficients(&table.fit("ElasticNet", "y", "x", "alpha=0.5 l1_ratio=0.5").unwrap());
    assert_near(net.0[0], (4.0 / 3.0 - 0.25) / (2.0 / 3.0 + 0.25));
    assert_near(net.1, 2.0 - 2.0 * net.0[0]);
}

#[test]
fn texts_are_columns_and_dependent_columns_do_no_harm() {
    let table = Table::new("color,twice,y\nred,1,1\nblue,2,5\nred,1,1\nblue,2,5\ngreen,3,9\n");
    let fitted = table.fit("LinearRegression", "y", "color twice", "").unwrap();
    assert_eq!(fitted.model.encoding.names(), ["color=blue", "color=green", "color=red", "twice"]);
    let said = table.predict(&fitted.model);
    for (row, want) in [1.0, 5.0, 1.0, 5.0, 9.0].into_iter().enumerate() {
        assert_near(number(&said[0][row]), want);
    }
    // A value that did not occur in the fit is 0 in the columns of all known values.
    let other = Table::new("color,twice,y\nblack,2,\n,2,\n");
    let said = other.predict(&table.fit("LinearRegression", "y", "color", "").unwrap().model);
    assert!(matches!(said[0][0], OutputValue::Number(_)) && said[0][1] == OutputValue::Null, "{said:?}");
}

#[test]
fn classes_are_distinguished() {
    let table = two_class_table();
    for algorithm in ["LogisticRegression", "GaussianNB", "DecisionTreeClassifier", "RandomForestClassifier"] {
        let fitted = table.fit(algorithm, "kind", "a b", "probabilities=t").unwrap();
        let said = table.predict(&fitted.model);
        assert_eq!(said.len(), 3, "{algorithm}");
        for (row, answer) in said[0].iter().enumerate() {
            let want = table.column("kind").values.text(row).unwrap();
            assert_eq!(*answer, OutputValue::Text(want.as_ref().into()), "{algorithm}, row {row}");
            assert_near(number(&said[1][row]) + number(&said[2][row]), 1.0);
        }
    }
    // Three classes, each determined by a text value.
    for algorithm in ["LogisticRegression", "DecisionTreeClassifier"] {
        let said = table.predict(&table.fit(algorithm, "color", "color a", "").unwrap_or_else(|e| panic!("{e}")).model);
        assert_eq!(said.len(), 1);
    }
    let tree = table.fit("DecisionTreeClassifier", "kind", "a b", "").unwrap();
    let importances: Vec<f64> = tree.model.summary().iter().map(|row| number(&row[1].1)).collect();
    assert_eq!(importances, [1.0, 0.0], "one split is enough");
}

#[test]
fn logistic_regression_finds_the_optimum() {
    // One symmetric column: the intercept is 0, and the slope solves w = sum of x times residuals.
    let table = Table::new("x,y\n-1,no\n1,yes\n-2,no\n2,yes\n");
    let fitted = table.fit("LogisticRegression", "y", "x", "").unwrap();
    let Body::Logistic(logistic) = &fitted.model.body else { panic!() };
    let (slope, start) = (logistic.weights[0], logistic.weights[1]);
    let left = |x: f64| x / (1.0 + (slope * x).exp());
    assert_near(slope, 2.0 * (left(1.0) + left(2.0)));
    assert_near(start, 0.0);
}

#[test]
fn trees_follow_their_limits() {
    let table = two_class_table();
    let full = table.fit("DecisionTreeRegressor", "size", "a b", "").unwrap();
    let said = table.predict(&full.model);
    for (row, answer) in said[0].iter().enumerate() {
        assert_near(number(answer), table.column("size").values.number(row).unwrap());
    }
    let leaves = |options: &str| {
        let Body::Forest(forest) = table.fit("DecisionTreeRegressor", "size", "a b", options).unwrap().model.body
        else {
            panic!()
        };
        forest.trees[0].low.iter().filter(|child| **child == 0).count()
    };
    assert_eq!((leaves("max_leaf_nodes=3"), leaves("max_depth=2")), (3, 4));
    assert!(leaves("min_samples_leaf=30") <= 4);
    // Splits without a gain are also tried, because the splits below them may have a gain.
    let xor = Table::new("a,b,y\n0,0,no\n0,1,yes\n1,0,yes\n1,1,no\n");
    let said = xor.predict(&xor.fit("DecisionTreeClassifier", "y", "a b", "").unwrap().model);
    let texts: Vec<&OutputValue> = said[0].iter().collect();
    assert_eq!((texts[0] == texts[3], texts[1] == texts[2], texts[0] == texts[1]), (true, true, false));
    let one = table.fit("RandomForestRegressor", "size", "a b", "random_state=1").unwrap();
    assert_eq!(one.model, table.fit("RandomForestRegressor", "size", "a b", "random_state=1").unwrap().model);
}

#[test]
fn groups_are_found() {
    let table = Table::new("x,y\n0,0\n0,1\n10,10\n10,11\n0,2\n50,50\n");
    let fitted = table.fit("KMeans", "", "x y", "k=3").unwrap();
    let said = table.predict(&fitted.model);
    let groups: Vec<f64> = said[0].iter().map(number).collect();
    assert_eq!(groups, [0.0, 0.0, 1.0, 1.0, 0.0, 2.0]);
    assert_near(number(&said[1][0]), 1.0);
    let density = table.fit("DBSCAN", "", "x y", "eps=1.5 min_samples=2").unwrap();
    let (name, labels) = density.labels.unwrap();
    let labels: Vec<f64> = labels.iter().map(number).collect();
    assert_eq!((name.as_str(), labels), ("cluster", vec![0.0, 0.0, 1.0, 1.0, 0.0, -1.0]));
    assert!(!density.model.can_be_applied() && density.model.clone().prepare(&Options::default(), None).is_err());
    assert!(matches!(table.fit("KMeans", "", "x", "k=7"), Err(LearnError::Data(_))));
}

#[test]
fn components_and_scales_match_their_definitions() {
    let table = Table::new("x,y\n1,2\n2,4\n3,6\n4,8\n");
    let fitted = table.fit("PCA", "", "x y", "").unwrap();
    let said = table.predict(&fitted.model);
    assert_near(number(&said[0][3]), 1.5 * 5f64.sqrt());
    assert_near(number(&said[1][3]), 0.0);
    assert_eq!(table.predict(&table.fit("PCA", "", "x y", "variance=0.9").unwrap().model).len(), 1);
    let scaled = table.predict(&table.fit("StandardScaler", "", "x", "").unwrap().model);
    assert_near(number(&scaled[0][0]), -1.5 / 1.25f64.sqrt());
    let scaled = table.predict(&table.fit("RobustScaler", "", "x", "").unwrap().model);
    assert_near(number(&scaled[0][3]), 1.5 / 1.5);
}

#[test]
fn densities_have_correct_tails() {
    assert_near(normal_quantile(0.975), 1.959_963_984_540_054);
    assert_near(normal_quantile(1e-9), -5.997_807_015_008_182);
    let norm = Density::Norm { mean: 10.0, deviation: 2.0 };
    assert_near(norm.quantile(0.995), 10.0 + 2.0 * 2.575_829_303_548_901);
    assert_near(norm.cumulative_probability(10.0 + 2.0 * 1.959_964), 0.975);
    assert_near(norm.at(10.0).unwrap(), 0.199_471_140_200_716_35);
    let expon = Density::Expon { start: 1.0, scale: 2.0 };
    assert_near(expon.quantile(0.5), 1.0 + 2.0 * 2f64.ln());
    assert_near(expon.cumulative_probability(expon.quantile(0.3)), 0.3);
    let ranges = norm.outliers(&Threshold::Both(0.01));
    assert_eq!(
        ranges.iter().map(|range| range.text()).collect::<Vec<_>>(),
        ["-Infinity:4.8483:0.005", "15.1517:Infinity:0.005"]
    );
    assert!(!ranges[1].contains(15.0) && ranges[1].contains(15.2));
    assert_eq!(expon.outliers(&Threshold::Both(0.1)).len(), 1);
    assert_eq!(norm.outliers(&Threshold::Tails(Some(0.1), None)).len(), 1);
}

#[test]
fn densities_are_chosen_and_grouped() {
    let mut rng = Rng::new(3);
    let mut csv = "n,host\n".to_owned();
    for _ in 0..400 {
        csv.push_str(&format!("{},a\n", normal_quantile(rng.unit().max(1e-9)) * 5.0 + 100.0));
        csv.push_str(&format!("{},b\n", -(1.0 - rng.unit()).ln() * 3.0));
    }
    csv.push_str("100,\n,a\n60,a\n60,b\n60,c\n");
    let table = Table::new(&csv);
    let model = |options: &str| table.fit("DensityFunction", "", "n", options).unwrap().model;
    let said = table.predict(&model("dist=norm by=host show_density=t"));
    let last = table.rows - 1;
    assert_eq!(
        (&said[0][last - 2], &said[0][last - 1], &said[0][last]),
        (&OutputValue::Whole(1), &OutputValue::Whole(1), &OutputValue::Whole(0))
    );
    assert_eq!(
        (&said[0][last - 4], &said[0][last - 3]),
        (&OutputValue::Null, &OutputValue::Null),
        "no group, no number"
    );
    let outliers = said[0].iter().filter(|answer| **answer == OutputValue::Whole(1)).count();
    assert!((2..=20).contains(&outliers), "{outliers} of 800 at 1 %");
    let Body::Densities(found) = model("by=host metric=kolmogorov_smirnov").body else { panic!() };
    assert_eq!(found.groups[1].density.name(), "Exponential");
    for kind in ["gaussian_kde", "expon", "norm"] {
        let Body::Densities(found) = model(&format!("dist={kind}")).body else { panic!() };
        let density = &found.groups[0].density;
        for share in [0.01, 0.3, 0.5, 0.99] {
            assert_near(density.cumulative_probability(density.quantile(share)), share);
        }
    }
    let kernels = table.fit("DensityFunction", "", "n", "dist=gaussian_kde threshold=0.01,0.05").unwrap().model;
    let ready = kernels.clone().prepare(&Options::default(), None).unwrap();
    let names = ["IsOutlier(n)_th=0.01", "BoundaryRanges_th=0.01", "IsOutlier(n)_th=0.05", "BoundaryRanges_th=0.05"];
    assert_eq!(ready.names(), names);
    let replaced = kernels.clone().prepare(&[("upper_threshold", "0.02")].into_iter().collect(), Some("odd")).unwrap();
    assert_eq!(replaced.names(), ["odd", "BoundaryRanges"]);
    assert!(table.fit("DensityFunction", "", "n", "threshold=0.1 lower_threshold=0.1").is_err());
    assert!(table.fit("DensityFunction", "", "n", "threshold=0").is_err());
}

fn every_model() -> Vec<Model> {
    let table = two_class_table();
    let fitted = ALGORITHMS.iter().map(|algorithm| {
        let (target, features) = match *algorithm {
            name if name.ends_with("Classifier") || name == "GaussianNB" || name == "LogisticRegression" => {
                ("kind", "a b color")
            }
            "DensityFunction" => ("", "a"),
            "DBSCAN" | "KMeans" | "PCA" | "RobustScaler" | "StandardScaler" => ("", "a b color"),
            _ => ("size", "a b color"),
        };
        let options = if *algorithm == "DensityFunction" { "by=color dist=gaussian_kde" } else { "" };
        table.fit(algorithm, target, features, options).unwrap_or_else(|error| panic!("{algorithm}: {error}")).model
    });
    fitted.collect()
}

#[test]
fn models_round_trip() {
    let table = two_class_table();
    for model in every_model() {
        let read =
            wire::from_bytes(&wire::to_bytes(&model).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", model.algorithm));
        assert_eq!(read, model);
        if model.can_be_applied() {
            assert_eq!(table.predict(&read), table.predict(&model));
        }
        assert_eq!(read.summary(), model.summary());
    }
}

#[test]
fn damaged_models_are_refused() {
    let mut rng = Rng::new(11);
    for model in every_model() {
        let bytes = wire::to_bytes(&model).unwrap();
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            match rng.below(3) {
                0 => damaged.truncate(rng.below(bytes.len())),
                _ => {
                    let at = rng.below(bytes.len());
                    damaged[at] ^= 1 << rng.below(8);
                }
            }
            assert!(wire::from_bytes(&damaged).is_err(), "{}", model.algorithm);
        }
    }
}

/// A file with a correct checksum is validated as strictly as any other: a model that passes can be applied.
#[test]
fn forged_models_do_no_harm() {
    let table = two_class_table();
    let columns: Vec<Column<'_>> = table.names.iter().map(|name| table.column(name)).collect();
    let mut rng = Rng::new(5);
    let (mut refused, mut taken) = (0, 0);
    for model in every_model() {
        let bytes = wire::to_bytes(&model).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let body = text.split_once('\n').unwrap().1.trim_end();
        for _ in 0..150 {
            let mut made_up = body.as_bytes().to_vec();
            for _ in 0..=rng.below(3) {
                let digits: Vec<usize> = (0..made_up.len()).filter(|at| made_up[*at].is_ascii_digit()).collect();
                match (rng.below(4), digits.is_empty()) {
                    (0 | 1, false) => made_up[digits[rng.below(digits.len())]] = b"0123456789-e"[rng.below(12)],
                    (2, _) => drop(made_up.remove(rng.below(made_up.len()))),
                    _ => {
                        let at = rng.below(made_up.len());
                        made_up[at] = b"0 ,]}[{\"a"[rng.below(9)];
                    }
                }
            }
            let Ok(body) = String::from_utf8(made_up) else { continue };
            let sum = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
            match wire::from_bytes(format!("quarry-model 1 {sum:016x}\n{body}\n").as_bytes()) {
                Err(LearnError::Format(_)) => refused += 1,
                Err(other) => panic!("{other}"),
                Ok(read) => {
                    taken += 1;
                    read.summary();
                    if let Ok(ready) = read.prepare(&Options::default(), None) {
                        drop(ready.apply(&columns, table.rows, &|| false));
                    }
                }
            }
        }
    }
    assert!(refused > 100 && taken > 100, "{refused} refused, {taken} taken");
}

#[test]
fn fitting_stops_when_cancelled() {
    let table = two_class_table();
    for algorithm in ALGORITHMS {
        let is_supervised =
            !matches!(*algorithm, "DensityFunction" | "DBSCAN" | "KMeans" | "PCA" | "RobustScaler" | "StandardScaler");
        let target = match is_supervised {
            true if algorithm.ends_with("Classifier") || matches!(*algorithm, "GaussianNB" | "LogisticRegression") => {
                Some(table.column("kind"))
            }
            true => Some(table.column("size")),
            false => None,
        };
        let request = FitRequest {
            algorithm,
            target,
            features: vec![table.column("a")],
            by: Vec::new(),
            rows: table.rows,
            options: Options::default(),
            output: None,
        };
        assert_eq!(
            fit(&request, FitControl { stop: &|| true, should_end: &|| false }).unwrap_err(),
            LearnError::Cancelled,
            "{algorithm}"
        );
    }
}

#[test]
fn unusable_rows_are_explained() {
    let table = Table::new("x,y,none,same\n1,a,,k\n2,b,,k\n");
    let told = |algorithm: &str, target: &str, features: &str, options: &str| {
        table.fit(algorithm, target, features, options).unwrap_err().to_string()
    };
    assert!(told("LinearRegression", "y", "x", "").contains("y has values that are not numbers, such as `a`"));
    assert!(told("LinearRegression", "x", "none", "").contains("none has no value in any row and is left out"));
    assert!(told("LogisticRegression", "same", "x", "").contains("same has one value"));
    assert!(told("LogisticRegression", "none", "x", "").contains("no row to learn from"));
    assert!(told("KMeans", "", "x", "k=0").contains("`k` expects a number from 1 to 1000, got `0`"));
    assert!(told("RandomForestRegressor", "x", "y", "n_estimators=x").contains("n_estimators"));
    assert!(told("PCA", "", "x", "k=2").contains("limit is 1"));
    let mut csv = "x,id\n".to_owned();
    (0..200).for_each(|row| csv.push_str(&format!("{row},u{row}\n")));
    let wide = Table::new(&csv);
    let fitted = wide.fit("StandardScaler", "", "x id", "").unwrap();
    assert_eq!(fitted.notes, ["id has more than 100 distinct values and is left out"]);
    assert!(matches!(wide.fit("DecisionTreeClassifier", "id", "x", ""), Err(LearnError::Limit { limit: 100, .. })));
}

fn score_rows(
    csv: &str,
    method: &str,
    actual: &str,
    predicted: &str,
    options: &str,
) -> Vec<Vec<(String, OutputValue)>> {
    let table = Table::new(csv);
    let options = options.split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect();
    score(method, &table.columns(actual), &table.columns(predicted), table.rows, &options, &|| false).unwrap()
}

#[test]
fn scores_match_their_definitions() {
    let classes = "t,p\na,a\na,b\nb,b\nb,b\nc,a\n,a\n";
    let one =
        |method: &str, options: &str| number(&score_rows(classes, method, "t", "p", options)[0].last().unwrap().1);
    assert_near(one("accuracy_score", ""), 0.6);
    assert_near(one("accuracy_score", "normalize=f"), 3.0);
    assert_near(one("precision_score", "average=macro"), (0.5 + 2.0 / 3.0) / 3.0);
    assert_near(one("recall_score", "average=weighted"), 0.6);
    assert_near(one("f1_score", "pos_label=b"), 0.8);
    assert_near(one("f1_score", "average=micro"), 0.6);
    let matrix = score_rows(classes, "confusion_matrix", "t", "p", "");
    assert_eq!(matrix[0][2], ("predicted(b)".to_owned(), OutputValue::Whole(1)));
    assert_eq!(score_rows(classes, "precision_recall_fscore_support", "t", "p", "").len(), 3);
    let numbers = "y,z,w\n1,1,5\n2,2,5\n3,5,5\n";
    let one = |method: &str| number(&score_rows(numbers, method, "y", "z", "")[0][0].1);
    assert_near(one("mean_squared_error"), 4.0 / 3.0);
    assert_near(one("mean_absolute_error"), 2.0 / 3.0);
    assert_near(one("r2_score"), 1.0 - 4.0 / 2.0);
    assert_near(one("explained_variance_score"), 1.0 - (8.0 / 9.0) / (2.0 / 3.0));
    assert_eq!(score_rows(numbers, "r2_score", "y", "z w", "").len(), 2);
    let curve = "t,s\n0,0.1\n0,0.4\n1,0.35\n1,0.8\n";
    assert_near(number(&score_rows(curve, "roc_auc_score", "t", "s", "")[0][0].1), 0.75);
    let groups = "g,x\na,0\na,1\nb,10\nb,11\n";
    assert_near(
        number(&score_rows(groups, "silhouette_score", "g", "x", "")[0][0].1),
        (1.0 - 1.0 / 10.5 + 1.0 - 1.0 / 9.5) / 2.0,
    );
}

#[test]
fn samples_are_uniform_and_reproducible() {
    let drawn = sample(1_000, 100, 3);
    assert_eq!((drawn.len(), drawn.is_sorted(), &drawn), (100, true, &sample(1_000, 100, 3)));
    let first: usize = drawn.iter().filter(|row| **row < 500).count();
    assert!((30..=70).contains(&first), "{first}");
    assert_eq!(sample(3, 5, 1), [0, 1, 2]);
}

#[test]
fn matrices_have_rows_and_columns() {
    let matrix = Matrix::of_rows(&[&[1.0, 2.0], &[3.0, 4.0]]);
    assert_eq!((matrix.rows(), matrix.width(), matrix.row(1)), (2, 2, &[3.0, 4.0][..]));
    assert_eq!(matrix.column(1).collect::<Vec<_>>(), [2.0, 4.0]);
}

#[test]
fn a_forest_that_ends_early_has_the_trees_grown_so_far() {
    let table = two_class_table();
    let trees = |ends_at: usize| {
        let request = FitRequest {
            algorithm: "RandomForestClassifier",
            target: Some(table.column("kind")),
            features: table.columns("a b"),
            by: Vec::new(),
            rows: table.rows,
            options: [("random_state", "1")].into_iter().collect(),
            output: None,
        };
        let asked = std::cell::Cell::new(0);
        let should_end = || asked.replace(asked.get() + 1) >= ends_at;
        let fitted = fit(&request, FitControl { stop: &|| false, should_end: &should_end }).unwrap();
        let Body::Forest(forest) = fitted.model.body else { panic!("a forest") };
        (forest.trees, asked.get())
    };
    let (all, asked) = trees(usize::MAX);
    assert_eq!(all.len(), 10);
    let (first, _) = trees(0);
    assert_eq!((first.len(), first[0].low[0]), (1, 0), "a single leaf");
    let (some, _) = trees(asked / 2);
    assert!(some.len() > 1 && some.len() < all.len(), "{} trees", some.len());
    assert_eq!(some, all[..some.len()]);
}

#[test]
fn iterative_fits_that_end_early_have_a_model() {
    let table = two_class_table();
    for (algorithm, target) in [("KMeans", ""), ("LogisticRegression", "kind")] {
        let fitted = |ends: bool| {
            let request = FitRequest {
                algorithm,
                target: (!target.is_empty()).then(|| table.column(target)),
                features: table.columns("a b"),
                by: Vec::new(),
                rows: table.rows,
                options: Options::default(),
                output: None,
            };
            fit(&request, FitControl { stop: &|| false, should_end: &|| ends }).unwrap().model
        };
        assert_ne!(fitted(true), fitted(false), "{algorithm}");
        assert_eq!(fitted(true), fitted(true), "{algorithm}");
        assert_eq!(table.predict(&fitted(true)).len(), table.predict(&fitted(false)).len(), "{algorithm}");
    }
}

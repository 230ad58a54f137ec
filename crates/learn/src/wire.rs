//! Serialization of models: a header line, then JSON.
//!
//! The header has the format version and a checksum, so that truncated or modified files are detected. Files may come
//! from untrusted sources, so the whole model is validated before use: every index is in range, every list has the
//! right length, and every path through a tree ends.

use crate::density::{Densities, Density};
use crate::encode::Encoding;
use crate::model::{ALGORITHMS, Body, Model};
use crate::{CLASSES_MAX, COLUMNS_MAX, GROUPS_MAX, LearnError, MODEL_BYTES_MAX};

/// First word of a serialized model.
const MAGIC: &str = "quarry-model";
/// Version of the format.
const VERSION: &str = "1";

/// Serializes a model.
pub fn to_bytes(model: &Model) -> Result<Vec<u8>, LearnError> {
    let body = serde_json::to_string(model)
        .map_err(|error| LearnError::Data(format!("the model cannot be written: {error}")))?;
    let bytes = format!("{MAGIC} {VERSION} {:016x}\n{body}\n", checksum(&body)).into_bytes();
    if bytes.len() > MODEL_BYTES_MAX {
        let what = "bytes of the model: learn fewer trees, groups or categories, or limit the depth".to_owned();
        return Err(LearnError::Limit { what, value: bytes.len(), limit: MODEL_BYTES_MAX });
    }
    Ok(bytes)
}

fn checksum(body: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body.as_bytes())
}

/// Deserializes a model.
pub fn from_bytes(bytes: &[u8]) -> Result<Model, LearnError> {
    let format = |message: &str| LearnError::Format(message.to_owned());
    if bytes.len() > MODEL_BYTES_MAX {
        let what = "bytes of the model".to_owned();
        return Err(LearnError::Limit { what, value: bytes.len(), limit: MODEL_BYTES_MAX });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| format("it is not UTF-8"))?;
    let (line, body) = text.split_once('\n').ok_or_else(|| format("it has no first line"))?;
    let mut words = line.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(format("it has no model header; models of Splunk's toolkit must be refitted with fit"));
    }
    match words.next() {
        Some(VERSION) => {}
        version => {
            let version = version.unwrap_or("none");
            return Err(LearnError::Format(format!(
                "its format is {version}, this program reads {VERSION}: fit it again"
            )));
        }
    }
    let body = body.strip_suffix('\n').ok_or_else(|| format("it is truncated"))?;
    if words.next() != Some(format!("{:016x}", checksum(body)).as_str()) {
        return Err(format("its checksum does not match: it is truncated or was changed"));
    }
    let model: Model = serde_json::from_str(body).map_err(|error| LearnError::Format(error.to_string()))?;
    match find_fault(&model) {
        None => Ok(model),
        Some(fault) => Err(format(fault)),
    }
}

/// Validates a deserialized model; returns a description of the fault.
fn find_fault(model: &Model) -> Option<&'static str> {
    let (width, classes) = (model.encoding.width(), model.classes.len());
    let sorted = |list: &[String]| list.windows(2).all(|pair| pair[0] < pair[1]);
    let has_categories = |encoding: &Encoding| {
        encoding.features.iter().filter_map(|feature| feature.categories.as_ref()).all(|values| sorted(values))
    };
    if !ALGORITHMS.contains(&model.algorithm.as_str()) {
        return Some("its algorithm is not known");
    }
    if width > COLUMNS_MAX || classes > CLASSES_MAX || !sorted(&model.classes) || !has_categories(&model.encoding) {
        return Some("its columns or classes are too many or not in order");
    }
    let is_right = match &model.body {
        Body::Linear(linear) => linear.coefficients.len() == width,
        Body::Logistic(logistic) => {
            let functions = if classes == 2 { 1 } else { classes };
            classes > 1 && logistic.width == width && logistic.weights.len() == functions * (width + 1)
        }
        Body::Bayes(bayes) => {
            let size = classes * width;
            let lists = bayes.means.len() == size && bayes.variances.len() == size && bayes.shares.len() == classes;
            lists && classes > 0 && bayes.width == width && width > 0 && bayes.variances.iter().all(|it| *it > 0.0)
        }
        Body::Forest(forest) => {
            let fault = forest.trees.iter().find_map(|tree| tree.find_fault(width, classes));
            if fault.is_some() {
                return fault;
            }
            !forest.trees.is_empty() && forest.importances.len() == width
        }
        Body::Clusters(clusters) => {
            let count = clusters.sizes.len();
            clusters.width == width && width > 0 && count > 0 && clusters.centres.len() == count * width
        }
        Body::Axes(axes) => axes.means.len() == width && width > 0 && axes.axes.len() == axes.variances.len() * width,
        Body::Scales(scales) => {
            let lists = scales.middles.len() == width && scales.scales.len() == width;
            lists && scales.scales.iter().all(|scale| *scale != 0.0)
        }
        Body::Densities(densities) => {
            model.encoding.features.len() == 1 && are_valid_densities(densities, model.by.len())
        }
        Body::Nothing => true,
    };
    let tells_apart = matches!(model.body, Body::Logistic(_) | Body::Bayes(_) | Body::Forest(_));
    if is_right && (tells_apart || classes == 0) { None } else { Some("its lists do not match each other") }
}

fn are_valid_densities(densities: &Densities, keys: usize) -> bool {
    let is_density = |density: &Density| match density {
        Density::Norm { deviation, .. } => *deviation >= 0.0,
        Density::Expon { scale, .. } => *scale >= 0.0,
        Density::Kernels { step, heights, .. } => *step > 0.0 && heights.len() >= 2,
    };
    let groups = &densities.groups;
    groups.len() <= GROUPS_MAX && groups.iter().all(|group| group.key.len() == keys && is_density(&group.density))
}

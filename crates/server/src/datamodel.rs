//! `quarry datamodel status|rebuild`: the summaries of accelerated data models.
//!
//! If a server runs, the status is the result of the server's last building round; otherwise every summary is
//! inspected.
//!
//! Not here: building summaries, which the server does.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use quarry_search::ModelSummaryRequest;
use quarry_search::summaries::status_rows;
use quarry_stdx::log;
use serde_json::Value;

use crate::bucket::print;
use crate::cli::ListForm;
use crate::data_directory::{Settings, open_read_only};
use crate::failure::Failure;
use crate::server_client::Remote;

const COLUMNS: &[&str] = &[
    "model",
    "object",
    "complete",
    "slabs_done",
    "slabs",
    "events",
    "rows",
    "bytes",
    "earliest",
    "latest",
    "updated",
    "error",
];

/// Prints one line per object of an accelerated model.
pub(crate) fn status(data_dir: &Path, form: ListForm) -> Result<u8, Failure> {
    let settings = Settings::of_data_dir_quietly(data_dir);
    let summaries = settings.search_settings(Some(data_dir)).summaries(data_dir);
    let models = summaries.models();
    if models.is_empty() {
        log::info("no data model is accelerated: set acceleration = true under [MODEL] in datamodels.conf");
    }
    let rows = match Remote::find(data_dir) {
        Some(_) => summaries.status(),
        None => {
            let store = open_read_only(data_dir, &settings)?;
            let service = settings.search_settings(Some(data_dir)).service(Arc::clone(&store) as _)?;
            let now = settings.clock.now_ns();
            let mut rows: Vec<Value> = Vec::new();
            for model in &models {
                let (earliest, backfill) = summaries.bounds(&summaries.settings_of(model), now);
                let wanted = ModelSummaryRequest { model: model.clone(), earliest, backfill, build: false };
                rows.extend(status_rows(model, &service.summarise(&wanted, &mut || true)?, now));
            }
            rows
        }
    };
    print(&Value::Array(rows), COLUMNS, form)?;
    Ok(0)
}

/// Removes the summaries of a model.
pub(crate) fn rebuild(data_dir: &Path, model: &str) -> Result<u8, Failure> {
    let summaries = Settings::of_data_dir_quietly(data_dir).search_settings(Some(data_dir)).summaries(data_dir);
    let of_model = |row: &Value| {
        let folder = row["folder"].as_str().filter(|folder| !folder.is_empty())?;
        (row["model"] == model).then(|| folder.to_owned())
    };
    let folders: BTreeSet<String> = summaries.status().iter().filter_map(of_model).collect();
    let failed = |error: quarry_blob::BlobError| Failure::Storage(error.to_string());
    let removed = summaries.remove_folders(&folders).map_err(failed)?;
    log::info(format!(
        "{removed} summaries of {model} removed; searches read the events until the server has rebuilt them"
    ));
    Ok(0)
}

//! `run/server.json` of a data folder: where the server that has it open listens.

use std::path::Path;

use serde_json::Value;

/// The file, below the data folder. Only its owner may read it: it holds a token.
pub const RUN_FILE: &str = "run/server.json";

/// Address of the management port of the server that has `data_dir` open, if one runs.
pub fn management_address(data_dir: &Path) -> Option<String> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(data_dir.join(RUN_FILE)).ok()?).ok()?;
    value["mgmt"].as_str().map(str::to_owned)
}

//! `run/server.json` of a data directory: the addresses of the server that has it open.

use std::path::Path;

use serde_json::Value;

/// Path relative to the data directory. Readable only by its owner, because it contains a token.
pub const RUN_FILE: &str = "run/server.json";

/// Management address of the server that has `data_dir` open, if one runs.
pub fn management_address(data_dir: &Path) -> Option<String> {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(data_dir.join(RUN_FILE)).ok()?).ok()?;
    value["mgmt"].as_str().map(str::to_owned)
}

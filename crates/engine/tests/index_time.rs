//! The examples of `spec/index-time` that need expressions hold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../pipeline/tests/index_time/runner.rs"]
mod runner;

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_engine::IngestExpressions;
use quarry_event::ExpressionCompiler;

#[test]
fn examples_give_the_documented_results() {
    let compiler: Arc<dyn ExpressionCompiler> = Arc::new(IngestExpressions::new(TimeZone::UTC, 7));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/index-time/ingest-eval.md");
    let (failures, examples) = runner::run_page(&std::fs::read_to_string(path).unwrap(), Some(&compiler));
    assert!(failures.is_empty(), "{} of {examples} failed\n\n{}", failures.len(), failures.join("\n\n"));
    assert!(examples > 0);
}

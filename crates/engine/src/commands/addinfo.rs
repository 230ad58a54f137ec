//! `addinfo`: adds the search's time range, id and start to every row.

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::TimeNs;
use quarry_event::value::write_nanos;
use quarry_spl::ast::AddInfoCommand;

use super::Execute;
use super::setfields::constants;
use crate::lowering::{Lowering, Step};

impl Execute for AddInfoCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![constants(search_info_fields(lowering.environment.context()))])
    }
}

/// Fields and their texts.
fn search_info_fields(context: &CommandContext) -> Vec<(String, String)> {
    let bound = |time: Option<TimeNs>, open: &str| time.map_or_else(|| open.to_owned(), format_millis);
    [
        ("info_min_time", bound(context.range.earliest, "0.000")),
        ("info_max_time", bound(context.range.latest, "+Infinity")),
        ("info_sid", context.id.to_string()),
        ("info_search_time", format_millis(context.now)),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}

/// Seconds with at least three decimal places.
fn format_millis(time: TimeNs) -> String {
    const MILLI_DIGITS: usize = 3;
    let mut text = String::new();
    write_nanos(time, &mut text);
    let digits = match text.split_once('.') {
        Some((_, digits)) => digits.len(),
        None => {
            text.push('.');
            0
        }
    };
    text.extend(std::iter::repeat_n('0', MILLI_DIGITS.saturating_sub(digits)));
    text
}

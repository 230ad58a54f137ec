//! What each SPL command does to rows.
//!
//! Commands that look at one batch at a time are row commands; stats, chart, timechart, top and rare reduce; the rest
//! needs all rows. [`crate::lower`] builds them from the syntax tree.

pub(crate) mod analyze_fields;
pub(crate) mod anomaly;
pub(crate) mod associate;
pub(crate) mod bin;
pub(crate) mod chart;
pub(crate) mod cluster;
pub(crate) mod combine;
pub(crate) mod compute;
pub(crate) mod concurrency;
pub(crate) mod conditions;
pub(crate) mod continuous;
pub(crate) mod convert;
pub(crate) mod difference;
pub(crate) mod erex;
pub(crate) mod extract;
pub(crate) mod extract_pairs;
pub(crate) mod filtering;
pub(crate) mod foreach;
pub(crate) mod from_json;
pub(crate) mod generate;
pub(crate) mod gentimes;
pub(crate) mod keep;
pub(crate) mod kmeans;
pub(crate) mod labels;
pub(crate) mod lookup;
pub(crate) mod map;
pub(crate) mod multikv;
pub(crate) mod multikv_rules;
pub(crate) mod multikv_tokens;
pub(crate) mod order;
pub(crate) mod outputs;
pub(crate) mod pivot;
pub(crate) mod places;
pub(crate) mod predict;
pub(crate) mod regions;
pub(crate) mod reshape;
mod running;
pub(crate) mod select;
pub(crate) mod selfjoin;
pub(crate) mod sequence;
pub(crate) mod several;
pub(crate) mod spans;
pub(crate) mod stats;
pub(crate) mod streamstats;
pub(crate) mod summary;
pub(crate) mod timechart;
pub(crate) mod timewrap;
pub(crate) mod to_json;
pub(crate) mod together;
pub(crate) mod top;
pub(crate) mod totals;
pub(crate) mod transaction;
pub(crate) mod values;
pub(crate) mod xml;

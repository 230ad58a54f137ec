//! `kmeans`: clusters rows by numeric fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::parse::{OptionNames, ParseResult, Parser};

/// Maximum number of clusters.
const CLUSTERS_MAX: usize = 1_000;
/// Maximum difference between the bounds of a range `k=MIN-MAX`.
const CLUSTER_COUNTS_MAX: usize = 100;

const OPTIONS: OptionNames =
    OptionNames::new("kmeans", &["k", "reps", "maxiters", "t", "dt", "cfield", "cnumfield", "showcentroid"]);

/// `kmeans`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KMeansCommand {
    /// `k=` (default `2`): number of clusters, or the range of numbers to try.
    pub groups: (usize, usize),
    /// `reps=` (default `10`): number of runs with different starting centres; the best one is used.
    pub starts: usize,
    /// `maxiters=` (default `10000`): maximum number of iterations of a run.
    pub rounds: usize,
    /// `t=` (default `0`): a run ends when the centres move by at most this distance.
    pub tolerance: f64,
    /// `dt=` (default `sqeuclidean`): distance measure.
    pub distance: KMeansDistance,
    /// `cfield=` (default `CLUSTERNUM`): field with the number of a row's cluster.
    pub output: String,
    /// `showcentroid=` (default `t`): whether the centres are added to the rows.
    pub shows_centre: bool,
    /// Fields; empty for every numeric field.
    pub fields: Vec<FieldPattern>,
}

/// Distances of `kmeans`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KMeansDistance {
    /// `l1`, `cityblock`.
    Sum,
    /// `sqeuclidean`, `l2`.
    Squares,
    /// `cosine`.
    Angle,
}

impl Syntax for KMeansCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "kmeans [k=N] [reps=N] [maxiters=N] [dt=] [cfield=FIELD] [FIELD...]",
        summary: "Clusters rows by their numeric fields",
        group: Group::Patterns,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<KMeansCommand> {
        let mut command = KMeansCommand {
            groups: (2, 2),
            starts: 10,
            rounds: 10_000,
            tolerance: 0.0,
            distance: KMeansDistance::Squares,
            output: "CLUSTERNUM".to_owned(),
            shows_centre: true,
            fields: Vec::new(),
        };
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                match option.name.as_str() {
                    "k" => {
                        let (low, high) = option.value.split_once('-').unwrap_or((&option.value, &option.value));
                        let read = low.trim().parse::<usize>().ok().zip(high.trim().parse::<usize>().ok());
                        let fits = |&(low, high): &(usize, usize)| {
                            (1..=high).contains(&low) && high <= CLUSTERS_MAX && high - low <= CLUSTER_COUNTS_MAX
                        };
                        let wants = || format!("a number up to {CLUSTERS_MAX}, or a range such as 2-5");
                        command.groups = read.filter(fits).ok_or_else(|| option.invalid_value(&wants()))?;
                    }
                    "reps" => command.starts = option.number::<usize>()?.max(1),
                    "maxiters" => command.rounds = option.number::<usize>()?.max(1),
                    "t" => command.tolerance = option.number()?,
                    "cfield" | "cnumfield" => command.output = option.value,
                    "showcentroid" => command.shows_centre = option.boolean()?,
                    _ => {
                        command.distance = match option.value.to_ascii_lowercase().as_str() {
                            "l1" | "l1norm" | "cityblock" | "cb" => KMeansDistance::Sum,
                            "sqeuclidean" | "l2" | "l2norm" | "sq" => KMeansDistance::Squares,
                            "cosine" | "cos" => KMeansDistance::Angle,
                            _ => return Err(option.invalid_value("l1, sqeuclidean or cosine")),
                        }
                    }
                }
            }
            match parser.next_field() {
                Some(field) => command.fields.push(field),
                None => return Ok(command),
            }
        }
    }
}

impl Semantics for KMeansCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_list(&self.fields);
        after
    }
}

//! `geostats`: aggregates by location for every zoom level of a map; rewritten to `eval`, `mvexpand` and `stats` or
//! `chart`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{
    Aggregate, BinaryOp, EventStatsCommand, Expr, MvExpandCommand, NodeBuilder, SeriesOptions, StatsFunction,
};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new(
    "geostats",
    &[
        "latfield",
        "longfield",
        "outputlatfield",
        "outputlongfield",
        "globallimit",
        "binspanlat",
        "binspanlong",
        "maxzoomlevel",
        "translatetoxy",
        "locallimit",
    ],
);

/// Maximum zoom level.
const ZOOM_MAX: u32 = 9;
/// Field with the tile of a row.
const TILE_FIELD: &str = "geobin";

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "geostats [latfield=] [longfield=] [globallimit=N] AGG... [BY FIELD]",
    summary: "Computes aggregates by location for each zoom level of a map",
    group: Group::Reporting,
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let (mut lat, mut long) = ("lat".to_owned(), "lon".to_owned());
    let (mut out_lat, mut out_long) = ("latitude".to_owned(), "longitude".to_owned());
    let (mut span_lat, mut span_long, mut limit, mut zoom) = (22.5_f64, 45.0_f64, 10_usize, ZOOM_MAX);
    let (mut aggregates, mut by, mut by_category) = (Vec::new(), None, None);
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "latfield" => lat = option.value,
                "longfield" => long = option.value,
                "outputlatfield" => out_lat = option.value,
                "outputlongfield" => out_long = option.value,
                "globallimit" => limit = option.number()?,
                "binspanlat" => span_lat = option.number()?,
                "binspanlong" => span_long = option.number()?,
                "translatetoxy" if option.boolean()? => {}
                "translatetoxy" => by_category = Some(option.name_span),
                "locallimit" if option.number::<usize>()? == 0 => {}
                "locallimit" => {
                    let message = "geostats: `locallimit` is not supported: series are limited for the whole map";
                    return Err(Diagnostic::error(message, option.name_span).with_hint("use globallimit="));
                }
                _ => zoom = option.number::<u32>()?,
            }
        }
        parser.skip_separators();
        if parser.at_end() {
            break;
        }
        if parser.eat_keyword("by") {
            by = Some(parser.expect_field("a field to split by")?.text);
            continue;
        }
        aggregates.push(parser.aggregate("geostats")?);
    }
    if aggregates.is_empty() {
        let remark = Diagnostic::error("geostats: no function is given", parser.here());
        return Err(remark.with_hint("write `geostats latfield=lat longfield=lon count`"));
    }
    if let (Some(place), true) = (by_category, by.is_some()) {
        let message = "geostats: `translatetoxy=false` is not supported with BY: each row has all series of its tile";
        return Err(Diagnostic::error(message, place).with_hint("leave it out; untable makes a row per series"));
    }
    let fits = |span: f64| span.is_finite() && span > 0.0;
    if !fits(span_lat) || !fits(span_long) || zoom > ZOOM_MAX {
        let message = format!("geostats: spans must be above 0 and maxzoomlevel at most {ZOOM_MAX}");
        return Err(Diagnostic::error(message, parser.here()));
    }
    let map = GeoMap { lat, long, out_lat, out_long, spans: (span_lat, span_long), zoom, limit };
    Ok(map.commands(parser.builder(), aggregates, by.as_deref()))
}

/// The map options of `geostats`.
struct GeoMap {
    lat: String,
    long: String,
    out_lat: String,
    out_long: String,
    spans: (f64, f64),
    zoom: u32,
    limit: usize,
}

impl GeoMap {
    /// Commands that aggregate rows by the map tiles of every zoom level.
    fn commands(&self, make: NodeBuilder, aggregates: Vec<Aggregate>, by: Option<&str>) -> Vec<Command> {
        let is_number = |name: &str| make.call("isnum", [make.field(name)]);
        let tile = |field: &str, least: u32, span: f64| {
            let distance = make.binary(BinaryOp::Add, make.field(field), make.number(least));
            let number = make.call("floor", [make.binary(BinaryOp::Div, distance, make.number(span))]);
            make.call("tostring", [number])
        };
        let tiles: Vec<Expr> = (0..=self.zoom)
            .map(|level| {
                let scale = f64::from(1_u32 << level);
                let row = tile(&self.lat, 90, self.spans.0 / scale);
                let column = tile(&self.long, 180, self.spans.1 / scale);
                let begin = make.text(&format!("bin_id_zl_{level}_y_"));
                make.join_operands(BinaryOp::Concat, [begin, row, make.text("_x_"), column])
            })
            .collect();
        let (lat, long) = (self.out_lat.as_str(), self.out_long.as_str());
        let mut places = vec![
            make.aggregate(StatsFunction::Avg, &self.lat, lat),
            make.aggregate(StatsFunction::Avg, &self.long, long),
        ];
        let mut commands = vec![
            make.filter(make.binary(BinaryOp::And, is_number(&self.lat), is_number(&self.long))),
            make.eval(TILE_FIELD, make.call("mvappend", tiles)),
            MvExpandCommand { field: TILE_FIELD.to_owned(), limit: 0 }.into(),
        ];
        let Some(by) = by else {
            places.extend(aggregates);
            commands.push(make.stats(places, &[TILE_FIELD]).into());
            return commands;
        };
        // The position is part of the key, because chart keeps only one key field.
        let key = [make.field(TILE_FIELD), make.text(" "), make.field(lat), make.text(" "), make.field(long)];
        let part = |at: u32| {
            make.call("mvindex", [make.call("split", [make.field(TILE_FIELD), make.text(" ")]), make.number(at)])
        };
        let series = SeriesOptions { limit: self.limit, ..SeriesOptions::default() };
        commands.extend([
            EventStatsCommand(make.stats(places, &[TILE_FIELD])).into(),
            make.eval(TILE_FIELD, make.join_operands(BinaryOp::Concat, key)),
            make.chart(aggregates, TILE_FIELD, by, series).into(),
            make.eval(lat, part(1)),
            make.eval(long, part(2)),
            make.eval(TILE_FIELD, part(0)),
            make.table(&[TILE_FIELD, lat, long, "*"]),
        ]);
        commands
    }
}

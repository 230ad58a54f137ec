//! `geostats`: aggregates by place for every zoom level of a map; rewritten to `eval`, `mvexpand` and `stats` or
//! `chart`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read, eval_field, quote};

const OPTIONS: Known = Known {
    command: "geostats",
    names: &[
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
    ignored: &[],
};

/// Greatest zoom level.
const ZOOM_MAX: u32 = 9;

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["geostats"],
    syntax: "geostats [latfield=] [longfield=] [globallimit=N] AGG... [BY FIELD]",
    summary: "Computes aggregates by location for each zoom level of a map",
    group: Group::Reporting,
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
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
            by = Some(quote(&parser.expect_field("a field to split by")?.text));
            continue;
        }
        let start = parser.pos;
        parser.aggregate("geostats")?;
        aggregates.push(parser.text[start..parser.pos].to_owned());
    }
    if aggregates.is_empty() {
        let remark = Diagnostic::error("geostats: no function is given", parser.here());
        return Err(remark.with_hint("write `geostats latfield=lat longfield=lon count`"));
    }
    if let (Some(place), true) = (by_category, by.is_some()) {
        let message = "geostats: `translatetoxy=false` is not supported with BY: a row has the series of its tile";
        return Err(Diagnostic::error(message, place).with_hint("drop it, and use untable for a row per series"));
    }
    let fits = |span: f64| span.is_finite() && span > 0.0;
    if !fits(span_lat) || !fits(span_long) || zoom > ZOOM_MAX {
        let message = format!("geostats: spans must be above 0 and maxzoomlevel at most {ZOOM_MAX}");
        return Err(Diagnostic::error(message, parser.here()));
    }
    let map = GeoMap { lat, long, out_lat, out_long, spans: (span_lat, span_long), zoom, limit };
    parser.standing_for(&map.commands(&aggregates.join(" "), by.as_deref()))
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
    fn commands(&self, aggregates: &str, by: Option<&str>) -> String {
        let bin = |field: &str, least: u32, span: f64, level: u32| {
            format!("tostring(floor(({field}+{least})/{}))", span / f64::from(1_u32 << level))
        };
        let (y, x) = (eval_field(&self.lat), eval_field(&self.long));
        let bins = (0..=self.zoom).map(|level| {
            let (row, column) = (bin(&y, 90, self.spans.0, level), bin(&x, 180, self.spans.1, level));
            format!("\"bin_id_zl_{level}_y_\".{row}.\"_x_\".{column}")
        });
        let bins = bins.collect::<Vec<_>>().join(", ");
        let rows = format!("| where isnum({y}) AND isnum({x}) | eval geobin=mvappend({bins}) | mvexpand geobin");
        let (lat, long) = (quote(&self.out_lat), quote(&self.out_long));
        let places = format!("avg({}) AS {lat} avg({}) AS {long}", quote(&self.lat), quote(&self.long));
        let Some(by) = by else { return format!("{rows} | stats {places} {aggregates} BY geobin") };
        let (y, x, limit) = (eval_field(&self.out_lat), eval_field(&self.out_long), self.limit);
        // The position is part of the key, because chart keeps only one key field.
        format!(
            "{rows} | eventstats {places} BY geobin | eval geobin=geobin.\" \".{y}.\" \".{x} \
             | chart limit={limit} {aggregates} OVER geobin BY {by} \
             | eval {y}=mvindex(split(geobin, \" \"), 1), {x}=mvindex(split(geobin, \" \"), 2), \
               geobin=mvindex(split(geobin, \" \"), 0) | table geobin {lat} {long} *"
        )
    }
}

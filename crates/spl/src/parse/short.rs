//! Commands that are short for others: their words are read here, and the commands they stand for take their place.
//!
//! eventcount, metasearch, contingency, geostats, reltime, outputtext and the commands of summary
//! indexing. [`super::pivot`] is one too.

use super::cursor::{Parser, Read};
use super::options::{Known, OptionArg};
use crate::analyse::required_fields;
use crate::ast::{Command, FieldPattern, FieldsCommand, Span, Stage, TableCommand, ValuesCommand};
use crate::commands::{Call, entry};
use crate::diagnostic::Diagnostic;

const EVENTCOUNT: Known = Known {
    command: "eventcount",
    names: &["index", "summarize", "report_size"],
    ignored: &["list_vix", "list_federated_remote", "splunk_server", "splunk_server_group"],
};
/// Column of the labels of `contingency` while its sums are made; a name no field has.
const LABEL: &str = "__label";
const CONTINGENCY: Known = Known {
    command: "contingency",
    names: &["usetotal", "totalstr", "maxrows", "maxcols", "mincolcover", "minrowcover"],
    ignored: &[],
};
const RELTIME: Known = Known { command: "reltime", names: &["timefield", "prefix"], ignored: &[] };
const OUTPUTTEXT: Known = Known { command: "outputtext", names: &[], ignored: &["usexml"] };
const GEOSTATS: Known = Known {
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

/// Zoom levels of geostats at most.
const ZOOM_MAX: u32 = 9;
/// Fields of events that metasearch shows.
const EVENT_FIELDS: [&str; 6] = ["_time", "host", "index", "source", "sourcetype", "splunk_server"];

/// Columns of `contingency` while its most frequent values are found; names no field has.
const COUNT: &str = "__count";
const OF_VALUE: &str = "__v";
const RANK_OF_ROW: &str = "__rr";
const RANK_OF_COLUMN: &str = "__rc";

/// Commands that leave rows with the values of two fields that are the most frequent ones by `COUNT`; 0 is all.
fn most_frequent(limits: [(&str, &str, usize); 2]) -> String {
    let limits = limits.into_iter().filter(|(_, _, most)| *most > 0);
    let (ranked, kept): (Vec<String>, Vec<String>) = limits
        .map(|(name, rank, most)| {
            // Equally frequent values are ranked in their order.
            let ranked = format!(
                "| eventstats sum({COUNT}) AS {OF_VALUE} BY {name} | sort 0 -{OF_VALUE} +{name} \
                 | streamstats dc({name}) AS {rank} "
            );
            (ranked, format!("| where {rank}<={most} "))
        })
        .unzip();
    // All values count for the ranks of both fields.
    ranked.concat() + &kept.concat()
}

/// A name as eval reads it.
fn field(name: &str) -> String {
    format!("'{}'", name.replace('\'', ""))
}

/// A text in double quotes.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Parser<'_> {
    /// The last of the commands that one of this name stands for, those before it being put aside; `None` when it is
    /// none of these.
    pub(crate) fn short_command(&mut self, name: &str, first: bool) -> Read<Option<Command>> {
        let start = self.pos - name.len();
        let command = match name {
            "pivot" => self.pivot()?,
            "eventcount" => self.eventcount()?,
            "contingency" | "counttable" | "ctable" => self.contingency()?,
            "geostats" => self.geostats()?,
            "reltime" => self.reltime()?,
            "outputtext" => {
                while self.option(OUTPUTTEXT)?.is_some() {}
                self.standing_for("| eval _xml=_raw")?
            }
            "metasearch" => {
                let search = self.search_command(first)?;
                let pattern = |text: &str| FieldPattern { text: text.to_owned(), span: self.since(start) };
                let kept = EVENT_FIELDS.map(pattern).to_vec();
                let text = vec![pattern("_raw")];
                self.preceding = vec![search.into(), FieldsCommand { removes: false, fields: kept }.into()];
                FieldsCommand { removes: true, fields: text }.into()
            }
            "sistats" | "sichart" | "sitimechart" | "sitop" | "sirare" => self.summary(name)?,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// Reads commands written out for the one that is being read.
    pub(crate) fn standing_for(&mut self, text: &str) -> Read<Command> {
        let parsed = super::parse(text);
        if let Some(fault) = parsed.diagnostics.first() {
            return Err(Diagnostic::error(fault.message.clone(), self.since(self.stage_start())));
        }
        let mut commands: Vec<Command> = parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect();
        let last = commands.pop().unwrap_or(Command::Values(ValuesCommand::Pass));
        self.preceding = commands;
        Ok(last)
    }

    fn eventcount(&mut self) -> Read<Command> {
        let (mut indexes, mut summarizes, mut sizes) = (Vec::new(), true, false);
        loop {
            // Published searches write OR between indexes, as a condition would have it.
            self.eat_keyword("or");
            let Some(option) = self.option(EVENTCOUNT)? else { break };
            match option.name.as_str() {
                "index" => indexes.push(format!("index={}", quote(&option.value))),
                "summarize" => summarizes = option.boolean()?,
                "report_size" => sizes = option.boolean()?,
                // There are no virtual indexes, so that none is missing.
                _ => drop(option.boolean()?),
            }
        }
        if indexes.is_empty() {
            indexes.push("index=*".to_owned());
        }
        let by = if summarizes { "" } else { "BY index | table count index" };
        // As in Splunk the range of the search does not matter.
        if sizes {
            let by = if summarizes { "" } else { "BY index" };
            return self.standing_for(&format!(
                "| dbinspect alltime=t {} | stats sum(eventCount) AS count sum(sizeOnDiskMB) AS size_bytes {by} \
                 | eval size_bytes=round(size_bytes*1048576) | table count index size_bytes",
                indexes.join(" ")
            ));
        }
        let filter = indexes.join(" OR ");
        self.standing_for(&format!("| tstats count WHERE ({filter}) earliest=0 latest=9000000000 {by}"))
    }

    fn contingency(&mut self) -> Read<Command> {
        let (mut total, mut fields) = (Some("TOTAL".to_owned()), Vec::new());
        let (mut rows_max, mut columns_max) = (0_usize, 0_usize);
        loop {
            while let Some(option) = self.option(CONTINGENCY)? {
                match option.name.as_str() {
                    "usetotal" if option.boolean()? => {}
                    "usetotal" => total = None,
                    "maxrows" => rows_max = option.number()?,
                    "maxcols" => columns_max = option.number()?,
                    "mincolcover" | "minrowcover" => self.covers_all(&option)?,
                    _ => total = total.map(|_| option.value),
                }
            }
            self.skip_separators();
            match self.field_word() {
                Some(word) => fields.push(quote(&word.text)),
                None => break,
            }
        }
        let [rows, columns] = fields.as_slice() else {
            let remark = Diagnostic::error("contingency: two fields are needed", self.here());
            return Err(remark.with_hint("write `contingency rows columns`"));
        };
        let chart = if rows_max == 0 && columns_max == 0 {
            format!("| chart limit=0 useother=f usenull=f count OVER {rows} BY {columns}")
        } else {
            let most = most_frequent([(columns, RANK_OF_COLUMN, columns_max), (rows, RANK_OF_ROW, rows_max)]);
            format!(
                "| stats count AS {COUNT} BY {rows} {columns} {most} \
                 | chart limit=0 useother=f usenull=f sum({COUNT}) OVER {rows} BY {columns} | fillnull"
            )
        };
        self.standing_for(&match total {
            // Labels are no numbers while sums are made.
            Some(total) => format!(
                "{chart} | rename {rows} AS {LABEL} | eval {LABEL}=\"=\".{LABEL} \
                 | addtotals row=t col=t fieldname={name} labelfield={LABEL} label={label} \
                 | eval {LABEL}=substr({LABEL}, 2) | rename {LABEL} AS {rows}",
                name = quote(&total),
                label = quote(&format!("={total}"))
            ),
            None => chart,
        })
    }

    /// Reads a share of values that must be shown: all of them are.
    fn covers_all(&mut self, option: &OptionArg) -> Read<()> {
        let share: f64 = option.number()?;
        if !(0.0..=1.0).contains(&share) {
            return Err(option.refuse("a share from 0 to 1"));
        }
        if share < 1.0 {
            let message =
                format!("contingency: `{}` is not supported: rows and columns are left out by number", option.name);
            return Err(Diagnostic::error(message, option.name_span).with_hint("use maxrows= and maxcols="));
        }
        Ok(())
    }

    fn reltime(&mut self) -> Read<Command> {
        let (mut fields, mut prefix) = (Vec::new(), "reltime_".to_owned());
        while let Some(option) = self.option(RELTIME)? {
            match option.name.as_str() {
                "timefield" => fields.extend(option.value.split(',').map(|name| name.trim().to_owned())),
                _ => prefix = option.value,
            }
        }
        let mut text = String::from("| eval ");
        if fields.is_empty() {
            text.push_str(&relative_time("_time", "reltime"));
        }
        let assignments: Vec<String> =
            fields.iter().map(|name| relative_time(name, &format!("{prefix}{name}"))).collect();
        text.push_str(&assignments.join(", "));
        self.standing_for(&text)
    }

    fn geostats(&mut self) -> Read<Command> {
        let (mut lat, mut long) = ("lat".to_owned(), "lon".to_owned());
        let (mut out_lat, mut out_long) = ("latitude".to_owned(), "longitude".to_owned());
        let (mut span_lat, mut span_long, mut limit, mut zoom) = (22.5_f64, 45.0_f64, 10_usize, ZOOM_MAX);
        let (mut aggregates, mut by, mut by_category) = (Vec::new(), None, None);
        loop {
            while let Some(option) = self.option(GEOSTATS)? {
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
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("by") {
                by = Some(quote(&self.expect_field("a field to split by")?.text));
                continue;
            }
            let start = self.pos;
            self.aggregate("geostats")?;
            aggregates.push(self.text[start..self.pos].to_owned());
        }
        if aggregates.is_empty() {
            let remark = Diagnostic::error("geostats: no function is given", self.here());
            return Err(remark.with_hint("write `geostats latfield=lat longfield=lon count`"));
        }
        if let (Some(place), true) = (by_category, by.is_some()) {
            let message = "geostats: `translatetoxy=false` is not supported with BY: a row has the series of its tile";
            return Err(Diagnostic::error(message, place).with_hint("drop it, and use untable for a row per series"));
        }
        let fits = |span: f64| span.is_finite() && span > 0.0;
        if !fits(span_lat) || !fits(span_long) || zoom > ZOOM_MAX {
            let message = format!("geostats: spans must be above 0 and maxzoomlevel at most {ZOOM_MAX}");
            return Err(Diagnostic::error(message, self.here()));
        }
        let map = GeoMap { lat, long, out_lat, out_long, spans: (span_lat, span_long), zoom, limit };
        self.standing_for(&map.commands(&aggregates.join(" "), by.as_deref()))
    }

    /// Rows for a summary: the fields that the command without `si` needs, from which it makes its result later.
    fn summary(&mut self, name: &str) -> Read<Command> {
        let start = self.pos;
        let command = match name {
            "sichart" => self.chart_command()?,
            "sitimechart" => self.timechart_command()?,
            other => match entry(&other[2..]) {
                Some(entry) => (entry.parse)(self, Call { name: &other[2..], is_first: false })?,
                None => Command::Values(ValuesCommand::Pass),
            },
        };
        let span = self.since(start);
        let needs = required_fields(&[Stage { command, span }]);
        if needs.all {
            return Ok(Command::Values(ValuesCommand::Pass));
        }
        let pattern = |text: &str, span: Span| FieldPattern { text: text.to_owned(), span };
        let mut fields = vec![pattern("_time", span)];
        let named = needs.fields.iter().filter(|field| *field != "_time").chain(&needs.patterns);
        fields.extend(named.map(|field| pattern(field, span)));
        Ok(TableCommand { fields }.into())
    }
}

/// What `geostats` was told of its map.
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
    /// The commands that fold rows by the tiles of every zoom.
    fn commands(&self, aggregates: &str, by: Option<&str>) -> String {
        let bin = |field: &str, least: u32, span: f64, level: u32| {
            format!("tostring(floor(({field}+{least})/{}))", span / f64::from(1_u32 << level))
        };
        let (y, x) = (field(&self.lat), field(&self.long));
        let bins = (0..=self.zoom).map(|level| {
            let (row, column) = (bin(&y, 90, self.spans.0, level), bin(&x, 180, self.spans.1, level));
            format!("\"bin_id_zl_{level}_y_\".{row}.\"_x_\".{column}")
        });
        let bins = bins.collect::<Vec<_>>().join(", ");
        let rows = format!("| where isnum({y}) AND isnum({x}) | eval geobin=mvappend({bins}) | mvexpand geobin");
        let (lat, long) = (quote(&self.out_lat), quote(&self.out_long));
        let places = format!("avg({}) AS {lat} avg({}) AS {long}", quote(&self.lat), quote(&self.long));
        let Some(by) = by else { return format!("{rows} | stats {places} {aggregates} BY geobin") };
        let (y, x, limit) = (field(&self.out_lat), field(&self.out_long), self.limit);
        // The place goes along in the key: chart keeps one.
        format!(
            "{rows} | eventstats {places} BY geobin | eval geobin=geobin.\" \".{y}.\" \".{x} \
             | chart limit={limit} {aggregates} OVER geobin BY {by} \
             | eval {y}=mvindex(split(geobin, \" \"), 1), {x}=mvindex(split(geobin, \" \"), 2), \
               geobin=mvindex(split(geobin, \" \"), 0) | table geobin {lat} {long} *"
        )
    }
}

/// `output` as how long ago the time of `name` is.
fn relative_time(name: &str, output: &str) -> String {
    let age = format!("(now()-{})", field(name));
    let units = [
        ("second", 1_u64, 60_u64),
        ("minute", 60, 3_600),
        ("hour", 3_600, 86_400),
        ("day", 86_400, 2_592_000),
        ("month", 2_592_000, 31_536_000),
        ("year", 31_536_000, u64::MAX >> 20),
    ];
    let cases = units.map(|(unit, length, below)| {
        let count = format!("floor({age}/{length})");
        format!("{age}<{below}, tostring({count}).if({count}=1, \" {unit} ago\", \" {unit}s ago\")")
    });
    format!("{}=case({age}<0, null(), {})", field(output), cases.join(", "))
}

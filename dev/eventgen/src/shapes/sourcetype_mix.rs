//! Several sourcetypes in one index: interleaved events of five other shapes.
//!
//! Random: the share of each shape, and everything that is random in the shapes themselves. The parsed table has the
//! columns of all five shapes, like a wide event table.

use super::draw::Pool;
use super::firewall::Firewall;
use super::java::Java;
use super::klog::Klog;
use super::kubernetes::Kubernetes;
use super::nginx::Nginx;
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, LogFile, Samples, Shape, Value};
use crate::random::Rng;

/// Generator of this shape.
pub(super) struct SourcetypeMix {
    parts: Vec<Box<dyn Shape>>,
    widths: Vec<usize>,
    shares: Pool,
}

impl SourcetypeMix {
    pub(super) fn draw(rng: &mut Rng) -> SourcetypeMix {
        let parts: Vec<Box<dyn Shape>> = vec![
            Box::new(Nginx::draw(rng)),
            Box::new(Kubernetes::draw(rng)),
            Box::new(Firewall::draw(rng)),
            Box::new(Klog::draw(rng)),
            Box::new(Java::draw(rng)),
        ];
        let shares = Pool::of(&["0", "1", "2", "3", "4"], rng);
        let widths = parts.iter().map(|part| part.columns().len()).collect();
        SourcetypeMix { parts, widths, shares }
    }
}

impl Shape for SourcetypeMix {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn files(&self) -> Vec<LogFile> {
        self.parts.iter().flat_map(|part| part.files()).collect()
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        self.parts.iter().flat_map(|part| part.conf()).collect()
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for part in &self.parts {
            let sourcetype = part.files().first().map_or("", |file| file.sourcetype);
            columns.extend(part.columns().into_iter().map(|column| Column {
                name: format!("{}_{}", part.name(), column.name),
                from_raw: format!("case when sourcetype = '{sourcetype}' then {} end", column.from_raw),
                ..column
            }));
        }
        columns
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let drawn: usize = self.shares.pick(rng).parse().unwrap_or_default();
        let event = self.parts[drawn].event(millis, rng);
        let mut values = Vec::new();
        let mut own = event.values;
        for (at, width) in self.widths.iter().enumerate() {
            if at == drawn {
                values.append(&mut own);
            } else {
                values.extend(std::iter::repeat_n(Value::Absent, *width));
            }
        }
        Event { file: drawn, text: event.text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main sourcetype=nginx".to_owned(),
            only: "sourcetype = 'nginx'",
            few: Field::new("method", "nginx_method"),
            other: Field::new("status", "nginx_status"),
            many: Field::new("uri_path", "nginx_uri_path"),
            most: Field::new("clientip", "nginx_clientip"),
            number: Field::new("bytes", "nginx_bytes"),
            id: Field::new("sid", "nginx_sid"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.text(
            "count by sourcetype",
            "",
            "stats count by sourcetype",
            "select sourcetype, count(*) from parsed group by sourcetype",
        );
        questions.text(
            "sourcetype over time",
            "",
            "bin _time span=10m | stats count by _time sourcetype",
            "select bucket(t, 600000) as s, sourcetype, count(*) from parsed group by s, sourcetype",
        );
        questions.text(
            "len by sourcetype",
            "",
            "eval l=len(_raw) | stats avg(l) by sourcetype",
            "select sourcetype, avg(chars(raw)) from parsed group by sourcetype",
        );
        questions.text(
            "severity of JSON",
            "sourcetype=_json",
            "stats count by severity",
            "select kubernetes_severity, count(*) from parsed where sourcetype = '_json' group by kubernetes_severity",
        );
        questions.text("level of two sourcetypes", "", "stats count by level", "select coalesce(klog_level, java_level) as level, count(*) from parsed where coalesce(klog_level, java_level) is not null group by level");
        questions.text(
            "any error",
            "error",
            "stats count by sourcetype",
            &format!(
                "select sourcetype, count(*) from parsed where {} group by sourcetype",
                word_in_raw("error")
                    .replace("holds(raw", "holds(lower(raw)")
                    .replace("matches(raw, '", "matches(raw, '(?i)")
            ),
        );
        questions.text(
            "code of firewall",
            "code=3020*",
            "stats count by code",
            "select firewall_code, count(*) from parsed where begins(firewall_code, '3020') group by firewall_code",
        );
        let trace = samples.value("kubernetes_trace", 3);
        questions.text(
            "needle of JSON",
            &format!("trace_id=\"{trace}\""),
            "stats count",
            &format!("select count(*) from parsed where kubernetes_trace = '{trace}'"),
        );
        questions.queries()
    }
}

//! More commands that are short for others, after [`super::short`]: makejson, tags, typer, mcatalog.

use super::cursor::{Parser, Read};
use super::options::Known;
use super::short::quote;
use crate::ast::{AggregateArg, Command, CompareOp, JsonType, SearchExpr, TagsCommand, ToJsonCommand, ValuesCommand};
use crate::diagnostic::Diagnostic;

const MAKEJSON: Known = Known { command: "makejson", names: &["output"], ignored: &[] };
const TAGS: Known =
    Known { command: "tags", names: &["outputfield", "inclname", "inclvalue", "allowed_tags"], ignored: &[] };
const TYPER: Known = Known { command: "typer", names: &[], ignored: &["eventtype", "maxlen"] };
const MCATALOG: Known = Known {
    command: "mcatalog",
    names: &["prestats", "append", "earliest", "latest"],
    ignored: &["chunk_size", "connector"],
};

/// Field with the name of a metric.
const METRIC: &str = "metric_name";

impl Parser<'_> {
    /// The last of the commands that one of this name stands for, those before it being put aside; `None` when it is
    /// none of these.
    pub(crate) fn brief_command(&mut self, name: &str) -> Read<Option<Command>> {
        let command = match name {
            "makejson" => self.makejson()?,
            "tags" => self.tags()?,
            "typer" => {
                while self.option(TYPER)?.is_some() {}
                Command::Values(ValuesCommand::Typer)
            }
            "mcatalog" => self.mcatalog()?,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// `makejson FIELD [, FIELD] ... output=NAME`: types by what texts look like.
    fn makejson(&mut self) -> Read<Command> {
        let (mut fields, mut output) = (Vec::new(), None);
        loop {
            while let Some(option) = self.option(MAKEJSON)? {
                output = Some(option.value);
            }
            self.skip_separators();
            match self.field_word() {
                // Types in parentheses are written as for tojson, and guessed all the same.
                Some(word) => fields.push((JsonType::Auto, word.text)),
                None => break,
            }
        }
        let output = output.ok_or_else(|| {
            let remark = Diagnostic::error("makejson: no output= is given", self.here());
            remark.with_hint("write `makejson a, b output=json`")
        })?;
        Ok(ToJsonCommand { fields, default_type: JsonType::Auto, fill_null: false, internal: false, output }.into())
    }

    /// `tags [outputfield=F] [inclname=] [inclvalue=] [allowed_tags=] [FIELD ...]`.
    fn tags(&mut self) -> Read<Command> {
        let (fields, output, allowed) = (Vec::new(), None, None);
        let mut command = TagsCommand { fields, output, with_name: false, with_value: false, allowed };
        loop {
            while let Some(option) = self.option(TAGS)? {
                match option.name.as_str() {
                    "outputfield" => command.output = Some(option.value),
                    "inclname" => command.with_name = option.boolean()?,
                    "inclvalue" => command.with_value = option.boolean()?,
                    _ => {
                        let names = option.value.split([',', ' ']).filter(|name| !name.is_empty());
                        command.allowed = Some(names.map(str::to_owned).collect());
                    }
                }
            }
            self.skip_separators();
            match self.field_word() {
                Some(word) => command.fields.push(word.text),
                None => break,
            }
        }
        Ok(Command::Values(ValuesCommand::Tags(command)))
    }

    /// `mcatalog values(FIELD) [AS NAME] ... [WHERE CONDITION] [BY FIELD ...]`.
    fn mcatalog(&mut self) -> Read<Command> {
        let (mut aggregates, mut by, mut filter) = (Vec::new(), String::new(), String::new());
        let (mut kept, mut prestats, mut range) = (Vec::new(), false, String::new());
        loop {
            while let Some(option) = self.option(MCATALOG)? {
                if matches!(option.name.as_str(), "earliest" | "latest") {
                    range.push_str(&format!(" {}={}", option.name, quote(&option.value)));
                    continue;
                }
                let is_set = option.boolean()?;
                if option.name == "prestats" {
                    prestats = is_set;
                } else if is_set {
                    return Err(option.refuse("false: write `append [ | mcatalog ... ]`"));
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.eat_keyword("where") {
                filter = self.condition_text();
            } else if self.eat_keyword("by") || self.eat_keyword("groupby") {
                let fields = self.by_fields(MCATALOG)?;
                let fields: Vec<String> = fields.iter().map(|field| quote(&field.text)).collect();
                by = format!("BY {}", fields.join(" "));
                kept.extend(fields);
            } else {
                let start = self.pos;
                let aggregate = self.aggregate("mcatalog")?;
                if aggregate.function != crate::ast::StatsFunction::Values {
                    let remark = Diagnostic::error("mcatalog: it has the function `values` alone", aggregate.span);
                    return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
                }
                aggregates.push(self.text[start..self.pos].to_owned());
                if let AggregateArg::Field(field) = &aggregate.arg {
                    kept.push(quote(&field.text));
                }
            }
        }
        if aggregates.is_empty() {
            let remark = Diagnostic::error("mcatalog: no function is given", self.here());
            return Err(remark.with_hint("write `mcatalog values(metric_name)`"));
        }
        let aggregates = aggregates.join(" ").replace("(_dims)", "(_dimensions)");
        let filter = without_times(filter, &mut range);
        let names_index = filter.to_ascii_lowercase().contains("index");
        let scope = if names_index { "" } else { "index=*" };
        // Conditions on names of metrics can be tested only once events have them.
        let (before, after) = match super::parse_condition(&filter) {
            _ if filter.is_empty() => (String::new(), String::new()),
            Ok(expr) if !mentions(&expr, METRIC) => (format!("({filter})"), String::new()),
            _ => (index_terms(&filter), format!("| search {filter}")),
        };
        // With prestats=true the command that follows folds the rows.
        let fold = match prestats {
            true => format!("table _time {}", kept.join(" ")),
            false => format!("stats {aggregates} {by}"),
        };
        self.standing_for(&format!(
            "search {scope} {before}{range} | foreach {METRIC}:* [ eval {METRIC}=if(isnull('<<FIELD>>'), {METRIC}, \
             mvappend({METRIC}, \"<<MATCHSTR>>\")) ] | search {METRIC}=* {after} | {fold}"
        ))
    }

    /// The text of a condition up to BY or the end.
    fn condition_text(&mut self) -> String {
        let start = self.pos;
        while !self.at_end() && !self.at_keyword("by") && !self.at_keyword("groupby") {
            let (place, has_word) = (self.pos, self.quoted().is_some());
            if !has_word {
                let rest = self.rest();
                let word = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                self.pos = place + word.max(1);
            }
        }
        self.text[start..self.pos].trim().to_owned()
    }
}

fn mentions(expr: &SearchExpr, field: &str) -> bool {
    crate::analyse::search_fields(expr).contains(field)
}

/// A condition without its modifiers of time, which are moved to `range`.
fn without_times(mut filter: String, range: &mut String) -> String {
    let Ok(expr) = super::parse_condition(&filter) else { return filter };
    let parts = match expr {
        SearchExpr::And(parts) => parts,
        single => vec![single],
    };
    for part in parts.into_iter().rev() {
        if let SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } = part
            && matches!(field.text.as_str(), "earliest" | "latest")
        {
            range.push_str(&format!(" {}={}", field.text, quote(&value.text)));
            filter.replace_range(field.span.start..value.span.end, "");
        }
    }
    filter.trim().to_owned()
}

/// The conditions on indexes of a text that is one AND.
fn index_terms(filter: &str) -> String {
    let is_plain = !filter.contains(['(', '"']) && !filter.split_whitespace().any(|word| word == "OR" || word == "NOT");
    if !is_plain {
        return "index=*".to_owned();
    }
    let terms: Vec<&str> = filter.split_whitespace().filter(|word| word.starts_with("index=")).collect();
    if terms.is_empty() { "index=*".to_owned() } else { terms.join(" ") }
}

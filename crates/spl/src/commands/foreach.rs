//! `foreach`: runs a template of commands once for each of several fields or values.
//!
//! The template is kept as text with its `<<...>>` placeholders. To report errors at the right positions, it is
//! parsed once with each placeholder replaced by a name of the same length.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, InnerSearchText, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, fields_needed_before};
use crate::ast::{AssignTarget, Assignment, EvalCommand, Expr, ExprKind, FieldPattern, NamePart, Span, Stage};
use crate::diagnostic::{Diagnostic, Severity};
use crate::parse::{
    MAX_NESTING, MAX_SUBSEARCH_DEPTH, OptionArg, OptionNames, ParseResult, Parser, check_commands, fits_behind,
    parse_commands,
};

const OPTIONS: OptionNames = OptionNames::new(
    "foreach",
    &["mode", "fieldstr", "matchstr", "matchseg1", "matchseg2", "matchseg3", "itemstr", "iterstr"],
);

/// `foreach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeachCommand {
    /// Elements to iterate over.
    pub over: ForeachOver,
    /// The commands, with placeholders such as `<<FIELD>>`.
    pub template: String,
    /// Assignments that replace the commands if another command is rewritten to `foreach`. Their names and texts may
    /// contain the placeholder for the field's name.
    pub assignments: Vec<Assignment>,
    /// Position of the commands.
    pub span: Span,
    /// Placeholder for a field's name: `<<FIELD>>` or the value of `fieldstr=`.
    pub field_text: String,
    /// Placeholder for the text that the `*` of a pattern matches: `<<MATCHSTR>>` or the value of `matchstr=`.
    pub match_text: String,
    /// Placeholders for the matches of the first three `*`: `<<MATCHSEG1>>` and so on.
    pub segment_texts: [String; 3],
    /// Placeholder for an item: `<<ITEM>>` or the value of `itemstr=`.
    pub item_text: String,
    /// Placeholder for an item's index, from 0: `<<ITER>>` or the value of `iterstr=`.
    pub number_text: String,
}

/// Elements that `foreach` iterates over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ForeachOver {
    /// Fields of the rows.
    Fields(Vec<FieldPattern>),
    /// Values of a multivalue field, row by row.
    Values(String),
    /// Items of a JSON array, row by row.
    JsonArray(String),
    /// Items of a JSON array if the field is one, otherwise its values.
    Collection(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ForeachMode {
    Fields,
    Values,
    JsonArray,
    Collection,
}

impl Syntax for ForeachCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "foreach FIELD... [mode=multivalue|json_array] [ COMMANDS with <<FIELD>> ]",
        summary: "Runs the same commands for each of several fields",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ForeachCommand> {
        let mut command = ForeachCommand::with_default_placeholders(ForeachOver::Fields(Vec::new()), Vec::new());
        let mut mode = ForeachMode::Fields;
        let mut fields = Vec::new();
        loop {
            while let Some(option) = parser.option(OPTIONS)? {
                foreach_option(option, &mut command, &mut mode)?;
            }
            parser.skip_separators();
            match parser.peek() {
                Some('[') => break,
                None => {
                    let remark = Diagnostic::error("foreach: no commands are given", parser.here());
                    return Err(remark.with_hint("write `foreach * [ eval <<FIELD>>=... ]`"));
                }
                Some(_) => fields.push(parser.expect_field("a field")?.field()),
            }
        }
        let first = fields.first().map(|field| field.text.clone());
        command.over = match (mode, first) {
            (ForeachMode::Fields, Some(_)) => ForeachOver::Fields(fields),
            (ForeachMode::Values, Some(field)) if fields.len() == 1 => ForeachOver::Values(field),
            (ForeachMode::JsonArray, Some(field)) if fields.len() == 1 => ForeachOver::JsonArray(field),
            (ForeachMode::Collection, Some(field)) if fields.len() == 1 => ForeachOver::Collection(field),
            (ForeachMode::Fields, None) => return Err(Diagnostic::error("foreach: no field is given", parser.here())),
            _ => return Err(Diagnostic::error("foreach: this mode takes exactly one field", parser.here())),
        };
        parser.foreach_template(&mut command)?;
        Ok(command)
    }
}

impl Semantics for ForeachCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        match self.commands_by_field() {
            Some(runs) => runs.iter().rev().fold(after, |needs, commands| fields_needed_before(commands, needs)),
            None => {
                // The fields of the template are known only after substitution.
                after.all = true;
                after
            }
        }
    }

    fn inner_search(&self) -> Option<InnerSearchText<'_>> {
        Some(InnerSearchText::Commands(self.sample_commands(&self.template)))
    }

    /// With named fields, the kind of the template's commands; otherwise `declared`, because the commands depend on
    /// the fields or values of the rows.
    fn kind(&self, declared: Kind) -> Kind {
        match &self.over {
            ForeachOver::Fields(fields) if fields.iter().all(|field| !field.is_wildcard()) => {
                let parsed = parse_commands(&self.sample_commands(&self.template), true, &BTreeSet::new());
                let most = parsed.pipeline.commands.iter().map(|stage| stage.command.kind()).max();
                // Commands of apps are unknown here; they may need all rows.
                most.filter(|_| parsed.is_ok()).unwrap_or(declared)
            }
            _ => declared,
        }
    }
}

impl Parser<'_> {
    /// Parses the template, `[ ... ]`.
    fn foreach_template(&mut self, command: &mut ForeachCommand) -> ParseResult<()> {
        let open = self.here();
        self.expect('[', "before the commands of foreach")?;
        let close = self.boundary(false);
        if close >= self.end {
            return Err(Diagnostic::error("this `[` is never closed", open).with_hint("add `]`"));
        }
        command.span = Span { start: self.pos, end: close };
        command.template = self.text[self.pos..close].trim().to_owned();
        let sample = command.sample_commands(&self.text[self.pos..close]);
        self.pos = close + 1;
        let limits = [(self.depth, MAX_NESTING), (self.subsearches, MAX_SUBSEARCH_DEPTH)];
        if let Some((_, limit)) = limits.into_iter().find(|(depth, limit)| depth >= limit) {
            return Err(Diagnostic::error(format!("foreach nested deeper than the limit of {limit} levels"), open));
        }
        let (faults, unsupported) = check_commands(&sample, self.subsearches + 1, &self.custom);
        for mut remark in faults.into_iter().filter(|remark| remark.severity == Severity::Error) {
            remark.span.start += command.span.start;
            remark.span.end += command.span.start;
            self.report(remark);
        }
        unsupported.into_iter().for_each(|feature| self.report_unsupported(feature));
        Ok(())
    }
}

impl ForeachCommand {
    /// The default placeholder for a field's name.
    pub(crate) const FIELD: &str = "<<FIELD>>";

    /// A command with default placeholders.
    pub(crate) fn with_default_placeholders(over: ForeachOver, assignments: Vec<Assignment>) -> ForeachCommand {
        let marks = [Self::FIELD, "<<MATCHSTR>>", "<<ITEM>>", "<<ITER>>"].map(str::to_owned);
        let [field_text, match_text, item_text, number_text] = marks;
        ForeachCommand {
            over,
            template: String::new(),
            assignments,
            span: Span::default(),
            field_text,
            match_text,
            segment_texts: ["<<MATCHSEG1>>", "<<MATCHSEG2>>", "<<MATCHSEG3>>"].map(str::to_owned),
            item_text,
            number_text,
        }
    }

    /// The assignments for one field; `None` if the commands are a template.
    pub fn assignments_for(&self, field: &str) -> Option<EvalCommand> {
        if self.assignments.is_empty() {
            return None;
        }
        let mut assignments = self.assignments.clone();
        for assignment in &mut assignments {
            match &mut assignment.target {
                AssignTarget::Field(name) => self.substitute_field_name(name, field),
                AssignTarget::Dynamic(parts) => parts.iter_mut().for_each(|part| match part {
                    NamePart::Text(text) | NamePart::Field(text) => self.substitute_field_name(text, field),
                }),
            }
            self.fill(&mut assignment.expr, field);
        }
        Some(EvalCommand { assignments })
    }

    fn fill(&self, expr: &mut Expr, field: &str) {
        if let ExprKind::Text(text) | ExprKind::Field(text) = &mut expr.kind {
            self.substitute_field_name(text, field);
        }
        expr.parts_mut().into_iter().for_each(|part| self.fill(part, field));
    }

    /// The commands for each field; `None` unless all fields are named and only built-in commands are used.
    fn commands_by_field(&self) -> Option<Vec<Vec<Stage>>> {
        let ForeachOver::Fields(fields) = &self.over else { return None };
        let commands_for = |field: &FieldPattern| {
            if field.is_wildcard() {
                return None;
            }
            if let Some(eval) = self.assignments_for(&field.text) {
                return Some(vec![Stage { command: eval.into(), span: self.span }]);
            }
            // Nothing matches a wildcard.
            let nothing = self.segment_texts.iter().chain([&self.match_text]).map(|mark| (mark.as_str(), ""));
            let values: Vec<(&str, &str)> =
                [(self.field_text.as_str(), &*field.text)].into_iter().chain(nothing).collect();
            let parsed = parse_commands(&self.substitute(&self.template, &values).ok()?, true, &BTreeSet::new());
            parsed.is_ok().then_some(parsed.pipeline.commands)
        };
        fields.iter().map(commands_for).collect()
    }

    fn substitute_field_name(&self, text: &mut String, field: &str) {
        *text = text.replace(&self.field_text, field);
    }

    /// Substitutes the placeholders for one field or item: `values` pairs each placeholder with its value. Fails with a
    /// value that would end the command or a quoted text, because the names of fields come from events.
    pub fn substitute<'v>(&self, template: &str, values: &[(&str, &'v str)]) -> Result<String, &'v str> {
        let mut out = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(next) = rest.chars().next() {
            match values.iter().find(|(mark, _)| !mark.is_empty() && rest.starts_with(mark)) {
                Some((mark, value)) => {
                    if !fits_behind(&out, value) {
                        return Err(*value);
                    }
                    out.push_str(value);
                    rest = &rest[mark.len()..];
                }
                None => {
                    out.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        Ok(out)
    }

    /// The commands with each placeholder replaced by a name of the same length.
    pub fn sample_commands(&self, template: &str) -> String {
        let marks = [&self.field_text, &self.match_text, &self.item_text, &self.number_text];
        marks.into_iter().chain(&self.segment_texts).fold(template.to_owned(), |text, mark| {
            if mark.is_empty() { text } else { text.replace(mark.as_str(), &"f".repeat(mark.len())) }
        })
    }
}

fn foreach_option(option: OptionArg, command: &mut ForeachCommand, mode: &mut ForeachMode) -> ParseResult<()> {
    match option.name.as_str() {
        "mode" => {
            *mode = match option.value.to_ascii_lowercase().as_str() {
                "multifield" => ForeachMode::Fields,
                "multivalue" => ForeachMode::Values,
                "json_array" => ForeachMode::JsonArray,
                "auto_collections" => ForeachMode::Collection,
                _ => return Err(option.invalid_value("multifield, multivalue, json_array or auto_collections")),
            }
        }
        "fieldstr" => command.field_text = option.value,
        "matchstr" => command.match_text = option.value,
        "matchseg1" => command.segment_texts[0] = option.value,
        "matchseg2" => command.segment_texts[1] = option.value,
        "matchseg3" => command.segment_texts[2] = option.value,
        "itemstr" => command.item_text = option.value,
        _ => command.number_text = option.value,
    }
    Ok(())
}

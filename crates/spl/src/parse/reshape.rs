//! Commands that turn tables into other tables: addtotals, addcoltotals, mvcombine, transpose, xyseries, untable,
//! fieldsummary, gauge.

use super::cursor::{Parser, Read};
use super::options::Known;
use crate::ast::{AddTotalsCommand, ReshapeCommand, TransposeCommand, XySeriesCommand};
use crate::diagnostic::Diagnostic;

/// Rows that transpose turns when no number is given.
const TRANSPOSED_ROWS: usize = 5;
/// Values per field that fieldsummary lists when no number is given.
const SUMMARY_VALUES: usize = 100;

const ADDTOTALS: Known =
    Known { command: "addtotals", names: &["row", "col", "labelfield", "label", "fieldname"], ignored: &[] };
const ADDCOLTOTALS: Known =
    Known { command: "addcoltotals", names: &["labelfield", "label"], ignored: &["row", "col", "fieldname"] };
const MVCOMBINE: Known = Known { command: "mvcombine", names: &["delim"], ignored: &[] };
const TRANSPOSE: Known =
    Known { command: "transpose", names: &["int", "column_name", "header_field", "include_empty"], ignored: &[] };
const XYSERIES: Known = Known { command: "xyseries", names: &["grouped", "sep", "format"], ignored: &[] };
const FIELDSUMMARY: Known = Known { command: "fieldsummary", names: &["maxvals"], ignored: &[] };

impl Parser<'_> {
    /// The command of this name, or `None` when it is none of this family.
    pub(crate) fn reshape_command(&mut self, name: &str) -> Read<Option<ReshapeCommand>> {
        let command = match name {
            "addtotals" => ReshapeCommand::AddTotals(self.totals(ADDTOTALS, true)?),
            "addcoltotals" => ReshapeCommand::AddTotals(self.totals(ADDCOLTOTALS, false)?),
            "mvcombine" => self.mvcombine()?,
            "transpose" => ReshapeCommand::Transpose(self.transpose()?),
            "xyseries" => ReshapeCommand::XySeries(self.xyseries()?),
            "untable" => self.untable()?,
            "fieldsummary" => self.fieldsummary()?,
            "gauge" => self.gauge()?,
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    fn totals(&mut self, known: Known, row: bool) -> Read<AddTotalsCommand> {
        let mut command = AddTotalsCommand {
            row,
            column: !row,
            field_name: "Total".to_owned(),
            label_field: None,
            label: "Total".to_owned(),
            fields: Vec::new(),
        };
        loop {
            while let Some(option) = self.option(known)? {
                match option.name.as_str() {
                    "row" => command.row = option.boolean()?,
                    "col" => command.column = option.boolean()?,
                    "labelfield" => command.label_field = Some(option.value),
                    "label" => command.label = option.value,
                    _ => command.field_name = option.value,
                }
            }
            self.skip_separators();
            if self.at_end() {
                return Ok(command);
            }
            command.fields.push(self.expect_field("a field")?.field());
        }
    }

    fn mvcombine(&mut self) -> Read<ReshapeCommand> {
        let (mut delimiter, mut field) = (" ".to_owned(), None);
        loop {
            while let Some(option) = self.option(MVCOMBINE)? {
                delimiter = option.value;
            }
            if self.at_end() {
                break;
            }
            if field.is_some() {
                let message = format!("mvcombine: unexpected {}", self.found());
                return Err(Diagnostic::error(message, self.here()).with_hint("mvcombine takes one field"));
            }
            field = Some(self.expect_field("a field")?.text);
        }
        match field {
            Some(field) => Ok(ReshapeCommand::MvCombine { field, delimiter }),
            None => Err(Diagnostic::error("mvcombine: no field is given", self.here())),
        }
    }

    fn transpose(&mut self) -> Read<TransposeCommand> {
        let mut command = TransposeCommand {
            limit: TRANSPOSED_ROWS,
            column_name: "column".to_owned(),
            header_field: None,
            include_empty: true,
        };
        loop {
            while let Some(option) = self.option(TRANSPOSE)? {
                match option.name.as_str() {
                    "int" => command.limit = option.number()?,
                    "column_name" => command.column_name = option.value,
                    "header_field" => command.header_field = Some(option.value),
                    _ => command.include_empty = option.boolean()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                return Ok(command);
            }
            command.limit = self.whole_number().ok_or_else(|| {
                let message = format!("transpose: expected a number of rows, found {}", self.found());
                Diagnostic::error(message, self.here())
            })?;
        }
    }

    fn xyseries(&mut self) -> Read<XySeriesCommand> {
        let (mut grouped, mut separator, mut format) = (false, ": ".to_owned(), None);
        let mut fields = Vec::new();
        loop {
            while let Some(option) = self.option(XYSERIES)? {
                match option.name.as_str() {
                    "grouped" => grouped = option.boolean()?,
                    "sep" => separator = option.value,
                    _ => format = Some(option.value),
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            fields.push(self.expect_field("a field")?.text);
        }
        let mut fields = fields.into_iter();
        let (Some(row), Some(name), data) = (fields.next(), fields.next(), fields.collect::<Vec<_>>()) else {
            return Err(self.three_fields("xyseries", "rows columns cells"));
        };
        if data.is_empty() {
            return Err(self.three_fields("xyseries", "rows columns cells"));
        }
        Ok(XySeriesCommand { grouped, row, name, data, separator, format })
    }

    fn three_fields(&self, command: &str, example: &str) -> Diagnostic {
        let remark = Diagnostic::error(format!("{command}: three fields are needed"), self.here());
        remark.with_hint(format!("write `{command} {example}`"))
    }

    fn untable(&mut self) -> Read<ReshapeCommand> {
        let mut fields = self.fields_to_end()?.into_iter().map(|field| field.text);
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(row), Some(name), Some(value), None) => Ok(ReshapeCommand::Untable { row, name, value }),
            _ => Err(self.three_fields("untable", "rows names values")),
        }
    }

    fn fieldsummary(&mut self) -> Read<ReshapeCommand> {
        let (mut values_max, mut fields) = (SUMMARY_VALUES, Vec::new());
        loop {
            while let Some(option) = self.option(FIELDSUMMARY)? {
                values_max = option.number()?;
            }
            self.skip_separators();
            if self.at_end() {
                return Ok(ReshapeCommand::FieldSummary { values_max, fields });
            }
            fields.push(self.expect_field("a field")?.field());
        }
    }

    fn gauge(&mut self) -> Read<ReshapeCommand> {
        let parts: Vec<String> = self.fields_to_end()?.into_iter().map(|field| field.text).collect();
        if parts.is_empty() {
            let remark = Diagnostic::error("gauge: no field is given", self.here());
            return Err(remark.with_hint("write `gauge count 0 50 100`"));
        }
        Ok(ReshapeCommand::Gauge(parts))
    }
}

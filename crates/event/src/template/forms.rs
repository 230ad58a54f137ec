//! Forms of a column's values: literals and variables with bounds of their own, such as four numbers with dots between
//! them for an address. The form of a value may show whether a pattern like `\d+\.\d+` matches it even if its bytes
//! alone do not.
//!
//! Not here: bounds of whole values ([`ValueTraits`]), which are stored. Forms are not stored; they are derived from
//! the columns when a slab is read.

use super::{
    ByteSet, Column, ColumnKind, FormPart, NumberFormat, Template, TemplatePart, TemplateSet, TimeLayout, ValueForm,
    ValueTraits,
};

/// Maximum number of templates of a column with forms. With more templates, working with the forms costs more than it
/// saves, so the column has no forms.
const FORMS_MAX: usize = 48;
/// Maximum number of parts of a template's form; if a template has more parts, its column has no forms.
const FORM_PARTS_MAX: usize = 16;

const DIGITS: ByteSet = ByteSet::of(b"0123456789");
const MONTH_INITIALS: ByteSet = ByteSet::of(b"JFMASOND");
const MONTH_LETTERS: ByteSet = ByteSet::of(b"abceglnoprtuvy");

impl TemplateSet {
    /// Adds the forms of the values to the traits of every column that has forms.
    pub fn add_forms(&mut self) {
        for at in 0..self.columns.len() {
            let forms: Option<Vec<ValueForm>> = match &self.columns[at].kind {
                ColumnKind::Templates(templates) if templates.len() <= FORMS_MAX => {
                    templates.iter().map(|template| self.form_of(template)).collect()
                }
                ColumnKind::Templates(_) => None,
                _ => forms_without_templates(&self.columns[at]),
            };
            self.columns[at].traits.forms = forms.map(Into::into);
        }
    }

    /// The form of a template's values; `None` if its first part may be empty, or if the template has too many parts.
    fn form_of(&self, template: &Template) -> Option<ValueForm> {
        let mut parts = Vec::new();
        for part in &template.parts {
            match part {
                TemplatePart::Literal(bytes) => parts.push(FormPart::Literal(bytes.clone())),
                TemplatePart::Variable(column) => {
                    let column = self.columns.get(*column as usize)?;
                    match forms_without_templates(column) {
                        Some(mut forms) if forms.len() == 1 => parts.append(&mut forms[0].parts),
                        _ => {
                            let traits = ValueTraits { forms: None, value_set: None, ..column.traits.clone() };
                            parts.push(FormPart::Variable(traits));
                        }
                    }
                }
            }
            if parts.len() > FORM_PARTS_MAX {
                return None;
            }
        }
        let is_filled = match parts.first()? {
            FormPart::Literal(_) => true,
            FormPart::Variable(traits) => traits.min_len > 0,
        };
        is_filled.then_some(ValueForm { parts })
    }
}

/// The forms of the values of a column without templates; `None` if the bounds say as much.
fn forms_without_templates(column: &Column) -> Option<Vec<ValueForm>> {
    match column.kind {
        ColumnKind::Numbers { format, min, max } => number_forms(format, min, max),
        ColumnKind::Dictionary { .. } | ColumnKind::Texts => prefix_form(&column.traits).map(|form| vec![form]),
        ColumnKind::Templates(_) => None,
    }
}

/// The form of values that consist of the prefix and a rest, which may be empty.
fn prefix_form(traits: &ValueTraits) -> Option<ValueForm> {
    if traits.prefix.is_empty() {
        return None;
    }
    let rest = traits.rest();
    let prefix = FormPart::Literal(traits.prefix.as_bytes().into());
    let parts = if rest.max_len > 0 { vec![prefix, FormPart::Variable(rest)] } else { vec![prefix] };
    Some(ValueForm { parts })
}

/// The forms of numbers in this range; `None` if the bounds say as much, as for digits without a sign.
fn number_forms(format: NumberFormat, min: i64, max: i64) -> Option<Vec<ValueForm>> {
    // Minimum and maximum number of decimal places.
    let (least, places) = match format {
        NumberFormat::Integer if min < 0 => (0, 0),
        NumberFormat::Integer | NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => return None,
        NumberFormat::Decimal { digits } => (u32::from(digits), u32::from(digits)),
        NumberFormat::Shortest { digits } => (0, u32::from(digits)),
        NumberFormat::Ip4 => {
            let octet = || digits(1, 3);
            let point = || literal(b".");
            return one(vec![octet(), point(), octet(), point(), octet(), point(), octet()]);
        }
        NumberFormat::Time(layout) => return one(time_parts(layout)),
    };
    let most = count_digits(min.unsigned_abs().max(max.unsigned_abs()));
    let whole = || digits(1, most.saturating_sub(places).max(1));
    let mut unsigned = Vec::new();
    if least == 0 {
        unsigned.push(vec![whole()]);
    }
    if places > 0 {
        unsigned.push(vec![whole(), literal(b"."), digits(least.max(1), places)]);
    }
    let signs = [(min < 0).then(|| vec![literal(b"-")]), (max >= 0).then(Vec::new)];
    let form = |sign: &Vec<FormPart>, parts: &Vec<FormPart>| ValueForm { parts: [&sign[..], parts].concat() };
    Some(signs.iter().flatten().flat_map(|sign| unsigned.iter().map(move |parts| form(sign, parts))).collect())
}

fn time_parts(layout: TimeLayout) -> Vec<FormPart> {
    let two = || digits(2, 2);
    let clock = || vec![two(), literal(b":"), two(), literal(b":"), two()];
    match layout {
        TimeLayout::Iso { between, point, digits: fraction, zulu } => {
            let mut parts = vec![digits(4, 4), literal(b"-"), two(), literal(b"-"), two(), literal(&[between])];
            parts.extend(clock());
            if fraction > 0 {
                parts.extend([literal(&[point]), digits(fraction.into(), fraction.into())]);
            }
            if zulu {
                parts.push(literal(b"Z"));
            }
            parts
        }
        TimeLayout::Common => {
            let month = [variable(MONTH_INITIALS, 1, 1), variable(MONTH_LETTERS, 2, 2)];
            let mut parts = vec![two(), literal(b"/")];
            parts.extend(month);
            parts.extend([literal(b"/"), digits(4, 4), literal(b":")]);
            parts.extend(clock());
            parts
        }
        TimeLayout::Clock => clock(),
    }
}

fn one(parts: Vec<FormPart>) -> Option<Vec<ValueForm>> {
    Some(vec![ValueForm { parts }])
}

fn literal(bytes: &[u8]) -> FormPart {
    FormPart::Literal(bytes.into())
}

fn digits(min_len: u32, max_len: u32) -> FormPart {
    variable(DIGITS, min_len, max_len)
}

fn variable(bytes: ByteSet, min_len: u32, max_len: u32) -> FormPart {
    let traits = ValueTraits { bytes, firsts: bytes, lasts: bytes, min_len, max_len, ..ValueTraits::default() };
    FormPart::Variable(traits)
}

/// Number of decimal digits.
fn count_digits(number: u64) -> u32 {
    number.checked_ilog10().map_or(1, |log| log + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: ColumnKind, traits: ValueTraits) -> Column {
        Column { parent: Some(0), kind, traits, values: 1 }
    }

    fn has_form(forms: &[ValueForm], text: &[u8]) -> bool {
        fn fits(parts: &[FormPart], text: &[u8]) -> bool {
            match parts.split_first() {
                None => text.is_empty(),
                Some((FormPart::Literal(bytes), rest)) => {
                    text.strip_prefix(&**bytes).is_some_and(|text| fits(rest, text))
                }
                Some((FormPart::Variable(traits), rest)) => (traits.min_len..=traits.max_len).any(|len| {
                    let Some((value, text)) = text.split_at_checked(len as usize) else { return false };
                    value.iter().all(|byte| traits.bytes.contains(*byte))
                        && value.first().is_none_or(|byte| traits.firsts.contains(*byte))
                        && value.last().is_none_or(|byte| traits.lasts.contains(*byte))
                        && fits(rest, text)
                }),
            }
        }
        forms.iter().any(|form| fits(&form.parts, text))
    }

    #[test]
    fn written_numbers_have_a_form() {
        let samples: [&[&str]; 11] = [
            &["-120", "0", "7", "999999"],
            &["-5", "-1"],
            &["0.50", "12.25", "-3.00", "123456789.99"],
            &["-0.5"],
            &["10.0.0.1", "255.255.255.255", "1.22.133.0"],
            &["2026-11-20T00:00:00.021Z", "1999-01-31T23:59:59.999Z"],
            &["2026-11-20 00:00:00,5", "2026-11-20 00:00:00,0"],
            &["2026-11-20T00:00:00", "2026-11-21T10:11:12"],
            &["20/Nov/2026:00:00:00", "01/Jan/2000:10:11:12", "03/Feb/2026:00:00:00", "30/Sep/2026:00:00:00"],
            &["01/Mar/2026:00:00:00", "01/Apr/2026:00:00:00", "01/May/2026:00:00:00", "01/Jul/2026:00:00:00"],
            &["15:16:01", "00:00:00"],
        ];
        let guess = |texts: &[&str]| NumberFormat::guess(texts[0].as_bytes()).unwrap();
        let shortest = |texts: &[&str]| NumberFormat::shortest(texts.iter().map(|text| text.as_bytes())).unwrap();
        let with_formats = samples.iter().map(|texts| (*texts, guess(texts)));
        let shortest_samples: [&[&str]; 2] = [&["103.65", "232", "-0.5", "0"], &["-1", "-2.25"]];
        let all = with_formats.chain(shortest_samples.iter().map(|texts| (*texts, shortest(texts))));
        for (texts, format) in all {
            let numbers: Vec<i64> = texts.iter().map(|text| format.parse(text.as_bytes()).unwrap()).collect();
            let (min, max) = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
            let forms = number_forms(format, min, max).unwrap();
            for text in texts {
                assert!(has_form(&forms, text.as_bytes()), "{text} of {format:?}");
            }
        }
        assert!(number_forms(NumberFormat::Integer, 0, 99).is_none(), "the bounds of digits are exact");
    }

    #[test]
    fn forms_of_templates_contain_those_of_their_variables() {
        let text = ValueTraits {
            bytes: ByteSet::of(b"0x9abc"),
            firsts: ByteSet::of(b"0"),
            lasts: ByteSet::of(b"9abcx"),
            min_len: 2,
            max_len: 6,
            prefix: "0x".into(),
            after_prefix: ByteSet::of(b"9abc"),
            ..ValueTraits::default()
        };
        let address = ColumnKind::Numbers { format: NumberFormat::Ip4, min: 0, max: 9 };
        let parts = vec![
            TemplatePart::Literal(b"@".as_slice().into()),
            TemplatePart::Variable(1),
            TemplatePart::Literal(b" ".as_slice().into()),
            TemplatePart::Variable(2),
        ];
        let mut set = TemplateSet {
            columns: vec![
                Column {
                    parent: None,
                    ..column(ColumnKind::Templates([Template { parts }].into()), ValueTraits::default())
                },
                column(ColumnKind::Texts, text),
                column(address, ValueTraits::default()),
            ],
            ..TemplateSet::default()
        };
        set.add_forms();
        let forms = set.columns[0].traits.forms.clone().unwrap();
        for text in ["@0x9a 10.0.0.1", "@0x 1.2.3.4"] {
            assert!(has_form(&forms, text.as_bytes()), "{text}");
        }
        for text in ["@9a 10.0.0.1", "@0x9a 10001"] {
            assert!(!has_form(&forms, text.as_bytes()), "{text}");
        }
    }
}

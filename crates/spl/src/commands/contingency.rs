//! `contingency`: number of rows for each pair of values of two fields; rewritten to `chart` and totals.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, OptionArg, Parser, Read, quote};

const OPTIONS: Known = Known {
    command: "contingency",
    names: &["usetotal", "totalstr", "maxrows", "maxcols", "mincolcover", "minrowcover"],
    ignored: &[],
};

/// Temporary column for labels while totals are computed; no user field has this name.
const LABEL: &str = "__label";
/// Temporary columns for finding the most frequent values; no user field has these names.
const COUNT: &str = "__count";
const OF_VALUE: &str = "__v";
const RANK_OF_ROW: &str = "__rr";
const RANK_OF_COLUMN: &str = "__rc";

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["contingency", "counttable", "ctable"],
    syntax: "contingency ROWS COLUMNS [usetotal=] [totalstr=] [maxrows=] [maxcols=]",
    summary: "Counts how often the values of two fields occur together",
    group: Group::Reporting,
    kind: Kind::Blocking,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
    let (mut total, mut fields) = (Some("TOTAL".to_owned()), Vec::new());
    let (mut rows_max, mut columns_max) = (0_usize, 0_usize);
    loop {
        while let Some(option) = parser.option(OPTIONS)? {
            match option.name.as_str() {
                "usetotal" if option.boolean()? => {}
                "usetotal" => total = None,
                "maxrows" => rows_max = option.number()?,
                "maxcols" => columns_max = option.number()?,
                "mincolcover" | "minrowcover" => covers_all(&option)?,
                _ => total = total.map(|_| option.value),
            }
        }
        parser.skip_separators();
        match parser.field_word() {
            Some(word) => fields.push(quote(&word.text)),
            None => break,
        }
    }
    let [rows, columns] = fields.as_slice() else {
        let remark = Diagnostic::error("contingency: two fields are needed", parser.here());
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
    parser.standing_for(&match total {
        // Labels must not be numbers while sums are computed.
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

/// Commands that keep rows with the most frequent values of two fields by `COUNT`; 0 keeps all.
fn most_frequent(limits: [(&str, &str, usize); 2]) -> String {
    let limits = limits.into_iter().filter(|(_, _, most)| *most > 0);
    let (ranked, kept): (Vec<String>, Vec<String>) = limits
        .map(|(name, rank, most)| {
            // Ties are broken by value.
            let ranked = format!(
                "| eventstats sum({COUNT}) AS {OF_VALUE} BY {name} | sort 0 -{OF_VALUE} +{name} \
                 | streamstats dc({name}) AS {rank} "
            );
            (ranked, format!("| where {rank}<={most} "))
        })
        .unzip();
    // The ranks of both fields count all values.
    ranked.concat() + &kept.concat()
}

/// Parses the share of values to cover, which has no effect: all values are shown.
fn covers_all(option: &OptionArg) -> Read<()> {
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

//! Optimisation passes over a plan that begins with a scan: the split into map, fold and reduce, and push-down into the
//! scan.
//!
//! Each pass preserves the result of the plan.

use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::pattern::Regex;
use quarry_scan::plan::{Extraction, ExtractionKind, FirstRows, Order, RowLimit, RowSelection, Scan, TopK};
use quarry_scan::{FIRST_ROWS_FIELDS_MAX, TOP_ROWS_MAX, to_extraction};
use quarry_spl::analyse::{FieldNeeds, fields_needed_before, required_fields};
use quarry_spl::ast::{
    Command, CompareOp, RexCommand, SearchExpr, SearchPattern, SortCommand, SpathCommand, Stage, TimeModifiers,
};
use quarry_spl::commands::Kind;

use super::order::is_any_order_enough;
use super::text_values::TextValues;
use super::{Plan, Source};

/// Applies all push-down passes in order.
pub(super) fn push_down(plan: &mut Plan) {
    drop_unused_extractions(plan);
    split_for_workers(plan);
    if !push_text_values(plan) {
        push_extractions(plan);
    }
    project(plan);
    restrict_pairs(plan);
    push_top(plan);
    push_first(plan);
    push_demands(plan);
    push_selection(plan);
    release_order(plan);
}

fn scan_of(plan: &mut Plan) -> Option<&mut Scan> {
    match &mut plan.source {
        Source::Scan(scan) => Some(scan),
        _ => None,
    }
}

/// Removes each `rex` and `spath path=` whose fields no command reads. A `rex` with an invalid pattern is kept, so that
/// its error is reported.
fn drop_unused_extractions(plan: &mut Plan) {
    for at in (0..plan.reduce.len()).rev() {
        let (names, is_sound): (Vec<&String>, _) = match &plan.reduce[at].command {
            Command::Rex(RexCommand::Extract(rex)) => {
                (rex.groups.iter().chain(&rex.offset_field).collect(), Regex::new(&rex.pattern.text).is_ok())
            }
            Command::Spath(SpathCommand { path: Some(path), output, .. }) => {
                (vec![output.as_ref().unwrap_or(path)], true)
            }
            _ => continue,
        };
        let needs = required_fields(&plan.reduce[at + 1..]);
        let is_open = needs.all || !needs.patterns.is_empty();
        let is_read = names.into_iter().any(|name| needs.fields.contains(name));
        if !is_open && !is_read && is_sound {
            plan.reduce.remove(at);
        }
    }
}

/// Assigns leading row commands and the fold after them to the workers. Without such a fold, nothing runs in the
/// workers: rows are needed newest first, and often only some of them.
fn split_for_workers(plan: &mut Plan) {
    let kind = |stage: &Stage| stage.command.kind();
    let rows = plan.reduce.iter().take_while(|stage| kind(stage) == Kind::Row).count();
    if plan.reduce.get(rows).map(kind) != Some(Kind::Fold) {
        return;
    }
    let Some(scan) = scan_of(plan) else { return };
    scan.order = Order::Any;
    let mut commands = std::mem::take(&mut plan.reduce).into_iter();
    plan.map = commands.by_ref().take(rows).collect();
    plan.fold = commands.next();
    plan.reduce = commands.collect();
}

/// Pushes functions of the event text down into the scan, if no command then needs the text itself; extractions are
/// pushed down with them. Returns whether anything was pushed down.
fn push_text_values(plan: &mut Plan) -> bool {
    match &plan.source {
        // Rows of summaries have no texts.
        Source::Scan(scan) if scan.summary.is_none() => {}
        _ => return false,
    }
    let mut asked = plan.clone();
    let found = match &mut asked {
        Plan { map, fold: Some(fold), .. } => TextValues::rewrite(map, Some(fold)),
        Plan { reduce, .. } => TextValues::rewrite(reduce, None),
    };
    if found.is_empty() {
        return false;
    }
    push_extractions(&mut asked);
    let commands: Vec<Stage> = asked.commands().cloned().collect();
    let needs = required_fields(&commands);
    if needs.all || !needs.patterns.is_empty() || needs.fields.contains("_raw") {
        return false;
    }
    if let Some(scan) = scan_of(&mut asked) {
        scan.extractions.extend(found);
    }
    *plan = asked;
    true
}

/// Pushes leading `rex` and `spath` commands that read only the event text, or a stored field, down into the scan. The
/// scan then need not build that text or field for these commands.
fn push_extractions(plan: &mut Plan) {
    let mut pushed: Vec<Extraction> = Vec::new();
    let commands = if plan.fold.is_some() { &plan.map } else { &plan.reduce };
    for stage in commands {
        let needed = || {
            let later: Vec<Stage> = plan.commands().skip(pushed.len() + 1).cloned().collect();
            let needs = required_fields(&later);
            (!needs.all && needs.patterns.is_empty()).then(|| needs.fields.into_iter().collect())
        };
        let Some(kind) = to_extraction(&stage.command, plan.fold.is_some(), needed) else { break };
        let extraction = Extraction { kind, span: stage.span };
        let is_made = |name: &str| pushed.iter().any(|known| known.names().any(|taken| taken == name));
        let reads_made = match &extraction.kind {
            ExtractionKind::Rex(rex) => is_made(&rex.field),
            ExtractionKind::Spath(spath) => is_made(&spath.input),
            ExtractionKind::SpathFields { input, .. } => is_made(input),
            ExtractionKind::Text { .. } => false,
        };
        // Commands of one kind run together, so a later command must not replace a field that an earlier command reads.
        let input_of = |kind: &ExtractionKind| match kind {
            ExtractionKind::Rex(rex) => Some(rex.field.clone()),
            ExtractionKind::Spath(spath) => Some(spath.input.clone()),
            ExtractionKind::SpathFields { input, .. } => Some(input.clone()),
            ExtractionKind::Text { .. } => None,
        };
        let is_read = |name: &str| pushed.iter().any(|known| input_of(&known.kind).as_deref() == Some(name));
        if reads_made || extraction.names().any(is_made) || extraction.names().any(is_read) {
            break;
        }
        pushed.push(extraction);
    }
    let count = pushed.len();
    let rest: Vec<Stage> = plan.commands().skip(count).cloned().collect();
    let needs = required_fields(&rest);
    if pushed.is_empty() || needs.all || !needs.patterns.is_empty() || needs.fields.contains("_raw") {
        return;
    }
    let commands = if plan.fold.is_some() { &mut plan.map } else { &mut plan.reduce };
    commands.drain(..count);
    if let Some(scan) = scan_of(plan) {
        scan.extractions = pushed;
    }
}

/// Restricts the scan to the fields that commands read.
fn project(plan: &mut Plan) {
    let commands: Vec<Stage> = plan.commands().cloned().collect();
    if let Some(scan) = scan_of(plan) {
        scan.projection = required_fields(&commands);
    }
}

/// Restricts each `extract` to the fields that the commands after it read.
fn restrict_pairs(plan: &mut Plan) {
    let commands: Vec<Stage> = plan.commands().cloned().collect();
    let later = plan.map.iter_mut().chain(&mut plan.fold).chain(&mut plan.reduce);
    for (at, stage) in later.enumerate() {
        let Command::Extract(extract) = &mut stage.command else { continue };
        let needs = required_fields(&commands[at + 1..]);
        extract.names = (!needs.all && needs.patterns.is_empty()).then(|| needs.fields.into_iter().collect());
    }
}

/// Lets a scan without a fold return its rows in any order if their order does not matter.
fn release_order(plan: &mut Plan) {
    if plan.fold.is_some() || !is_any_order_enough(&plan.reduce) {
        return;
    }
    if let Some(scan) = scan_of(plan).filter(|scan| !scan.is_open() && scan.summary.is_none()) {
        scan.order = Order::Any;
    }
}

/// Passes the limit of a top-k sort to the scan; the sort itself then returns at most that many rows.
fn push_top(plan: &mut Plan) {
    let Some((top, sort)) = top_of(&plan.reduce).filter(|_| plan.fold.is_none()) else { return };
    let Some(scan) = scan_of(plan).filter(|scan| !scan.is_open()) else { return };
    scan.top = Some(top);
    if let Some(first) = plan.reduce.first_mut() {
        first.command = Command::Sort(sort);
    }
}

/// Passes the fields of a simple `dedup` to the scan, which skips duplicates. The command still decides which rows
/// remain.
fn push_first(plan: &mut Plan) {
    let Some(first) = first_of(&plan.reduce).filter(|_| plan.fold.is_none()) else { return };
    // If the scan reads all fields, or all that match a pattern, omitted rows might have columns that no other row has.
    if let Some(scan) = scan_of(plan).filter(|scan| !scan.is_open()) {
        scan.first = Some(first);
    }
}

/// The rows that a simple `dedup` at the beginning of these commands keeps.
fn first_of(commands: &[Stage]) -> Option<FirstRows> {
    let Command::Dedup(dedup) = &commands.first()?.command else { return None };
    let is_plain = !dedup.keep_events && !dedup.consecutive && dedup.sort_by.is_empty();
    let is_named = dedup.fields.iter().all(|field| !field.text.contains('*'));
    let is_short = (1..=FIRST_ROWS_FIELDS_MAX).contains(&dedup.fields.len());
    (is_plain && is_named && is_short).then(|| FirstRows {
        fields: dedup.fields.iter().map(|field| field.text.clone()).collect(),
        count: dedup.count,
        keeps_empty: dedup.keep_empty,
    })
}

/// Lets a scan that reads all fields, or all that match a pattern, select the rows that the first commands keep. To
/// select rows, the scan reads only the fields that these commands need.
fn push_selection(plan: &mut Plan) {
    let is_open = matches!(&plan.source, Source::Scan(scan) if scan.is_open() && scan.summary.is_none());
    if !is_open || plan.fold.is_some() {
        return;
    }
    let Some((selection, sort)) =
        (0..=count_selecting(&plan.reduce)).rev().find_map(|count| selection_of(&plan.reduce, count))
    else {
        return;
    };
    if let (Some(sort), Some(stage)) = (sort, plan.reduce.get_mut(selection.commands)) {
        stage.command = Command::Sort(sort);
    }
    if let Some(scan) = scan_of(plan) {
        scan.selection = Some(selection);
    }
}

/// Number of leading commands that drop rows or set fields in the same way whenever they run.
fn count_selecting(commands: &[Stage]) -> usize {
    let is_selecting = |stage: &&Stage| match &stage.command {
        Command::Search(search) => search.time == TimeModifiers::default() && search.expr.subsearches().is_empty(),
        Command::Where(_) | Command::Regex(_) | Command::Eval(_) | Command::Rex(RexCommand::Extract(_)) => true,
        _ => false,
    };
    commands.iter().take_while(is_selecting).take_while(|stage| stage.command.is_repeatable()).count()
}

/// The selection that the first `count` commands and a limit after them make, and the sort that sets the limit. `None`
/// if no limit follows and the last of these commands drops no rows, or if fields are read that cannot be named.
fn selection_of(commands: &[Stage], count: usize) -> Option<(RowSelection, Option<SortCommand>)> {
    let (first, rest) = commands.split_at(count);
    let (limit, sort) = match (top_of(rest), first_of(rest), rest.first().map(|stage| &stage.command)) {
        (Some((top, sort)), ..) => (Some(RowLimit::Top(top)), Some(sort)),
        (_, Some(first), _) => (Some(RowLimit::First(first)), None),
        (.., Some(Command::Tail(tail))) if (1..=TOP_ROWS_MAX).contains(&tail.count) => {
            (Some(RowLimit::Oldest(tail.count)), None)
        }
        _ => (None, None),
    };
    if limit.is_none() && !matches!(first.last()?.command, Command::Search(_) | Command::Where(_) | Command::Regex(_)) {
        return None;
    }
    let mut needs = FieldNeeds::default();
    match &limit {
        Some(RowLimit::Top(top)) => needs.fields.extend([top.key.field.text.clone()]),
        Some(RowLimit::First(first)) => needs.fields.extend(first.fields.iter().cloned()),
        Some(RowLimit::Oldest(_)) | None => {}
    }
    let projection = fields_needed_before(first, needs);
    (!projection.all && projection.patterns.is_empty())
        .then_some((RowSelection { projection, commands: count, limit }, sort))
}

/// Tells the scan what the first commands require of each row: the conditions of `search`, and the fields that
/// `stats` groups by.
fn push_demands(plan: &mut Plan) {
    let mut demands = Vec::new();
    for stage in plan.commands() {
        match &stage.command {
            Command::Search(search) if search.time == TimeModifiers::default() => {
                demands.extend(conjuncts(&search.expr).filter(|part| tests_fields(part)).cloned());
            }
            Command::Stats(stats) => {
                let named = stats.by.iter().filter(|field| is_plain_field(&field.text));
                demands.extend(named.map(|field| SearchExpr::Compare {
                    field: field.clone(),
                    op: CompareOp::Eq,
                    value: SearchPattern { text: "*".to_owned(), quoted: false, span: field.span },
                    case_sensitive: false,
                }));
                break;
            }
            _ => break,
        }
    }
    // The scan gets no demands in two cases: if a fold reads all columns, including columns that only omitted rows
    // have, and if the scan reads summaries, whose rows are not events.
    let is_folded = plan.fold.is_some();
    if let Some(scan) = scan_of(plan).filter(|scan| !(is_folded && scan.is_open()) && scan.summary.is_none()) {
        scan.demands = demands;
    }
}

/// The conditions that must all hold.
fn conjuncts(expr: &SearchExpr) -> impl Iterator<Item = &SearchExpr> {
    let parts: &[SearchExpr] = match expr {
        SearchExpr::And(parts) => parts,
        other => std::slice::from_ref(other),
    };
    parts.iter()
}

/// Whether a condition tests named fields only, and does not depend on labels or other searches.
fn tests_fields(expr: &SearchExpr) -> bool {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(tests_fields),
        SearchExpr::Not(part) => tests_fields(part),
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } => is_plain_field(&field.text),
        _ => false,
    }
}

/// Whether a name refers to a single extracted field rather than to metadata, a time or a label.
fn is_plain_field(name: &str) -> bool {
    let is_label = name == "eventtype" || name == "tag" || name.contains("::");
    !is_label && !name.contains('*') && !name.starts_with('_') && !METADATA_FIELDS.contains(&name)
}

/// The first sort key with a limit, if the commands after a scan allow it, and the sort with that limit.
fn top_of(commands: &[Stage]) -> Option<(TopK, SortCommand)> {
    let Command::Sort(sort) = &commands.first()?.command else { return None };
    let of_head = match commands.get(1).map(|stage| &stage.command) {
        Some(Command::Head(head)) if head.condition.is_none() => head.limit,
        _ => None,
    };
    let count = of_head.into_iter().chain(Some(sort.limit).filter(|limit| *limit > 0)).min()?;
    let key = sort.keys.first().filter(|key| !key.field.text.contains('*'))?.clone();
    if !(1..=TOP_ROWS_MAX).contains(&count) {
        return None;
    }
    let descending = key.descending != sort.reverse;
    // One additional row reveals that an implicit limit dropped rows.
    let is_told = !sort.has_limit && count == sort.limit;
    let is_only_key = sort.keys.len() == 1;
    let top = TopK { key, descending, count: count + usize::from(is_told), is_only_key };
    Some((top, SortCommand { limit: count, has_limit: !is_told, ..sort.clone() }))
}

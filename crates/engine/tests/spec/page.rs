//! Reads a page of the manual: the examples under its headings.
//!
//! An example starts at a `###` heading below `## Examples` and holds fenced blocks: `events`, `csv name=T.csv`,
//! `props`, `transforms`, `eventtypes`, `tags`, `multikv`, `transactiontypes`, `model name=M`, `macros`,
//! `savedsearches`, `spl`, then `result` or `error`, perhaps `messages`. Words after the block's kind are its settings.

use std::collections::BTreeMap;

/// A fenced block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// First word after the fence.
    pub kind: String,
    /// `name=value` words after the kind.
    pub settings: BTreeMap<String, String>,
    /// Lines between the fences.
    pub lines: Vec<String>,
    /// Line of the page where the block's text starts, from 1.
    pub line: usize,
}

impl Block {
    /// The lines as one text.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Expected outcome of an example.
#[derive(Clone, Debug)]
pub(crate) enum ExpectedOutcome {
    /// A table in CSV.
    Result(Block),
    /// An error.
    Error(Block),
}

/// One example of a page.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    /// Its heading.
    pub title: String,
    /// Line of the heading, from 1.
    pub line: usize,
    /// Blocks of events, in order.
    pub events: Vec<Block>,
    /// Lookup tables.
    pub tables: Vec<Block>,
    /// props.conf text.
    pub props: Option<Block>,
    /// transforms.conf text.
    pub transforms: Option<Block>,
    /// eventtypes.conf text.
    pub event_types: Option<Block>,
    /// tags.conf text.
    pub tags: Option<Block>,
    /// multikv.conf text.
    pub table_rules: Option<Block>,
    /// transactiontypes.conf text.
    pub transaction_types: Option<Block>,
    /// Data models in JSON (`name=`).
    pub models: Vec<Block>,
    /// macros.conf text.
    pub macros: Option<Block>,
    /// savedsearches.conf text.
    pub saved: Option<Block>,
    pub search: Block,
    /// The answer.
    pub expected: ExpectedOutcome,
    /// Expected messages, if the example states them.
    pub messages: Option<Block>,
}

/// A page: its sections and examples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Text of the `#` heading.
    pub title: String,
    /// Texts of the `##` headings.
    pub sections: Vec<String>,
    pub examples: Vec<Example>,
}

#[derive(Default)]
struct Draft {
    title: String,
    line: usize,
    blocks: Vec<Block>,
}

/// Reads a page; the error names the faulty line.
pub(crate) fn read_page(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let mut draft: Option<Draft> = None;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let number = at + 1;
        if let Some(info) = line.strip_prefix("```") {
            let mut block = open_block(info, number + 1);
            loop {
                let Some((_, line)) = lines.next() else { return Err(format!("{number}: this block has no end")) };
                if line.starts_with("```") {
                    break;
                }
                block.lines.push(line.to_owned());
            }
            match &mut draft {
                Some(draft) => draft.blocks.push(block),
                None if block.kind.is_empty() || block.kind == "text" => {}
                None => return Err(format!("{number}: a block `{}` outside of an example", block.kind)),
            }
        } else if let Some(title) = line.strip_prefix("### ") {
            page.examples.extend(draft.take().map(finish).transpose()?);
            if page.sections.last().is_some_and(|section| section == "Examples") {
                draft = Some(Draft { title: title.trim().to_owned(), line: number, blocks: Vec::new() });
            }
        } else if let Some(title) = line.strip_prefix("## ") {
            page.examples.extend(draft.take().map(finish).transpose()?);
            page.sections.push(title.trim().to_owned());
        } else if let Some(title) = line.strip_prefix("# ") {
            page.title = title.trim().to_owned();
        }
    }
    page.examples.extend(draft.take().map(finish).transpose()?);
    Ok(page)
}

fn open_block(info: &str, line: usize) -> Block {
    let (kind, settings) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
    Block { kind: kind.to_owned(), settings: read_settings(settings), lines: Vec::new(), line }
}

/// Words of the form `name=value`.
pub(crate) fn read_settings(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn finish(mut draft: Draft) -> Result<Example, String> {
    let (mut events, mut tables, mut models) = (Vec::new(), Vec::new(), Vec::new());
    let (mut macros, mut saved, mut transforms, mut event_types, mut tags) = (None, None, None, None, None);
    let mut transaction_types = None;
    let (mut props, mut search, mut expected, mut messages, mut table_rules) = (None, None, None, None, None);
    for block in std::mem::take(&mut draft.blocks) {
        let line = block.line;
        match block.kind.as_str() {
            "events" => events.push(block),
            "csv" => tables.push(block),
            "props" => props = Some(block),
            "transforms" => transforms = Some(block),
            "eventtypes" => event_types = Some(block),
            "tags" => tags = Some(block),
            "multikv" => table_rules = Some(block),
            "transactiontypes" => transaction_types = Some(block),
            "model" => models.push(block),
            "macros" => macros = Some(block),
            "savedsearches" => saved = Some(block),
            "spl" if search.is_none() => search = Some(block),
            "result" if expected.is_none() => expected = Some(ExpectedOutcome::Result(block)),
            "error" if expected.is_none() => expected = Some(ExpectedOutcome::Error(block)),
            "messages" => messages = Some(block),
            other => return Err(format!("{line}: block `{other}` is unknown here or comes twice")),
        }
    }
    let missing = |what: &str| format!("{}: example `{}` has no `{what}` block", draft.line, draft.title);
    let search = search.ok_or_else(|| missing("spl"))?;
    let expected = expected.ok_or_else(|| missing("result"))?;
    let Draft { title, line, .. } = draft;
    Ok(Example {
        title,
        line,
        events,
        tables,
        props,
        transforms,
        event_types,
        tags,
        table_rules,
        transaction_types,
        models,
        macros,
        saved,
        search,
        expected,
        messages,
    })
}

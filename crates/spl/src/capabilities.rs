//! The commands that a search runs, including its subsearches, and the capabilities that they require.
//!
//! Each command declares its capability ([`crate::commands::CommandInfo`]); this module visits all nodes of the tree.
//! Not here: texts that are parsed only when the search runs (`map`, `foreach`, saved searches), which the caller
//! checks.

use crate::ast::{Command, Pipeline, Span, Stage};

/// A command, and the capability that it requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredCapability {
    /// Name of the command in the syntax tree. Most aliases are replaced by the main name; for example, `sumindex` by
    /// `collect`.
    pub command: String,
    /// Splunk's name of the capability.
    pub capability: &'static str,
}

/// The capability that a command requires in addition to the capability `search`, if any.
pub fn required_capability(command: &Command) -> Option<RequiredCapability> {
    let capability = command.capability()?;
    Some(RequiredCapability { command: command.name().to_owned(), capability })
}

/// Calls `see` with each command of a search and of its subsearches, and with the command's position, until `see`
/// fails.
pub fn visit_commands<E>(pipeline: &Pipeline, see: &mut dyn FnMut(&Command, Span) -> Result<(), E>) -> Result<(), E> {
    pipeline.commands.iter().try_for_each(|stage| visit_stage(stage, see))
}

fn visit_stage<E>(stage: &Stage, see: &mut dyn FnMut(&Command, Span) -> Result<(), E>) -> Result<(), E> {
    see(&stage.command, stage.span)?;
    let node = stage.command.node();
    node.subsearches().into_iter().try_for_each(|inner| visit_commands(inner, see))?;
    let mut inner =
        node.placeholder_commands().iter().map(|command| Stage { command: command.clone(), span: stage.span });
    inner.try_for_each(|stage| visit_stage(&stage, see))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::commands::help;
    use crate::parse_with_commands;

    fn demands(text: &str) -> Vec<String> {
        let parsed =
            parse_with_commands(text, &BTreeSet::from(["launch".to_owned(), "script".to_owned(), "run".to_owned()]));
        assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
        let mut found = Vec::new();
        let walked: Result<(), ()> = visit_commands(&parsed.pipeline, &mut |command, _| {
            found
                .extend(required_capability(command).map(|demand| format!("{} {}", demand.command, demand.capability)));
            Ok(())
        });
        walked.unwrap();
        found
    }

    /// An example of each command that requires a capability. The syntax tree has `inputlookup` for `inputcsv`, and
    /// `collect` for its aliases, so the test expects these names.
    const EXAMPLES: &[(&str, &str)] = &[
        ("collect", "* | collect index=summary"),
        ("delete", "error | delete"),
        ("deletemodel", "| deletemodel a"),
        ("dump", "* | dump basefilename=a"),
        ("fit", "* | fit KMeans x into a"),
        ("inputcsv", "| inputcsv a"),
        ("inputlookup", "| inputlookup a.csv"),
        ("mcollect", "* | mcollect index=m split=t"),
        ("metadata", "| metadata type=hosts"),
        ("meventcollect", "* | meventcollect index=m"),
        ("outputcsv", "* | outputcsv a"),
        ("outputlookup", "* | outputlookup a.csv"),
        ("run", "* | run python a"),
        ("script", "* | script python a"),
        ("sendalert", "* | sendalert a"),
        ("sumindex", "* | sumindex index=summary"),
        ("summaryindex", "* | summaryindex index=summary"),
        ("typeahead", "| typeahead prefix=err"),
        ("walklex", "| walklex index=main"),
    ];

    #[test]
    fn every_capability_is_found_in_the_syntax_tree() {
        let rows: Vec<_> = help().iter().filter_map(|row| Some((row.name, row.capability?))).collect();
        let of_rows: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
        let of_examples: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        assert_eq!(of_rows, of_examples, "a row with a capability has an example here");
        for ((name, text), (_, capability)) in EXAMPLES.iter().zip(rows) {
            let written = match *name {
                "inputcsv" => "inputlookup",
                "summaryindex" | "sumindex" => "collect",
                name => name,
            };
            assert_eq!(demands(text), [format!("{written} {capability}")], "{text}");
        }
        assert_eq!(demands("* | launch"), ["launch run_custom_command"]);
        assert_eq!(demands("| history | stats count"), Vec::<String>::new());
        assert_eq!(demands("* | fit KMeans x | apply a"), Vec::<String>::new(), "nothing is written");
    }

    #[test]
    fn commands_are_found_in_subsearches_at_any_position() {
        for text in [
            "[search x | outputlookup a.csv]",
            "NOT (a OR [search x | outputlookup a.csv])",
            "* | search [search x | outputlookup a.csv]",
            "* | append [search x | outputlookup a.csv]",
            "* | appendcols [search x | outputlookup a.csv]",
            "* | appendpipe [stats count | outputlookup a.csv]",
            "* | join x [search x | outputlookup a.csv]",
            "* | union [search x | outputlookup a.csv]",
            "| multisearch [search a] [search b [search x | outputlookup a.csv]]",
            "| set union [search a] [search x | outputlookup a.csv]",
            "| tstats count where [search x | outputlookup a.csv]",
            "* | where n > [search x | outputlookup a.csv]",
            "* | append [search a | append [search x | outputlookup a.csv]]",
        ] {
            assert_eq!(demands(text), ["outputlookup output_file"], "{text}");
        }
        assert_eq!(
            demands("| inputlookup b.csv where [search x | outputlookup a.csv]"),
            ["inputlookup input_file", "outputlookup output_file"]
        );
    }
}

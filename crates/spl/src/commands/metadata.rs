//! `metadata`: lists hosts, sources or sourcetypes.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::parse::{Known, Parser, Read};

const OPTIONS: Known = Known {
    command: "metadata",
    names: &["type", "index"],
    ignored: &["splunk_server", "splunk_server_group", "datatype"],
};

/// `metadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataCommand {
    /// `type=`: `hosts`, `sources` or `sourcetypes`.
    pub kind: String,
    /// `index=`; every index searched by default when empty.
    pub indexes: Vec<String>,
}

impl Syntax for MetadataCommand {
    const INFO: CommandInfo = CommandInfo {
        names: &["metadata"],
        syntax: "metadata type=hosts|sources|sourcetypes [index=]",
        summary: "Lists hosts, sources or sourcetypes",
        group: Group::Searching,
        capability: Some("get_metadata"),
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<MetadataCommand> {
        let mut command = MetadataCommand { kind: "hosts".to_owned(), indexes: Vec::new() };
        while let Some(option) = parser.option(OPTIONS)? {
            if option.name == "index" {
                command.indexes.push(option.value);
                continue;
            }
            let kind = option.value.to_ascii_lowercase();
            if !matches!(kind.as_str(), "hosts" | "sources" | "sourcetypes") {
                return Err(option.refuse("hosts, sources or sourcetypes"));
            }
            command.kind = kind;
        }
        Ok(command)
    }
}

impl Semantics for MetadataCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn makes_table(&self) -> bool {
        true
    }
}

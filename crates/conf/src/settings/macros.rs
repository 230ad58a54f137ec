//! macros.conf: a stanza `name` or `name(N)` defines a search macro.
//!
//! Not here: substituting and validating arguments, which macro expansion does.

use crate::layers::{Layers, MergedStanza};
use crate::values::parse_bool;

/// A macro as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MacroDefinition {
    /// `args`: names, in order.
    pub arguments: Vec<String>,
    /// `definition`.
    pub definition: String,
    /// `iseval`: the definition is an expression that evaluates to the text.
    pub is_eval: bool,
    /// `validation`: an expression over the arguments; the macro is refused if its value is false or a text.
    pub validation: Option<String>,
    /// `errormsg`: error if the validation is false.
    pub error_message: Option<String>,
}

/// The macros of all apps.
#[derive(Clone, Copy, Debug)]
pub struct MacrosConf<'a>(&'a Layers);

impl<'a> MacrosConf<'a> {
    /// The macros defined in these files.
    pub fn new(layers: &'a Layers) -> MacrosConf<'a> {
        MacrosConf(layers)
    }

    /// The macro of this name with this many arguments.
    pub fn get(&self, name: &str, arguments: usize) -> Option<MacroDefinition> {
        let conf = self.0.conf("macros");
        let stanza = match arguments {
            0 => conf.stanza(name).map(|_| name.to_owned()),
            count => Some(format!("{name}({count})")).filter(|stanza| conf.stanza(stanza).is_some()),
        }?;
        let text = |key: &str| conf.get(&stanza, key).map(str::to_owned).filter(|text| !text.is_empty());
        let names = text("args").unwrap_or_default();
        Some(MacroDefinition {
            arguments: names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            definition: text("definition").unwrap_or_default(),
            is_eval: text("iseval").and_then(|text| parse_bool(&text)).unwrap_or(false),
            validation: text("validation"),
            error_message: text("errormsg"),
        })
    }

    /// Names of all macros; a macro with arguments is written `name(2)`.
    pub fn names(&self) -> Vec<String> {
        let named = |stanza: &&MergedStanza| stanza.name != crate::text::DEFAULT_STANZA;
        self.0.conf("macros").stanzas().iter().filter(named).map(|stanza| stanza.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::MacrosConf;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn macros_are_distinguished_by_their_arguments() {
        let text =
            "[ctime(1)]\nargs = field\ndefinition = convert ctime($field$)\n[ctime]\ndefinition = x\niseval = 0\n";
        let layers = Layers::new([local("macros", text)]);
        let conf = MacrosConf::new(&layers);
        let one = conf.get("ctime", 1).unwrap();
        assert_eq!(
            (one.arguments.as_slice(), one.definition.as_str()),
            (["field".to_owned()].as_slice(), "convert ctime($field$)")
        );
        assert_eq!(conf.get("ctime", 0).unwrap().definition, "x");
        assert_eq!(conf.get("ctime", 2), None);
        assert_eq!(conf.names(), ["ctime(1)", "ctime"]);
    }
}

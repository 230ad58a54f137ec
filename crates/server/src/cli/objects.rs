//! The command line of objects, generated from the table of kinds: `quarry VERB KIND NAME --SETTING VALUE`.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand, error::ErrorKind};

pub(crate) use super::object_kinds::ObjectKind;
use super::object_kinds::{KINDS, Parameter};
use super::{BucketArgs, ListForm, NamespaceArgs, NodeArgs, OneshotArgs};

/// Argument with the name of an object.
const POSITION: &str = "NAME";
/// Option with the name of an object, as in Splunk for saved searches.
const NAME: &str = "name";
/// Option with the source of the events, or with the name of an input, as in Splunk.
const SOURCE: &str = "source";
/// Flag that confirms a removal.
const YES: &str = "yes";
/// Option for settings that have no option of their own.
const SET: &str = "set";
/// Parameters that can only be passed with `--set`, because verbs on objects have another option of this name.
const RESERVED: &[&str] = &["app", "auth", "ca_cert", "insecure", "name", "output", "set", "token", "uri", "user"];
/// Subcommand that adds files once.
const ONESHOT: &str = "oneshot";

/// The kind whose objects contain events, which a removal deletes.
pub(crate) const INDEX: &str = "index";

/// Verbs on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectVerb {
    /// Creates an object.
    Add,
    /// Changes an object.
    Edit,
    /// Removes an object.
    Remove,
    /// Lists objects.
    List,
    /// Shows one object, or lists all objects.
    Show,
}

impl ObjectVerb {
    fn takes_settings(self) -> bool {
        matches!(self, ObjectVerb::Add | ObjectVerb::Edit)
    }

    fn shows(self) -> bool {
        matches!(self, ObjectVerb::List | ObjectVerb::Show)
    }

    fn name_help(self) -> &'static str {
        match self {
            ObjectVerb::Add => "Name of the new object",
            ObjectVerb::Edit | ObjectVerb::Remove => "Name of the object",
            ObjectVerb::List | ObjectVerb::Show => "One object, with all its settings; all if absent",
        }
    }
}

/// A parsed verb on objects of a kind.
#[derive(Debug)]
pub(crate) struct ObjectRequest {
    pub(crate) verb: ObjectVerb,
    pub(crate) kind: &'static ObjectKind,
    /// Name of the object; all objects if absent.
    pub(crate) name: Option<String>,
    /// REST parameters.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) namespace: NamespaceArgs,
    pub(crate) node: NodeArgs,
    pub(crate) output: ListForm,
    /// Whether the user has confirmed a removal that cannot be undone.
    pub(crate) is_confirmed: bool,
}

impl ObjectRequest {
    fn of(verb: ObjectVerb, matches: &ArgMatches) -> Result<ObjectRequest, Error> {
        let chosen = matches.subcommand().and_then(|(word, matches)| Some((ObjectKind::of(word)?, matches)));
        let Some((kind, matches)) = chosen else { return Err(Error::new(ErrorKind::MissingSubcommand)) };
        let text = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
        let texts = |id: &str| -> Vec<String> {
            matches.try_get_many::<String>(id).ok().flatten().into_iter().flatten().cloned().collect()
        };
        let mut settings = Vec::new();
        if verb.takes_settings() {
            for parameter in options_of(kind) {
                settings.extend(texts(parameter.name).into_iter().map(|value| (parameter.name.to_owned(), value)));
            }
            for pair in texts(SET) {
                let Some((key, value)) = pair.split_once('=') else {
                    let message = format!("--set {pair}: give KEY=VALUE\n");
                    return Err(Error::raw(ErrorKind::ValueValidation, message));
                };
                settings.push((key.trim().to_owned(), value.trim().to_owned()));
            }
        }
        let namespace = match kind.is_in_app {
            true => NamespaceArgs::from_arg_matches(matches)?,
            false => NamespaceArgs::default(),
        };
        let output = match verb.shows() {
            true => BucketArgs::from_arg_matches(matches)?.output,
            false => ListForm::Table,
        };
        let mut name = text(POSITION).or_else(|| text(NAME));
        if name.is_none() && kind.is_named_by_source {
            let source = settings.iter().position(|(key, _)| key == SOURCE);
            name = source.map(|at| settings.remove(at).1);
        }
        let node = NodeArgs::from_arg_matches(matches)?;
        let is_confirmed = matches.try_get_one::<bool>(YES).ok().flatten() == Some(&true);
        Ok(ObjectRequest { verb, kind, name, settings, namespace, node, output, is_confirmed })
    }
}

/// Adds a subcommand for each kind.
fn with_kinds(command: Command, verb: ObjectVerb) -> Command {
    KINDS
        .iter()
        .filter(|kind| kind.verbs.contains(&verb))
        .fold(command, |command, kind| command.subcommand(command_of(verb, kind)))
}

fn command_of(verb: ObjectVerb, kind: &'static ObjectKind) -> Command {
    let mut command = Command::new(kind.word).about(kind.about).aliases(kind.aliases);
    let name = Arg::new(POSITION).value_name(kind.name).help(verb.name_help());
    command = match verb.shows() {
        true => BucketArgs::augment_args(command.arg(name)),
        false => {
            let option = Arg::new(NAME).long(NAME).value_name(kind.name).hide(true).conflicts_with(POSITION);
            let others = if kind.is_named_by_source && verb.takes_settings() { &[NAME, SOURCE][..] } else { &[NAME] };
            command.arg(name.required_unless_present_any(others)).arg(option)
        }
    };
    if verb.takes_settings() {
        command = options_of(kind).into_iter().fold(command, |command, parameter| command.arg(option(kind, parameter)));
        let set = Arg::new(SET).long(SET).value_name("KEY=VALUE").action(ArgAction::Append);
        command = command.arg(set.help("Setting without an option of its own; repeatable"));
    }
    if verb == ObjectVerb::Remove && kind.word == INDEX {
        let yes = Arg::new(YES).long(YES).short('y').action(ArgAction::SetTrue);
        command = command.arg(yes.help("Remove the index with its events without asking"));
    }
    if kind.is_in_app {
        command = NamespaceArgs::augment_args(command);
    }
    // `about` is called last, because `augment_args` sets a description.
    NodeArgs::augment_args(command).about(kind.about)
}

/// Parameters of a kind that have options of their own: all except [`RESERVED`].
fn options_of(kind: &ObjectKind) -> Vec<Parameter> {
    let mut parameters = kind.parameters();
    parameters.retain(|parameter| !RESERVED.contains(&parameter.name));
    parameters
}

/// The option of a parameter, with Splunk's names as aliases.
fn option(kind: &ObjectKind, parameter: Parameter) -> Arg {
    let Parameter { name, help, value } = parameter;
    let others = kind.options.iter().filter(|(_, known)| *known == name).map(|(option, _)| *option);
    let action = if ObjectKind::is_list(name) { ArgAction::Append } else { ArgAction::Set };
    let option = Arg::new(name).long(name).value_name(value).allow_hyphen_values(true).action(action);
    let option = option.help(help).hide(help.is_empty()).visible_aliases(others.collect::<Vec<_>>());
    match value {
        "BOOL" => {
            option.value_parser(PossibleValuesParser::new(["true", "false", "1", "0"])).hide_possible_values(true)
        }
        _ => option,
    }
}

/// Subcommands of `add`.
#[derive(Debug)]
pub(crate) enum AddVerb {
    /// Files.
    Oneshot(Box<OneshotArgs>),
    /// An object.
    Object(Box<ObjectRequest>),
}

impl FromArgMatches for AddVerb {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AddVerb, Error> {
        match matches.subcommand() {
            Some((ONESHOT, matches)) => Ok(AddVerb::Oneshot(Box::new(OneshotArgs::from_arg_matches(matches)?))),
            _ => Ok(AddVerb::Object(Box::new(ObjectRequest::of(ObjectVerb::Add, matches)?))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = AddVerb::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for AddVerb {
    fn augment_subcommands(command: Command) -> Command {
        let command = command.subcommand(OneshotArgs::augment_args(Command::new(ONESHOT)));
        with_kinds(command, ObjectVerb::Add)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        AddVerb::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == ONESHOT || ObjectKind::of(name).is_some_and(|kind| kind.verbs.contains(&ObjectVerb::Add))
    }
}

/// A verb with the kinds as its only subcommands.
macro_rules! verb_of_kinds {
    ($(#[$doc:meta] $name:ident, $verb:ident);*) => {$(
        #[$doc]
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) Box<ObjectRequest>);

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<$name, Error> {
                Ok($name(Box::new(ObjectRequest::of(ObjectVerb::$verb, matches)?)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = $name::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Subcommand for $name {
            fn augment_subcommands(command: Command) -> Command {
                with_kinds(command, ObjectVerb::$verb)
            }

            fn augment_subcommands_for_update(command: Command) -> Command {
                $name::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                ObjectKind::of(name).is_some_and(|kind| kind.verbs.contains(&ObjectVerb::$verb))
            }
        }
    )*};
}

verb_of_kinds! {
    /// `edit`.
    EditVerb, Edit;
    /// `remove`.
    RemoveVerb, Remove;
    /// `list`.
    ListVerb, List;
    /// `show`.
    ShowVerb, Show
}

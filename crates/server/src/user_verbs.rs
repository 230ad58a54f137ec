//! `quarry user list|add|passwd|remove`, over the REST interface of the node ([`crate::node_client`]).
//!
//! Passwords are typed twice on a terminal without echo, or read as one line of standard input. `add user` and `edit
//! user` also accept a password as an option, as Splunk does, although every account of the machine can see the options
//! of a process.

use std::path::Path;

use quarry_apps::read_configuration;
use quarry_auth::{AuthError, check_roles};
use quarry_conf::Roles;
use quarry_ingest::check_exists;
use quarry_stdx::log;
use serde_json::{Value, json};

use crate::bucket::print;
use crate::cli::{ListForm, NodeArgs, UserVerb};
use crate::failure::Failure;
use crate::node_client::NodeClient;
use crate::password_input::new_password;
use crate::server_client::encode_segment;

/// Path of the users.
const USERS: &str = "/services/authentication/users";

/// Runs the verb.
pub(crate) fn run(data_dir: &Path, verb: &UserVerb) -> Result<u8, Failure> {
    let client = |writes: bool| NodeClient::of(&NodeArgs::default(), data_dir, writes);
    let one = |name: &str| format!("{USERS}/{}", encode_segment(name));
    let (name, done) = match verb {
        UserVerb::List(arguments) => return list(&client(false)?, arguments.output),
        UserVerb::Add { name, roles } => {
            // Checked before the password is requested.
            check_known_roles(data_dir, roles)?;
            let password = new_password(name)?;
            let mut form = vec![("name", name.as_str()), ("password", password.as_str())];
            form.extend(roles.iter().map(|role| ("roles", role.as_str())));
            client(true)?.post(USERS, &form)?;
            (name, "added")
        }
        UserVerb::Passwd { name } => {
            // Checked before the password is requested.
            check_exists(data_dir)?;
            let client = client(false)?;
            client.get(&one(name))?;
            let password = new_password(name)?;
            client.post(&one(name), &[("password", password.as_str())])?;
            (name, "has a new password; all sessions of the user have ended")
        }
        UserVerb::Remove { name } => {
            client(false)?.delete(&one(name))?;
            (name, "removed")
        }
    };
    log::info(format!("user {name} {done}"));
    Ok(0)
}

/// Refuses roles that this node does not have, and an empty list of roles.
pub(crate) fn check_known_roles(data_dir: &Path, roles: &[String]) -> Result<(), Failure> {
    check_roles(roles, &Roles::new(&read_configuration(data_dir))).map_err(failure_of)
}

fn list(client: &NodeClient, form: ListForm) -> Result<u8, Failure> {
    let row = |entry: &Value| json!({ "name": entry["name"], "roles": roles_text(&entry["content"]["roles"]) });
    let feed = client.get(&format!("{USERS}?count=0"))?;
    let rows: Value = feed["entry"].as_array().into_iter().flatten().map(row).collect();
    print(&rows, &["name", "roles"], form)?;
    Ok(0)
}

fn roles_text(roles: &Value) -> String {
    let roles: Vec<&str> = roles.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    roles.join(", ")
}

fn failure_of(error: AuthError) -> Failure {
    Failure::Usage(error.to_string())
}

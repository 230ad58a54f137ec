//! `quarry user list|add|passwd|remove`: through the server of the data folder if one runs, else in its file.
//!
//! Passwords are typed twice on a terminal without echo, or read as one line of standard input; never from arguments,
//! which every account of the machine can see.

use std::io::{BufRead, IsTerminal, Read};
use std::path::Path;

use quarry_apps::read_configuration;
use quarry_auth::{
    PASSWORD_BYTES_MAX, UserChange, UserError, UserKeeper, UserRecord, changed_users, check_new_password, check_roles,
};
use quarry_auth::{TokensFile, UsersFile, hash_with_new_salt};
use quarry_conf::Roles;
use quarry_stdx::log;
use serde_json::{Value, json};

use crate::bucket::print;
use crate::cli::{ListForm, UserVerb};
use crate::failure::Failure;
use crate::server_client::Remote;

/// Attempts to type the same password twice.
const TRIES_MAX: usize = 3;

/// Runs the verb.
pub(crate) fn run(data_dir: &Path, verb: &UserVerb) -> Result<u8, Failure> {
    let known = Roles::new(&read_configuration(data_dir));
    let change = match verb {
        UserVerb::List(arguments) => return list(data_dir, arguments.output, &known),
        UserVerb::Add { name, roles } => {
            // Checked before the password is requested.
            check_roles(roles, &known).map_err(failure_of)?;
            UserChange::Add { name: name.clone(), password: new_password(name)?, roles: roles.clone() }
        }
        UserVerb::Passwd { name } => UserChange::Edit {
            name: name.clone(),
            password: Some(new_password(name)?),
            old_password: None,
            roles: None,
        },
        UserVerb::Remove { name } => UserChange::Remove { name: name.clone() },
    };
    match Remote::find(data_dir) {
        Some(remote) => {
            remote.change_users(&change)?;
        }
        None => change_file(data_dir, &change, &known)?,
    }
    let done = match change {
        UserChange::Add { .. } => "added",
        UserChange::Edit { .. } => "has a new password; its sessions have ended",
        UserChange::Remove { .. } => "removed",
    };
    log::info(format!("user {} {done}", change.name()));
    Ok(0)
}

fn list(data_dir: &Path, form: ListForm, known: &Roles) -> Result<u8, Failure> {
    let rows = match Remote::find(data_dir) {
        Some(remote) => {
            let row = |entry: &Value| json!({ "name": entry["name"], "roles": roles_text(&entry["content"]["roles"]) });
            let feed = remote.users()?;
            feed["entry"].as_array().map(|entries| entries.iter().map(row).collect()).unwrap_or_default()
        }
        None => {
            quarry_ingest::check_exists(data_dir)?;
            let row = |user: UserRecord| json!({ "name": user.name, "roles": user.roles.join(", ") });
            let mut users = UsersFile::of(data_dir).read_or_begin(known)?;
            users.sort_by(|one, other| one.name.cmp(&other.name));
            Value::Array(users.into_iter().map(row).collect())
        }
    };
    print(&rows, &["name", "roles"], form)?;
    Ok(0)
}

fn roles_text(roles: &Value) -> String {
    let roles: Vec<&str> = roles.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    roles.join(", ")
}

fn change_file(data_dir: &Path, change: &UserChange, known: &Roles) -> Result<(), Failure> {
    let file = UsersFile::of(data_dir);
    let hash = match change {
        UserChange::Add { password, .. } | UserChange::Edit { password: Some(password), .. } => {
            Some(hash_with_new_salt(password)?)
        }
        _ => None,
    };
    let users = changed_users(&file.read_or_begin(known)?, change, hash, known).map_err(failure_of)?;
    if let UserChange::Remove { name } = change {
        // A later user of the same name must not inherit tokens.
        TokensFile::of(data_dir).remove_those_of(name)?;
    }
    Ok(file.keep(&users)?)
}

fn failure_of(error: UserError) -> Failure {
    Failure::Usage(error.to_string())
}

/// A new password, typed or read.
fn new_password(name: &str) -> Result<String, Failure> {
    let password = if std::io::stdin().is_terminal() { typed_password(name)? } else { read_password()? };
    check_new_password(&password).map_err(failure_of)?;
    Ok(password)
}

fn typed_password(name: &str) -> Result<String, Failure> {
    let terminal = console::Term::stderr();
    let ask = |what: &str| -> Result<String, Failure> {
        terminal.write_str(what)?;
        Ok(terminal.read_secure_line()?)
    };
    for _ in 0..TRIES_MAX {
        let password = ask(&format!("new password of {name}: "))?;
        if ask("the same once more: ")? == password {
            return Ok(password);
        }
        log::info("they differ; try again");
    }
    Err(Failure::Usage("the passwords differ".to_owned()))
}

fn read_password() -> Result<String, Failure> {
    let mut line = String::new();
    // Room for a line break and one extra byte, which reveals that it is too long.
    let most = PASSWORD_BYTES_MAX as u64 + 3;
    let read = std::io::stdin().lock().take(most).read_line(&mut line);
    read.map_err(|error| Failure::Usage(format!("standard input has no password: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

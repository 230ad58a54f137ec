//! The file of users: `etc/passwd` of the data directory, readable only by its owner.
//!
//! A server keeps the users in memory and writes the file when they change; without a server, `quarry user` does.

use std::path::{Path, PathBuf};

use quarry_conf::Roles;
use quarry_stdx::{Fault, log, private_file, random};

use crate::AuthError;
use crate::password::hash_password;
use crate::users::{ADMIN_ROLE, FIRST_USER, UserKeeper, UserRecord, parse_users, print_users};

/// File of users, below the data directory.
const USERS_FILE: &str = "etc/passwd";

/// The file of users.
pub struct UsersFile(PathBuf);

impl UsersFile {
    /// The file of a data directory.
    pub fn of(data_dir: &Path) -> UsersFile {
        UsersFile(data_dir.join(USERS_FILE))
    }

    /// Reads the users; a new folder gets the initial one. Logs users' roles that are not `known`.
    pub fn read_or_begin(&self, known: &Roles) -> Result<Vec<UserRecord>, Fault> {
        let (path, file) = (&self.0, self.0.display());
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let (users, bad_lines) = parse_users(&text);
                bad_lines.iter().for_each(|line| log::warning(format!("{file}:{line}: not name:roles:hash, left out")));
                users.iter().for_each(|user| tell_unknown_roles(&file.to_string(), user, known));
                Ok(users)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (name, password) = FIRST_USER;
                let password_hash = hash_with_new_salt(password)?;
                let users =
                    vec![UserRecord { name: name.to_owned(), password_hash, roles: vec![ADMIN_ROLE.to_owned()] }];
                private_file::write(path, &print_users(&users))?;
                log::info(format!("created user {name} with password {password}"));
                Ok(users)
            }
            Err(error) => Err(Fault::io(format_args!("cannot read {file}"), error)),
        }
    }
}

/// An unknown role grants nothing, which would look like a permission error.
fn tell_unknown_roles(file: &str, user: &UserRecord, known: &Roles) {
    for role in user.roles.iter().filter(|role| known.get(role).is_none()) {
        let known = known.names();
        log::warning(format!(
            "{file}: user {} has the role {role}, which does not exist and is ignored; there are {known}",
            user.name
        ));
    }
}

impl UserKeeper for UsersFile {
    fn keep(&self, users: &[UserRecord]) -> Result<(), Fault> {
        private_file::write(&self.0, &print_users(users))
    }
}

/// Hash of a password with a new salt.
pub fn hash_with_new_salt(password: &str) -> Result<String, AuthError> {
    let mut salt = [0; 16];
    random::fill(&mut salt);
    hash_password(password, &salt)
}

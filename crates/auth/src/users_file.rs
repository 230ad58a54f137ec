//! The file of users: `etc/passwd` of the data directory, readable only by its owner.
//!
//! A server keeps the users in memory and writes the file when they change; without a running server, `quarry user`
//! writes it.

use std::path::PathBuf;

use quarry_conf::Roles;
use quarry_stdx::{ChangingFiles, Fault, NodeFiles, log, random};

use crate::AuthError;
use crate::password::hash_password;
use crate::users::{ADMIN_ROLE, FIRST_USER, UserRecord, UserStore, format_users, parse_users};

/// File of users, below the data directory.
const USERS_FILE: &str = "etc/passwd";

/// The file of users.
pub struct UsersFile {
    path: PathBuf,
    files: NodeFiles,
}

impl UsersFile {
    /// The file of a data directory.
    pub fn of(files: &NodeFiles) -> UsersFile {
        UsersFile { path: files.data_dir().join(USERS_FILE), files: files.clone() }
    }

    /// Reads the users; creates a missing file with the initial user. Logs users' roles that are not in `known`.
    pub fn read_or_create(&self, known: &Roles) -> Result<Vec<UserRecord>, Fault> {
        if let Some(users) = self.read(known)? {
            return Ok(users);
        }
        let _change = self.files.change()?;
        // Another node may have created the initial user.
        if let Some(users) = self.read(known)? {
            return Ok(users);
        }
        let (name, password) = FIRST_USER;
        let password_hash = hash_with_new_salt(password)?;
        let users = vec![UserRecord { name: name.to_owned(), password_hash, roles: vec![ADMIN_ROLE.to_owned()] }];
        self.files.write(&self.path, &format_users(&users))?;
        log::info(format!("created user {name} with password {password}"));
        Ok(users)
    }

    /// Reads the users; `None` if the file does not exist.
    fn read(&self, known: &Roles) -> Result<Option<Vec<UserRecord>>, Fault> {
        let file = self.path.display();
        match std::fs::read_to_string(&self.path) {
            Ok(text) => {
                let (users, bad_lines) = parse_users(&text);
                bad_lines.iter().for_each(|line| log::warning(format!("{file}:{line}: not name:roles:hash, ignored")));
                users.iter().for_each(|user| log_unknown_roles(&file.to_string(), user, known));
                Ok(Some(users))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::io(format_args!("cannot read {file}"), error)),
        }
    }
}

/// Logs unknown roles of a user. Unknown roles grant nothing and would otherwise show only as permission errors.
fn log_unknown_roles(file: &str, user: &UserRecord, known: &Roles) {
    for role in user.roles.iter().filter(|role| known.get(role).is_none()) {
        let known = known.names();
        log::warning(format!(
            "{file}: user {} has the role {role}, which does not exist and is ignored; existing roles: {known}",
            user.name
        ));
    }
}

impl UserStore for UsersFile {
    fn begin_change(&self) -> Result<Option<ChangingFiles>, Fault> {
        self.files.are_shared().then(|| self.files.change()).transpose()
    }

    fn current(&self) -> Result<Option<Vec<UserRecord>>, Fault> {
        if !self.files.are_shared() {
            return Ok(None);
        }
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(parse_users(&text).0)),
            // A missing file is restored at the next start; until then the loaded users stay valid.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::io(format_args!("cannot read {}", self.path.display()), error)),
        }
    }

    fn save(&self, users: &[UserRecord]) -> Result<(), Fault> {
        self.files.write(&self.path, &format_users(users))
    }
}

/// Hash of a password with a new salt.
pub fn hash_with_new_salt(password: &str) -> Result<String, AuthError> {
    let mut salt = [0; 16];
    random::fill(&mut salt);
    hash_password(password, &salt)
}

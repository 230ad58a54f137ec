//! Who may log in: `etc/passwd` of the data folder, which only its owner can read.
//!
//! A server has the users in memory and writes the file when they change; without one `quarry user` does.

use std::path::{Path, PathBuf};

use quarry_auth::{ADMIN_ROLE, FIRST_USER, UserKeeper, UserRecord, hash_password, parse_users, print_users};
use quarry_stdx::{log, private_file, random};

use crate::failure::Failure;

/// File of users, below the data folder.
const USERS_FILE: &str = "etc/passwd";

/// The file of users.
pub(crate) struct UsersFile(PathBuf);

impl UsersFile {
    /// That of a data folder.
    pub(crate) fn of(data_dir: &Path) -> UsersFile {
        UsersFile(data_dir.join(USERS_FILE))
    }

    /// The users; a new folder gets the first one.
    pub(crate) fn read_or_begin(&self) -> Result<Vec<UserRecord>, Failure> {
        let (path, file) = (&self.0, self.0.display());
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let (users, bad_lines) = parse_users(&text);
                bad_lines.iter().for_each(|line| log::warning(format!("{file}:{line}: not name:roles:hash, left out")));
                Ok(users)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let (name, password) = FIRST_USER;
                let password_hash = hash(password)?;
                let users =
                    vec![UserRecord { name: name.to_owned(), password_hash, roles: vec![ADMIN_ROLE.to_owned()] }];
                private_file::write(path, &print_users(&users))?;
                log::info(format!("made user {name} with password {password}"));
                Ok(users)
            }
            Err(error) => Err(Failure::Storage(format!("cannot read {file}: {error}"))),
        }
    }
}

impl UserKeeper for UsersFile {
    fn keep(&self, users: &[UserRecord]) -> Result<(), String> {
        private_file::write(&self.0, &print_users(users)).map_err(|error| error.to_string())
    }
}

/// Hash of a password.
pub(crate) fn hash(password: &str) -> Result<String, Failure> {
    let mut salt = [0; 16];
    random::fill(&mut salt);
    hash_password(password, &salt).map_err(|error| Failure::Storage(error.to_string()))
}

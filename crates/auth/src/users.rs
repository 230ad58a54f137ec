//! User records, their validation, and their text form: `name:roles:hash`, one per line, roles separated by `;`.

use quarry_conf::Roles;
use quarry_stdx::{ChangingFiles, Fault};

use crate::AuthError;

/// Initial user and password of a new data directory, as in Splunk. Accepted only from the same machine.
pub const FIRST_USER: (&str, &str) = ("admin", "changeme");
/// Role that administers users.
pub const ADMIN_ROLE: &str = "admin";
/// Minimum length in characters of a password (Splunk's default `minPasswordLength`).
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Maximum bytes of a password; a longer one is refused.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Maximum length in characters of a user name; a longer one is refused.
const NAME_CHARS_MAX: usize = 100;
/// Maximum number of users of a node; a further user is refused.
const USERS_MAX: usize = 10_000;
/// Names that users cannot have, because in paths they mean any user or no user.
const RESERVED_NAMES: [&str; 2] = ["-", "nobody"];

/// A user who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    /// Login name.
    pub name: String,
    /// argon2id hash in PHC form.
    pub password_hash: String,
    /// Names of the roles, at least one.
    pub roles: Vec<String>,
}

/// Persists the records; the server writes a file.
pub trait UserStore: Send + Sync {
    /// Begins a change. Other nodes that share the records wait until the returned value is dropped. `None` if no node
    /// shares them.
    fn begin_change(&self) -> Result<Option<ChangingFiles>, Fault> {
        Ok(None)
    }

    /// The current records, including other nodes' changes; `None` if no node shares them.
    fn current(&self) -> Result<Option<Vec<UserRecord>>, Fault> {
        Ok(None)
    }

    /// Atomically replaces all records; the error is shown to the user.
    fn save(&self, users: &[UserRecord]) -> Result<(), Fault>;
}

/// A change to the users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserChange {
    /// A new user.
    Add {
        /// Login name.
        name: String,
        /// Password.
        password: String,
        /// Roles; at least one.
        roles: Vec<String>,
    },
    /// A new password, new roles, or both.
    Edit {
        /// Login name.
        name: String,
        /// New password.
        password: Option<String>,
        /// The current password, required of users who change their own password.
        old_password: Option<String>,
        /// New roles.
        roles: Option<Vec<String>>,
    },
    /// Removes a user.
    Remove {
        /// Login name.
        name: String,
    },
}

impl UserChange {
    /// The user concerned.
    pub fn name(&self) -> &str {
        match self {
            UserChange::Add { name, .. } | UserChange::Edit { name, .. } | UserChange::Remove { name } => name,
        }
    }

    /// The new password.
    pub(crate) fn password(&self) -> Option<&str> {
        match self {
            UserChange::Add { password, .. } => Some(password),
            UserChange::Edit { password, .. } => password.as_deref(),
            UserChange::Remove { .. } => None,
        }
    }

    /// Kind of change, in the words of audit events.
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            UserChange::Add { .. } => "create",
            UserChange::Edit { .. } => "edit",
            UserChange::Remove { .. } => "remove",
        }
    }
}

/// Position of the user of this name, ignoring case, as in Splunk. Names in older records may have capitals.
pub(crate) fn user_position(users: &[UserRecord], name: &str) -> Option<usize> {
    let exact = users.iter().position(|user| user.name == name);
    exact.or_else(|| {
        let name = name.to_lowercase();
        users.iter().position(|user| user.name.to_lowercase() == name)
    })
}

/// Names of roles, found ignoring case, in the spelling of authorize.conf; unknown names are returned unchanged.
pub(crate) fn known_names(roles: &[String], known: &Roles) -> Vec<String> {
    let name = |role: &String| known.get(role).map_or_else(|| role.clone(), |found| found.name.clone());
    roles.iter().map(name).collect()
}

/// The records after a change; `hash` is the hash of the new password. New names are in lower case.
pub fn apply_change(
    users: &[UserRecord],
    change: &UserChange,
    hash: Option<String>,
    known: &Roles,
) -> Result<Vec<UserRecord>, AuthError> {
    let mut users = users.to_vec();
    let at = user_position(&users, change.name());
    match (change, at) {
        (UserChange::Add { name, .. }, Some(_)) => return Err(AuthError::UserExists(name.clone())),
        (UserChange::Add { name, roles, .. }, None) => {
            // The name is checked in the case in which it is stored: `Nobody` is reserved, too.
            let name = name.to_lowercase();
            check_name(&name)?;
            let roles = known_names(roles, known);
            check_roles(&roles, known)?;
            if users.len() >= USERS_MAX {
                return Err(AuthError::Invalid(format!("there are {USERS_MAX} users already, the maximum")));
            }
            let password_hash = hash.ok_or_else(|| AuthError::Invalid("a new user needs a password".to_owned()))?;
            users.push(UserRecord { name, password_hash, roles });
        }
        (_, None) => return Err(AuthError::UnknownUser(change.name().to_owned())),
        (UserChange::Edit { roles, .. }, Some(at)) => {
            if let Some(roles) = roles {
                let roles = known_names(roles, known);
                check_roles(&roles, known)?;
                users[at].roles = roles;
            }
            if let Some(hash) = hash {
                users[at].password_hash = hash;
            }
        }
        (UserChange::Remove { .. }, Some(at)) => drop(users.remove(at)),
    }
    if !users.iter().any(|user| user.roles.iter().any(|role| role == ADMIN_ROLE)) {
        let text = format!("nobody would be left with the role {ADMIN_ROLE}: give it to another user first");
        return Err(AuthError::Invalid(text));
    }
    Ok(users)
}

/// Validates a new password.
pub fn check_new_password(password: &str) -> Result<(), AuthError> {
    let text = if password == FIRST_USER.1 {
        "this is the default password: choose another".to_owned()
    } else if password.chars().count() < PASSWORD_CHARS_MIN {
        format!("a password must have at least {PASSWORD_CHARS_MIN} characters")
    } else if password.len() > PASSWORD_BYTES_MAX {
        format!("a password must have at most {PASSWORD_BYTES_MAX} bytes")
    } else {
        return Ok(());
    };
    Err(AuthError::Invalid(text))
}

/// Validates a user's roles: at least one, and all exist.
pub fn check_roles(roles: &[String], known: &Roles) -> Result<(), AuthError> {
    if roles.is_empty() {
        return Err(AuthError::Invalid(format!("a user needs at least one role; existing: {}", known.names())));
    }
    match roles.iter().find(|role| known.get(role).is_none()) {
        Some(role) => Err(AuthError::Invalid(format!("there is no role {role:?}; existing: {}", known.names()))),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), AuthError> {
    let is_odd =
        |character: char| character.is_whitespace() || character.is_control() || ":;/,\"\\".contains(character);
    let count = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&count)
        && !name.contains(is_odd)
        && !name.starts_with(['#', '.'])
        && !RESERVED_NAMES.contains(&name)
    {
        return Ok(());
    }
    let text = format!(
        "{name:?} cannot be the name of a user: a name must have 1 to {NAME_CHARS_MAX} characters, must not contain \
         blanks, control characters or any of : ; / , \" \\, must not begin with # or ., and must not be `nobody` or `-`"
    );
    Err(AuthError::Invalid(text))
}

/// Parses a users file; malformed lines are skipped and returned by number.
pub fn parse_users(text: &str) -> (Vec<UserRecord>, Vec<usize>) {
    let mut users = Vec::new();
    let mut bad_lines = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        let mut parts = line.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(name), Some(roles), Some(hash)) if !name.is_empty() => users.push(UserRecord {
                name: name.to_owned(),
                password_hash: hash.trim().to_owned(),
                roles: roles.split(';').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
            }),
            _ => bad_lines.push(at + 1),
        }
    }
    (users, bad_lines)
}

/// The text of a users file.
pub fn format_users(users: &[UserRecord]) -> String {
    users.iter().map(|user| format!("{}:{}:{}\n", user.name, user.roles.join(";"), user.password_hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, role: &str) -> UserRecord {
        UserRecord { name: name.into(), password_hash: "h".into(), roles: vec![role.into()] }
    }

    fn changed(users: &[UserRecord], change: &UserChange, hash: Option<String>) -> Result<Vec<UserRecord>, AuthError> {
        apply_change(users, change, hash, &Roles::built_in())
    }

    #[test]
    fn printed_users_are_read_back() {
        let users = vec![
            UserRecord {
                name: "admin".into(),
                password_hash: "$argon2id$v=19$x".into(),
                roles: vec!["admin".into(), "power".into()],
            },
            UserRecord { name: "eve".into(), password_hash: "h".into(), roles: vec![] },
        ];
        assert_eq!(parse_users(&format_users(&users)), (users, vec![]));
        assert_eq!(parse_users("# note\n\nnothing\n").1, vec![3]);
    }

    #[test]
    fn users_change_but_one_administrator_remains() {
        let users = vec![user("admin", "admin")];
        let add = |name: &str| UserChange::Add { name: name.into(), password: "p".into(), roles: vec!["user".into()] };
        let two = changed(&users, &add("eva"), Some("x".into())).unwrap();
        assert_eq!((two.len(), two[1].password_hash.as_str()), (2, "x"));
        assert_eq!(changed(&two, &add("eva"), Some("x".into())), Err(AuthError::UserExists("eva".into())));
        assert_eq!(changed(&two, &add("EVA"), Some("x".into())), Err(AuthError::UserExists("EVA".into())));
        assert_eq!(changed(&two, &add("Tom"), Some("x".into())).unwrap()[2].name, "tom");
        for odd in ["", "a b", "a:b", "a;b", "a\nb", "#a", "nobody", "Nobody", "-", "a/b", &"x".repeat(101)] {
            assert!(matches!(changed(&users, &add(odd), Some("x".into())), Err(AuthError::Invalid(_))), "{odd:?}");
        }
        let remove = |name: &str| UserChange::Remove { name: name.into() };
        assert_eq!(changed(&two, &remove("eva"), None).unwrap(), users);
        assert_eq!(changed(&two, &remove("tom"), None), Err(AuthError::UnknownUser("tom".into())));
        assert!(matches!(changed(&two, &remove("admin"), None), Err(AuthError::Invalid(_))));
        let roles = |roles: &[&str]| UserChange::Edit {
            name: "admin".into(),
            password: None,
            old_password: None,
            roles: Some(roles.iter().map(|role| (*role).to_owned()).collect()),
        };
        assert!(matches!(changed(&two, &roles(&["user"]), None), Err(AuthError::Invalid(_))));
        assert!(matches!(changed(&two, &roles(&[]), None), Err(AuthError::Invalid(_))));
        let unknown = "there is no role \"nosuch\"; existing: user, power, admin, can_delete".to_owned();
        assert_eq!(changed(&two, &roles(&["admin", "nosuch"]), None), Err(AuthError::Invalid(unknown.clone())));
        let add = UserChange::Add { name: "bob".into(), password: "p".into(), roles: vec!["nosuch".into()] };
        assert_eq!(changed(&two, &add, Some("x".into())), Err(AuthError::Invalid(unknown)));
        // A user whose role no longer exists can still be changed and removed.
        let old = vec![user("admin", "admin"), user("eva", "gone")];
        assert!(changed(&old, &remove("eva"), None).is_ok());
        let password = UserChange::Edit { name: "eva".into(), password: None, old_password: None, roles: None };
        assert!(changed(&old, &password, Some("x".into())).is_ok());
        assert_eq!(changed(&two, &roles(&["admin", "Power"]), None).unwrap()[0].roles, ["admin", "power"]);
    }

    #[test]
    fn new_passwords_must_be_long_and_not_the_initial_one() {
        assert!(check_new_password("12345678").is_ok());
        for bad in ["1234567", FIRST_USER.1, "", &"x".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(check_new_password(bad).is_err(), "{bad}");
        }
    }
}

//! User records and their text form: `name:roles:hash`, one a line, roles joined by `;`.

/// A user who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    /// Login name.
    pub name: String,
    /// argon2id hash in PHC form.
    pub password_hash: String,
    /// Roles.
    pub roles: Vec<String>,
}

/// Reads a users file; a line of another form is left out and given back by its number.
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

/// Writes a users file.
pub fn print_users(users: &[UserRecord]) -> String {
    users.iter().map(|user| format!("{}:{}:{}\n", user.name, user.roles.join(";"), user.password_hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(parse_users(&print_users(&users)), (users, vec![]));
        assert_eq!(parse_users("# note\n\nnothing\n").1, vec![3]);
    }
}

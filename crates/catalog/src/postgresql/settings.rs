//! Settings of a catalog in PostgreSQL: its location and connection.
//!
//! Not here: reading these settings from server.conf (conf, ingest), and the name of the schema, which the store keeps.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use quarry_stdx::Fault;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::Tls;

/// PostgreSQL's default port.
const DEFAULT_PORT: u16 = 5432;
/// Timeout for connecting to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Approximate time after which a silent connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Maximum length of a schema's name in bytes: PostgreSQL's limit for names.
const SCHEMA_BYTES_MAX: usize = 63;

/// Connection settings of a catalog in PostgreSQL, from server.conf and the environment.
#[derive(Clone, Debug, Default)]
pub struct PostgreSqlSettings {
    /// `postgresql://user@host:port/database`; several hosts, parameters and Unix sockets as in libpq.
    pub url: String,
    /// Password, if the URL has none.
    pub password: Option<String>,
    /// Content of a password file in libpq's format (`.pgpass`), used if the URL contains no password and `password` is
    /// absent.
    pub passfile: Option<String>,
    /// Content of a PEM file with the CA certificates trusted for the server; `None` for the system's.
    pub authorities: Option<Vec<u8>>,
    /// Maximum time that a transaction waits for a lost connection; after that, it fails as unavailable.
    pub wait: Duration,
}

/// A schema in a database.
#[derive(Clone)]
pub struct PostgreSqlLocation {
    pub(super) config: Config,
    pub(super) tls: Tls,
    pub(super) schema: String,
    pub(super) wait: Duration,
    /// The URL without the password, for messages.
    pub(super) shown: String,
}

impl fmt::Debug for PostgreSqlLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl fmt::Display for PostgreSqlLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl PostgreSqlLocation {
    /// The location given by `settings` and a schema, whose name consists of lower-case letters, digits and
    /// underscores.
    pub fn new(settings: &PostgreSqlSettings, schema: &str) -> Result<PostgreSqlLocation, Fault> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if schema.is_empty() || schema.len() > SCHEMA_BYTES_MAX || !schema.bytes().all(is_name) {
            return Err(Fault::invalid(format!("{schema:?} is not a valid schema name: use a-z, 0-9 and _")));
        }
        let mut config: Config = settings.url.parse().map_err(|error: tokio_postgres::Error| {
            // The error's source names the invalid part and never quotes the password.
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), |cause| cause.to_string());
            Fault::invalid(format!("url is not postgresql://USER@HOST:PORT/DATABASE: {reason}"))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Fault::invalid("url has no host: postgresql://USER@HOST:PORT/DATABASE"));
        }
        let (Some(user), Some(database)) = (config.get_user().map(str::to_owned), database_of(&config)) else {
            return Err(Fault::invalid("url has no user: postgresql://USER@HOST:PORT/DATABASE"));
        };
        if config.get_password().is_none()
            && let Some(password) =
                settings.password.clone().or_else(|| password_from_file(settings, &config, &user, &database))
        {
            config.password(password);
        }
        if !settings.url.contains("sslmode=") {
            config.ssl_mode(if is_local(&config) { SslMode::Disable } else { SslMode::Require });
        }
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .keepalives_idle(SILENCE_MAX / 3)
            .keepalives_interval(SILENCE_MAX / 3)
            .keepalives_retries(2)
            .tcp_user_timeout(SILENCE_MAX)
            // Selects, of several hosts, the one that currently accepts writes.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let hosts: Vec<String> = hosts(&config).map(|(host, port)| format!("{host}:{port}")).collect();
        let shown = format!("postgresql://{user}@{}/{database}, schema {schema}", hosts.join(","));
        let tls = Tls::new(settings.authorities.as_deref())?;
        Ok(PostgreSqlLocation { config, tls, schema: schema.to_owned(), wait: settings.wait, shown })
    }

    /// Name of the schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

/// The database's name; if the URL has none, the user's name, as in libpq.
fn database_of(config: &Config) -> Option<String> {
    config.get_dbname().or(config.get_user()).map(str::to_owned)
}

/// Hosts and ports, as in the URL.
fn hosts(config: &Config) -> impl Iterator<Item = (String, u16)> {
    let ports = config.get_ports();
    let port = move |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
    let name = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let names = config.get_hosts().iter().map(name);
    names.enumerate().map(move |(at, name)| (name, port(at)))
}

/// Whether the connection stays on this machine.
fn is_local(config: &Config) -> bool {
    let is_loopback = |name: &str| name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let of_host = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => is_loopback(name),
    };
    config.get_hosts().iter().all(of_host) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// The password of the first matching line `host:port:database:user:password`; `*` matches everything, `\` escapes.
fn password_from_file(settings: &PostgreSqlSettings, config: &Config, user: &str, database: &str) -> Option<String> {
    let lines = settings.passfile.as_ref()?.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<Vec<String>> = lines.map(fields).collect();
    hosts(config).find_map(|(host, port)| {
        let wanted = [host, port.to_string(), database.to_owned(), user.to_owned()];
        let fits = |line: &&Vec<String>| {
            line.len() == 5 && wanted.iter().zip(*line).all(|(wanted, found)| found == "*" || found == wanted)
        };
        lines.iter().find(fits)?.last().cloned()
    })
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut characters) = (vec![String::new()], line.chars());
    while let Some(character) = characters.next() {
        match (character, fields.last_mut()) {
            (':', _) => fields.push(String::new()),
            ('\\', Some(last)) => last.extend(characters.next()),
            (other, Some(last)) => last.push(other),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, passfile: &str) -> Result<PostgreSqlLocation, Fault> {
        let passfile = Some(passfile.to_owned());
        let settings = PostgreSqlSettings { url: url.to_owned(), passfile, ..PostgreSqlSettings::default() };
        PostgreSqlLocation::new(&settings, "quarry_1")
    }

    #[test]
    fn passwords_are_found_and_never_displayed() {
        let file = "# comment\nother:*:*:*:wrong\ndb.example:5433:logs:me:se\\:cr\\\\et\n*:*:*:*:any\n";
        let password = |url: &str| {
            let place = place(url, file).unwrap();
            let shown = format!("{place} {place:?}");
            let password = String::from_utf8(place.config.get_password().unwrap().to_vec()).unwrap();
            assert!(!shown.contains(&password), "{shown}");
            password
        };
        assert_eq!(password("postgresql://me@db.example:5433/logs"), "se:cr\\et");
        assert_eq!(password("postgresql://me:inurl@db.example:5433/logs"), "inurl");
        assert_eq!(password("postgresql://me@db.example/logs"), "any");
        assert_eq!(password("postgresql://me@db1,other/logs"), "any");
    }

    #[test]
    fn remote_servers_require_tls_by_default() {
        for (url, mode) in [
            ("postgresql://me@127.0.0.1/logs", SslMode::Disable),
            ("postgresql://me@%2Frun%2Fpostgresql/logs", SslMode::Disable),
            ("postgresql://me@localhost,[::1]:5433/logs", SslMode::Disable),
            ("postgresql://me@localhost,db.example/logs", SslMode::Require),
            ("postgresql://me@db.example/logs?sslmode=disable", SslMode::Disable),
            ("postgresql://me@db.example/logs?sslmode=prefer", SslMode::Prefer),
        ] {
            assert_eq!(place(url, "").unwrap().config.get_ssl_mode(), mode, "{url}");
        }
    }

    #[test]
    fn invalid_urls_and_schemas_are_reported() {
        for (url, told) in [
            ("mysql://me@db.example/logs", "postgresql://USER@HOST"),
            ("postgresql://me@db.example:port/logs", "postgresql://USER@HOST"),
            ("postgresql://db.example/logs", "no user"),
            ("postgresql://me@/logs", "no host"),
        ] {
            let fault = place(url, "").unwrap_err().to_string();
            assert!(fault.contains(told), "{url}: {fault}");
        }
        for schema in ["", "a\"b", "A", "ä", &"x".repeat(64)] {
            let settings = PostgreSqlSettings { url: "postgresql://a@b/c".to_owned(), ..Default::default() };
            assert!(PostgreSqlLocation::new(&settings, schema).unwrap_err().to_string().contains("schema"));
        }
    }
}

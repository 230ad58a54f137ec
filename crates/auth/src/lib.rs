//! Authentication: users with passwords, sessions, tokens, and the ways a client proves its identity.
//!
//! A request carries `Authorization: Splunk KEY`, `Bearer KEY`, `Bearer TOKEN` or `Basic USER:PASSWORD`;
//! [`Auth::authenticate`] turns this header into an [`Identity`]. Anyone may send requests, so every resource is
//! bounded: running and waiting hashes (`hashing`), failed logins (`throttle`), sessions, and audit records
//! (`audit_buffer`). A login with an unknown user takes the same time and gets the same answer as a login with a wrong
//! password. Users are records persisted by a [`UserStore`]; [`UsersFile`] keeps them in `etc/passwd` of a data
//! directory. [`permissions`] computes the effective permissions of an identity from the current authorize.conf. Not
//! here: LDAP, SAML.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod audit_buffer;
mod credential_cache;
mod error;
mod hashing;
mod keyed_hash;
mod origin;
mod password;
mod roles;
mod session;
#[cfg(test)]
mod tests;
mod throttle;
mod tokens;
mod users;
mod users_file;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quarry_conf::permissions::{CHANGE_OWN_PASSWORD, EDIT_TOKENS_ALL, EDIT_TOKENS_OWN, EDIT_USER};
use quarry_conf::{Permissions, Roles};
use quarry_stdx::{ChangingFiles, Fault, SharedClock, hex};
use subtle::ConstantTimeEq;

pub use audit_buffer::{AuditEvent, AuditRecord};
pub use credential_cache::VERIFIED_S_MAX;
pub use error::AuthError;
pub use hashing::{HASH_WAITERS_MAX, HASHES_MAX};
pub use origin::Origin;
pub use password::hash_password;
pub use roles::{grantable_roles, permissions};
pub use session::{SESSION_IDLE_LIMIT_S, SESSIONS_MAX, SESSIONS_PER_USER_MAX, SessionInfo};
pub use throttle::{FREE_PER_ADDRESS, FREE_PER_USER, FREE_PER_USER_AND_ADDRESS, WAIT_S_MAX};
use tokens::Draft;
pub use tokens::{AUDIENCE_CHARS_MAX, TOKENS_MAX, TOKENS_PER_USER_MAX, TokenInfo, TokenRecord, Tokens, TokensFile};
pub use users::{
    ADMIN_ROLE, FIRST_USER, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, UserChange, UserRecord, UserStore, apply_change,
    check_new_password, check_roles, format_users, parse_users,
};
pub use users_file::{UsersFile, hash_with_new_salt};

use audit_buffer::AuditBuffer;
use credential_cache::OutcomeCache;
use hashing::HashingSlots;
use keyed_hash::{HashKey, KeyedHash};
use session::Sessions;
use throttle::Throttle;
use users::{known_names, user_position};

/// Splunk's name for a login in audit events.
const LOGIN: &str = "login attempt";

/// The authenticated user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Roles of the user.
    pub roles: Vec<String>,
    /// Whether the request comes from the command line of the server's own account, which can read the server's files
    /// anyway.
    pub is_console: bool,
}

/// Fills a buffer with unpredictable bytes; the server passes the operating system's source.
pub type RandomBytes = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// Checks logins and session keys.
pub struct Auth {
    state: Mutex<State>,
    hashing: HashingSlots,
    /// Serialises changes of users and tokens.
    changing: Mutex<()>,
    store: Box<dyn UserStore>,
    clock: SharedClock,
    random: RandomBytes,
    key: HashKey,
    /// Record used for unknown users, so that their logins take as long as those of known users.
    unknown: UserRecord,
    local_token: String,
    /// Current roles.
    roles: RwLock<Arc<Roles>>,
}

struct State {
    users: Vec<UserRecord>,
    sessions: Sessions,
    /// Recently accepted credentials.
    verified: OutcomeCache,
    /// Recently refused credentials.
    refused: OutcomeCache,
    throttle: Throttle,
    audit: AuditBuffer,
    /// Authentication tokens, if the node has any.
    tokens: Option<Tokens>,
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Login name of the user whose permissions the token grants.
    pub user: String,
    /// Audience: a text that states the purpose of the token.
    pub audience: String,
    /// Expiry, in seconds since 1970.
    pub expires_s: Option<i64>,
    /// Time in seconds since 1970 before which the token is refused.
    pub not_before_s: i64,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Auth").field("users", &self.lock().users.len()).finish_non_exhaustive()
    }
}

impl Auth {
    /// Current time in nanoseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Creates the authentication of `users`; `store` persists changes of the users. The holder of
    /// [`Auth::local_token`] is the local administrator.
    pub fn new(
        users: Vec<UserRecord>,
        store: Box<dyn UserStore>,
        clock: SharedClock,
        random: RandomBytes,
        roles: Arc<Roles>,
    ) -> Result<Auth, AuthError> {
        let (mut salt, mut output) = ([0; 16], [0; 32]);
        random(&mut salt);
        random(&mut output);
        let password_hash = password::unknown_user_hash(&salt, &output)?;
        let (sessions, verified, refused, throttle, audit) = Default::default();
        Ok(Auth {
            state: Mutex::new(State { users, sessions, verified, refused, throttle, audit, tokens: None }),
            hashing: HashingSlots::default(),
            changing: Mutex::default(),
            store,
            clock,
            key: HashKey::new(&random),
            unknown: UserRecord { name: "unknown".to_owned(), password_hash, roles: Vec::new() },
            local_token: random_key(&random),
            roles: RwLock::new(roles),
            random,
        })
    }

    /// Adds authentication tokens.
    pub fn with_tokens(self, tokens: Tokens) -> Auth {
        self.lock().tokens = Some(tokens);
        self
    }

    /// The authentication tokens, with time and address of their last use.
    pub fn tokens(&self) -> Vec<TokenInfo> {
        self.lock().tokens.as_ref().map(Tokens::list).unwrap_or_default()
    }

    /// Creates a token; returns its id and the token itself, which is not stored. `node` is the name of this node.
    pub fn issue_token(
        &self,
        by: &Identity,
        request: NewToken,
        node: &str,
        origin: &Origin,
    ) -> Result<(String, String), AuthError> {
        let request = NewToken { user: self.stored_name(&request.user), ..request };
        self.check_token_change(by, &request.user)?;
        let mut id = [0; 16];
        (self.random)(&mut id);
        let id = hex::encode(&id);
        let NewToken { user, audience, expires_s, not_before_s } = request;
        let (issuer, issued_s) = (format!("{} from {node}", by.user), self.clock.now_ns().div_euclid(1_000_000_000));
        let _alone = self.begin_change()?;
        let (mut draft, token, record) = {
            let state = self.lock();
            if !state.users.iter().any(|record| record.name == user) {
                return Err(AuthError::UnknownUser(user));
            }
            let tokens = state.tokens.as_ref().ok_or_else(no_tokens)?;
            let id = id.clone();
            let record =
                TokenRecord { id, user, audience, issuer, issued_s, expires_s, not_before_s, is_enabled: true };
            (tokens.draft(), tokens.sign(&record), record)
        };
        draft.add(record)?;
        self.persist_tokens(draft)?;
        self.record_token_change(&mut self.lock(), by, origin, "create", &id);
        Ok((id, token))
    }

    /// Begins a change of users or tokens, after loading the changes of other nodes.
    fn begin_change(&self) -> Result<(MutexGuard<'_, ()>, Option<ChangingFiles>), AuthError> {
        let alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let change = self.store.begin_change().map_err(AuthError::Failed)?;
        self.reload_records().map_err(AuthError::Failed)?;
        Ok((alone, change))
    }

    /// Loads users and tokens that other nodes have changed. Ends the sessions of users who were changed or removed.
    pub fn reload(&self) -> Result<(), Fault> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_records()
    }

    fn reload_records(&self) -> Result<(), Fault> {
        let Some(users) = self.store.current()? else { return Ok(()) };
        let mut state = self.lock();
        let State { users: before, sessions, verified, refused, tokens, .. } = &mut *state;
        for user in users.iter().chain(&*before) {
            let of = |users: &[UserRecord]| users.iter().find(|other| other.name == user.name).cloned();
            if of(&users) != of(before) {
                sessions.end_user_sessions(&user.name);
                verified.remove_user(&user.name);
                refused.remove_user(&user.name);
            }
        }
        *before = users;
        tokens.as_mut().map_or(Ok(()), Tokens::reload)
    }

    /// Persists a change of tokens and then applies it. Logins are not blocked during the write.
    fn persist_tokens(&self, draft: Draft) -> Result<(), AuthError> {
        draft.persist()?;
        if let Some(tokens) = self.lock().tokens.as_mut() {
            tokens.commit(draft);
        }
        Ok(())
    }

    /// Enables or disables a token.
    pub fn switch_token(&self, by: &Identity, id: &str, is_enabled: bool, origin: &Origin) -> Result<(), AuthError> {
        self.change_token(by, id, origin, if is_enabled { "enable" } else { "disable" }, |draft| {
            draft.set_enabled(id, is_enabled);
        })
    }

    /// Removes a token, which is refused from now on.
    pub fn remove_token(&self, by: &Identity, id: &str, origin: &Origin) -> Result<(), AuthError> {
        self.change_token(by, id, origin, "remove", |draft| {
            draft.remove(|record| record.id == id);
        })
    }

    fn change_token(
        &self,
        by: &Identity,
        id: &str,
        origin: &Origin,
        operation: &'static str,
        change: impl FnOnce(&mut Draft),
    ) -> Result<(), AuthError> {
        let _alone = self.begin_change()?;
        let (owner, mut draft) = {
            let state = self.lock();
            let tokens = state.tokens.as_ref().ok_or_else(no_tokens)?;
            let record = tokens.get(id).ok_or_else(|| AuthError::UnknownToken(id.to_owned()))?;
            (record.user.clone(), tokens.draft())
        };
        self.check_token_change(by, &owner)?;
        change(&mut draft);
        self.persist_tokens(draft)?;
        self.record_token_change(&mut self.lock(), by, origin, operation, id);
        Ok(())
    }

    /// Checks that `by` may administer the tokens of a user.
    fn check_token_change(&self, by: &Identity, user: &str) -> Result<(), AuthError> {
        let permissions = self.permissions(by);
        if permissions.has_capability(EDIT_TOKENS_ALL) || by.user == user && permissions.has_capability(EDIT_TOKENS_OWN)
        {
            return Ok(());
        }
        Err(AuthError::Forbidden(format!(
            "You (user={}) do not have permission to perform this operation (requires capability: {EDIT_TOKENS_ALL}).",
            by.user
        )))
    }

    fn record_token_change(
        &self,
        state: &mut State,
        by: &Identity,
        origin: &Origin,
        operation: &'static str,
        id: &str,
    ) {
        let (user, object) = (by.user.clone(), Some((operation, id.to_owned())));
        let event =
            AuditEvent { user, action: "edit_token", info: "granted", reason: None, object, client: origin.address };
        state.audit.record(event, self.clock.now_ns());
    }

    /// The identity of a token, with its user's current roles.
    fn check_token(&self, token: &str, origin: &Origin) -> Result<Identity, AuthError> {
        let now_ns = self.clock.now_ns();
        let is_off = self.roles().are_tokens_disabled();
        let mut state = self.lock();
        let State { tokens, users, audit, .. } = &mut *state;
        let found =
            tokens.as_mut().and_then(|tokens| tokens.check(token, now_ns.div_euclid(1_000_000_000), origin.address));
        let known = found.as_ref().and_then(|(record, _)| users.iter().find(|user| user.name == record.user));
        match (found.as_ref(), known) {
            (Some((_, true)), Some(user)) if !is_off => {
                Ok(Identity { user: user.name.clone(), roles: user.roles.clone(), is_console: false })
            }
            (record, _) => {
                let user = record.map(|(record, _)| record.user.clone()).unwrap_or_default();
                let (reason, client) = (Some("invalid or expired token"), origin.address);
                let event = AuditEvent { user, action: LOGIN, info: "failed", reason, object: None, client };
                audit.record(event, now_ns);
                Err(AuthError::Denied)
            }
        }
    }

    /// Current roles.
    pub fn roles(&self) -> Arc<Roles> {
        Arc::clone(&self.roles.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the roles, which apply to the next request of every session. The closure `read` runs under the lock, so
    /// that the later of two concurrent reads wins.
    pub fn set_roles(&self, read: impl FnOnce() -> Roles) {
        let mut roles = self.roles.write().unwrap_or_else(PoisonError::into_inner);
        *roles = Arc::new(read());
    }

    /// The stored spelling of a user's name, found ignoring case; `name` in lower case if no such user exists.
    pub fn stored_name(&self, name: &str) -> String {
        let state = self.lock();
        let stored = user_position(&state.users, name).and_then(|at| state.users.get(at));
        stored.map_or_else(|| name.to_lowercase(), |user| user.name.clone())
    }

    /// Whether there is a user of this name, ignoring case.
    pub fn has_user(&self, name: &str) -> bool {
        user_position(&self.lock().users, name).is_some()
    }

    /// Names of roles, found ignoring case, in the spelling of authorize.conf; unknown names are returned unchanged.
    pub fn stored_role_names(&self, names: &[String]) -> Vec<String> {
        known_names(names, &self.roles())
    }

    /// The change with user and role names in their stored spelling.
    fn with_stored_names(&self, change: &UserChange) -> UserChange {
        let roles = self.roles();
        match change.clone() {
            UserChange::Add { name, password, roles: given } => {
                UserChange::Add { name: name.to_lowercase(), password, roles: known_names(&given, &roles) }
            }
            UserChange::Edit { name, password, old_password, roles: given } => UserChange::Edit {
                name: self.stored_name(&name),
                password,
                old_password,
                roles: given.map(|given| known_names(&given, &roles)),
            },
            UserChange::Remove { name } => UserChange::Remove { name: self.stored_name(&name) },
        }
    }

    /// The effective permissions of an identity now.
    pub fn permissions(&self, identity: &Identity) -> Permissions {
        permissions(&self.roles(), identity)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that the command line of the same account reads from the run file; new at each start.
    pub fn local_token(&self) -> &str {
        &self.local_token
    }

    /// Checks a password and opens a session; returns its key. Blocks while the password is hashed.
    pub fn login(&self, user: &str, password: &str, origin: &Origin) -> Result<String, AuthError> {
        let key = random_key(&self.random);
        let (opened, address) = (self.key.hash(&[key.as_bytes()]), origin.address);
        self.check_password(user, password, origin, |state, identity, now_ns| {
            state.sessions.open(opened, identity.clone(), address, now_ns);
        })?;
        Ok(key)
    }

    /// Opens a session for a program that the node runs, with the role of administrators; returns the session's key.
    /// [`Auth::end_program_session`] ends the session. Programs run under the node's account, which may read
    /// [`Auth::local_token`], so the session permits nothing that programs could not do without it.
    pub fn open_program_session(&self) -> String {
        self.open_session_until_ended(program_identity())
    }

    /// Like [`Auth::open_program_session`] with the identity of a user; `None` if there is no such user.
    pub fn open_program_session_of(&self, user: &str) -> Option<String> {
        if user == PROGRAM_USER {
            return Some(self.open_program_session());
        }
        let name = self.stored_name(user);
        let (user, roles) = self.users().into_iter().find(|(known, _)| *known == name)?;
        Some(self.open_session_until_ended(Identity { user, roles, is_console: false }))
    }

    fn open_session_until_ended(&self, identity: Identity) -> String {
        let key = random_key(&self.random);
        let hash = self.key.hash(&[key.as_bytes()]);
        let now_ns = self.clock.now_ns();
        self.lock().sessions.open_until_ended(hash, identity, Origin::LOCAL.address, now_ns);
        key
    }

    /// Ends a session that was opened for a program.
    pub fn end_program_session(&self, key: &str) {
        let hash = self.key.hash(&[key.as_bytes()]);
        self.lock().sessions.end(&hash);
    }

    /// The identity of a request with this `Authorization` header. Blocks while a password is hashed if
    /// [`Auth::recognise`] returns `None`.
    pub fn authenticate(&self, header: Option<&str>, origin: &Origin) -> Result<Identity, AuthError> {
        match Credentials::of(header)? {
            Credentials::Key(key) => self.check_key(key, origin),
            Credentials::Password(user, password) => self.check_password(&user, &password, origin, |_, _, _| {}),
        }
    }

    /// Like [`Auth::authenticate`] without blocking; `None` if a hash is necessary.
    pub fn recognise(&self, header: Option<&str>, origin: &Origin) -> Result<Option<Identity>, AuthError> {
        match Credentials::of(header)? {
            Credentials::Key(key) => self.check_key(key, origin).map(Some),
            Credentials::Password(user, password) => {
                let user = self.stored_name(&user);
                self.check_without_hash(&Attempt::of(self, &user, &password, origin), |_, _, _| {})
            }
        }
    }

    /// Seconds without a request after which a session ends.
    pub fn session_timeout_s(&self) -> i64 {
        self.lock().sessions.idle_limit_s()
    }

    /// Changes the session timeout, for open sessions as well.
    pub fn set_session_timeout(&self, seconds: u64) {
        self.lock().sessions.set_idle_limit(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// Open sessions of `by`, or all sessions if `by` is an administrator.
    pub fn sessions(&self, by: &Identity) -> Vec<SessionInfo> {
        let may_see_all = self.permissions(by).has_capability(EDIT_USER);
        let mut shown = self.lock().sessions.list(self.clock.now_ns());
        shown.retain(|session| may_see_all || session.user == by.user);
        shown
    }

    /// Ends the session of a key or an id, if `by` is its user or an administrator; returns whether a session was
    /// ended.
    pub fn end_session(&self, key: &str, by: &Identity, origin: &Origin) -> bool {
        let hash = self.key.hash(&[key.as_bytes()]);
        let may_end_any = self.permissions(by).has_capability(EDIT_USER);
        let mut state = self.lock();
        let key = state.sessions.find_by_id(key).unwrap_or(hash);
        let owner = state.sessions.owner(&key).filter(|owner| owner.user == by.user || may_end_any);
        let Some(user) = owner.map(|owner| owner.user.clone()) else { return false };
        state.sessions.end(&key);
        let event = AuditEvent {
            user,
            action: "logout",
            info: "succeeded",
            reason: None,
            object: None,
            client: origin.address,
        };
        state.audit.record(event, self.clock.now_ns());
        true
    }

    /// Ends the session of the request itself, if it has one.
    pub fn end_own_session(&self, header: Option<&str>, by: &Identity, origin: &Origin) -> bool {
        matches!(Credentials::of(header), Ok(Credentials::Key(key)) if self.end_session(key, by, origin))
    }

    /// Names and roles of all users.
    pub fn users(&self) -> Vec<(String, Vec<String>)> {
        let mut users: Vec<_> = self.lock().users.iter().map(|user| (user.name.clone(), user.roles.clone())).collect();
        users.sort();
        users
    }

    /// Whether the initial user still has the initial password. Blocks while the password is hashed.
    pub fn has_first_password(&self) -> Result<bool, AuthError> {
        let first = self.lock().users.iter().find(|user| user.name == FIRST_USER.0).cloned();
        let Some(first) = first else { return Ok(false) };
        password::verify(&first, FIRST_USER.1, &mut self.hashing.acquire()?.memory)
    }

    /// Changes the users on behalf of `by`; ends the sessions of the user who is changed or removed. Blocks while
    /// passwords are hashed.
    pub fn change(&self, by: &Identity, change: &UserChange, origin: &Origin) -> Result<(), AuthError> {
        let change = &self.with_stored_names(change);
        let name = change.name();
        let is_own_password = by.user == name && matches!(change, UserChange::Edit { roles: None, .. });
        let permissions = self.permissions(by);
        let may =
            permissions.has_capability(EDIT_USER) || is_own_password && permissions.has_capability(CHANGE_OWN_PASSWORD);
        if !may {
            let takes = if is_own_password { CHANGE_OWN_PASSWORD } else { EDIT_USER };
            return Err(AuthError::Forbidden(format!(
                "You (user={}) do not have permission to perform this operation (requires capability: {takes}).",
                by.user
            )));
        }
        if name == PROGRAM_USER && matches!(change, UserChange::Add { .. }) {
            return Err(AuthError::Invalid(format!(
                "name={PROGRAM_USER}: this name is reserved for the programs of inputs"
            )));
        }
        if let Some(password) = change.password() {
            check_new_password(password)?;
        }
        if let UserChange::Edit { password: Some(_), old_password, .. } = change
            && by.user == name
            && !by.is_console
        {
            let wrong = || AuthError::Invalid("oldpassword is missing or wrong".to_owned());
            let old = old_password.as_deref().ok_or_else(wrong)?;
            match self.check_password(name, old, origin, |_, _, _| {}) {
                Ok(_) => {}
                Err(AuthError::Denied) => return Err(wrong()),
                Err(other) => return Err(other),
            }
        }
        let hash = match change.password() {
            None => None,
            Some(password) => {
                let mut salt = [0; 16];
                (self.random)(&mut salt);
                Some(password::hash_in(password, &salt, &mut self.hashing.acquire()?.memory)?)
            }
        };
        let _alone = self.begin_change()?;
        let before = self.lock().users.clone();
        self.check_grants(by, change, &before)?;
        let users = apply_change(&before, change, hash, &self.roles())?;
        if let UserChange::Remove { name } = change {
            // A later user of the same name must not inherit tokens. The tokens are removed before the user: if only
            // their removal succeeds, the user can still create new tokens.
            let draft = self.lock().tokens.as_ref().map(Tokens::draft);
            if let Some(mut draft) = draft
                && draft.remove(|record| record.user == *name)
            {
                self.persist_tokens(draft)?;
            }
        }
        // The change is persisted before it takes effect, so that a restart cannot undo an effective change.
        self.store.save(&users).map_err(AuthError::Failed)?;
        let mut state = self.lock();
        state.users = users;
        state.sessions.end_user_sessions(name);
        state.verified.remove_user(name);
        state.refused.remove_user(name);
        let (user, object) = (by.user.clone(), Some((change.operation(), name.to_owned())));
        let (action, info, reason, client) = ("edit_user", "granted", None, origin.address);
        state.audit.record(AuditEvent { user, action, info, reason, object, client }, self.clock.now_ns());
        Ok(())
    }

    /// Refuses to grant roles that `by` may not grant, and to change or remove other users who have such roles.
    fn check_grants(&self, by: &Identity, change: &UserChange, users: &[UserRecord]) -> Result<(), AuthError> {
        let Some(grantable) = grantable_roles(&self.roles(), by) else { return Ok(()) };
        let had = users.iter().find(|user| user.name == change.name() && user.name != by.user);
        let given: &[String] = match change {
            UserChange::Add { roles, .. } | UserChange::Edit { roles: Some(roles), .. } => roles,
            UserChange::Edit { roles: None, .. } | UserChange::Remove { .. } => &[],
        };
        let kept = had.into_iter().flat_map(|user| &user.roles);
        match given.iter().chain(kept).find(|role| !grantable.contains(*role)) {
            Some(role) => Err(AuthError::Forbidden(format!(
                "user {} may not grant or revoke the role {role}: grantableRoles of the user's roles lists only {}",
                by.user,
                grantable.into_iter().collect::<Vec<_>>().join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// Records a change by a caller: `operation` (in Splunk's words) and the changed `object`.
    pub fn record_change(&self, by: &Identity, origin: &Origin, operation: &'static str, object: String) {
        let (user, object) = (by.user.clone(), Some((operation, object)));
        let event =
            AuditEvent { user, action: "edit_object", info: "granted", reason: None, object, client: origin.address };
        self.lock().audit.record(event, self.clock.now_ns());
    }

    /// Takes the audit records since the last call.
    pub fn take_audit(&self) -> Vec<AuditRecord> {
        self.lock().audit.take()
    }

    fn check_key(&self, key: &str, origin: &Origin) -> Result<Identity, AuthError> {
        // Session keys are hexadecimal digits, so a dot means a token.
        if key.contains('.') {
            return self.check_token(key, origin);
        }
        if key.as_bytes().ct_eq(self.local_token.as_bytes()).into() {
            let (user, roles) = (FIRST_USER.0.to_owned(), vec![ADMIN_ROLE.to_owned()]);
            return Ok(Identity { user, roles, is_console: true });
        }
        let key = self.key.hash(&[key.as_bytes()]);
        self.lock().sessions.touch(&key, self.clock.now_ns()).ok_or(AuthError::Denied)
    }

    /// Checks a password; if it is right, calls `found` under the lock under which the user's record was compared, so
    /// that the record cannot change in between.
    fn check_password(
        &self,
        user: &str,
        password: &str,
        origin: &Origin,
        found: impl Fn(&mut State, &Identity, i64),
    ) -> Result<Identity, AuthError> {
        let user = self.stored_name(user);
        let user = user.as_str();
        let attempt = Attempt::of(self, user, password, origin);
        if let Some(identity) = self.check_without_hash(&attempt, &found)? {
            return Ok(identity);
        }
        let mut place = self.hashing.acquire().inspect_err(|_| {
            self.record_attempt(&attempt, "failed", Some("too many logins at once"));
        })?;
        // Another request may have checked the same credentials in the meantime.
        if let Some(identity) = self.check_without_hash(&attempt, &found)? {
            return Ok(identity);
        }
        let record = self.lock().users.iter().find(|record| record.name == user).cloned();
        let is_right = password::verify(record.as_ref().unwrap_or(&self.unknown), attempt.hashed, &mut place.memory)?;
        drop(place);
        let mut state = self.lock();
        let now_ns = self.clock.elapsed_ns();
        // The user's password may have changed during the hash.
        let is_same = state.users.iter().find(|other| other.name == user) == record.as_ref();
        if !is_right && is_same {
            state.refused.add(attempt.credentials_here, user, now_ns);
        }
        let record = record.filter(|_| is_right && attempt.may_be_right && is_same);
        let Some(record) = record else {
            state.throttle.record_failure(attempt.user_hash, origin, now_ns);
            drop(state);
            let is_first = is_right && !attempt.may_be_right;
            let reason = if is_first {
                "the first password, from another machine or through a proxy"
            } else {
                "wrong user name or password"
            };
            self.record_attempt(&attempt, "failed", Some(reason));
            return Err(AuthError::Denied);
        };
        let identity = Identity { user: record.name, roles: record.roles, is_console: false };
        state.throttle.record_success(attempt.user_hash, origin, now_ns);
        state.verified.add(attempt.credentials, user, now_ns);
        found(&mut state, &identity, self.clock.now_ns());
        drop(state);
        self.record_attempt(&attempt, "succeeded", None);
        Ok(identity)
    }

    /// The result of an attempt that needs no hash, because the attempt is throttled or its credentials were checked
    /// recently; `None` for any other attempt.
    fn check_without_hash(
        &self,
        attempt: &Attempt<'_>,
        found: impl Fn(&mut State, &Identity, i64),
    ) -> Result<Option<Identity>, AuthError> {
        let mut state = self.lock();
        let now_ns = self.clock.elapsed_ns();
        // Repeating the same wrong password gains an attacker nothing, so it is not counted again.
        if state.refused.cached_user(&attempt.credentials_here, now_ns) == Some(attempt.user) {
            drop(state);
            self.record_attempt(attempt, "failed", Some("wrong user name or password"));
            return Err(AuthError::Denied);
        }
        if let Some(retry_after_s) = state.throttle.wait_s(attempt.user_hash, attempt.origin, now_ns) {
            drop(state);
            self.record_attempt(attempt, "failed", Some("too many failed logins"));
            return Err(AuthError::Throttled { retry_after_s });
        }
        if !attempt.may_be_right || state.verified.cached_user(&attempt.credentials, now_ns) != Some(attempt.user) {
            return Ok(None);
        }
        let record = state.users.iter().find(|record| record.name == attempt.user);
        let Some(record) = record else { return Ok(None) };
        let identity = Identity { user: record.name.clone(), roles: record.roles.clone(), is_console: false };
        // From now on the user is trusted at this address, even if the hash was computed for another address.
        state.throttle.record_success(attempt.user_hash, attempt.origin, now_ns);
        found(&mut state, &identity, self.clock.now_ns());
        Ok(Some(identity))
    }

    fn record_attempt(&self, attempt: &Attempt<'_>, info: &'static str, reason: Option<&'static str>) {
        let (user, client) = (attempt.user.to_owned(), attempt.origin.address);
        let event = AuditEvent { user, action: LOGIN, info, reason, object: None, client };
        self.lock().audit.record(event, self.clock.now_ns());
    }
}

/// A login attempt.
struct Attempt<'a> {
    user: &'a str,
    /// The text to hash: the password, or an empty text if the password is too long.
    hashed: &'a str,
    origin: &'a Origin,
    user_hash: KeyedHash,
    credentials: KeyedHash,
    /// Keyed hash of the credentials and the address, so that a failure from one address does not affect other
    /// addresses.
    credentials_here: KeyedHash,
    /// Whether a correct password is accepted: not if the password is too long, and not if it is the initial password
    /// and was sent from another machine or through a proxy.
    may_be_right: bool,
}

impl<'a> Attempt<'a> {
    fn of(auth: &Auth, user: &'a str, password: &'a str, origin: &'a Origin) -> Attempt<'a> {
        let is_long = password.len() > PASSWORD_BYTES_MAX;
        let is_first = (user, password) == FIRST_USER;
        Attempt {
            user,
            hashed: if is_long { "" } else { password },
            origin,
            user_hash: auth.key.hash(&[user.as_bytes()]),
            credentials: auth.key.hash(&[user.as_bytes(), password.as_bytes()]),
            credentials_here: auth.key.hash(&[
                user.as_bytes(),
                password.as_bytes(),
                &origin.network_key().to_le_bytes(),
            ]),
            may_be_right: !is_long && (origin.is_local || !is_first),
        }
    }
}

/// The content of an `Authorization` header.
enum Credentials<'a> {
    Key(&'a str),
    Password(String, String),
}

impl<'a> Credentials<'a> {
    fn of(header: Option<&'a str>) -> Result<Credentials<'a>, AuthError> {
        let (scheme, value) = header.and_then(|header| header.trim().split_once(' ')).ok_or(AuthError::Missing)?;
        let value = value.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "splunk" | "bearer" => Ok(Credentials::Key(value)),
            "basic" => {
                let decoded = STANDARD.decode(value).map_err(|_| AuthError::Denied)?;
                let text = String::from_utf8(decoded).map_err(|_| AuthError::Denied)?;
                let (user, password) = text.split_once(':').ok_or(AuthError::Denied)?;
                Ok(Credentials::Password(user.to_owned(), password.to_owned()))
            }
            _ => Err(AuthError::Missing),
        }
    }
}

fn no_tokens() -> AuthError {
    AuthError::Invalid("this node has no store for tokens".to_owned())
}

/// User of the sessions of programs. This user has no password.
const PROGRAM_USER: &str = "splunk-system-user";

/// The identity of the programs that the node runs.
fn program_identity() -> Identity {
    Identity { user: PROGRAM_USER.to_owned(), roles: vec![ADMIN_ROLE.to_owned()], is_console: false }
}

/// A key of 256 random bits in hexadecimal.
fn random_key(random: &RandomBytes) -> String {
    let mut bytes = [0u8; 32];
    random(&mut bytes);
    hex::encode(&bytes)
}

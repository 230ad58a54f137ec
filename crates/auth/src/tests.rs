//! Logins, sessions, tokens and throttling together, with a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use quarry_stdx::{Fault, ManualClock, random};

use super::*;

const SECOND_NS: i64 = 1_000_000_000;
const AFAR: Origin = Origin { address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), is_local: false };

#[derive(Clone, Default)]
struct RecordedUsers(Arc<Mutex<Vec<UserRecord>>>);

impl UserStore for RecordedUsers {
    fn save(&self, users: &[UserRecord]) -> Result<(), quarry_stdx::Fault> {
        if users.iter().any(|user| user.name == "full") {
            return Err(quarry_stdx::Fault::unavailable("no space"));
        }
        *self.0.lock().unwrap() = users.to_vec();
        Ok(())
    }
}

fn user(name: &str, password: &str, role: &str) -> UserRecord {
    UserRecord {
        name: name.into(),
        password_hash: hash_password(password, &[7; 16]).unwrap(),
        roles: vec![role.into()],
    }
}

fn auth_with(clock: SharedClock, users: Vec<UserRecord>, kept: &RecordedUsers) -> Auth {
    let counter = AtomicU8::new(0);
    let random: RandomBytes = Box::new(move |bytes| bytes.fill(counter.fetch_add(1, Ordering::SeqCst)));
    Auth::new(users, Box::new(kept.clone()), clock, random, Arc::new(Roles::built_in())).unwrap()
}

fn auth(clock: SharedClock) -> Auth {
    auth_with(
        clock,
        vec![user("admin", "the secret", "admin"), user("eva", "evas secret", "user")],
        &RecordedUsers::default(),
    )
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[test]
fn session_keys_work_until_idle_for_an_hour() {
    let clock = ManualClock::shared(0);
    let auth = auth(clock.clone());
    assert_eq!(auth.login("admin", "wrong", &AFAR), Err(AuthError::Denied));
    assert_eq!(auth.login("nobody", "the secret", &AFAR), Err(AuthError::Denied));
    let key = auth.login("admin", "the secret", &AFAR).unwrap();
    let header = format!("Splunk {key}");
    clock.advance_ns((SESSION_IDLE_LIMIT_S - 1) * SECOND_NS);
    assert_eq!(auth.authenticate(Some(&header), &AFAR).unwrap().user, "admin");
    clock.advance_ns((SESSION_IDLE_LIMIT_S - 1) * SECOND_NS);
    assert!(auth.authenticate(Some(&header), &AFAR).is_ok(), "use keeps a session alive");
    clock.advance_ns((SESSION_IDLE_LIMIT_S + 1) * SECOND_NS);
    assert_eq!(auth.authenticate(Some(&header), &AFAR), Err(AuthError::Denied));
}

#[test]
fn the_case_of_a_user_name_does_not_matter() {
    let auth = auth(ManualClock::shared(0));
    let eva = auth.authenticate(Some(&basic("EVA", "evas secret")), &AFAR).unwrap();
    assert_eq!(
        (eva.user.as_str(), auth.stored_name("Eva"), auth.stored_name("Tom")),
        ("eva", "eva".into(), "tom".into())
    );
    let admin = auth.authenticate(Some(&basic("admin", "the secret")), &AFAR).unwrap();
    let roles = Some(vec!["Power".to_owned()]);
    let edit = UserChange::Edit { name: "EVA".into(), password: None, old_password: None, roles };
    auth.change(&admin, &edit, &AFAR).unwrap();
    assert!(auth.users().contains(&("eva".to_owned(), vec!["power".to_owned()])));
    // Failed logins count for the user in whatever case the name is written.
    for spelling in ["eva", "EVA", "Eva", "eVa", "evA", "EVa", "EvA", "eVA"].repeat(2) {
        drop(auth.login(spelling, &format!("wrong {spelling}"), &AFAR));
        drop(auth.login(spelling, "wrong again", &AFAR));
    }
    assert!(matches!(auth.login("eva", "another", &AFAR), Err(AuthError::Throttled { .. })));
}

#[test]
fn a_changed_timeout_applies_to_open_sessions() {
    let clock = ManualClock::shared(0);
    let auth = auth(clock.clone());
    assert_eq!(auth.session_timeout_s(), SESSION_IDLE_LIMIT_S);
    let header = format!("Splunk {}", auth.login("admin", "the secret", &AFAR).unwrap());
    auth.set_session_timeout(2 * SESSION_IDLE_LIMIT_S.unsigned_abs());
    clock.advance_ns((SESSION_IDLE_LIMIT_S + 1) * SECOND_NS);
    assert!(auth.authenticate(Some(&header), &AFAR).is_ok());
    auth.set_session_timeout(60);
    clock.advance_ns(61 * SECOND_NS);
    assert_eq!(auth.authenticate(Some(&header), &AFAR), Err(AuthError::Denied));
}

#[test]
fn every_scheme_is_read_and_others_are_refused() {
    let auth = auth(ManualClock::shared(0));
    assert!(auth.authenticate(Some(&basic("admin", "the secret")), &AFAR).is_ok());
    let console = auth.authenticate(Some(&format!("Bearer {}", auth.local_token())), &AFAR).unwrap();
    assert!(console.is_console && auth.permissions(&console).has_capability(EDIT_USER));
    assert_eq!(auth.authenticate(None, &AFAR), Err(AuthError::Missing));
    assert_eq!(auth.authenticate(Some("Digest x"), &AFAR), Err(AuthError::Missing));
    assert_eq!(auth.authenticate(Some("Splunk 00"), &AFAR), Err(AuthError::Denied));
}

#[test]
fn credentials_are_hashed_once_and_again_after_a_while() {
    let clock = ManualClock::shared(0);
    let auth = auth(clock.clone());
    let good = basic("eva", "evas secret");
    assert_eq!(auth.recognise(Some(&good), &AFAR), Ok(None), "a hash is computed");
    auth.authenticate(Some(&good), &AFAR).unwrap();
    assert_eq!(auth.recognise(Some(&good), &AFAR).unwrap().unwrap().user, "eva");
    assert_eq!(auth.recognise(Some(&basic("eva", "another")), &AFAR), Ok(None));
    clock.advance_ns((VERIFIED_S_MAX + 1) * SECOND_NS);
    assert_eq!(auth.recognise(Some(&good), &AFAR), Ok(None));
}

#[test]
fn failed_logins_are_throttled_before_hashing_for_any_user_name() {
    let clock = ManualClock::shared(0);
    for name in ["eva", "nobody-there"] {
        let auth = auth(clock.clone());
        for guess in 0..FREE_PER_USER_AND_ADDRESS {
            assert_eq!(auth.login(name, &format!("wrong {guess}"), &AFAR), Err(AuthError::Denied));
        }
        let held: Vec<_> = (0..HASHES_MAX).map(|_| auth.hashing.acquire().unwrap()).collect();
        assert_eq!(
            auth.login(name, "wrong once more", &AFAR),
            Err(AuthError::Throttled { retry_after_s: 1 }),
            "no hashing slot is requested"
        );
        drop(held);
        let events = auth.take_audit();
        let reported: Vec<_> = events.iter().map(|record| (record.event.reason.unwrap(), record.count)).collect();
        let wrong = u64::from(FREE_PER_USER_AND_ADDRESS);
        assert_eq!(reported, [("too many failed logins", 1), ("wrong user name or password", wrong)]);
        clock.advance_ns(SECOND_NS);
        assert_eq!(auth.login(name, "wrong once more", &AFAR), Err(AuthError::Denied));
    }
    let auth = auth(clock.clone());
    for guess in 0..FREE_PER_USER_AND_ADDRESS {
        assert_eq!(auth.login("eva", &format!("wrong {guess}"), &AFAR), Err(AuthError::Denied));
    }
    assert!(matches!(auth.login("eva", "evas secret", &AFAR), Err(AuthError::Throttled { .. })));
    clock.advance_ns(SECOND_NS);
    assert!(auth.login("eva", "evas secret", &AFAR).is_ok());
}

#[test]
fn repeated_wrong_passwords_count_once_and_need_no_hash() {
    let clock = ManualClock::shared(0);
    let auth = auth(clock.clone());
    assert_eq!(auth.login("eva", "an old one", &AFAR), Err(AuthError::Denied));
    let held: Vec<_> = (0..HASHES_MAX).map(|_| auth.hashing.acquire().unwrap()).collect();
    for _ in 0..10 * FREE_PER_USER_AND_ADDRESS {
        assert_eq!(auth.login("eva", "an old one", &AFAR), Err(AuthError::Denied), "no hashing slot is requested");
    }
    drop(held);
    assert!(auth.login("eva", "evas secret", &AFAR).is_ok(), "no user is locked out");
    let admin = Identity { user: "admin".to_owned(), roles: vec![ADMIN_ROLE.to_owned()], is_console: true };
    let password = Some("an old one".to_owned());
    let change = UserChange::Edit { name: "eva".to_owned(), password, old_password: None, roles: None };
    auth.change(&admin, &change, &AFAR).unwrap();
    assert!(auth.login("eva", "an old one", &AFAR).is_ok(), "the new password is valid at once");
}

#[test]
fn cached_passwords_also_make_addresses_trusted() {
    let auth = auth(ManualClock::shared(0));
    let origin = |number: u32| Origin { address: format!("198.51.{number}.7").parse().unwrap(), is_local: false };
    assert!(auth.login("eva", "evas secret", &AFAR).is_ok());
    assert!(auth.login("eva", "evas secret", &origin(0)).is_ok(), "without a hash");
    for guess in 1..FREE_PER_USER + 10 {
        assert!(auth.login("eva", &format!("wrong {guess}"), &origin(guess)).is_err());
    }
    assert!(matches!(auth.login("eva", "evas secret", &origin(200)), Err(AuthError::Throttled { .. })));
    for here in [AFAR, origin(0)] {
        assert!(auth.login("eva", "evas secret", &here).is_ok(), "guesses from other addresses lock no user out");
    }
}

#[test]
fn the_initial_password_works_only_locally() {
    let auth =
        auth_with(ManualClock::shared(0), vec![user(FIRST_USER.0, FIRST_USER.1, "admin")], &RecordedUsers::default());
    assert!(auth.has_first_password().unwrap());
    let header = basic(FIRST_USER.0, FIRST_USER.1);
    for _ in 0..2 {
        assert_eq!(auth.login(FIRST_USER.0, FIRST_USER.1, &AFAR), Err(AuthError::Denied));
        assert_eq!(auth.authenticate(Some(&header), &AFAR), Err(AuthError::Denied));
        assert!(
            auth.authenticate(Some(&header), &Origin::LOCAL).is_ok(),
            "and its cached credentials do not help other addresses"
        );
    }
    let reported = auth.take_audit();
    assert!(
        reported
            .iter()
            .any(|record| record.event.reason == Some("the first password, from another machine or through a proxy")),
        "{reported:?}"
    );
    let console = auth.authenticate(Some(&format!("Splunk {}", auth.local_token())), &Origin::LOCAL).unwrap();
    let change = UserChange::Edit {
        name: FIRST_USER.0.into(),
        password: Some("better than that".into()),
        old_password: None,
        roles: None,
    };
    auth.change(&console, &change, &Origin::LOCAL).unwrap();
    assert!(!auth.has_first_password().unwrap());
    assert!(auth.login(FIRST_USER.0, "better than that", &AFAR).is_ok());
}

#[test]
fn password_changes_end_sessions_and_clear_the_cache() {
    let kept = RecordedUsers::default();
    let users = vec![user("admin", "the secret", "admin"), user("eva", "evas secret", "user")];
    let auth = auth_with(ManualClock::shared(0), users, &kept);
    let session = format!("Splunk {}", auth.login("eva", "evas secret", &AFAR).unwrap());
    let eva = auth.authenticate(Some(&session), &AFAR).unwrap();
    let change = |name: &str, old: Option<&str>, new: &str| UserChange::Edit {
        name: name.into(),
        password: Some(new.into()),
        old_password: old.map(str::to_owned),
        roles: None,
    };
    assert!(matches!(auth.change(&eva, &change("eva", None, "evas second"), &AFAR), Err(AuthError::Invalid(_))));
    assert!(matches!(auth.change(&eva, &change("eva", Some("x"), "evas second"), &AFAR), Err(AuthError::Invalid(_))));
    assert!(matches!(auth.change(&eva, &change("admin", None, "evas second"), &AFAR), Err(AuthError::Forbidden(_))));
    let promoted =
        UserChange::Edit { name: "eva".into(), password: None, old_password: None, roles: Some(vec!["admin".into()]) };
    assert!(matches!(auth.change(&eva, &promoted, &AFAR), Err(AuthError::Forbidden(_))));
    assert!(auth.authenticate(Some(&session), &AFAR).is_ok());
    auth.change(&eva, &change("eva", Some("evas secret"), "evas second"), &AFAR).unwrap();
    assert_eq!(auth.authenticate(Some(&session), &AFAR), Err(AuthError::Denied));
    assert_eq!(auth.authenticate(Some(&basic("eva", "evas secret")), &AFAR), Err(AuthError::Denied));
    assert!(auth.authenticate(Some(&basic("eva", "evas second")), &AFAR).is_ok());
    assert!(kept.0.lock().unwrap()[1].password_hash.starts_with("$argon2id$"));
    let admin = auth.authenticate(Some(&basic("admin", "the secret")), &AFAR).unwrap();
    let add =
        |name: &str| UserChange::Add { name: name.into(), password: "12345678".into(), roles: vec!["user".into()] };
    assert_eq!(auth.change(&admin, &add("full"), &AFAR), Err(AuthError::Failed(Fault::unavailable("no space"))));
    assert_eq!(
        auth.login("full", "12345678", &AFAR),
        Err(AuthError::Denied),
        "a change that was not persisted is not in force"
    );
    auth.change(&admin, &UserChange::Remove { name: "eva".into() }, &AFAR).unwrap();
    assert_eq!(auth.authenticate(Some(&basic("eva", "evas second")), &AFAR), Err(AuthError::Denied));
    let mut edits: Vec<_> = auth.take_audit().into_iter().filter_map(|record| record.event.object).collect();
    edits.sort();
    assert_eq!(edits, [("edit", "eva".to_owned()), ("remove", "eva".to_owned())]);
}

#[test]
fn a_session_is_ended_by_its_user_or_an_administrator() {
    let auth = auth(ManualClock::shared(0));
    let (one, two) =
        (auth.login("eva", "evas secret", &AFAR).unwrap(), auth.login("eva", "evas secret", &AFAR).unwrap());
    let other = auth.login("admin", "the secret", &AFAR).unwrap();
    let [eva, admin] = ["evas secret", "the secret"].map(|password| {
        let user = if password == "the secret" { "admin" } else { "eva" };
        auth.authenticate(Some(&basic(user, password)), &AFAR).unwrap()
    });
    assert!(!auth.end_session(&other, &eva, &AFAR), "another's");
    assert!(!auth.end_session("nothing", &admin, &AFAR));
    assert!(auth.end_own_session(Some(&format!("Splunk {one}")), &eva, &AFAR));
    assert!(!auth.end_own_session(Some(&basic("eva", "evas secret")), &eva, &AFAR), "no session");
    assert!(auth.end_session(&two, &admin, &AFAR));
    for key in [one, two] {
        assert_eq!(auth.authenticate(Some(&format!("Splunk {key}")), &AFAR), Err(AuthError::Denied));
    }
    assert!(auth.authenticate(Some(&format!("Splunk {other}")), &AFAR).is_ok());
}

/// User records that two nodes share and change.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<UserRecord>>>);

impl UserStore for Shared {
    fn current(&self) -> Result<Option<Vec<UserRecord>>, Fault> {
        Ok(Some(self.0.lock().unwrap().clone()))
    }

    fn save(&self, users: &[UserRecord]) -> Result<(), Fault> {
        *self.0.lock().unwrap() = users.to_vec();
        Ok(())
    }
}

#[test]
fn changes_of_other_nodes_apply_and_are_not_overwritten() {
    let shared = Shared::default();
    let users = vec![user("admin", "the secret", "admin"), user("eva", "evas secret", "user")];
    *shared.0.lock().unwrap() = users.clone();
    let random: RandomBytes = Box::new(random::fill);
    let roles = Arc::new(Roles::built_in());
    let auth = Auth::new(users, Box::new(shared.clone()), ManualClock::shared(0), random, roles).unwrap();
    let [admin, eva] = [("admin", "the secret"), ("eva", "evas secret")]
        .map(|(user, password)| format!("Splunk {}", auth.login(user, password, &AFAR).unwrap()));
    let is_in = |key: &str| auth.authenticate(Some(key), &AFAR).is_ok();
    auth.reload().unwrap();
    assert!(is_in(&admin) && is_in(&eva), "nothing has changed");
    // The other node changes one user and adds another.
    {
        let mut records = shared.0.lock().unwrap();
        records[1] = user("eva", "her new secret", "user");
        records.push(user("tom", "toms secret", "user"));
    }
    let by = auth.authenticate(Some(&admin), &AFAR).unwrap();
    let add = UserChange::Add { name: "ann".into(), password: "anns secret".into(), roles: vec!["user".into()] };
    auth.change(&by, &add, &AFAR).unwrap();
    let names: Vec<String> = shared.0.lock().unwrap().iter().map(|record| record.name.clone()).collect();
    assert_eq!(names, ["admin", "eva", "tom", "ann"]);
    assert!(is_in(&admin) && !is_in(&eva), "the session of a changed user has ended");
    assert_eq!(auth.login("eva", "evas secret", &AFAR), Err(AuthError::Denied));
    assert!(auth.login("eva", "her new secret", &AFAR).is_ok() && auth.login("tom", "toms secret", &AFAR).is_ok());
}

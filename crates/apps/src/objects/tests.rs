use std::collections::BTreeSet;
use std::fs;

use super::*;

fn of(user: &str, roles: &[&str]) -> Permissions {
    let capabilities =
        if roles.contains(&"admin") { BTreeSet::from(["admin_all_objects".to_owned()]) } else { BTreeSet::new() };
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Permissions::for_user(user, capabilities, Vec::new(), Vec::new()).with_roles(roles)
}

fn settings(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

struct World {
    folder: tempfile::TempDir,
    objects: Objects,
}

impl World {
    fn new(files: &[(&str, &str)]) -> World {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("etc").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        World { objects: Objects::new(folder.path()), folder }
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join("etc").join(path)).unwrap_or_default()
    }

    /// Names, locations and one setting of the objects that a scope shows.
    fn shown(&self, scope: &Scope, viewer: &Permissions) -> Vec<String> {
        let objects = self.objects.list("macros", scope, viewer).unwrap();
        let reported = |object: &ConfObject| {
            let (sharing, app) = (object.sharing.word(), object.location.app());
            format!("{} {app} {sharing} {} {}", object.name, object.owner, object.get("definition").unwrap_or_default())
        };
        objects.iter().map(reported).collect()
    }
}

fn ns(user: &str, app: &str) -> Scope {
    Scope::for_namespace(user, app).unwrap()
}

fn world() -> World {
    World::new(&[
        ("apps/a/default/macros.conf", "[default]\niseval = 0\n[m]\ndefinition = a\n[own]\ndefinition = a\n"),
        ("apps/a/local/macros.conf", "[m]\ndefinition = a local\n"),
        ("apps/b/default/macros.conf", "[m]\ndefinition = b\n[shared]\ndefinition = b\n[closed]\ndefinition = b\n"),
        (
            "apps/b/metadata/default.meta",
            "[macros/shared]\nexport = system\nowner = eva\n[macros/closed]\nexport = system\naccess = read : [ power ], write : [ admin ]\n",
        ),
        ("users/eva/a/local/macros.conf", "[m]\ndefinition = eva\n"),
    ])
}

#[test]
fn namespaces_show_the_object_of_highest_precedence() {
    let world = world();
    let (eva, tom, admin) = (of("eva", &["user"]), of("tom", &["power"]), of("boss", &["admin"]));
    assert_eq!(world.shown(&ns("eva", "a"), &eva), ["m a user eva eva", "own a app nobody a", "shared b global eva b"]);
    assert_eq!(
        world.shown(&ns("tom", "a"), &tom),
        ["closed b global nobody b", "m a app nobody a local", "own a app nobody a", "shared b global eva b"]
    );
    assert_eq!(
        world.shown(&ns("eva", "a"), &tom),
        world.shown(&ns("tom", "a"), &tom),
        "tom does not see eva's private objects"
    );
    assert_eq!(world.shown(&ns("nobody", "b"), &eva), ["m b app nobody b", "shared b global eva b"]);
    assert_eq!(
        world.shown(&ns("-", "-"), &admin),
        [
            "closed b global nobody b",
            "m a user eva eva",
            "m b app nobody b",
            "m a app nobody a local",
            "own a app nobody a",
            "shared b global eva b"
        ]
    );
    let found = world.objects.get("macros", "m", &ns("eva", "a"), &eva).unwrap();
    assert_eq!(
        (found.get("iseval"), found.can_write, found.is_local),
        (Some("0"), true, true),
        "m inherits iseval from [default]"
    );
    assert!(!world.objects.get("macros", "own", &ns("eva", "a"), &eva).unwrap().can_write);
}

#[test]
fn new_objects_are_private_until_shared() {
    let world = world();
    let (eva, tom) = (of("eva", &["power"]), of("tom", &["user"]));
    let scope = Scope::for_caller("eva");
    let made = world.objects.create("macros", "new", &settings(&[("definition", "1\n2")]), &scope, &eva).unwrap();
    assert_eq!((made.sharing, made.owner.as_str(), made.get("definition")), (ObjectSharing::User, "eva", Some("1\n2")));
    assert_eq!(world.text("users/eva/search/local/macros.conf"), "[new]\ndefinition = 1\\\n2\n");
    assert_eq!(
        world.objects.create("macros", "new", &[], &scope, &eva),
        Err(ObjectError::Exists("new".to_owned())),
        "there is one"
    );
    let of_tom = Scope::for_caller("tom");
    assert_eq!(world.objects.get("macros", "new", &of_tom, &tom), Err(ObjectError::Unknown("new".to_owned())));
    let change = AclChange { sharing: Some(ObjectSharing::Global), ..AclChange::default() };
    fs::create_dir_all(world.folder.path().join("etc/apps/search")).unwrap();
    let shared = world.objects.set_acl("macros", "new", &change, &scope, &eva).unwrap();
    assert_eq!(
        (shared.location, shared.owner.as_str(), shared.sharing),
        (ObjectLocation::App("search".to_owned()), "eva", ObjectSharing::Global)
    );
    assert_eq!((shared.readers, shared.writers), (vec!["*".to_owned()], vec!["admin".to_owned(), "power".to_owned()]));
    assert_eq!(world.text("users/eva/search/local/macros.conf"), "");
    let seen = world.objects.get("macros", "new", &of_tom, &tom).unwrap();
    assert!(!seen.can_write && seen.get("definition") == Some("1\n2"));
    assert!(matches!(
        world.objects.edit("macros", "new", &settings(&[("definition", "3")]), &of_tom, &tom),
        Err(ObjectError::Denied(_))
    ));
    assert!(matches!(world.objects.remove("macros", "new", &of_tom, &tom), Err(ObjectError::Denied(_))));
    let readers = AclChange { readers: Some(vec!["power".to_owned()]), ..AclChange::default() };
    world.objects.set_acl("macros", "new", &readers, &scope, &eva).unwrap();
    assert_eq!(world.objects.get("macros", "new", &of_tom, &tom), Err(ObjectError::Unknown("new".to_owned())));
    world.objects.remove("macros", "new", &scope, &eva).unwrap();
    assert_eq!(world.objects.get("macros", "new", &scope, &eva), Err(ObjectError::Unknown("new".to_owned())));
    assert_eq!(world.text("apps/search/metadata/local.meta"), "", "the metadata of the removed object is gone, too");
}

#[test]
fn bundled_objects_are_overridden_not_changed() {
    let world = world();
    let admin = of("boss", &["admin"]);
    let scope = ns("nobody", "a");
    let changed = world.objects.edit("macros", "own", &settings(&[("definition", "new")]), &scope, &admin).unwrap();
    assert_eq!((changed.get("definition"), changed.is_local), (Some("new"), false));
    assert_eq!(world.text("apps/a/local/macros.conf"), "[m]\ndefinition = a local\n[own]\ndefinition = new\n");
    assert!(matches!(world.objects.remove("macros", "own", &scope, &admin), Err(ObjectError::Denied(_))));
    let same = world.objects.edit("macros", "default", &settings(&[("iseval", "1")]), &scope, &admin).unwrap();
    assert_eq!(same.get("iseval"), Some("0"), "built-in defaults cannot be changed");
}

#[test]
fn node_confs_require_administrators_and_cannot_be_private() {
    let world = World::new(&[]);
    let (eva, admin) = (of("eva", &["power"]), of("boss", &["admin"]));
    let set = settings(&[("homePath", "x")]);
    for conf in NON_PRIVATE_CONFS {
        for scope in [Scope::for_caller("eva"), ns("eva", "search"), ns("nobody", "search"), ns("nobody", "system")] {
            let made = world.objects.create(conf, "x", &set, &scope, &eva);
            assert!(matches!(made, Err(ObjectError::Denied(_))), "{conf} {scope:?}: {made:?}");
        }
        let made = world.objects.create(conf, "x", &set, &Scope::for_caller("boss"), &admin).unwrap();
        assert_eq!(made.location, ObjectLocation::App("search".to_owned()), "{conf}");
        let own =
            AclChange { sharing: Some(ObjectSharing::User), owner: Some("boss".to_owned()), ..AclChange::default() };
        assert!(world.objects.set_acl(conf, "x", &own, &Scope::for_caller("boss"), &admin).is_err(), "{conf}");
    }
    let made = world.objects.create("props", "x", &set, &ns("nobody", "system"), &eva);
    assert!(matches!(made, Err(ObjectError::Denied(_))), "{made:?}");
    assert!(world.objects.create("props", "x", &set, &ns("nobody", "system"), &admin).is_ok());
}

#[test]
fn files_per_user_are_bounded() {
    let world = World::new(&[]);
    let (eva, scope) = (of("eva", &["user"]), Scope::for_caller("eva"));
    fs::create_dir_all(world.folder.path().join("etc/users/eva/search/local")).unwrap();
    for number in 0..FILES_MAX {
        fs::write(world.folder.path().join(format!("etc/users/eva/search/local/c{number}.conf")), "").unwrap();
    }
    let made = world.objects.create_conf("one_more", &scope, &eva);
    assert!(matches!(made, Err(ObjectError::Invalid(_))), "{made:?}");
    assert!(world.objects.create("c1", "a", &[], &scope, &eva).is_ok(), "existing ones can be changed");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let world = World::new(&[]);
    let admin = of("boss", &["admin"]);
    for name in ["..", "../x", "a/b", "", ".x", "a\nb"] {
        assert!(
            Scope::for_namespace(name, "search").is_err() && Scope::for_namespace("boss", name).is_err(),
            "{name:?}"
        );
        let scope = Scope::for_caller("boss");
        assert!(world.objects.list(name, &scope, &admin).is_err(), "{name:?}");
        assert!(world.objects.create(name, "x", &[], &scope, &admin).is_err(), "{name:?}");
    }
    let made = world.objects.create("macros", "x", &[], &ns("boss", "absent"), &admin);
    assert_eq!(made, Err(ObjectError::Unknown("absent".to_owned())));
    for owner in ["../eva", "..", "a/b"] {
        world.objects.create("macros", owner, &[], &Scope::for_caller("boss"), &admin).unwrap();
        let change = AclChange { owner: Some(owner.to_owned()), ..AclChange::default() };
        assert!(
            world.objects.set_acl("macros", owner, &change, &Scope::for_caller("boss"), &admin).is_err(),
            "{owner}"
        );
    }
    assert!(matches!(
        world.objects.create("macros", "y", &settings(&[("a\n[z]\nb", "c")]), &Scope::for_caller("boss"), &admin),
        Err(ObjectError::Invalid(_))
    ));
}

#[test]
fn views_follow_the_same_rules_as_stanzas() {
    let world = World::new(&[
        ("apps/a/default/data/ui/views/home.xml", "<view/>"),
        ("apps/b/default/data/ui/views/theirs.xml", "<b/>"),
        ("apps/b/default/data/ui/views/shared.xml", "<c/>"),
        ("apps/b/metadata/default.meta", "[views/shared]\nexport = system\n"),
    ]);
    let (eva, tom) = (of("eva", &["user"]), of("tom", &["power"]));
    let names = |scope: &Scope, viewer: &Permissions| {
        let found = world.objects.texts("views", scope, viewer).unwrap().into_iter();
        found.map(|object| format!("{} {}", object.name, object.location.app())).collect::<Vec<_>>()
    };
    let own = ns("eva", "a");
    assert_eq!(names(&own, &eva), ["home a", "shared b"]);
    let made = world.objects.put_text("views", "mine", "<view/>", true, &own, &eva).unwrap();
    assert_eq!((made.sharing, made.get(texts::TEXT), made.is_local), (ObjectSharing::User, Some("<view/>"), true));
    assert_eq!(names(&own, &eva), ["home a", "mine a", "shared b"]);
    assert_eq!(names(&ns("tom", "a"), &tom), ["home a", "shared b"]);
    assert!(matches!(world.objects.put_text("views", "mine", "<x/>", true, &own, &eva), Err(ObjectError::Exists(_))));
    let changed = world.objects.put_text("views", "mine", "<new/>", false, &own, &eva).unwrap();
    assert_eq!(changed.get(texts::TEXT), Some("<new/>"));
    assert!(matches!(world.objects.put_text("views", "home", "<x/>", false, &own, &eva), Err(ObjectError::Denied(_))));
    assert!(world.objects.put_text("views", "home", "<w/>", false, &ns("nobody", "a"), &tom).is_ok());
    assert!(matches!(
        world.objects.remove_text("views", "shared", &ns("nobody", "b"), &tom),
        Err(ObjectError::Denied(_))
    ));
    world.objects.remove_text("views", "mine", &own, &eva).unwrap();
    assert_eq!(names(&own, &eva), ["home a", "shared b"]);
    for name in ["..", "../x", "a/b", ""] {
        assert!(world.objects.put_text("views", name, "x", true, &own, &eva).is_err(), "{name:?}");
    }
    assert!(world.objects.texts("../views", &own, &eva).is_err());
}

#[test]
fn changes_require_write_permission() {
    let world = World::new(&[
        ("apps/a/local/inputs.conf", "[http://t]\ntoken = secret\n"),
        ("apps/a/local/macros.conf", "[m]\ndefinition = 1\n"),
        ("apps/a/metadata/local.meta", "[macros/m]\naccess = read : [ * ], write : [ admin ]\n"),
        ("system/local/outputs.conf", "[tcpout:x]\nsslPassword = secret\n"),
    ]);
    let (pia, admin) = (of("pia", &["power"]), of("boss", &["admin"]));
    let in_app = ns("nobody", "a");
    for conf in SECRET_CONFS {
        for scope in [ns("-", "-"), in_app.clone(), Scope::for_caller("pia")] {
            assert!(matches!(world.objects.list(conf, &scope, &pia), Err(ObjectError::Denied(_))), "{conf}");
        }
        assert!(world.objects.list(conf, &in_app, &admin).is_ok(), "{conf}");
    }
    for name in RESERVED_NAMES {
        assert!(world.objects.create("savedsearches", name, &[], &in_app, &pia).is_err(), "{name}");
        assert!(world.objects.remove("savedsearches", name, &in_app, &admin).is_err(), "{name}");
    }
    for settings in [settings(&[("definition", "2")]), Vec::new()] {
        assert!(matches!(world.objects.edit("macros", "m", &settings, &in_app, &pia), Err(ObjectError::Denied(_))));
    }
    for key in ["\u{feff}[m]", "a\rb"] {
        assert!(world.objects.create("macros", "p", &settings(&[(key, "x")]), &in_app, &pia).is_err(), "{key:?}");
    }
    for value in ["x\\\r", "x\\\r\r", "a\rb"] {
        assert!(
            world.objects.create("macros", "p", &settings(&[("definition", value)]), &in_app, &pia).is_err(),
            "{value:?}"
        );
    }
    let system = AclChange { sharing: Some(ObjectSharing::System), ..AclChange::default() };
    assert!(matches!(world.objects.set_acl("macros", "m", &system, &in_app, &admin), Err(ObjectError::Invalid(_))));
    let prefer = settings(&[("tz", "Evil")]);
    let of_all = ns("nobody", APP_PREFERENCES);
    assert!(matches!(world.objects.put("user-prefs", "general", &prefer, &of_all, &pia), Err(ObjectError::Denied(_))));
    assert!(world.objects.put("user-prefs", "general", &prefer, &ns("pia", APP_PREFERENCES), &pia).is_ok());
    assert!(matches!(world.objects.put("app", "install", &prefer, &in_app, &pia), Err(ObjectError::Denied(_))));
    assert_eq!(Scope::for_caller("..").users, Users::None);
    assert_eq!(world.text("apps/a/local/macros.conf"), "[m]\ndefinition = 1\n");
}

#[test]
fn permissions_of_node_objects_restrict_users_with_the_capability() {
    let world = World::new(&[
        ("system/local/inputs.conf", "[http://open]\ntoken = a\n[http://closed]\ntoken = b\n"),
        ("apps/a/default/inputs.conf", "[http://shipped]\ntoken = c\n"),
        ("apps/a/metadata/default.meta", "[inputs/http%3A%2F%2Fshipped]\naccess = read : [ * ], write : [ admin ]\n"),
    ]);
    let user = |name: &str, role: &str| {
        Permissions::for_user(name, Default::default(), Vec::new(), Vec::new()).with_roles([role.to_owned()].into())
    };
    let (admin, eva, tom) = (Permissions::owner(), user("eva", "power"), user("tom", "user"));
    let may = |name: &str, viewer: &Permissions| {
        world.objects.node_object("inputs", name, viewer).ok().map(|object| object.can_write)
    };
    for viewer in [&admin, &eva, &tom] {
        assert_eq!(may("http://open", viewer), Some(true), "only the capability is checked");
    }
    assert_eq!((may("http://shipped", &eva), may("http://shipped", &admin)), (Some(false), Some(true)));
    let change = AclChange {
        readers: Some(vec!["power".to_owned()]),
        writers: Some(vec!["admin".to_owned()]),
        sharing: Some(ObjectSharing::App),
        ..AclChange::default()
    };
    let changed = world.objects.set_node_object_acl("inputs", "http://closed", &change, &tom).unwrap();
    assert_eq!(changed.sharing, ObjectSharing::App);
    assert_eq!((may("http://closed", &eva), may("http://closed", &tom)), (Some(false), None));
    assert!(world.text("system/metadata/local.meta").contains("[inputs/http%3A%2F%2Fclosed]"));
    let refused = world.objects.set_node_object_acl("inputs", "http://closed", &AclChange::default(), &eva);
    assert!(matches!(refused, Err(ObjectError::Denied(_))), "{refused:?}");
    let back = AclChange { sharing: Some(ObjectSharing::System), ..AclChange::default() };
    let back = world.objects.set_node_object_acl("inputs", "http://closed", &back, &admin).unwrap();
    assert_eq!(back.sharing, ObjectSharing::System);
    world.objects.forget_node_object("inputs", "http://closed").unwrap();
    assert_eq!(may("http://closed", &tom), Some(true));
}

#[test]
fn settings_have_permissions_of_their_own() {
    let world = World::new(&[
        ("apps/a/local/props.conf", "[s]\nEXTRACT-x = (?<x>a)\nEXTRACT-y = (?<y>b)\n"),
        ("apps/b/local/app.conf", "[ui]\nlabel = b\n"),
        ("users/eva/a/local/props.conf", "[s]\nEXTRACT-own = (?<o>c)\nEVAL-z = 1\n"),
    ]);
    let (objects, path) = (&world.objects, ["props", "s", "EXTRACT-own"]);
    let (eva, tom, admin) = (of("eva", &["power"]), of("tom", &["user"]), of("boss", &["admin"]));
    let listed = |scope: &Scope, viewer: &Permissions| -> Vec<String> {
        let found = objects.list_settings("props", |key| key.starts_with("EXTRACT-"), scope, viewer).unwrap();
        let shown = |object: &ConfObject| {
            let key = object.settings.keys().next().cloned().unwrap_or_default();
            format!("{key} {} {}", object.location.app(), object.sharing.word())
        };
        // Settings of the built-in sourcetypes are listed everywhere.
        found.iter().filter(|object| object.sharing != ObjectSharing::System).map(shown).collect()
    };
    assert_eq!(listed(&ns("eva", "a"), &eva), ["EXTRACT-own a user", "EXTRACT-x a app", "EXTRACT-y a app"]);
    assert!(listed(&ns("nobody", "b"), &eva).is_empty());
    let global = AclChange { sharing: Some(ObjectSharing::Global), ..AclChange::default() };
    let shared = objects.set_setting_acl(path, &global, &ns("eva", "a"), &eva).unwrap();
    assert_eq!((shared.sharing, shared.owner.as_str()), (ObjectSharing::Global, "eva"));
    assert_eq!(listed(&ns("nobody", "b"), &tom), ["EXTRACT-own a global"], "the others stay in the app");
    let own = world.text("users/eva/a/local/props.conf");
    assert!(own.contains("EVAL-z") && !own.contains("EXTRACT-own"), "{own}");
    assert!(matches!(objects.set_setting_acl(path, &global, &ns("tom", "a"), &tom), Err(ObjectError::Denied(_))));
    let to_app = |app: &str| AclChange { app: Some(app.to_owned()), ..AclChange::default() };
    assert!(matches!(
        objects.set_setting_acl(path, &to_app("c"), &ns("eva", "a"), &admin),
        Err(ObjectError::Invalid(_))
    ));
    let moved = objects.set_setting_acl(path, &to_app("b"), &ns("eva", "a"), &admin).unwrap();
    assert_eq!((moved.location, moved.sharing), (ObjectLocation::App("b".to_owned()), ObjectSharing::Global));
    assert!(!world.text("apps/a/metadata/local.meta").contains("EXTRACT-own"));
    let changed = objects.edit_setting(path, "(?<o>d)", &ns("nobody", "b"), &admin).unwrap();
    assert_eq!(changed.get("EXTRACT-own"), Some("(?<o>d)"));
    objects.remove_setting(path, &ns("nobody", "b"), &admin).unwrap();
    assert!(!world.text("apps/b/local/props.conf").contains("[s]"), "a stanza without settings is removed");
    assert!(!world.text("apps/b/metadata/local.meta").contains("EXTRACT-own"));
}

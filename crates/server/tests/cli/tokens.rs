//! Authentication tokens: created, used in place of a login, disabled, deleted; and the permissions for that.

use crate::objects::body;
use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask};
use crate::support::{Place, wait_until};

const TOKENS: &str = "/services/authorization/tokens";

/// The id of a token and its authorization header.
fn made(place: &Place, key: &str, form: &str) -> (String, String) {
    let answer = ask(place, "POST", &format!("{TOKENS}?output_mode=json"), key, &format!("audience=ci&{form}"));
    assert_eq!(status(&answer), "201", "{answer}");
    let content = &body(&answer)["entry"][0]["content"];
    let text = |name: &str| content[name].as_str().unwrap().to_owned();
    (text("id"), format!("Bearer {}", text("token")))
}

#[test]
fn tokens_authenticate_their_user_until_removed() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["power"]), ("norole", &[])]);
    let server = Server::start(&place);
    let [admin, eva, norole] = ["admin", "eva", "norole"].map(|user| key(&place, user));
    let who = |key: &str| {
        let answer = ask(&place, "GET", "/services/authentication/current-context?output_mode=json", key, "");
        match status(&answer) {
            "200" => body(&answer)["entry"][0]["content"]["username"].as_str().unwrap_or_default().to_owned(),
            other => other.to_owned(),
        }
    };
    let (id, token) = made(&place, &admin, "name=eva");
    assert_eq!(who(&token), "eva");
    assert!(search(&place, &token, "| makeresults | eval x=1 | table x").contains("\"x\":\"1\""));
    assert_eq!(status(&ask(&place, "GET", "/services/authentication/users", &token, "")), "403", "eva's roles count");
    // Roles are evaluated at each request.
    let user = "/services/authentication/users/eva";
    assert_eq!(status(&ask(&place, "POST", user, &admin, "roles=user,power")), "200");
    assert_eq!(status(&ask(&place, "POST", "/services/messages", &token, "name=n&value=v")), "201");
    assert_eq!(status(&ask(&place, "GET", TOKENS, &eva, "")), "401", "other roles end sessions, not tokens");
    let own = key(&place, "eva");
    // Without further capabilities, a user may create and see only tokens of their own.
    let refused = ask(&place, "POST", TOKENS, &own, "name=admin&audience=x");
    assert!(status(&refused) == "403" && refused.contains("edit_tokens_own"), "{refused}");
    assert_eq!(status(&ask(&place, "GET", TOKENS, &norole, "")), "403");
    let listed = |key: &str| {
        let answer = ask(&place, "GET", &format!("{TOKENS}?output_mode=json"), key, "");
        body(&answer)["entry"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (other, of_admin) = made(&place, &admin, "name=admin&expires_on=never");
    assert_eq!((listed(&own), listed(&admin).len()), (vec![id.clone()], 2));
    assert_eq!(status(&ask(&place, "GET", &format!("{TOKENS}/{other}"), &own, "")), "404");
    let shown = body(&ask(&place, "GET", &format!("{TOKENS}/{id}?output_mode=json"), &own, ""));
    let content = &shown["entry"][0]["content"];
    assert_eq!((content["status"].as_str(), content["claims"]["sub"].as_str()), (Some("enabled"), Some("eva")));
    let days = (content["claims"]["exp"].as_i64().unwrap() - content["claims"]["iat"].as_i64().unwrap()) / 86_400;
    assert!(days == 30 && !shown.to_string().contains("Bearer") && content["lastUsedIp"] == "127.0.0.1", "{shown}");
    for wrong in [
        "name=eva",
        "name=nosuch&audience=x",
        "name=eva&audience=x&expires_on=-1d",
        "name=eva&audience=x&expires_on=soon",
        "name=eva&audience=x&expires_on=%2B1h&not_before=%2B2h",
        "name=eva&audience=x&type=odd",
    ] {
        let code = ask(&place, "POST", TOKENS, &admin, wrong);
        assert!(["400", "404"].contains(&status(&code)), "{wrong}: {code}");
    }
    assert_eq!(who(&made(&place, &admin, "name=tom&not_before=%2B1h").1), "401", "not yet");
    // The token is disabled, enabled, used after a restart, and deleted.
    assert_eq!(status(&ask(&place, "POST", &format!("{TOKENS}/{id}"), &admin, "status=odd")), "400");
    assert_eq!(status(&ask(&place, "POST", &format!("{TOKENS}/{id}"), &admin, "status=disabled")), "200");
    assert_eq!(who(&token), "401");
    assert_eq!(
        status(&ask(&place, "POST", &format!("{TOKENS}/eva"), &admin, &format!("id={id}&status=enabled"))),
        "200"
    );
    assert_eq!(who(&token), "eva");
    drop(server);
    let files = std::fs::read_to_string(place.data().join("etc/auth/tokens.jsonl")).unwrap();
    assert!(files.contains(&id) && !files.contains(token.rsplit('.').next().unwrap()), "{files}");
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    assert_eq!((who(&token), who(&of_admin)), ("eva".to_owned(), "admin".to_owned()));
    assert_eq!(status(&ask(&place, "DELETE", &format!("{TOKENS}/{other}"), &admin, "")), "200");
    assert_eq!(who(&of_admin), "401");
    // A later user with the name of a deleted one does not inherit the tokens.
    assert_eq!(status(&ask(&place, "DELETE", user, &admin, "")), "200");
    assert_eq!(
        status(&ask(
            &place,
            "POST",
            "/services/authentication/users",
            &admin,
            "name=eva&password=long+enough&roles=admin"
        )),
        "201"
    );
    assert_eq!(who(&token), "401");
    // All tokens are disabled in the conf file.
    let (_, third) = made(&place, &admin, "name=tom");
    let conf = "/servicesNS/nobody/system/configs/conf-authorize";
    assert_eq!(status(&ask(&place, "POST", conf, &admin, "name=tokens_auth&disabled=1")), "201");
    assert_eq!(who(&third), "401");
    assert_eq!(status(&ask(&place, "POST", &format!("{conf}/tokens_auth"), &admin, "disabled=0")), "200");
    assert_eq!(who(&third), "tom");
    // Audit events that are not stored yet may be lost with the server, so wait for them.
    let noted = || {
        place
            .run(&["search", "index=_audit action=edit_token | stats sum(count) by operation", "-o", "csv"])
            .expect_success()
    };
    assert!(wait_until(|| ["create", "remove"].iter().all(|word| noted().contains(word))), "{}", noted());
    drop(server);
    let records = || std::fs::read_to_string(place.data().join("etc/auth/tokens.jsonl")).unwrap();
    assert!(records().contains("\"tom\""), "{}", records());
    place.run(&["user", "remove", "tom"]).expect_success();
    assert!(!records().contains("\"tom\""), "gone without a server, too: {}", records());
}

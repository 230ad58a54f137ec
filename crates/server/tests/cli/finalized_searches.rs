//! Oneshot searches that are finalized by the ID that their client chose.

use std::io::Read;

use crate::permissions::{key, status, with_users};
use crate::server::{Server, ask, send};
use crate::support::{Place, lines, wait_until};

#[test]
fn a_oneshot_search_can_be_finalized_with_its_rows_so_far() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"]), ("tom", &["user"])]);
    let log = place.write("a.log", lines(0..60_000));
    place.run(&["add", "oneshot", &log]).expect_success();
    let _server = Server::start(&place);
    let [eva, tom] = ["eva", "tom"].map(|user| key(&place, user));
    // A digest of a thousand values per event takes half a minute unless it is ended. (A sum would be answered at once
    // from counts.)
    let slow = "search=search+index%3D*+%7C+eval+v%3Dmvrange(0%2C1000)+%7C+\
                eval+n%3Dlen(mvjoin(mvmap(v%2Csha512(_raw.v))%2C%22%22))+%7C+stats+count+sum(n)&\
                exec_mode=oneshot&output_mode=json&id=mine";
    let mut waiting = send(&place, "POST", "/services/search/jobs", &eva, slow);
    let finalize = |key: &str| ask(&place, "POST", "/services/search/jobs/mine/control", key, "action=finalize");
    // Another user cannot end it.
    assert_eq!(status(&finalize(&tom)), "404");
    let mut answer_to_finalize = String::new();
    assert!(wait_until(|| {
        answer_to_finalize = finalize(&eva);
        status(&answer_to_finalize) == "200"
    }));
    assert!(answer_to_finalize.contains("Search job finalized."), "{answer_to_finalize}");
    assert_eq!(status(&finalize(&tom)), "404");
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("x-quarry-partial: 1"), "{answer}");
    assert!(answer.contains("\"results\":[{\"count\":\""), "{answer}");
    assert_eq!(status(&finalize(&eva)), "404");
}

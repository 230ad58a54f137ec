//! Machine learning models as files: location, visibility, and handling of invalid files.

use crate::support::Place;

const LEARN: &str =
    "| makeresults count=4 | streamstats count AS x | eval y=2*x+1 | fit LinearRegression y from x into";
const ASK: &str = "| makeresults | eval x=100 | apply line as told | eval told=round(told, 3) | table told";

#[test]
fn models_belong_to_users_or_apps() {
    let place = Place::new();
    let etc = place.data().join("etc");
    for folder in ["apps/shop/lookups", "apps/web/lookups", "users/eva/shop"] {
        std::fs::create_dir_all(etc.join(folder)).unwrap();
    }
    let run = |more: &[&str], search: &str| place.run(&[&["search", search, "-o", "csv"], more].concat());
    let (shop, web) = (["--app", "shop"], ["--app", "web"]);
    let eva = ["--app", "shop", "--user", "eva"];
    let is_file = |path: &str| etc.join(path).is_file();
    run(&eva, &format!("{LEARN} line")).expect_success();
    assert!(is_file("users/eva/shop/lookups/__mlspl_line.mlmodel"));
    assert_eq!(run(&eva, ASK).expect_success(), "told\n201.000\n");
    let refused = run(&shop, ASK);
    assert!(refused.code != 0 && refused.err.contains("there is no model line; there are no models"), "{refused:?}");
    // The app has a model, and the user has another one, which takes precedence.
    run(&eva, &format!("{} app:line", LEARN.replace("2*x", "3*x"))).expect_success();
    assert!(is_file("apps/shop/lookups/__mlspl_line.mlmodel"));
    assert_eq!(run(&shop, ASK).expect_success(), "told\n301.000\n");
    assert_eq!(run(&eva, ASK).expect_success(), "told\n201.000\n");
    assert_eq!(run(&eva, &ASK.replace("apply line", "apply app:line")).expect_success(), "told\n301.000\n");
    assert_ne!(run(&web, ASK).code, 0, "another app sees shared models");
    let listed = run(&eva, "| listmodels | table name type app owner").expect_success();
    assert_eq!(listed, "name,type,app,owner\nline,LinearRegression,shop,eva\n");
    // The first deletion removes the user's model, the second the app's.
    for is_left in [true, false] {
        run(&eva, "| deletemodel line").expect_success();
        assert_eq!(is_file("apps/shop/lookups/__mlspl_line.mlmodel"), is_left);
    }
    assert_ne!(run(&eva, "| deletemodel line").code, 0);
    // A model that another app shares is visible and cannot be deleted here.
    std::fs::create_dir_all(etc.join("apps/web/metadata")).unwrap();
    std::fs::write(etc.join("apps/web/metadata/default.meta"), "[]\nexport = system\n").unwrap();
    run(&web, &format!("{LEARN} line")).expect_success();
    assert_eq!(run(&shop, ASK).expect_success(), "told\n201.000\n");
    let refused = run(&shop, "| deletemodel line");
    assert!(refused.code != 0 && refused.err.contains("belongs to the app web"), "{refused:?}");
    assert!(is_file("apps/web/lookups/__mlspl_line.mlmodel"));
}

#[test]
fn invalid_model_files_are_errors() {
    let place = Place::new();
    place.run(&["search", &format!("{LEARN} line")]).expect_success();
    let path = place.data().join("etc/apps/search/lookups/__mlspl_line.mlmodel");
    let whole = std::fs::read(&path).unwrap();
    let mut changed = whole.clone();
    let at = changed.len() - 10;
    changed[at] ^= 1;
    let version = String::from_utf8(whole.clone()).unwrap().replacen("quarry-model 1 ", "quarry-model 9 ", 1);
    for (bytes, want) in [
        (changed, "its checksum does not match"),
        (whole[..whole.len() / 2].to_vec(), "truncated"),
        (Vec::new(), "no first line"),
        (vec![0xff, 0xfe, b'\n'], "not UTF-8"),
        (version.into_bytes(), "its format is 9, this program reads 1"),
        (b"algo,model,options\n".to_vec(), "refitted with fit"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for search in [ASK, "| summary line"] {
            let refused = place.run(&["search", search]);
            assert!(refused.code != 0 && refused.err.contains(want), "{search}: {refused:?}");
        }
        let listed = place.run(&["search", "| listmodels | table name type", "-o", "csv"]);
        assert!(listed.code == 0 && listed.out.contains("line"), "{listed:?}");
    }
    std::fs::write(&path, whole).unwrap();
    assert!(place.run(&["search", ASK, "-o", "csv"]).expect_success().contains("201.000"));
    assert_ne!(place.run(&["search", "| makeresults | apply ../search/line"]).code, 0);
}

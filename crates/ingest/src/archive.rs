//! Archiving of expired buckets: copying them to a folder, or running a script on them, before they are removed.
//!
//! An archived bucket is a folder `db_LATEST_EARLIEST_NUMBER` with the bucket's two objects, unchanged. It gets this
//! name only when it is complete and synced. A script receives the path of such a folder, which contains hard links
//! (copies where links are impossible) and is removed when the script ends; if the script succeeds, the bucket may be
//! removed.
//!
//! Not here: finding expired buckets, and retries after a failure.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_conf::IndexSettings;
use quarry_event::time::NS_PER_SEC;
use quarry_store::ExpiredBucket;

use quarry_programs::{POLL_MS, Pipes, Program, ProgramGroup, capture_stderr, spawn};
use quarry_stdx::Fault;

/// Timeout of a script, in seconds.
const SCRIPT_SECS_MAX: u64 = 600;
/// Maximum length in characters of the part of a script's error output that is logged.
const ERROR_CHARS_MAX: usize = 300;
/// Folder of the objects, relative to the data directory.
const OBJECTS_FOLDER: &str = "db";
/// Folder of the bucket folders that scripts receive, relative to the data directory.
const SCRIPT_FOLDER: &str = "run/frozen";

/// Archives a bucket as configured for its index; after an error, the bucket must not be removed.
pub fn archive(data_dir: &Path, settings: &IndexSettings, bucket: &ExpiredBucket) -> Result<(), Fault> {
    // Relative paths would not be valid in the script's working directory.
    let absolute = std::path::absolute(data_dir).map_err(|error| Fault::io(data_dir.display(), error))?;
    let data_dir = absolute.as_path();
    // The folder takes precedence over the script, as in Splunk.
    if let Some(folder) = &settings.cold_to_frozen_dir {
        let folder = expand(data_dir, folder)?;
        return put(data_dir, &folder, bucket, false).map(drop);
    }
    let Some(script) = &settings.cold_to_frozen_script else { return Ok(()) };
    let shown = put(data_dir, &data_dir.join(SCRIPT_FOLDER), bucket, true)?;
    let ran = run(data_dir, script, &shown);
    // If removing fails, the next attempt replaces the folder.
    drop(fs::remove_dir_all(&shown));
    ran
}

/// Replaces Splunk's variables in a setting, which stand for folders of the data directory.
fn replace_variables(data_dir: &Path, text: &str) -> String {
    let (home, objects) = (data_dir.display().to_string(), data_dir.join(OBJECTS_FOLDER).display().to_string());
    text.replace("$SPLUNK_HOME", &home).replace("$SPLUNK_DB", &objects)
}

/// The absolute path in a setting, with its variables replaced.
fn expand(data_dir: &Path, text: &str) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(replace_variables(data_dir, text));
    if path.is_absolute() { Ok(path) } else { Err(Fault::invalid(format!("{text} is not an absolute path"))) }
}

/// Creates the bucket's folder in `parent` and returns its path. If `linked`, the files are hard links where possible.
fn put(data_dir: &Path, parent: &Path, bucket: &ExpiredBucket, linked: bool) -> Result<PathBuf, Fault> {
    let seconds = |time: i64| time.div_euclid(NS_PER_SEC);
    let name = format!("db_{}_{}_{}", seconds(bucket.time_max), seconds(bucket.time_min), bucket.number);
    let (whole, unfinished) = (parent.join(&name), parent.join(format!(".{name}.unfinished")));
    let failed = |path: &Path, error: io::Error| Fault::io(format_args!("cannot write {}", path.display()), error);
    // A failed earlier attempt may have left these folders.
    for left in [&whole, &unfinished] {
        match fs::remove_dir_all(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(left, error)),
            _ => {}
        }
    }
    let write = || -> io::Result<()> {
        fs::create_dir_all(&unfinished)?;
        for object in &bucket.objects {
            let from = data_dir.join(OBJECTS_FOLDER).join(object);
            let to = unfinished.join(Path::new(object).file_name().unwrap_or_default());
            if !linked || fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to)?;
                File::open(&to)?.sync_all()?;
            }
        }
        File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &whole)?;
        File::open(parent)?.sync_all()
    };
    write().map_err(|error| failed(&whole, error))?;
    Ok(whole)
}

/// Runs a script with `shown`, the path of the bucket's folder, as its last argument.
fn run(data_dir: &Path, script: &str, shown: &Path) -> Result<(), Fault> {
    let mut words = words(script).into_iter();
    let executable = words.next().ok_or_else(|| Fault::invalid("coldToFrozenScript names no program"))?;
    // Arguments need not be paths, as in `--dir=$SPLUNK_DB/x`.
    let mut arguments: Vec<String> = words.map(|word| replace_variables(data_dir, &word)).collect();
    arguments.push(shown.display().to_string());
    let program = Program { executable: expand(data_dir, &executable)?, arguments, folder: data_dir.to_owned() };
    let home = ("SPLUNK_HOME".to_owned(), data_dir.display().to_string());
    let (mut group, Pipes { stdin, stdout, stderr }) = ProgramGroup::start(&program, &[home], None)?;
    let error_output: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&error_output);
    spawn("frozen-read", move || drain(stdin, stdout))?;
    spawn("frozen-read", move || capture_stderr(stderr, &kept))?;
    for _ in 0..SCRIPT_SECS_MAX * 1_000 / POLL_MS {
        if group.has_ended() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(POLL_MS));
    }
    let in_time = group.has_ended();
    let status = group.kill();
    if !in_time {
        return Err(Fault::unavailable(format!("{executable} was stopped after {SCRIPT_SECS_MAX} seconds")));
    }
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let error_output = error_output.lock().unwrap_or_else(PoisonError::into_inner);
    let error_text: String = String::from_utf8_lossy(&error_output).trim().chars().take(ERROR_CHARS_MAX).collect();
    let status = status.map_or_else(|| "an unknown status".to_owned(), |status| status.to_string());
    let separator = if error_text.is_empty() { "" } else { ": " };
    Err(Fault::unavailable(format!("{executable} ended with {status}{separator}{error_text}")))
}

/// Splits a command line; quotes group words.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    for character in text.chars() {
        match character {
            '"' => (quoted, begun) = (!quoted, true),
            blank if blank.is_whitespace() && !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// Closes the script's input and discards its output.
fn drain(stdin: ChildStdin, mut stdout: ChildStdout) {
    drop(stdin);
    let mut buffer = [0; 4_096];
    while let Ok(1..) = stdout.read(&mut buffer) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(data: &Path) -> ExpiredBucket {
        let objects = ["web/7.bucket".to_owned(), "web/7.filter".to_owned()];
        fs::create_dir_all(data.join("db/web")).unwrap();
        objects.iter().for_each(|object| fs::write(data.join("db").join(object), object).unwrap());
        let (time_min, time_max) = (-NS_PER_SEC, 9 * NS_PER_SEC + 5);
        ExpiredBucket { id: "web~7".into(), number: 7, index: "web".into(), time_min, time_max, objects }
    }

    fn settings(folder: Option<&Path>, script: Option<&str>) -> IndexSettings {
        let conf = format!(
            "[web]\ncoldToFrozenDir = {}\ncoldToFrozenScript = {}\n",
            folder.map_or(String::new(), |folder| folder.display().to_string()),
            script.unwrap_or_default()
        );
        let source = quarry_conf::ConfSource {
            layer: quarry_conf::Layer::SystemLocal,
            app: None,
            file: "indexes.conf".to_owned(),
            text: conf,
        };
        let layers = quarry_conf::Layers::new([source]);
        quarry_conf::IndexesConf::new(&layers).get("web").unwrap()
    }

    #[test]
    fn buckets_are_copied_completely_and_again_after_a_failure() {
        let data = tempfile::tempdir().unwrap();
        let bucket = bucket(data.path());
        let to = data.path().join("archive/web");
        for _ in 0..2 {
            archive(data.path(), &settings(Some(&to), Some("/no/such")), &bucket).unwrap();
            let put = to.join("db_9_-1_7");
            assert_eq!(fs::read_to_string(put.join("7.bucket")).unwrap(), "web/7.bucket");
            assert_eq!(fs::read_dir(&put).unwrap().count(), 2);
            assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
        }
        let error =
            archive(data.path(), &settings(Some(Path::new("relative")), None), &bucket).unwrap_err().to_string();
        assert!(error.contains("not an absolute path"), "{error}");
        fs::remove_file(data.path().join("db/web/7.filter")).unwrap();
        let error = archive(data.path(), &settings(Some(&to), None), &bucket).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert!(!to.join("db_9_-1_7").exists(), "a part has no name");
    }

    #[test]
    fn scripts_receive_the_bucket_and_their_exit_status_decides() {
        let data = tempfile::tempdir().unwrap();
        let bucket = bucket(data.path());
        let script = data.path().join("take it.sh");
        fs::write(
            &script,
            "printf %s \"$1\" >\"$SPLUNK_HOME/first\"\ncp -r \"$2\" \"$SPLUNK_HOME/taken\" || exit 3\nif [ $1 = no ]; then echo full >&2; exit 1; fi",
        )
        .unwrap();
        let command = |word: &str| format!("/bin/sh \"$SPLUNK_HOME/take it.sh\" {word}");
        archive(data.path(), &settings(None, Some(&command("yes"))), &bucket).unwrap();
        assert_eq!(fs::read_to_string(data.path().join("taken/7.filter")).unwrap(), "web/7.filter");
        assert_eq!(fs::read_dir(data.path().join(SCRIPT_FOLDER)).unwrap().count(), 0);
        // The program runs in another folder, so the path of a relative data directory must be made absolute.
        fs::remove_dir_all(data.path().join("taken")).unwrap();
        let up: std::path::PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let relative = up.join(data.path().strip_prefix("/").unwrap());
        archive(&relative, &settings(None, Some(&command("yes"))), &bucket).unwrap();
        assert_eq!(fs::read_to_string(data.path().join("taken/7.filter")).unwrap(), "web/7.filter");
        archive(data.path(), &settings(None, Some(&command("--dir=$SPLUNK_DB/x"))), &bucket).unwrap();
        let first = fs::read_to_string(data.path().join("first")).unwrap();
        assert_eq!(first, format!("--dir={}/db/x", data.path().display()), "a variable inside a word");
        let error = archive(data.path(), &settings(None, Some(&command("no"))), &bucket).unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 1: full"), "{error}");
        let error = archive(data.path(), &settings(None, Some("/bin/false")), &bucket).unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 1"), "{error}");
        assert!(archive(data.path(), &settings(None, Some("/no/such/program")), &bucket).is_err());
        assert_eq!(words("a \"b c\"d  e\"\" \"\""), ["a", "b cd", "e", ""]);
    }
}

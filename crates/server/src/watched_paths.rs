//! Notes on watched paths that do not exist, perhaps because of a typing error.

use std::io::ErrorKind;
use std::path::Path;

use quarry_conf::{Layers, MonitorSettings};
use quarry_stdx::log;

/// Name of the thread that examines the paths.
const THREAD: &str = "watched-paths";

/// Logs notes on the paths of `[monitor://]` and `[batch://]` below which nothing can be found now. The paths are
/// examined on a thread of their own, because the file system of one may be unreachable and not answer.
pub(crate) fn report(layers: &Layers) {
    let (stanzas, _) = MonitorSettings::read_all(layers);
    // If the thread cannot be started, the notes are omitted.
    drop(quarry_programs::spawn(THREAD, move || notes(&stanzas).into_iter().for_each(log::note)));
}

fn notes(stanzas: &[MonitorSettings]) -> Vec<String> {
    stanzas.iter().filter_map(note).collect()
}

fn note(settings: &MonitorSettings) -> Option<String> {
    let kind = if settings.is_batch { "batch" } else { "monitor" };
    let root = plain_root(&settings.path);
    let fault = match Path::new(root).metadata().err()?.kind() {
        ErrorKind::NotFound => "does not exist yet; it is watched once it does".to_owned(),
        kind => format!("cannot be read: {kind}"),
    };
    Some(format!("inputs.conf [{kind}://{}]: {root} {fault}", settings.path))
}

/// The longest beginning of a path that consists of whole segments without wildcards.
fn plain_root(path: &str) -> &str {
    let wild = [path.find('*'), path.find("...")].into_iter().flatten().min();
    let end = wild.map_or(path.len(), |wild| path[..wild].rfind('/').unwrap_or(0));
    if end == 0 { "/" } else { &path[..end] }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer};

    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().display().to_string();
        let text = format!(
            "[monitor://{there}]\n[monitor://{there}/*/a.log]\n[monitor://{there}/no/x*.log]\n[monitor://{there}/off]\n\
             disabled = 1\n[batch://{there}/spool]\nmove_policy = sinkhole\n"
        );
        let file = "etc/system/local/inputs.conf".to_owned();
        let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text }]);
        let missing = |stanza: &str, path: &str| {
            format!("inputs.conf [{stanza}]: {there}/{path} does not exist yet; it is watched once it does")
        };
        let expected = [
            missing(&format!("monitor://{there}/no/x*.log"), "no"),
            missing(&format!("batch://{there}/spool"), "spool"),
        ];
        assert_eq!(notes(&MonitorSettings::read_all(&layers).0), expected);
    }
}

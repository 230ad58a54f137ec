use super::{ConfSource, Layer};

/// A file of system/local.
pub(crate) fn local(conf: &str, text: &str) -> ConfSource {
    let file = format!("etc/system/local/{conf}.conf");
    ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }
}

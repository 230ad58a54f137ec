//! Reads any text as a conf file. Every setting that is kept must be valid, and the typed views must not fail.

use quarry_conf::{
    ConfSource, HttpInputSettings, IndexesConf, Layer, Layers, LimitSettings, MonitorSettings, NetworkInputSettings,
    OutputSettings, PropsResolver, ServerSettings, Transforms,
};

/// Reads the text as each kind of conf and builds every typed view.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for conf in ["props", "transforms", "indexes", "limits", "inputs", "outputs", "server", "unheard-of"] {
        let source = ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: format!("etc/system/local/{conf}.conf"),
            text: text.clone().into_owned(),
        };
        let layers = Layers::without_builtin([source]);
        for warning in layers.warnings() {
            drop(warning.to_string());
        }
        layers.btool(conf, None);
        let props = PropsResolver::new(&layers);
        props.resolve("/var/log/a.log", "host", "syslog");
        props.sourcetype_for_source("/var/log/a.log");
        Transforms::new(&layers);
        IndexesConf::new(&layers).defaults();
        LimitSettings::new(&layers);
        HttpInputSettings::new(&layers);
        MonitorSettings::read_all(&layers);
        NetworkInputSettings::new(&layers);
        OutputSettings::new(&layers);
        ServerSettings::new(&layers);
    }
}

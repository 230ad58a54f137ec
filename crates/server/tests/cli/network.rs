//! Text sent to a running server over TCP, TLS and UDP: every event is found with its host, time and sourcetype.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;

use crate::server::Server;
use crate::support::{Place, lines, sorted, wait_until};

/// A data directory with this inputs.conf, in which every port is bound to loopback.
pub(crate) fn place_with(inputs: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    let text = inputs.replace("]\n", "]\nbindAddress = 127.0.0.1\n");
    place.write("data/etc/system/local/inputs.conf", text);
    place
}

/// Address of a stanza's port.
pub(crate) fn address_of(place: &Place, stanza: &str) -> String {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    run_file["inputs"][stanza].as_str().unwrap_or_else(|| panic!("{stanza} does not listen: {run_file}")).to_owned()
}

/// Waits until `count` events are found; returns the sorted rows of a search as CSV without its header.
pub(crate) fn found(place: &Place, count: usize, search: &str) -> Vec<String> {
    let expected = format!("count\n{count}\n");
    let mut reported = String::new();
    let all_there = || {
        reported = place.run(&["search", "index=* | stats count", "-o", "csv"]).expect_success().replace('\r', "");
        reported == expected
    };
    assert!(wait_until(all_there), "{count} events were sent, {reported} are found");
    let text = place.run(&["search", search, "-o", "csv"]).expect_success().replace('\r', "");
    let (_, rows) = text.split_once('\n').unwrap();
    sorted(rows).into_iter().map(str::to_owned).collect()
}

#[test]
fn lines_over_tcp_are_found_unchanged() {
    let place = place_with("[tcp://0]\nsourcetype = generic_single_line\nconnection_host = ip\n");
    let server = Server::start(&place);
    let address = address_of(&place, "tcp://0");
    let text = lines(0..20_000);
    let (one, two) = text.split_at(text.len() / 2);
    let senders = [one.to_owned() + "\n", two.to_owned()].map(|part| {
        let address = address.clone();
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            part.as_bytes().chunks(777).for_each(|chunk| stream.write_all(chunk).unwrap());
        })
    });
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    // The text is sent in parts that end in the middle of a line.
    let count = 20_001;
    found(&place, count, "* | stats count");
    let raw = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&raw), sorted(&format!("{one}\n{two}")));
    let port = address.rsplit(':').next().unwrap();
    let rows = found(&place, count, "line=17 | table host source sourcetype index _raw");
    assert_eq!(
        rows,
        [format!("127.0.0.1,tcp:{port},generic_single_line,main,2026-11-20T00:00:17Z host=web2 line=17 took=119")]
    );
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn syslog_is_received_in_both_framings() {
    let place = place_with("[tcp://0]\nsourcetype = syslog\nconnection_host = ip\nindex = net\n");
    let server = Server::start(&place);
    let address = address_of(&place, "tcp://0");
    let send = |text: &str| TcpStream::connect(&address).unwrap().write_all(text.as_bytes()).unwrap();
    send("<13>Nov 20 10:00:00 gate sshd[811]: old form\n<14>Nov 20 10:00:01 gate sshd[811]: without an end");
    let new = "<34>1 2026-11-20T10:00:02.5Z web su 7 - - new form";
    let long = "<34>1 2026-11-20T10:00:03Z web su 7 - - first line\nsecond line";
    send(&format!("{} {new}{} {long}", new.len(), long.len()));
    let rows = found(&place, 4, "index=net | eval time=strftime(_time, \"%H:%M:%S.%1N\") | table time host _raw");
    let expected = [
        "10:00:00.0,gate,<13>Nov 20 10:00:00 gate sshd[811]: old form".to_owned(),
        "10:00:01.0,gate,<14>Nov 20 10:00:01 gate sshd[811]: without an end".to_owned(),
        format!("10:00:02.5,web,{new}"),
        format!("10:00:03.0,web,{}", long.replace('\n', "#012")),
    ];
    assert_eq!(rows, expected);
    drop(server);
}

#[test]
fn the_last_event_of_a_silent_connection_is_found() {
    let place = place_with("[tcp://0]\nsourcetype = talk\nhost = desk\nrawTcpDoneTimeout = 1\n");
    let server = Server::start(&place);
    let mut stream = TcpStream::connect(address_of(&place, "tcp://0")).unwrap();
    stream.write_all(b"2026-11-20T10:00:00Z begins\n  goes on\n  ends without a line end").unwrap();
    let rows = found(&place, 1, "* | eval lines=mvcount(split(_raw, \"\n\")) | table host lines");
    assert_eq!(rows, ["desk,3"]);
    stream.write_all(b"2026-11-20T10:00:09Z another\n").unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    let rows = found(&place, 2, "another | table _raw");
    assert_eq!(rows, ["2026-11-20T10:00:09Z another"]);
    drop(server);
}

#[test]
fn datagrams_drop_their_priority_and_get_a_timestamp() {
    let place = place_with(
        "[udp://0]\nsourcetype = syslog\n[udp://127.0.0.1:0]\nno_priority_stripping = true\n\
         no_appending_timestamp = true\nsource = sensors\nhost = fixed\n",
    );
    let server = Server::start(&place);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (plain, kept) = (address_of(&place, "udp://0"), address_of(&place, "udp://127.0.0.1:0"));
    socket.send_to(b"<13>Nov 20 10:00:00 gate sshd[811]: one", &plain).unwrap();
    socket.send_to(b"<13>two\n", &plain).unwrap();
    socket.send_to(b"<13>2026-11-20T10:00:02Z three", &kept).unwrap();
    let search = "* | rex mode=sed \"s/^[A-Z][a-z]{2} [ 0-9:]+ 127/TIME 127/\" | table host source sourcetype _raw";
    let rows = found(&place, 3, search);
    let ports = [&plain, &kept].map(|address| address.rsplit(':').next().unwrap());
    let expected = [
        format!("127.0.0.1,udp:{},syslog,TIME 127.0.0.1 two", ports[0]),
        format!("fixed,sensors,udp:{},<13>2026-11-20T10:00:02Z three", ports[1]),
        format!("gate,udp:{},syslog,Nov 20 10:00:00 gate sshd[811]: one", ports[0]),
    ];
    assert_eq!(rows, expected);
    drop(server);
}

#[test]
fn forbidden_senders_are_ignored() {
    let place = place_with(
        "[tcp://0]\nacceptFrom = 10.0.0.0/8\n[tcp://127.0.0.1:0]\nsourcetype = generic_single_line\n\
                    [tcp://10.1.2.3:0]\n[splunktcp://10.1.2.3:0]\n",
    );
    let server = Server::start(&place);
    // The server may close the connection before everything is written.
    for stanza in ["tcp://0", "tcp://10.1.2.3:0", "splunktcp://10.1.2.3:0"] {
        let mut refused = TcpStream::connect(address_of(&place, stanza)).unwrap();
        drop(refused.write_all(b"refused\n"));
        let mut answer = Vec::new();
        drop(refused.read_to_end(&mut answer));
        assert!(answer.is_empty(), "{stanza}");
    }
    TcpStream::connect(address_of(&place, "tcp://127.0.0.1:0")).unwrap().write_all(b"taken\n").unwrap();
    assert_eq!(found(&place, 1, "* | table _raw"), ["taken"]);
    drop(server);
}

#[test]
fn stanzas_of_one_port_split_senders() {
    // Both stanzas need the same port number, so the test chooses one.
    let number = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stanzas = |kind: &str| {
        format!(
            "[{kind}://{number}]\nsourcetype = others\n[{kind}://10.1.2.3:{number}]\nsourcetype = far\n\
             [{kind}://127.0.0.1:{number}]\nsourcetype = near\n"
        )
    };
    let place = place_with(&(stanzas("tcp") + &stanzas("udp")));
    let server = Server::start(&place);
    TcpStream::connect(("127.0.0.1", number)).unwrap().write_all(b"over tcp\n").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"over udp", ("127.0.0.1", number)).unwrap();
    let rows = found(&place, 2, "* | rex \"(?<way>tcp|udp)$\" | table sourcetype way");
    assert_eq!(rows, ["near,tcp", "near,udp"]);
    drop(server);
}

/// TLS configuration of a client that trusts the server's generated certificate.
pub(crate) fn tls_config(place: &Place, protocols: &[&[u8]]) -> Arc<rustls::ClientConfig> {
    let pem = std::fs::read(place.path("data/etc/auth/server.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

pub(crate) fn tls_client(place: &Place, address: &str) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(tls_config(place, &[]), name).unwrap();
    rustls::StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

#[test]
fn lines_over_tls_are_found() {
    let place = place_with("[tcp-ssl:0]\nsourcetype = generic_single_line\nconnection_host = ip\n");
    let server = Server::start(&place);
    let address = address_of(&place, "tcp-ssl:0");
    // A client without TLS does not affect others.
    TcpStream::connect(&address).unwrap().write_all(b"no handshake\n").unwrap();
    let mut stream = tls_client(&place, &address);
    let text = lines(0..5_000);
    stream.write_all(text.as_bytes()).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    found(&place, 5_000, "* | stats count");
    let raw = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&raw), sorted(&text));
    drop(server);
}

#[test]
fn the_management_port_accepts_tls_and_plain_local_connections() {
    let place = Place::new();
    let server = Server::start(&place);
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    let address = run_file["mgmt"].as_str().unwrap();
    let request = "GET /services/server/info?output_mode=json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                   Authorization: Basic YWRtaW46Y2hhbmdlbWU=\r\n\r\n";
    let answer_of = |mut stream: Box<dyn ReadWrite>| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for stream in
        [Box::new(tls_client(&place, address)) as Box<dyn ReadWrite>, Box::new(TcpStream::connect(address).unwrap())]
    {
        let answer = answer_of(stream);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    assert_eq!(server.stop("-TERM"), 0);
    // Without TLS, the server accepts only local clients.
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    for (options, conf) in [(&["--insecure"][..], ""), (&[], "[sslConfig]\nenableSplunkdSSL = 0\n")] {
        place.write("data/etc/system/local/server.conf", conf);
        let arguments = [&["serve", "--mgmt", "0.0.0.0:0"], options].concat();
        let refused = place.run(&arguments);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("reachable from other machines"), "{refused:?}");
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

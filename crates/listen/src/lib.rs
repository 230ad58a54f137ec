//! The ports of a node: sockets that listen, TLS, and connections within limits, so that senders who only hold on to
//! theirs keep nobody out.
//!
//! Three kinds of ports: [`HttpPort`] serves any router over HTTP/1 and HTTP/2 and bounds what its connections may take;
//! [`Collecting`] has the HTTP Event Collector and OTLP on such ports; [`Listeners`] has the ports of inputs.conf that take
//! text over TCP and UDP and the data of forwarders. All hand events to a [`quarry_inputs::EventStore`] and answer a sender
//! once that answers for them.
//!
//! Not here: what a sender's bytes mean (`quarry_inputs`), what a REST request is answered (`quarry_api`), where events are
//! stored.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod collector;
mod error;
mod http_port;
mod network;
mod sockets;
mod stream;
mod tls;

pub use collector::{Collecting, listen as listen_for_events};
pub use error::ListenError;
pub use http_port::{Bounds, HttpPort, Security};
pub use network::{Listeners, raise_open_files, stopped};
pub use sockets::listen_on;
pub use stream::Connection;
pub use tls::expanded;

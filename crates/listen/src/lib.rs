//! The ports of a node: listening sockets, TLS, and connection limits that keep idle or hostile clients from locking
//! out others.
//!
//! [`HttpPort`] serves any router over HTTP/1 and HTTP/2 and limits its connections. [`RunningCollector`] runs the HTTP
//! Event Collector and OTLP on such ports. [`Listeners`] runs the ports of inputs.conf that accept text over TCP and
//! UDP and the data of forwarders. The collector and the listeners pass events to a [`quarry_inputs::EventStore`], and
//! acknowledge data to its sender once the store has confirmed it.
//!
//! Not here: decoding received bytes (`quarry_inputs`), REST answers (`quarry_api`), storage.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod collector;
mod error;
mod http_port;
mod network;
mod sockets;
mod stream;
mod tls;

pub use collector::{RunningCollector, listen as listen_for_events};
pub use error::ListenError;
pub use http_port::{Bounds, HttpPort, Security};
pub use network::{Listeners, raise_open_files, wait_stopped};
pub use sockets::listen_on;
pub use stream::Connection;
pub use tls::expand_home;

//! Generators of each file's lines, for a normal day and for the incident.

use std::fmt::Write;

use crate::random::Rng;
use crate::{INCIDENT, LogFile, Moment};

const PAGES: &[&str] = &[
    "/",
    "/search",
    "/product/view",
    "/cart/view",
    "/cart/add",
    "/checkout/pay",
    "/login",
    "/static/app.js",
    "/static/logo.svg",
    "/api/v1/prices",
    "/health",
];
const AGENTS: &[&str] = &[
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:131.0) Gecko/20100101 Firefox/131.0",
    "curl/8.9.1",
];
const USERS: &[&str] = &["root", "admin", "oracle", "test", "ubuntu", "git", "postgres", "deploy", "backup", "pi"];
const STAFF: &[&str] = &["anna", "jonas", "mei", "deploy", "backup"];
const SERVICES: &[&str] = &["OrderService", "StockClient", "MailQueue", "PriceCache", "InvoiceWriter"];
const HOSTS: &[&str] = &["web-1", "web-2", "web-3", "pay-1", "pay-2", "db-1"];
const METRICS: &[&str] = &["cpu.user", "cpu.system", "memory.used_mb", "disk.write_mb", "net.out_mb", "db.connections"];

/// A generator of one file's events.
#[derive(Clone, Copy)]
pub(crate) struct Source(LogFile);

impl Source {
    pub(crate) fn of(file: LogFile) -> Source {
        Source(file)
    }

    /// Mean length of an event in bytes, newline included; used to compute the number of events from a size.
    pub(crate) fn mean_bytes(self) -> u64 {
        match self.0 {
            LogFile::Access => 196,
            LogFile::Auth => 96,
            LogFile::Payments => 236,
            LogFile::Orders => 118,
            LogFile::Firewall => 152,
            LogFile::Metrics => 78,
        }
    }

    /// Appends one regular event, and the events that the incident adds at this moment; returns the number of events.
    pub(crate) fn event(self, at: Moment, rng: &mut Rng, out: &mut String) -> u64 {
        match self.0 {
            LogFile::Access => access(at, rng, out),
            LogFile::Auth => auth(at, rng, out),
            LogFile::Payments => payments(at, rng, out),
            LogFile::Orders => orders(at, rng, out),
            LogFile::Firewall => firewall(at, rng, out),
            LogFile::Metrics => metrics(at, rng, out),
        }
        // Writing to a String cannot fail.
        .unwrap_or(0)
    }
}

type FmtResult = Result<u64, std::fmt::Error>;

fn client_address(rng: &mut Rng) -> String {
    let unit = rng.unit();
    let client = (unit * unit * 40_000.0) as u64;
    format!("{}.{}.{}.{}", 80 + client % 11, (client >> 4) & 127, (client >> 7) & 255, 1 + client % 250)
}

fn access(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let page = *rng.skewed(PAGES);
    let broken = at.in_outage() && page == "/checkout/pay" && !rng.one_in(8);
    let status = match rng.below(200) {
        _ if broken => 503,
        0..=3 => 404,
        4..=5 => 302,
        6 => 500,
        7..=20 => 304,
        _ => 200,
    };
    let method = if page.starts_with("/checkout") || page == "/cart/add" || page == "/login" { "POST" } else { "GET" };
    let bytes = if broken { 312 } else { 180 + (rng.unit().powi(3) * 48_000.0) as u64 };
    let query = if page == "/product/view" { format!("?sku=SKU-{:05}", rng.below(9000)) } else { String::new() };
    writeln!(
        out,
        "{} - - [{}] \"{method} {page}{query} HTTP/1.1\" {status} {bytes} \"https://shop.example.com{}\" \"{}\"",
        client_address(rng),
        at.format("%d/%b/%Y:%H:%M:%S +0000"),
        rng.pick(PAGES),
        rng.skewed(AGENTS),
    )?;
    Ok(1)
}

fn auth(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let stamp = at.format("%b %e %H:%M:%S");
    let process = 2000 + rng.below(30_000);
    match rng.below(10) {
        0..=2 => {
            let (user, port) = (rng.pick(STAFF), 1024 + rng.below(60_000));
            writeln!(
                out,
                "{stamp} bastion sshd[{process}]: Accepted publickey for {user} from 10.1.4.{} port {port} ssh2",
                rng.below(250)
            )?;
        }
        3..=5 => {
            let (user, from, port) = (rng.pick(USERS), client_address(rng), 1024 + rng.below(60_000));
            writeln!(
                out,
                "{stamp} bastion sshd[{process}]: Failed password for invalid user {user} from {from} port {port} ssh2"
            )?;
        }
        6..=7 => writeln!(
            out,
            "{stamp} bastion CRON[{process}]: pam_unix(cron:session): session opened for user root by (uid=0)"
        )?,
        _ => writeln!(
            out,
            "{stamp} bastion systemd[1]: Started Session {} of user {}.",
            rng.below(9000),
            rng.pick(STAFF)
        )?,
    }
    let mut events = 1;
    let (second, login) = (at.second(), INCIDENT.login_s);
    if (login - 1800..login).contains(&second) {
        for _ in 0..6 {
            let (user, port) = (rng.pick(USERS), 40_000 + rng.below(20_000));
            let attacker = INCIDENT.attacker;
            writeln!(
                out,
                "{stamp} bastion sshd[{process}]: Failed password for {user} from {attacker} port {port} ssh2"
            )?;
            events += 1;
        }
    }
    if at.carries(login) {
        let (account, attacker) = (INCIDENT.account, INCIDENT.attacker);
        writeln!(
            out,
            "{stamp} bastion sshd[{process}]: Accepted password for {account} from {attacker} port 51514 ssh2"
        )?;
        events += 1;
    }
    Ok(events)
}

fn payments(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let stamp = at.format("%Y-%m-%dT%H:%M:%S%.3fZ");
    let (order, amount) = (10_000_000 + rng.below(80_000_000), 1.0 + rng.unit().powi(3) * 900.0);
    let trace = format!("{:016x}", rng.next());
    let host = if rng.one_in(2) { "pay-1" } else { "pay-2" };
    let head =
        format!("{{\"timestamp\":\"{stamp}\",\"service\":\"payments\",\"host\":\"{host}\",\"trace_id\":\"{trace}\"");
    if at.in_outage() && !rng.one_in(5) {
        writeln!(
            out,
            "{head},\"level\":\"ERROR\",\"order\":{order},\"duration_ms\":{:.1},\"exception\":\"PoolExhausted\",\"config\":\"2026-11-20-r2\",\"message\":\"cannot get a database connection\",\"stack\":\"PoolExhausted: 0 of 2 connections free\\n\\tat shop.db.Pool.take(Pool.java:88)\\n\\tat shop.pay.Charge.run(Charge.java:41)\"}}",
            5000.0 + rng.tail(40.0),
        )?;
        return Ok(1);
    }
    let level = if rng.one_in(60) { "WARN" } else { "INFO" };
    let message = if level == "WARN" { "card declined" } else { "payment settled" };
    let config = if at.in_outage() { "2026-11-20-r2" } else { "2026-11-18-r1" };
    writeln!(
        out,
        "{head},\"level\":\"{level}\",\"order\":{order},\"amount\":{amount:.2},\"duration_ms\":{:.1},\"config\":\"{config}\",\"card\":{{\"brand\":\"{}\",\"country\":\"{}\"}},\"message\":\"{message}\"}}",
        rng.tail(45.0),
        rng.skewed(&["visa", "mastercard", "amex"]),
        rng.skewed(&["DE", "FR", "NL", "US", "SE"]),
    )?;
    Ok(1)
}

fn orders(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let stamp = at.format("%Y-%m-%d %H:%M:%S,%3f");
    let (service, thread, order) = (rng.pick(SERVICES), rng.below(16), 10_000_000 + rng.below(80_000_000));
    let fails = if at.in_outage() { rng.one_in(3) } else { rng.one_in(400) };
    if fails {
        writeln!(
            out,
            "{stamp} ERROR [worker-{thread}] shop.orders.{service} - order {order} failed after {} attempts",
            1 + rng.below(5)
        )?;
        writeln!(out, "java.lang.IllegalStateException: payment service answered 503")?;
        for frame in [
            "shop.orders.PaymentClient.charge(PaymentClient.java:131)",
            "shop.orders.OrderService.place(OrderService.java:77)",
            "java.base/java.lang.Thread.run(Thread.java:1583)",
        ] {
            writeln!(out, "\tat {frame}")?;
        }
        writeln!(out, "Caused by: java.net.http.HttpTimeoutException: request timed out")?;
        writeln!(out, "\t... 3 more")?;
        return Ok(1);
    }
    let level = if rng.one_in(25) { "DEBUG" } else { "INFO" };
    let verb = rng.skewed(&["placed", "packed", "shipped", "reserved", "cancelled"]);
    writeln!(
        out,
        "{stamp} {level} [worker-{thread}] shop.orders.{service} - order {order} {verb} in {:.0} ms",
        rng.tail(30.0)
    )?;
    Ok(1)
}

fn firewall(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let stamp = at.format("%Y-%m-%dT%H:%M:%SZ");
    let blocked = rng.one_in(6);
    let action = if blocked { "blocked" } else { "allowed" };
    let port = *rng.skewed(&[443u16, 80, 53, 5432, 22, 25, 3389]);
    let bytes = if blocked { 60 } else { 300 + (rng.unit().powi(4) * 200_000.0) as u64 };
    writeln!(
        out,
        "{stamp} fw-1 action={action} src_ip={} dest_ip=10.1.{}.{} dest_port={port} proto={} bytes_out={bytes} rule=\"{}\"",
        client_address(rng),
        rng.below(4),
        rng.below(250),
        if port == 53 { "udp" } else { "tcp" },
        if blocked { "default deny" } else { "allow web" },
    )?;
    let stealing = (INCIDENT.login_s + 240..INCIDENT.outage_start_s).contains(&at.second());
    if stealing && rng.one_in(3) {
        let (drop_host, bytes) = (INCIDENT.drop_host, 18_000_000 + rng.below(9_000_000));
        writeln!(
            out,
            "{stamp} fw-1 action=allowed src_ip=10.1.0.5 dest_ip={drop_host} dest_port=443 proto=tcp bytes_out={bytes} rule=\"allow out\""
        )?;
        return Ok(2);
    }
    Ok(1)
}

fn metrics(at: Moment, rng: &mut Rng, out: &mut String) -> FmtResult {
    let (host, metric) = (*rng.pick(HOSTS), *rng.pick(METRICS));
    let busy = 0.5 + 0.5 * (f64::from(at.second()) / 86_400.0 * std::f64::consts::TAU - 1.6).sin().abs();
    let value = match metric {
        "db.connections" if at.in_outage() => 2.0,
        "db.connections" => 20.0 + 60.0 * busy,
        "memory.used_mb" => 3000.0 + 900.0 * busy,
        _ => 55.0 * busy + rng.unit() * 12.0,
    };
    writeln!(out, "{} metric={metric} host={host} value={value:.2} unit=gauge", at.format("%Y-%m-%dT%H:%M:%S%.3fZ"))?;
    Ok(1)
}

//! The clock of a store's servers, as the `Date` of their answers shows it.
//!
//! Times of objects come from this clock, so ages must be measured by it: the clock of this machine may be hours ahead.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use quarry_stdx::SharedClock;

use super::added_headers::AddedHeaders;

const NS_PER_SEC: i64 = 1_000_000_000;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of the newest answer.
#[derive(Debug)]
pub(crate) struct ServerClock {
    clock: SharedClock,
    /// Time of the server, and reading of the monotonic clock here when it arrived.
    newest: Mutex<Option<(i64, i64)>>,
}

impl ServerClock {
    pub(crate) fn new(clock: SharedClock) -> Arc<ServerClock> {
        Arc::new(ServerClock { clock, newest: Mutex::new(None) })
    }

    /// Nanoseconds since 1970; `None` before the first answer.
    pub(crate) fn now_ns(&self) -> Option<i64> {
        let newest = *self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.map(|(then, at)| then.saturating_add(self.clock.elapsed_ns().saturating_sub(at)))
    }

    fn record(&self, answer: &HttpResponse) {
        let date = answer.headers().get("date").and_then(|date| parse_date(date.to_str().ok()?));
        if let Some(date) = date {
            *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some((date, self.clock.elapsed_ns()));
        }
    }
}

/// Creates HTTP clients whose responses set the clock, and whose requests have the headers that settings add.
#[derive(Clone, Debug)]
pub(crate) struct DatedConnector {
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) headers: Arc<AddedHeaders>,
}

impl HttpConnector for DatedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(DatedService { client, connector: self.clone() }))
    }
}

struct DatedService {
    client: HttpClient,
    connector: DatedConnector,
}

impl fmt::Debug for DatedService {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DatedService").finish_non_exhaustive()
    }
}

impl HttpService for DatedService {
    fn call<'s, 'f>(
        &'s self,
        mut request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let DatedConnector { clock, headers } = &self.connector;
            let added = headers.add_to(&mut request).await;
            added.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            let answer = self.client.execute(request).await?;
            clock.record(&answer);
            Ok(answer)
        })
    }
}

/// A date of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`, in nanoseconds since 1970.
fn parse_date(text: &str) -> Option<i64> {
    let (_, date) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = date.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
    seconds_to_ns(days_since_1970(number(year)?, i64::try_from(month).ok()? + 1, number(day)?), time)
}

/// A time of S3, such as `1994-11-06T08:49:37.000Z`, in nanoseconds since 1970; fractions of a second are dropped.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else { return None };
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
    seconds_to_ns(days_since_1970(number(year)?, number(month)?, number(day)?), time)
}

/// Nanoseconds since 1970 at a time of a day, such as `08:49:37`.
fn seconds_to_ns(days: i64, time: &str) -> Option<i64> {
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
    let seconds = ((days * 24 + number(hour)?) * 60 + number(minute)?) * 60 + number(second)?;
    seconds.checked_mul(NS_PER_SEC)
}

/// Days from 1 January 1970 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    days_of_years + (153 * month + 2) / 5 + day - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_parsed() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
        ] {
            assert_eq!(parse_date(text), Some(seconds * NS_PER_SEC), "{text}");
        }
        for text in ["", "yesterday", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT"] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}

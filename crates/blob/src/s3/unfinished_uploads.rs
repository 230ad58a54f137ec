//! Multipart uploads that have begun and never ended, because the process died or aborting them failed. No listing of
//! objects shows them, and their parts take up space until they are aborted.

use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use object_store::multipart::MultipartStore;
use tokio::time;

use super::requests::{Requests, truncate_message};
use super::server_clock::parse_time;
use super::traffic::count;
use crate::{BlobError, name};

/// Maximum number of pages of a listing, of a thousand uploads each; the next call handles the rest.
const PAGES_MAX: usize = 10;
/// Action of the listing, for messages.
const LIST_ACTION: &str = "list unfinished uploads below";

/// A client for the request that lists uploads, which the library does not offer.
#[derive(Debug)]
pub(crate) struct UploadLister {
    pub(crate) http: HttpClient,
    /// Provides the credentials.
    pub(crate) client: AmazonS3,
    /// URL of the container.
    pub(crate) url: String,
}

/// An upload that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnfinishedUpload {
    /// Name of the object.
    pub(crate) name: String,
    id: String,
    /// Start time by the clock of the servers, in nanoseconds since 1970.
    pub(crate) begun_ns: i64,
}

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
struct UploadPage {
    uploads: Vec<UnfinishedUpload>,
    /// Key and id after which the next page begins; `None` at the end.
    next: Option<(String, String)>,
}

impl Requests {
    /// The uploads below the prefix.
    pub(crate) async fn unfinished_uploads(&self) -> Result<Vec<UnfinishedUpload>, BlobError> {
        let (mut uploads, mut next) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.page_of_uploads(next.as_ref()).await?;
            uploads.extend(page.uploads);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        Ok(uploads)
    }

    async fn page_of_uploads(&self, after: Option<&(String, String)>) -> Result<UploadPage, BlobError> {
        let prefix = self.settings.prefix.trim_matches('/');
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let mut url = format!("{}?max-uploads=1000&prefix={}&uploads=", self.lister.url, encode(&below));
        if let Some((key, id)) = after {
            url = format!(
                "{}?key-marker={}&max-uploads=1000&prefix={}&upload-id-marker={}&uploads=",
                self.lister.url,
                encode(key),
                encode(&below),
                encode(id)
            );
        }
        let failed = |reason: String| self.unavailable(self.read_context(LIST_ACTION, prefix), 1, &reason);
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.parse().map_err(|_| failed(format!("{url} is not a URL")))?;
        let work = async {
            let credential = self.lister.client.credentials().get_credential().await;
            let credential = credential.map_err(|error| failed(truncate_message(&error.to_string())))?;
            AwsAuthorizer::new(&credential, "s3", &self.settings.region).authorize(&mut request, None);
            let answer = self.lister.http.execute(request).await;
            let answer = answer.map_err(|error| failed(truncate_message(&error.to_string())))?;
            let (status, body) = (answer.status(), answer.into_body().bytes().await);
            let body = body.map_err(|error| failed(truncate_message(&error.to_string())))?;
            Ok::<_, BlobError>((status, String::from_utf8_lossy(&body).into_owned()))
        };
        // The semaphore is never closed; see `send_once`.
        let slot = self.slots.acquire().await.ok();
        count(&self.counters.requests, 1);
        let ended = time::timeout(self.settings.request_timeout, work).await;
        drop(slot);
        let (status, body) = ended.unwrap_or_else(|_| Err(failed("no answer in time".to_owned())))?;
        match status.as_u16() {
            200 => Ok(parse_page(&body, prefix)),
            401 | 403 => Err(BlobError::Denied {
                action: LIST_ACTION,
                name: prefix.to_owned(),
                place: self.place(),
                reason: truncate_message(&body),
            }),
            // The server does not support this listing.
            405 | 501 => Ok(UploadPage::default()),
            _ => Err(failed(truncate_message(&format!("{status} {body}")))),
        }
    }

    /// Aborts an upload; not an error if it has ended.
    pub(crate) async fn abort_upload(&self, upload: &UnfinishedUpload) -> Result<(), BlobError> {
        let path = self.path(&upload.name)?;
        let abort = |client: AmazonS3| {
            let (path, id) = (path.clone(), upload.id.clone());
            async move { client.abort_multipart(&path, &id).await }
        };
        match self.send(self.write_context("abort the upload of", &upload.name), abort).await {
            Ok(()) | Err(BlobError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Parses an answer. Uploads whose keys are not names of objects are skipped: another program began them.
fn parse_page(text: &str, prefix: &str) -> UploadPage {
    let upload = |text: &str| {
        let key = element(text, "Key")?;
        let name = if prefix.is_empty() { key } else { key.strip_prefix(prefix)?.strip_prefix('/')? };
        name::check(name).ok()?;
        let begun_ns = parse_time(element(text, "Initiated")?)?;
        Some(UnfinishedUpload { name: name.to_owned(), id: unescape(element(text, "UploadId")?), begun_ns })
    };
    let uploads = text.split("<Upload>").skip(1).filter_map(upload).collect();
    let head = text.split("<Upload>").next().unwrap_or_default();
    let next = match element(head, "IsTruncated") {
        Some("true") => element(head, "NextKeyMarker").zip(element(head, "NextUploadIdMarker")),
        _ => None,
    };
    UploadPage { uploads, next: next.map(|(key, id)| (unescape(key), unescape(id))) }
}

/// The text of the first element of this name; names, times and ids contain no elements.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

fn unescape(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

/// A value of a query, percent-encoded as signatures require.
fn encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_uploads_are_parsed() {
        let text = r#"<?xml version="1.0"?><ListMultipartUploadsResult><Bucket>b</Bucket><IsTruncated>true</IsTruncated>
            <NextKeyMarker>p/a&amp;b</NextKeyMarker><NextUploadIdMarker>x&amp;y</NextUploadIdMarker>
            <Upload><Key>p/a/1.bucket</Key><UploadId>i&amp;d=</UploadId><Initiated>2024-02-29T23:59:59.250Z</Initiated></Upload>
            <Upload><Key>other/1.bucket</Key><UploadId>2</UploadId><Initiated>2024-02-29T23:59:59Z</Initiated></Upload>
            <Upload><Key>p/a b</Key><UploadId>3</UploadId><Initiated>2024-02-29T23:59:59Z</Initiated></Upload>
            <Upload><Key>p/c</Key><UploadId>4</UploadId><Initiated>some day</Initiated></Upload>
            </ListMultipartUploadsResult>"#;
        let begun_ns = 1_709_251_199_000_000_000;
        let upload = UnfinishedUpload { name: "a/1.bucket".into(), id: "i&d=".into(), begun_ns };
        let next = Some(("p/a&b".to_owned(), "x&y".to_owned()));
        assert_eq!(parse_page(text, "p"), UploadPage { uploads: vec![upload], next });
        let last = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>";
        assert_eq!(parse_page(last, ""), UploadPage::default());
        assert_eq!(encode("a/b c+ü~"), "a%2Fb%20c%2B%C3%BC~");
    }
}

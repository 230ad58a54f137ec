//! Headers that settings add to requests, such as a storage class.
//!
//! Servers refuse a header `x-amz-…` that the signature does not cover, and the client library signs a request before
//! it can be changed. A request with an added header is therefore signed again.

use std::fmt;
use std::sync::OnceLock;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};
use object_store::aws::{AmazonS3, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::HttpRequest;

use crate::BlobError;

/// Header with the SHA-256 of a request's body.
const BODY_HASH: &str = "x-amz-content-sha256";
/// Beginning of the header `authorization` of a signed request.
const SIGNATURE: &str = "AWS4-HMAC-SHA256";
/// Headers that a request sets itself, because its meaning or its acceptance depends on them. Settings cannot set them.
const OWN_HEADERS: [&str; 8] = [
    "authorization",
    "content-length",
    "host",
    "range",
    "transfer-encoding",
    BODY_HASH,
    "x-amz-date",
    "x-amz-security-token",
];
/// Prefixes of the names of further headers that a request sets itself.
const OWN_PREFIXES: [&str; 3] = ["if-", "x-amz-checksum-", "x-amz-copy-source"];
/// URL parameter of requests that upload a part of an object.
const PART_PARAMETER: &str = "partNumber=";
/// Prefixes of the names of the headers `x-amz-…` that servers accept in requests with a part. Other such headers
/// describe the object; servers accept them only in the request that begins the upload.
const PART_PREFIXES: [&str; 3] =
    ["x-amz-expected-bucket-owner", "x-amz-request-payer", "x-amz-server-side-encryption-customer-"];

/// A header that is added to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Header {
    /// The method of the requests; `None` for all requests.
    pub method: Option<String>,
    /// Name of the header.
    pub name: String,
    /// Value of the header.
    pub value: String,
}

/// The added headers, and what is needed to sign requests again.
pub(crate) struct AddedHeaders {
    headers: Vec<(Option<Method>, HeaderName, HeaderValue)>,
    region: String,
    /// Set when the first client is built.
    credentials: OnceLock<AwsCredentialProvider>,
}

impl fmt::Debug for AddedHeaders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AddedHeaders").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl AddedHeaders {
    /// These headers, for requests that are signed for a region.
    pub(crate) fn new(headers: &[S3Header], region: &str) -> Result<AddedHeaders, BlobError> {
        let headers = headers.iter().map(|header| {
            let refused =
                |reason: &str| BlobError::Settings { reason: format!("header {} of requests {reason}", header.name) };
            let method = header.method.as_ref().map(|method| Method::from_bytes(method.as_bytes())).transpose();
            let method = method.map_err(|_| refused("is for a method that does not exist"))?;
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| refused("has an invalid name"))?;
            let value = HeaderValue::from_str(&header.value).map_err(|_| refused("has an invalid value"))?;
            match OWN_HEADERS.contains(&name.as_str()) || begins_with(&name, &OWN_PREFIXES) {
                true => Err(refused("cannot be set, because each request has its own")),
                false => Ok((method, name, value)),
            }
        });
        Ok(AddedHeaders {
            headers: headers.collect::<Result<_, _>>()?,
            region: region.to_owned(),
            credentials: OnceLock::new(),
        })
    }

    /// Takes the credentials of a client. All clients of a store have the same.
    pub(crate) fn take_credentials(&self, client: &AmazonS3) {
        self.credentials.get_or_init(|| client.credentials().clone());
    }

    /// Adds the headers to a signed request, and signs it again. Requests that are not signed are those for
    /// credentials; some of them have a token for authorization.
    pub(crate) async fn add_to(&self, request: &mut HttpRequest) -> object_store::Result<()> {
        let Some(credentials) = self.credentials.get().filter(|_| is_signed(request) && self.insert_into(request))
        else {
            return Ok(());
        };
        let credential = credentials.get_credential().await?;
        let hash = request.headers().get(BODY_HASH).and_then(|hash| parse_hash(hash.as_bytes()));
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(request, hash.as_ref().map(|hash| &hash[..]));
        Ok(())
    }

    /// Inserts the headers into a request; returns whether there are any for it.
    fn insert_into(&self, request: &mut HttpRequest) -> bool {
        let has_part = request.method() == Method::PUT
            && request.uri().query().is_some_and(|query| query.split('&').any(|it| it.starts_with(PART_PARAMETER)));
        let mut is_changed = false;
        for (method, name, value) in &self.headers {
            let is_refused = has_part && begins_with(name, &["x-amz-"]) && !begins_with(name, &PART_PREFIXES);
            if !is_refused && method.as_ref().is_none_or(|method| method == request.method()) {
                request.headers_mut().insert(name, value.clone());
                is_changed = true;
            }
        }
        is_changed
    }
}

fn begins_with(name: &HeaderName, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// Whether a request is signed.
pub(super) fn is_signed(request: &HttpRequest) -> bool {
    request.headers().get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(SIGNATURE.as_bytes()))
}

/// A SHA-256 in hexadecimal.
fn parse_hash(text: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != hash.len() || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

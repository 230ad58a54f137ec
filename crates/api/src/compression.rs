//! Answers compressed with gzip, for clients that accept it.
//!
//! Complete texts of up to [`BYTES_MAX`] are compressed if they are larger than a packet. Streamed rows are compressed
//! chunk by chunk: each chunk can be decoded when it arrives, so that compression delays no row. Server-sent events are
//! left as they are, because each is small. Compressed request bodies are accepted only by the collector
//! (`quarry_inputs`).

use std::io::Write;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};

use crate::endpoint::run_blocking;
use crate::message::ApiError;

/// Minimum bytes of an answer that is compressed; a smaller answer fits into a packet uncompressed.
const BYTES_MIN: usize = 1_400;
/// Maximum bytes of a complete answer that is compressed; a larger one is sent uncompressed.
const BYTES_MAX: usize = 16 << 20;
/// Maximum bytes that are compressed on the thread of the connection; more are compressed on another thread.
const INLINE_BYTES_MAX: usize = 32 << 10;
/// Type of server-sent events.
const EVENTS: &str = "text/event-stream";
/// Name of the content coding.
const GZIP: &str = "gzip";

/// Compresses the answer if the client accepts gzip.
pub(crate) async fn compress_response(request: Request, next: Next) -> Response {
    let is_accepted = accepts_gzip(request.headers());
    let answer = next.run(request).await;
    if is_accepted { compress_if_suitable(answer).await } else { answer }
}

/// Whether `Accept-Encoding` names gzip with a weight other than 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let Some(accepted) = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(GZIP));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|text| text.parse::<f64>().ok());
        is_gzip && weight != Some(0.0)
    })
}

/// Returns the answer compressed if it is a stream of rows or a complete text of a suitable size, else unchanged.
async fn compress_if_suitable(answer: Response) -> Response {
    let size = answer.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let is_of_size = size.is_none_or(|bytes| (BYTES_MIN..=BYTES_MAX).contains(&bytes));
    if !is_of_size || answer.headers().contains_key(header::CONTENT_ENCODING) || !is_text(answer.headers()) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    if size.is_none() {
        mark_compressed(&mut parts.headers);
        return Response::from_parts(parts, compressed_stream(body));
    }
    // The body's size was checked, so reading it cannot fail.
    let Ok(body) = to_bytes(body, BYTES_MAX).await else {
        return ApiError::internal("the answer cannot be compressed").into_response();
    };
    let bytes = match body.len() <= INLINE_BYTES_MAX {
        true => gzip(&body),
        false => match run_blocking(move || gzip(&body)).await {
            Ok(bytes) => bytes,
            Err(error) => return error.into_response(),
        },
    };
    mark_compressed(&mut parts.headers);
    Response::from_parts(parts, Body::from(bytes))
}

fn mark_compressed(headers: &mut HeaderMap) {
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(GZIP));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// A stream that is being compressed; the encoder is `None` once its trailer has been sent.
struct CompressedStream {
    chunks: BodyDataStream,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

/// The body compressed chunk by chunk. A chunk of a body is small (about 64 kB), but is compressed off the threads of
/// the connections.
fn compressed_stream(body: Body) -> Body {
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    let stream = CompressedStream { chunks: body.into_data_stream(), encoder };
    Body::from_stream(stream::unfold(stream, CompressedStream::next))
}

impl CompressedStream {
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, CompressedStream)> {
        let mut encoder = self.encoder.take()?;
        let Some(chunk) = self.chunks.next().await else {
            return Some((encoder.finish().map(Bytes::from).map_err(axum::Error::new), self));
        };
        // After an error, the stream ends without a trailer, so that clients see that it is incomplete.
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return Some((Err(error), self)),
        };
        let compressed = tokio::task::spawn_blocking(move || {
            let written = encoder.write_all(&chunk).and_then(|()| encoder.flush());
            written.map(|()| (std::mem::take(encoder.get_mut()), encoder))
        });
        let compressed = compressed.await.map_err(axum::Error::new);
        match compressed.and_then(|compressed| compressed.map_err(axum::Error::new)) {
            Ok((bytes, encoder)) => {
                self.encoder = Some(encoder);
                Some((Ok(Bytes::from(bytes)), self))
            }
            Err(error) => Some((Err(error), self)),
        }
    }
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    (kind.starts_with("text/") && !kind.starts_with(EVENTS)) || kind.starts_with("application/json")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _infallible = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_and_weight() {
        for (accepted, is_accepted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0, identity", false),
            ("identity", false),
            ("x-gzip-like", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(accepts_gzip(&headers), is_accepted, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn large_texts_are_compressed_and_nothing_else() {
        let long = "a text of an answer ".repeat(100_000);
        for (kind, text, is_compressed) in [
            ("text/xml", long.as_str(), true),
            ("application/json; charset=UTF-8", &long[..2_000], true),
            ("text/xml", &long[..1_000], false),
            ("application/gzip", long.as_str(), false),
        ] {
            let answer = compress_if_suitable(([(header::CONTENT_TYPE, kind)], text.to_owned()).into_response()).await;
            assert_eq!(answer.headers().contains_key(header::CONTENT_ENCODING), is_compressed, "{kind}");
            let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            let mut read = String::new();
            match is_compressed {
                true => GzDecoder::new(body.as_ref()).read_to_string(&mut read).unwrap(),
                false => body.as_ref().read_to_string(&mut read).unwrap(),
            };
            assert!(read == text && (body.len() < text.len()) == is_compressed, "{kind}");
        }
    }

    /// A streamed answer of these chunks, compressed if suitable.
    async fn streamed(kind: &'static str, chunks: Vec<Result<&'static str, std::io::Error>>) -> Response {
        let body = Body::from_stream(futures::stream::iter(chunks));
        compress_if_suitable(([(header::CONTENT_TYPE, kind)], body).into_response()).await
    }

    fn decoded(bytes: &[u8]) -> String {
        let mut text = vec![0; 100];
        let read = GzDecoder::new(bytes).read(&mut text).unwrap();
        String::from_utf8(text[..read].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn each_chunk_of_a_stream_can_be_decoded_when_it_arrives() {
        let answer = streamed("application/json; charset=UTF-8", vec![Ok("first row\n"), Ok("second row\n")]).await;
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        let mut chunks = answer.into_body().into_data_stream();
        let mut received = chunks.next().await.unwrap().unwrap().to_vec();
        assert_eq!(decoded(&received), "first row\n");
        while let Some(chunk) = chunks.next().await {
            received.extend(chunk.unwrap());
        }
        let mut whole = String::new();
        GzDecoder::new(received.as_slice()).read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "first row\nsecond row\n");
        let events = streamed("text/event-stream", vec![Ok("event: end\n\n")]).await;
        assert!(!events.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[tokio::test]
    async fn a_stream_that_fails_is_cut_off() {
        let answer = streamed("text/xml", vec![Ok("<row/>"), Err(std::io::Error::other("lost"))]).await;
        let chunks: Vec<_> = answer.into_body().into_data_stream().collect().await;
        assert_eq!(chunks.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
    }
}

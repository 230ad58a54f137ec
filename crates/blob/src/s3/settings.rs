//! Settings of a remote store: location, credentials, timeouts.

use std::fmt;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::client::{Certificate, ClientOptions, HttpConnector as _};
use object_store::{BackoffConfig, RetryConfig};

use super::added_headers::S3Header;
use super::server_clock::DatedConnector;
use super::unfinished_uploads::UploadLister;
use crate::BlobError;

/// Default maximum number of concurrent requests. A search for some tens of events requests all of their pages at once,
/// and none of these requests should wait for the answer to another.
const REQUESTS_MAX: usize = 128;

/// Settings of a remote store.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// The S3 bucket, called container here to distinguish it from our buckets.
    pub container: String,
    /// Prefix of every key in the container, without leading or trailing slashes; may be empty.
    pub prefix: String,
    /// URLs of servers that hold the same container, such as `https://10.0.0.1:9000`. Requests are spread over these
    /// servers. Empty for AWS's endpoint of the region.
    pub endpoints: Vec<String>,
    /// The region requests are signed for.
    pub region: String,
    /// Whether URLs are `ENDPOINT/CONTAINER/KEY` instead of `CONTAINER.ENDPOINT/KEY`.
    pub path_style: bool,
    /// Source of the key with which requests are signed.
    pub credentials: S3Credentials,
    /// PEM certificates of authorities trusted in addition to the system's.
    pub authorities: Vec<u8>,
    /// Whether the certificates of servers must be valid.
    pub verifies_certificates: bool,
    /// Server-side encryption of new objects.
    pub encryption: S3Encryption,
    /// Headers that are added to requests.
    pub headers: Vec<S3Header>,
    /// Timeout of one request, including its body.
    pub request_timeout: Duration,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Maximum number of concurrent requests; others wait.
    pub requests_max: usize,
    /// Maximum number of attempts per request.
    pub attempts_max: u32,
    /// Objects above this size are uploaded in parts of this size. S3 requires at least 5 MiB.
    pub part_bytes: usize,
    /// Maximum number of parts of an object that are uploaded concurrently.
    pub parts_max: usize,
}

impl S3Settings {
    /// Default settings for a container at these endpoints.
    pub fn new(container: &str, endpoints: &[&str], credentials: S3Credentials) -> S3Settings {
        S3Settings {
            container: container.to_owned(),
            prefix: String::new(),
            endpoints: endpoints.iter().map(|url| url.trim_end_matches('/').to_owned()).collect(),
            region: "us-east-1".to_owned(),
            path_style: true,
            credentials,
            authorities: Vec::new(),
            verifies_certificates: true,
            encryption: S3Encryption::Container,
            headers: Vec::new(),
            request_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            requests_max: REQUESTS_MAX,
            attempts_max: 8,
            part_bytes: 16 << 20,
            parts_max: 4,
        }
    }
}

/// Credentials for a remote store.
#[derive(Clone)]
pub enum S3Credentials {
    /// A key and its secret.
    Key {
        /// The access key's id.
        id: String,
        /// The secret key.
        secret: String,
        /// Session token of temporary credentials.
        token: Option<String>,
    },
    /// From the environment: variables as the AWS tools name them (`AWS_ACCESS_KEY_ID`, `AWS_WEB_IDENTITY_TOKEN_FILE`,
    /// …), otherwise the role of the container or instance.
    Machine(Vec<(String, String)>),
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            S3Credentials::Key { id, .. } => out.debug_struct("Key").field("id", id).finish_non_exhaustive(),
            S3Credentials::Machine(variables) => {
                out.debug_list().entries(variables.iter().map(|(name, _)| name)).finish()
            }
        }
    }
}

/// Server-side encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Encryption {
    /// The container's default.
    Container,
    /// Keys managed by the server (SSE-S3).
    Server,
    /// With a key of the key service (SSE-KMS), by its id.
    KeyService(String),
}

impl S3Settings {
    /// A client per endpoint, with its URL. Clients do not retry on their own; the connector is that of the store.
    pub(crate) fn clients(&self, connector: &DatedConnector) -> Result<Vec<(String, AmazonS3)>, BlobError> {
        if self.endpoints.is_empty() {
            let url = format!("https://s3.{}.amazonaws.com", self.region);
            return Ok(vec![(url, self.client(None, connector)?)]);
        }
        self.endpoints.iter().map(|url| Ok((url.clone(), self.client(Some(url), connector)?))).collect()
    }

    /// A client of the first endpoint that lists unfinished uploads.
    pub(crate) fn upload_lister(&self, connector: &DatedConnector) -> Result<UploadLister, BlobError> {
        let endpoint = self.endpoints.first().map(String::as_str);
        let http = connector.connect(&self.client_options(endpoint)?).map_err(refused)?;
        let host = match endpoint {
            Some(url) => self.address(url),
            None => self.address(&format!("https://s3.{}.amazonaws.com", self.region)),
        };
        let url = if self.path_style { format!("{host}/{}", self.container) } else { format!("{host}/") };
        Ok(UploadLister { http, client: self.client(endpoint, connector)?, url })
    }

    fn client_options(&self, endpoint: Option<&str>) -> Result<ClientOptions, BlobError> {
        let mut options = ClientOptions::new()
            .with_timeout(self.request_timeout)
            .with_connect_timeout(self.connect_timeout)
            .with_pool_max_idle_per_host(self.requests_max)
            .with_allow_invalid_certificates(!self.verifies_certificates)
            .with_allow_http(endpoint.is_some_and(|url| url.starts_with("http://")));
        if !self.authorities.is_empty() {
            for authority in Certificate::from_pem_bundle(&self.authorities).map_err(refused)? {
                options = options.with_root_certificate(authority);
            }
        }
        Ok(options)
    }

    fn client(&self, endpoint: Option<&str>, connector: &DatedConnector) -> Result<AmazonS3, BlobError> {
        let once = RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, backoff: BackoffConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.container)
            .with_region(&self.region)
            .with_virtual_hosted_style_request(!self.path_style)
            .with_checksum_algorithm(Checksum::SHA256)
            .with_retry(once);
        builder = match &self.credentials {
            S3Credentials::Key { id, secret, token } => {
                let keyed = builder.with_access_key_id(id).with_secret_access_key(secret);
                token.iter().fold(keyed, |keyed, token| keyed.with_token(token))
            }
            S3Credentials::Machine(variables) => variables.iter().fold(builder, |builder, (name, value)| {
                match name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                    Ok(key) if configures_credentials(key) => builder.with_config(key, value),
                    _ => builder,
                }
            }),
        };
        builder = match &self.encryption {
            S3Encryption::Container => builder,
            S3Encryption::Server => {
                // The type of this key is not public, but its name is.
                let key: AmazonS3ConfigKey = "aws_server_side_encryption".parse().map_err(refused)?;
                builder.with_config(key, "AES256")
            }
            S3Encryption::KeyService(id) => builder.with_sse_kms_encryption(id),
        };
        if let Some(url) = endpoint {
            builder = builder.with_endpoint(self.address(url));
        }
        builder = builder.with_http_connector(connector.clone());
        let client = builder.with_client_options(self.client_options(endpoint)?).build().map_err(refused)?;
        connector.headers.take_credentials(&client);
        Ok(client)
    }

    /// The address of an endpoint, with the container in the host name unless `path_style` is set.
    fn address(&self, url: &str) -> String {
        match url.split_once("://") {
            Some((scheme, host)) if !self.path_style => format!("{scheme}://{}.{host}", self.container),
            _ => url.to_owned(),
        }
    }
}

fn refused(error: object_store::Error) -> BlobError {
    BlobError::Settings { reason: error.to_string() }
}

/// Whether an environment variable configures credentials; the location comes from settings only.
fn configures_credentials(key: AmazonS3ConfigKey) -> bool {
    matches!(
        key,
        AmazonS3ConfigKey::AccessKeyId
            | AmazonS3ConfigKey::SecretAccessKey
            | AmazonS3ConfigKey::Token
            | AmazonS3ConfigKey::WebIdentityTokenFile
            | AmazonS3ConfigKey::RoleArn
            | AmazonS3ConfigKey::RoleSessionName
            | AmazonS3ConfigKey::StsEndpoint
            | AmazonS3ConfigKey::MetadataEndpoint
            | AmazonS3ConfigKey::ContainerCredentialsRelativeUri
            | AmazonS3ConfigKey::ContainerCredentialsFullUri
            | AmazonS3ConfigKey::ContainerAuthorizationTokenFile
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_is_in_the_path_or_the_host_name() {
        let key = S3Credentials::Machine(Vec::new());
        let mut settings = S3Settings::new("logs", &["https://s3.example:9000/"], key);
        assert_eq!(settings.address(&settings.endpoints[0]), "https://s3.example:9000");
        settings.path_style = false;
        assert_eq!(settings.address(&settings.endpoints[0]), "https://logs.s3.example:9000");
    }

    #[test]
    fn secrets_are_not_displayed() {
        let key =
            S3Credentials::Key { id: "AKIA".to_owned(), secret: "hidden".to_owned(), token: Some("hidden".to_owned()) };
        let machine = S3Credentials::Machine(vec![("AWS_SECRET_ACCESS_KEY".to_owned(), "hidden".to_owned())]);
        assert!(!format!("{key:?} {machine:?}").contains("hidden"));
    }
}

//! A bucket of a server that speaks S3.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::location::redacted;
use kubepkg_core::store::StoreError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::objects::{Bucket, failure};

/// How long a request and the beginning of its answer may take, and how long the next bytes of the
/// answer. Not all of those: a pull over a slow line takes as long as it takes. But what a request
/// sends counts, so large ones have [`PATIENT`].
const SILENT: Duration = Duration::from_secs(60);

/// The same for requests that send much. The largest in one piece are all names and the text of an
/// import, of 1 GiB at most: that takes 18 minutes at 1 MB/s. A part has less, by its size.
const PATIENT: Duration = Duration::from_secs(20 * 60);

/// How long to try to reach it.
const CONNECT: Duration = Duration::from_secs(10);

/// For how long a failed request is made again: clients of a mirror give up after a minute.
const AGAIN: Duration = Duration::from_secs(30);

/// One of these says who asks. Without, the address would be asked at which clouds tell machines
/// who they are, and a site of its own has no such address.
const WHO: [&str; 6] = [
    "aws_access_key_id",
    "aws_web_identity_token_file",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
    "aws_metadata_endpoint",
    "aws_skip_signature",
];

/// Where a bucket is, and who asks.
#[derive(Clone, Default)]
pub struct S3 {
    /// Name of the bucket.
    pub bucket: String,
    /// The part of it that is used: a path without slashes at its ends; may be empty.
    pub prefix: String,
    /// What the usual variables say (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …),
    /// by their names. Those it does not know are passed over.
    pub settings: Vec<(String, String)>,
}

/// The settings by their names alone: keys are among them.
impl std::fmt::Debug for S3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.settings.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("S3")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("settings", &names)
            .finish()
    }
}

impl S3 {
    /// The bucket. Nothing is asked yet.
    pub fn open(&self) -> Result<Bucket, StoreError> {
        let place = match &*self.prefix {
            "" => format!("s3://{}", self.bucket),
            prefix => format!("s3://{}/{prefix}", self.bucket),
        };
        let mut known = Vec::new();
        let mut plain = None;
        let mut allowed = false;
        let mut who = false;
        for (name, value) in &self.settings {
            let name = name.to_ascii_lowercase();
            who |= WHO.contains(&name.as_str());
            if name == "aws_allow_http" {
                allowed = value == "true" || value == "1";
            }
            if name.starts_with("aws_endpoint_url") && value.starts_with("http://") {
                plain = Some(value.clone());
            }
            if let Ok(key) = AmazonS3ConfigKey::from_str(&name) {
                known.push((key, value));
            }
        }
        if let Some(plain) = plain.filter(|_| !allowed) {
            return Err(StoreError::Unusable {
                path: place.into(),
                why: format!(
                    "AWS_ENDPOINT_URL is {}, over which keys and content would go in the \
                     clear; use https, or set AWS_ALLOW_HTTP=true where that network is trusted",
                    redacted(&plain)
                ),
            });
        }
        if !who {
            return Err(StoreError::Unusable {
                path: place.into(),
                why: "nobody is named who may use the bucket; set AWS_ACCESS_KEY_ID and \
                      AWS_SECRET_ACCESS_KEY (or AWS_METADATA_ENDPOINT for the role of a machine in \
                      a cloud)"
                    .to_owned(),
            });
        }
        let waiting = |silent: Duration| {
            let options = ClientOptions::new()
                .with_timeout_disabled()
                .with_read_timeout(silent)
                .with_connect_timeout(CONNECT);
            let mut builder = AmazonS3Builder::new()
                .with_client_options(options)
                .with_retry(RetryConfig {
                    backoff: BackoffConfig::default(),
                    max_retries: 5,
                    retry_timeout: AGAIN,
                });
            for (key, value) in &known {
                builder = builder.with_config(*key, *value);
            }
            let built = builder.with_bucket_name(&self.bucket).build();
            let built = built.map_err(|error| failure("use", place.clone(), error))?;
            let store: Arc<dyn ObjectStore> = match &*self.prefix {
                "" => Arc::new(built),
                prefix => Arc::new(PrefixStore::new(built, prefix)),
            };
            Ok::<_, StoreError>(store)
        };
        let (store, patient) = (waiting(SILENT)?, waiting(PATIENT)?);
        Bucket::with_patient(store, patient, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(settings: &[(&str, &str)]) -> Result<Bucket, StoreError> {
        let known = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_PROFILE", "passed over"),
        ];
        let all = known.iter().chain(settings);
        let s3 = S3 {
            bucket: "mirror".to_owned(),
            prefix: "site/a".to_owned(),
            settings: all
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        };
        s3.open()
    }

    #[test]
    fn nobody_asks_a_cloud_who_they_are_unless_that_is_said() {
        let place = |name: &str, value: &str| S3 {
            bucket: "mirror".to_owned(),
            settings: vec![(name.to_owned(), value.to_owned())],
            ..S3::default()
        };
        let error = place("AWS_REGION", "eu-central-1").open().unwrap_err();
        assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
        let role = place("AWS_METADATA_ENDPOINT", "http://169.254.169.254");
        role.open().unwrap();
    }

    #[test]
    fn no_key_or_password_is_shown() {
        let settings = [
            ("AWS_ENDPOINT_URL", "http://user:passwd@10.0.0.5:8333"),
            ("AWS_SECRET_ACCESS_KEY", "passwd"),
        ];
        let s3 = S3 {
            bucket: "mirror".to_owned(),
            settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..S3::default()
        };
        let debug = format!("{s3:?}");
        assert!(debug.contains("AWS_SECRET_ACCESS_KEY"), "{debug}");
        let plain = s3.open().unwrap_err().to_string();
        assert!(plain.contains("http://10.0.0.5:8333"), "{plain}");
        for text in [debug, plain] {
            assert!(!text.contains("passwd"), "{text}");
        }
    }

    #[test]
    fn keys_do_not_go_over_plain_http_unless_that_is_said() {
        let endpoint = ("AWS_ENDPOINT_URL", "http://10.0.0.5:8333");
        let error = s3(&[endpoint]).unwrap_err();
        assert!(error.to_string().contains("AWS_ALLOW_HTTP"), "{error}");
        let bucket = s3(&[endpoint, ("AWS_ALLOW_HTTP", "true")]).unwrap();
        assert_eq!(bucket.place(), "s3://mirror/site/a");
        s3(&[("AWS_ENDPOINT_URL", "https://s3.example")]).unwrap();
    }
}

//! Cloud audit records as AWS CloudTrail writes them: deeply nested, different for every kind of call.
//!
//! Random: services and calls; accounts, roles and users, and how unevenly they call; how often calls fail; the names
//! and number of each call's parameters; how often values are null, lists, or long.

use super::draw::{
    FOREIGN, Pool, Words, address, between, happens, hex, magnitude, noun, service, share, some_of, user, uuid,
};
use super::queries::{Field, Query, QuestionList, Roles};
use super::truth::push_quoted;
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const SOURCES: &[&str] = &["s3", "ec2", "iam", "sts", "kms", "lambda", "dynamodb", "sqs", "logs", "rds", "ecs", "sns"];
const VERBS: &[&str] = &["Get", "Describe", "List", "Create", "Put", "Delete", "Update", "Assume", "Tag"];
const THINGS: &[&str] = &[
    "Object",
    "Bucket",
    "Role",
    "Instances",
    "Policy",
    "Key",
    "Function",
    "Table",
    "Queue",
    "Stream",
    "Secret",
    "Image",
];
const PARAMETERS: &[&str] = &[
    "bucketName",
    "key",
    "roleArn",
    "instanceId",
    "maxResults",
    "nextToken",
    "functionName",
    "tableName",
    "dryRun",
    "policyDocument",
    "tagSet",
    "encryptionContext",
    "roleSessionName",
    "durationSeconds",
    "versionId",
    "filterSet",
];
const AGENTS: &[&str] = &[
    "aws-cli/2.{} Python/3.11 Linux/5.10",
    "Boto3/1.{} md/Botocore#1.31",
    "aws-sdk-java/1.12.{} Linux/5.4 OpenJDK_64-Bit",
    "Terraform/1.{} (+https://www.terraform.io) \"custom\"",
    "console.amazonaws.com",
    "aws-sdk-go-v2/1.{}",
];

/// A kind of API call.
struct Call {
    name: String,
    source: String,
    is_read_only: bool,
    parameters: Vec<&'static str>,
}

/// Generator of this shape.
pub(super) struct CloudTrail {
    calls: Vec<Call>,
    order: Pool,
    regions: Pool,
    accounts: Pool,
    roles: Pool,
    users: Pool,
    addresses: Pool,
    agents: Pool,
    errors: Pool,
    words: Words,
    failing: f64,
    as_role: f64,
    with_response: f64,
    with_resources: f64,
    long: f64,
}

impl CloudTrail {
    pub(super) fn draw(rng: &mut Rng) -> CloudTrail {
        let sources = some_of(SOURCES, between(4, 12, rng) as usize, rng);
        let count = magnitude(15, 90, rng);
        let names = Pool::distinct(count, rng, |rng| format!("{}{}", rng.pick(VERBS), rng.pick(THINGS)));
        let calls: Vec<Call> = names
            .values()
            .iter()
            .map(|name| Call {
                name: name.clone(),
                source: format!("{}.amazonaws.com", rng.pick(&sources)),
                is_read_only: ["Get", "Describe", "List"].iter().any(|verb| name.starts_with(verb)),
                parameters: some_of(PARAMETERS, rng.below(7) as usize, rng),
            })
            .collect();
        let order = (0..calls.len()).map(|at| at.to_string()).collect();
        CloudTrail {
            calls,
            order: Pool::new(order, rng),
            regions: Pool::of(&["eu-west-1", "eu-central-1", "us-east-1", "us-west-2", "ap-south-1", "sa-east-1"], rng),
            accounts: Pool::distinct(magnitude(2, 40, rng), rng, |rng| {
                format!("{}", 100_000_000_000 + rng.below(899_999_999_999))
            }),
            roles: Pool::distinct(magnitude(8, 200, rng), rng, service),
            users: Pool::distinct(magnitude(5, 400, rng), rng, user),
            addresses: Pool::distinct(magnitude(50, 8_000, rng), rng, |rng| address(false, rng)),
            agents: Pool::distinct(magnitude(8, 200, rng), rng, |rng| {
                let version = between(1, 300, rng).to_string();
                rng.pick(AGENTS).replace("{}", &version)
            }),
            errors: Pool::of(&["AccessDenied", "ThrottlingException", "NoSuchKey", "ValidationException"], rng),
            words: Words::draw(rng),
            failing: share(0.01, 0.2, rng),
            as_role: share(0.2, 0.95, rng),
            with_response: share(0.1, 0.7, rng),
            with_resources: share(0.1, 0.8, rng),
            long: share(0.0, 0.01, rng),
        }
    }

    fn identity(&self, account: &str, name: &str, is_role: bool, time: &str, rng: &mut Rng) -> String {
        let id = hex(16, rng).to_ascii_uppercase();
        if !is_role {
            return format!(
                "{{\"type\":\"IAMUser\",\"principalId\":\"AIDA{id}\",\"arn\":\"arn:aws:iam::{account}:user/{name}\",\"accountId\":\"{account}\",\"userName\":\"{name}\"}}"
            );
        }
        let has_mfa = rng.one_in(4);
        format!(
            "{{\"type\":\"AssumedRole\",\"principalId\":\"AROA{id}:{name}\",\"arn\":\"arn:aws:sts::{account}:assumed-role/{name}/session\",\"accountId\":\"{account}\",\"sessionContext\":{{\"sessionIssuer\":{{\"type\":\"Role\",\"principalId\":\"AROA{id}\",\"arn\":\"arn:aws:iam::{account}:role/{name}\",\"accountId\":\"{account}\",\"userName\":\"{name}\"}},\"attributes\":{{\"creationDate\":\"{time}\",\"mfaAuthenticated\":\"{has_mfa}\"}}}}}}"
        )
    }

    fn parameter(&self, name: &str, rng: &mut Rng) -> String {
        match name {
            "maxResults" | "durationSeconds" => between(1, 3_600, rng).to_string(),
            "dryRun" => rng.one_in(5).to_string(),
            "nextToken" if rng.one_in(2) => "null".to_owned(),
            "tagSet" => {
                let tag = |rng: &mut Rng| format!("{{\"key\":\"{}\",\"value\":\"{}\"}}", noun(rng), rng.below(50));
                let tags: Vec<String> = (0..rng.below(4)).map(|_| tag(rng)).collect();
                format!("{{\"items\":[{}]}}", tags.join(","))
            }
            "encryptionContext" => format!("{{\"aws:s3:arn\":\"arn:aws:s3:::{}\"}}", service(rng)),
            "policyDocument" => {
                let count = if happens(self.long, rng) { 400 } else { 6 };
                let text = format!("{{\"Version\": \"2012-10-17\", \"Note\": \"{}\"}}", self.words.phrase(count, rng));
                quoted(&text)
            }
            "key" if rng.one_in(20) => quoted(&format!("in/{}/{}", rng.pick(FOREIGN), hex(8, rng))),
            _ => quoted(&format!("{}/{}", service(rng), hex(12, rng))),
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    push_quoted(text, &mut out);
    out
}

impl Shape for CloudTrail {
    fn name(&self) -> &'static str {
        "cloudtrail"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "cloudtrail.jsonl", sourcetype: "aws:cloudtrail" }]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::by_path("event_name", Kind::Text, "$.eventName"),
            Column::by_path("event_source", Kind::Text, "$.eventSource"),
            Column::by_path("region", Kind::Text, "$.awsRegion"),
            Column::by_path("address", Kind::Text, "$.sourceIPAddress"),
            Column::by_path("agent", Kind::Text, "$.userAgent"),
            Column::by_path("error_code", Kind::Text, "$.errorCode"),
            Column::by_path("read_only", Kind::Text, "$.readOnly"),
            Column::by_path("identity_type", Kind::Text, "$.userIdentity.type"),
            Column::by_path("account", Kind::Text, "$.userIdentity.accountId"),
            Column::by_path("issuer", Kind::Text, "$.userIdentity.sessionContext.sessionIssuer.userName"),
            Column::by_path("event_id", Kind::Text, "$.eventID"),
            Column::by_path("transferred", Kind::Integer, "$.additionalEventData.bytesTransferredOut"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%SZ");
        let at: usize = self.order.pick(rng).parse().unwrap_or_default();
        let call = &self.calls[at.min(self.calls.len() - 1)];
        let (region, account) = (self.regions.pick(rng).to_owned(), self.accounts.pick(rng).to_owned());
        let (address, agent) = (self.addresses.pick(rng).to_owned(), self.agents.pick(rng).to_owned());
        let is_role = happens(self.as_role, rng);
        let who = if is_role { self.roles.pick(rng) } else { self.users.pick(rng) }.to_owned();
        let error = happens(self.failing, rng).then(|| self.errors.pick(rng).to_owned());
        let (event_id, transferred) = (uuid(rng), rng.tail(9_000.0) as i64);
        let identity = self.identity(&account, &who, is_role, &time, rng);
        let mut text = format!(
            "{{\"eventVersion\":\"1.09\",\"userIdentity\":{identity},\"eventTime\":\"{time}\",\"eventSource\":\"{}\",\"eventName\":\"{}\",\"awsRegion\":\"{region}\",\"sourceIPAddress\":\"{address}\",\"userAgent\":{}",
            call.source,
            call.name,
            quoted(&agent)
        );
        if let Some(error) = &error {
            let message = format!("User: {who} is not authorized: {}", self.words.phrase(4, rng));
            text.push_str(&format!(",\"errorCode\":\"{error}\",\"errorMessage\":{}", quoted(&message)));
        }
        let parameters: Vec<String> =
            call.parameters.iter().map(|name| format!("\"{name}\":{}", self.parameter(name, rng))).collect();
        let parameters =
            if parameters.is_empty() { "null".to_owned() } else { format!("{{{}}}", parameters.join(",")) };
        let response = if happens(self.with_response, rng) {
            format!(
                "{{\"requestId\":\"{}\",\"state\":{{\"code\":{},\"ok\":{}}}}}",
                uuid(rng),
                rng.below(80),
                !rng.one_in(6)
            )
        } else {
            "null".to_owned()
        };
        text.push_str(&format!(",\"requestParameters\":{parameters},\"responseElements\":{response},\"additionalEventData\":{{\"bytesTransferredOut\":{transferred},\"SignatureVersion\":\"SigV4\"}},\"requestID\":\"{}\",\"eventID\":\"{event_id}\",\"readOnly\":{}", uuid(rng), call.is_read_only));
        if happens(self.with_resources, rng) {
            text.push_str(&format!(",\"resources\":[{{\"accountId\":\"{account}\",\"type\":\"AWS::S3::Object\",\"ARN\":\"arn:aws:s3:::{}\"}}]", service(rng)));
        }
        text.push_str(&format!(
            ",\"eventType\":\"AwsApiCall\",\"managementEvent\":true,\"recipientAccountId\":\"{account}\"}}"
        ));
        let values = vec![
            Value::text(&call.name),
            Value::text(&call.source),
            Value::Text(region),
            Value::Text(address),
            Value::Text(agent),
            Value::maybe(error),
            Value::text(call.is_read_only.to_string()),
            Value::text(if is_role { "AssumedRole" } else { "IAMUser" }),
            Value::Text(account),
            Value::maybe(is_role.then_some(who)),
            Value::Text(event_id),
            Value::Integer(transferred),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::new("userIdentity.type", "identity_type"),
            other: Field::new("awsRegion", "region"),
            many: Field::new("userIdentity.sessionContext.sessionIssuer.userName", "issuer"),
            most: Field::new("sourceIPAddress", "address"),
            number: Field::new("additionalEventData.bytesTransferredOut", "transferred"),
            id: Field::new("eventID", "event_id"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by call and region",
            "stats count by eventName awsRegion",
            "select event_name, region, count(*) from parsed group by event_name, region",
        );
        questions.ask(
            "errors",
            "stats count by errorCode",
            "select error_code, count(*) from parsed where error_code is not null group by error_code",
        );
        questions.ask(
            "count by agent",
            "stats count by userAgent",
            "select agent, count(*) from parsed group by agent",
        );
        questions.find(
            "denied by call",
            "errorCode=AccessDenied",
            "stats count by eventName",
            "select event_name, count(*) from parsed where error_code = 'AccessDenied' group by event_name",
        );
        questions.find(
            "boolean condition",
            "readOnly=false",
            "stats dc(userIdentity.accountId) by eventSource",
            "select event_source, count(distinct account) from parsed where read_only = 'false' group by event_source",
        );
        questions.ask(
            "rex and dc",
            "rex \"\\\"eventID\\\":\\\"(?<start>[0-9a-f]{4})\" | stats dc(start)",
            "select count(distinct part(raw, '\"eventID\":\"([0-9a-f]{4})')) from parsed",
        );
        questions.text(
            "wildcard across keys",
            "\"*AccessDenied*\"",
            "stats count",
            "select count(*) from parsed where raw ilike '%accessdenied%'",
        );
        questions.queries()
    }
}

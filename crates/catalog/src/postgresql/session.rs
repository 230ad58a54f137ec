//! A session with a PostgreSQL server.
//!
//! The client library is asynchronous, but the catalog is not: one thread of the catalog drives the connections, and
//! callers block until an answer arrives. After a session has lost its connection or an answer was late, only its
//! transaction is rolled back; it is not used again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Statement};

use super::nul;
use super::tls::Tls;
use crate::transaction::{Cell, Failure, Row, StepResult, Transaction, Value};

/// Maximum wait for one answer; beyond it the session counts as lost.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(120);
/// Maximum wait for the answer to the unlock that ends a session.
const UNLOCK_WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum time for trying to connect to all hosts of the URL, one after the other.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(20);
/// Maximum cached prepared statements of a session, more than a catalog uses. At the limit the cache is cleared.
const STATEMENTS_MAX: usize = 128;

/// An open session, used by one thread at a time.
pub(super) struct Session {
    client: Arc<Client>,
    runtime: Handle,
    statements: RefCell<BTreeMap<String, Statement>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Session").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn connect(runtime: &Handle, config: &Config, tls: Tls) -> StepResult<Session> {
        let config = config.clone();
        let connected = wait(runtime, CONNECT_WAIT_MAX, async move {
            let (client, connection) = config.connect(tls).await?;
            // The task ends when the client is dropped or the connection is lost; a loss fails every pending call.
            tokio::spawn(async move { drop(connection.await) });
            Ok(client)
        })?;
        Ok(Session { client: Arc::new(connected), runtime: runtime.clone(), statements: RefCell::default() })
    }

    pub(super) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements without parameters and results.
    pub(super) fn run_script(&self, sql: &str) -> StepResult<()> {
        let (client, sql) = (self.client.clone(), sql.to_owned());
        wait(&self.runtime, ANSWER_WAIT_MAX, async move { client.batch_execute(&sql).await })
    }

    /// Releases the session's locks.
    pub(super) fn unlock(&self) -> StepResult<()> {
        let client = self.client.clone();
        let unlock = async move { client.batch_execute("SELECT pg_advisory_unlock_all()").await };
        wait(&self.runtime, UNLOCK_WAIT_MAX, unlock)
    }

    fn statement(&self, sql: &str) -> StepResult<Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let (client, numbered) = (self.client.clone(), sql.replace('?', "$"));
        let prepared = wait(&self.runtime, ANSWER_WAIT_MAX, async move { client.prepare(&numbered).await })?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }
}

impl Transaction for Session {
    fn execute(&self, sql: &str, values: &[Value<'_>]) -> StepResult<u64> {
        let (client, statement, parameters) = (self.client.clone(), self.statement(sql)?, parameters(values));
        wait(&self.runtime, ANSWER_WAIT_MAX, async move { client.execute_raw(&statement, &parameters).await })
    }

    fn query(&self, sql: &str, values: &[Value<'_>], each: &mut dyn FnMut(Row) -> StepResult<()>) -> StepResult<()> {
        let (client, statement, parameters) = (self.client.clone(), self.statement(sql)?, parameters(values));
        let rows = wait(&self.runtime, ANSWER_WAIT_MAX, async move {
            let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|one| one as _).collect();
            client.query(&statement, &parameters).await
        })?;
        for row in rows {
            let cells = (0..row.len()).map(|at| cell(&row, at)).collect::<StepResult<_>>()?;
            each(Row(cells))?;
        }
        Ok(())
    }
}

/// Waits for an answer. The caller's thread may itself belong to an asynchronous runtime.
fn wait<T: Send + 'static>(
    runtime: &Handle,
    longest: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>> + Send + 'static,
) -> StepResult<T> {
    let (sender, receiver) = sync_channel(1);
    let task = runtime.spawn(async move { drop(sender.send(answer.await)) });
    match receiver.recv_timeout(longest) {
        Ok(answer) => Ok(answer?),
        Err(RecvTimeoutError::Timeout) => {
            task.abort();
            Err(Failure::Lost(format!("no answer within {} s", longest.as_secs())))
        }
        Err(RecvTimeoutError::Disconnected) => Err(Failure::Lost("the connection was closed".to_owned())),
    }
}

/// A parameter of a statement, as it is sent to the server.
#[derive(Debug)]
struct Parameter(Cell);

fn parameters(values: &[Value<'_>]) -> Vec<Parameter> {
    let owned = |value: &Value<'_>| match value {
        Value::Null => Cell::Null,
        Value::Number(number) => Cell::Number(*number),
        Value::Text(text) => Cell::Text(nul::escape(text).into_owned()),
        Value::Bytes(bytes) => Cell::Bytes(bytes.to_vec()),
    };
    values.iter().map(|value| Parameter(owned(value))).collect()
}

impl ToSql for Parameter {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Number(number) if *kind == Type::INT8 => number.to_sql(kind, out),
            Cell::Number(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Cell::Text(text) if <&str as ToSql>::accepts(kind) => text.to_sql(kind, out),
            Cell::Bytes(bytes) if *kind == Type::BYTEA => bytes.to_sql(kind, out),
            other => Err(format!("{other:?} is not a value of type {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn cell(row: &tokio_postgres::Row, at: usize) -> StepResult<Cell> {
    let kind = row.columns().get(at).map_or(Type::UNKNOWN, |column| column.type_().clone());
    let number = |number: Option<i64>| number.map_or(Cell::Null, Cell::Number);
    Ok(match kind {
        Type::INT8 => number(row.try_get(at)?),
        Type::INT4 => number(row.try_get::<_, Option<i32>>(at)?.map(i64::from)),
        Type::BOOL => number(row.try_get::<_, Option<bool>>(at)?.map(i64::from)),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Cell::Null, Cell::Bytes),
        _ => row.try_get::<_, Option<String>>(at)?.map_or(Cell::Null, |text| Cell::Text(nul::unescape(text))),
    })
}

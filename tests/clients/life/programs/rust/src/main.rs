//! Reads a MySQL's changes with mysql_async until it is killed. Each transaction is a line of JSON in FILE: its changes,
//! and the place behind it, from which the next start goes on.
//!
//!     reader HOST PORT FILE PLACE

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;

use futures_util::StreamExt;
use mysql_async::binlog::events::{EventData, RowsEventData};
use mysql_async::binlog::row::BinlogRow;
use mysql_async::binlog::value::BinlogValue;
use mysql_async::{BinlogStreamRequest, Conn, GnoInterval, OptsBuilder, Sid, Value};
use serde_json::{json, Map, Value as Json};

type Failure = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().collect();
    let place: Json = serde_json::from_str(&given[4])?;
    let mut file = OpenOptions::new().create(true).append(true).open(&given[3])?;
    let options = OptsBuilder::default()
        .ip_or_hostname(&given[1])
        .tcp_port(given[2].parse()?)
        .user(Some("rep"))
        .pass(Some("a secret"));
    let mut request = BinlogStreamRequest::new(7501).with_gtid();
    if let Some(text) = place["gtids"].as_str() {
        let (server, numbers) = text.split_once(':').ok_or("no GTID")?;
        let last: u64 = numbers.rsplit('-').next().ok_or("no number")?.parse()?;
        let executed = Sid::new(bytes_of(server)?).with_interval(GnoInterval::check_and_new(1, last + 1)?);
        request = request.with_gtid_set([executed]);
    }
    let mut stream = Conn::new(options).await?.get_binlog_stream(request).await?;
    let (mut gtid, mut changes) = ((String::new(), 0), Vec::new());
    while let Some(event) = stream.next().await {
        let event = event?;
        let ends = match event.read_data()? {
            Some(EventData::GtidEvent(found)) => {
                gtid = (text_of(&found.sid()), found.gno());
                changes.clear();
                false
            }
            Some(EventData::RowsEvent(rows)) => {
                let table = stream.get_tme(rows.table_id()).ok_or("rows without a table map")?;
                let name = format!("{}.{}", table.database_name(), table.table_name());
                let op = match rows {
                    RowsEventData::WriteRowsEvent(_) => "c",
                    RowsEventData::DeleteRowsEvent(_) => "d",
                    _ => "u",
                };
                for row in rows.rows(table) {
                    let (before, after) = row?;
                    changes.push(json!({"op": op, "table": name, "before": shown(before)?, "after": shown(after)?}));
                }
                false
            }
            Some(EventData::XidEvent(_)) => true,
            Some(EventData::QueryEvent(query)) => query.query() != "BEGIN",
            _ => false,
        };
        if ends {
            let place = json!({"gtids": format!("{}:1-{}", gtid.0, gtid.1)});
            file.write_all(format!("{}\n", json!({"changes": changes, "place": place})).as_bytes())?;
            changes.clear();
        }
    }
    Err("the server has ended the stream".into())
}

fn shown(row: Option<BinlogRow>) -> Result<Json, Failure> {
    let Some(row) = row else { return Ok(Json::Null) };
    let mut found = Map::new();
    for (number, column) in row.columns_ref().iter().enumerate() {
        let value = match row.as_ref(number) {
            None => continue,
            Some(BinlogValue::Value(value)) => text(value),
            Some(BinlogValue::Jsonb(value)) => Json::String(serde_json::to_string(&Json::try_from(value.clone())?)?),
            Some(BinlogValue::JsonDiff(_)) => return Err("a partial JSON value".into()),
        };
        found.insert(column.name_str().into_owned(), value);
    }
    Ok(Json::Object(found))
}

fn text(value: &Value) -> Json {
    match value {
        Value::NULL => Json::Null,
        Value::Bytes(bytes) => Json::String(match std::str::from_utf8(bytes) {
            Ok(found) => found.to_string(),
            Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }),
        Value::Int(number) => Json::String(number.to_string()),
        Value::UInt(number) => Json::String(number.to_string()),
        Value::Float(number) => Json::String(number.to_string()),
        Value::Double(number) => Json::String(number.to_string()),
        other => Json::String(other.as_sql(true)),
    }
}

fn bytes_of(uuid: &str) -> Result<[u8; 16], Failure> {
    let digits = uuid.replace('-', "");
    let mut found = [0; 16];
    for (number, byte) in found.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * number..2 * number + 2], 16)?;
    }
    Ok(found)
}

fn text_of(uuid: &[u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

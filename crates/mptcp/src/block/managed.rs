//! What a program orders that manages the paths of connections (mptcpd): the procedures `path_…`.

use super::MptcpBlock;
use super::procedures::number;
use crate::connection::{Connection, Entry};
use crate::out::Out;
use serde_json::json;
use std::net::SocketAddr;
use weft_core::{Context, ErrorKind, Refused, Value};

fn invalid(why: impl Into<String>) -> Refused {
    Refused::new(ErrorKind::Invalid, why)
}

/// The text of an argument as what it is.
fn parsed<T: std::str::FromStr>(arguments: &Value, name: &str) -> Result<T, Refused> {
    let text = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| invalid(format!("'{name}': '{text}' is no address")))
}

/// The address of this side that a command is about.
fn entry(arguments: &Value) -> Result<Entry, Refused> {
    Ok(Entry {
        id: number(arguments, "id")?.unwrap_or(0),
        address: parsed(arguments, "address")?,
        port: number(arguments, "port")?.unwrap_or(0),
        flags: number(arguments, "flags")?.unwrap_or(0),
        interface: number(arguments, "interface")?.unwrap_or(0),
    })
}

/// The two ends of a subflow.
fn ends(arguments: &Value) -> Result<(SocketAddr, SocketAddr), Refused> {
    Ok((parsed(arguments, "local")?, parsed(arguments, "remote")?))
}

fn told(connection: &mut Connection) -> Result<Value, Refused> {
    let one = |entry: &Entry| json!({ "id": entry.id, "address": entry.address.to_string(), "port": entry.port, "flags": entry.flags, "interface": entry.interface });
    Ok(connection.managed()?.entries.iter().map(one).collect())
}

impl MptcpBlock {
    /// None: it is none of these procedures.
    pub(super) fn run_managed(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Option<Result<Value, Refused>> {
        type Run = fn(&mut Connection, &Value, &mut Out<'_, '_>) -> Result<(), Refused>;
        let run: Run = match procedure {
            "path_addresses" => |connection, _, _| connection.managed().map(|_| ()),
            "path_announce" => |connection, arguments, out| connection.announce_managed(entry(arguments)?, out),
            "path_remove" => |connection, arguments, out| connection.remove_managed(number(arguments, "id")?.unwrap_or(0), out),
            "path_create" => |connection, arguments, out| {
                let to = (number(arguments, "remote_id")?.unwrap_or(0), parsed(arguments, "remote")?);
                connection.create_managed(entry(arguments)?, to, out)
            },
            "path_destroy" => |connection, arguments, out| {
                let (local, remote) = ends(arguments)?;
                connection.destroy_managed(local, remote, out)
            },
            "path_change" => |connection, arguments, out| {
                let (local, remote) = ends(arguments)?;
                let backup = arguments.get("backup").and_then(Value::as_bool).unwrap_or(false);
                connection.change_managed(local, remote, backup, out)
            },
            _ => return None,
        };
        Some(self.run_of_token(run, arguments, cx))
    }

    fn run_of_token(
        &mut self,
        run: impl FnOnce(&mut Connection, &Value, &mut Out<'_, '_>) -> Result<(), Refused>,
        arguments: &Value,
        cx: &mut Context<'_>,
    ) -> Result<Value, Refused> {
        let token: u32 = number(arguments, "token")?.ok_or_else(|| invalid("no token"))?;
        let key = self.tokens.get(&token).copied().ok_or_else(|| invalid("invalid token"))?;
        let ran = |connection: &mut Connection, out: &mut Out<'_, '_>| run(connection, arguments, out).and_then(|()| told(connection));
        self.with(key, cx, ran).unwrap_or_else(|| Err(invalid("invalid token")))
    }
}

//! A connection as state.

use super::{Connection, Path, Stage};
use crate::key::Key;
use serde_json::json;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{CallId, Instant, StreamCall, Value};

impl Field for Key {
    fn write(&self, out: &mut Writer) {
        out.put(&self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<Key, Damage> {
        Ok(Key(from.take()?))
    }
}

impl Connection {
    /// It for people and tools: one object, with the scheduler that is in use.
    pub(crate) fn row(&self, scheduler: &Value) -> Value {
        let path = |path: &Path| {
            let used = match path {
                path if path.closed => "ends",
                path if !path.may_send() => "opens",
                path if path.suspect => "stale",
                path if path.is_backup() => "backup",
                _ => "active",
            };
            json!({
                "flow": path.flow.0, "local": path.local.to_string(), "remote": path.remote.to_string(), "local_id": path.local_id,
                "remote_id": path.remote_id, "confirmed": path.confirmed, "ends": path.closed, "backup": path.is_backup(),
                "use": used, "sent_bytes": path.sent, "sent_again_bytes": path.again, "received_bytes": path.received, "cwnd_bytes": path.room.cwnd_bytes,
                "in_flight_bytes": path.room.in_flight_bytes, "rtt_us": path.room.rtt.map(|rtt| rtt.as_micros() as u64),
            })
        };
        let stage = match self.stage {
            Stage::Opening => "opening",
            Stage::Open => "open",
            Stage::Ending => "ending",
            Stage::Failed => "failed",
        };
        json!({
            "flow": self.flow.0, "token": self.local.token(), "remote_token": self.remote.map(Key::token), "stage": stage,
            "confirmed": self.confirmed, "checksum": self.checksum, "fallen_back": self.fallen_back, "sent_bytes": self.send.next,
            "acknowledged_bytes": self.send.una, "received_bytes": self.receive.next, "out_of_order": self.receive.has_gap(),
            "waits_for_subflow": self.bare.is_some(), "scheduler": scheduler,
            "paths": self.paths.iter().filter(|path| !path.released).map(path).collect::<Vec<_>>(),
        })
    }
}

impl Field for Connection {
    fn write(&self, out: &mut Writer) {
        let Connection {
            flow,
            opens,
            local,
            remote,
            checksum,
            early,
            deny_join_id0,
            confirmed,
            stage,
            fallen_back,
            options,
            send,
            receive,
            paths,
            next_number,
            again,
            scheduled,
            bare,
            firm,
            closed,
            waiting,
            said,
            known,
            tried,
            endpoints_used,
            barred,
            ports_tried,
            offered: _,
            manager,
            told_failed,
            told_time_wait,
            active_at,
            gives_up_at,
            armed: _,
        } = self;
        out.put(flow);
        out.put(opens);
        out.put(local);
        out.put(remote);
        out.put(checksum);
        out.put(early);
        out.put(deny_join_id0);
        out.put(confirmed);
        out.put(stage);
        out.put(fallen_back);
        out.put(options);
        out.put(send);
        out.put(receive);
        out.put(paths);
        out.put(next_number);
        out.put(again);
        out.put(scheduled);
        out.put(bare);
        out.put(firm);
        out.put(closed);
        // Of calls only these two wait, in this order.
        out.put(&waiting.iter().any(|(_, op)| matches!(op, StreamCall::ShutdownWrite)));
        out.put(&waiting.iter().any(|(_, op)| matches!(op, StreamCall::Close { .. })));
        out.put(said);
        out.put(known);
        out.put(tried);
        out.put(endpoints_used);
        out.put(barred);
        out.put(ports_tried);
        out.put(told_failed);
        out.put(told_time_wait);
        out.put(active_at);
        out.put(gives_up_at);
        out.put(manager);
    }

    fn read(from: &mut Reader<'_>) -> Result<Connection, Damage> {
        let mut connection = Connection {
            flow: from.take()?,
            opens: from.take()?,
            local: from.take()?,
            remote: from.take()?,
            checksum: from.take()?,
            early: from.take()?,
            deny_join_id0: from.take()?,
            confirmed: from.take()?,
            stage: from.take()?,
            fallen_back: from.take()?,
            options: from.take()?,
            send: from.take()?,
            receive: from.take()?,
            paths: from.take::<Vec<Path>>()?,
            next_number: from.take()?,
            again: from.take()?,
            scheduled: from.take()?,
            bare: from.take()?,
            firm: from.take()?,
            closed: from.take()?,
            waiting: Vec::new(),
            said: Vec::new(),
            known: Vec::new(),
            tried: Default::default(),
            endpoints_used: Default::default(),
            barred: Default::default(),
            ports_tried: 0,
            offered: None,
            manager: None,
            told_failed: false,
            told_time_wait: false,
            active_at: Instant::ZERO,
            gives_up_at: None,
            armed: None,
        };
        let own = CallId(crate::out::OWN_CALL);
        if from.take()? {
            connection.waiting.push((own, StreamCall::ShutdownWrite));
        }
        if from.take()? {
            connection.waiting.push((own, StreamCall::Close { unread: false, linger: None }));
        }
        connection.said = from.take()?;
        connection.known = from.take()?;
        connection.tried = from.take()?;
        connection.endpoints_used = from.take()?;
        connection.barred = from.take()?;
        connection.ports_tried = from.take()?;
        connection.told_failed = from.take()?;
        connection.told_time_wait = from.take()?;
        connection.active_at = from.take()?;
        connection.gives_up_at = from.take()?;
        connection.manager = from.take()?;
        match connection.paths.is_empty() {
            true => Err(Damage::new("a connection without a subflow")),
            false => Ok(connection),
        }
    }
}

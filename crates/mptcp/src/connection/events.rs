//! What happens to connections, for whoever listens (`ip mptcp monitor`, `weft subscribe`): the alert `multipath`.

use super::{Connection, Path, Stage};
use crate::kind::ALERT;
use crate::out::Out;
use serde_json::json;
use std::net::SocketAddr;
use weft_core::{StreamError, Value};

impl Connection {
    /// The connection, with its first subflow.
    pub(super) fn tell(&self, event: &str, out: &mut Out<'_, '_>) {
        self.tell_of(event, &self.paths[0], json!({ "server": !self.opens, "deny_join_id0": self.deny_join_id0 }), out);
    }

    /// One of its subflows.
    pub(super) fn tell_path(&self, event: &str, index: usize, error: Option<StreamError>, out: &mut Out<'_, '_>) {
        let path = &self.paths[index];
        // What the peer wants of it (`backup` of struct mptcp_subflow_context).
        let mut more = json!({ "backup": path.backup_by_peer, "error": error });
        let interface = if path.joined { path.interface } else { self.options.interface };
        if interface > 0 {
            more["interface"] = interface.into();
        }
        if let Some((transient, reason)) = path.reset.filter(|_| event == "subflow-closed") {
            (more["reset_reason"], more["transient"]) = (reason.into(), transient.into());
        }
        self.tell_of(event, path, more, out);
    }

    fn tell_of(&self, event: &str, path: &Path, more: Value, out: &mut Out<'_, '_>) {
        let mut value = json!({
            "event": event, "token": self.local.token(), "local": path.local.to_string(), "remote": path.remote.to_string(),
            "local_id": path.local_id, "remote_id": path.remote_id,
        });
        for (name, more) in more.as_object().into_iter().flatten() {
            value[name.as_str()] = more.clone();
        }
        out.cx.alert(ALERT, value);
    }

    /// It is over.
    pub(super) fn tell_closed(&self, out: &mut Out<'_, '_>) {
        out.cx.alert(ALERT, json!({ "event": "closed", "token": self.local.token() }));
    }

    /// The peer has announced an address.
    pub(super) fn tell_announced(&self, id: u8, address: SocketAddr, out: &mut Out<'_, '_>) {
        let value = json!({ "event": "announced", "token": self.local.token(), "remote_id": id, "remote": address.to_string() });
        out.cx.alert(ALERT, value);
    }

    /// The peer has lost an address.
    pub(super) fn tell_removed(&self, id: u8, out: &mut Out<'_, '_>) {
        out.cx.alert(ALERT, json!({ "event": "removed", "token": self.local.token(), "remote_id": id }));
    }

    /// Did a subflow of a connection that goes on end by this?
    pub(super) fn has_lost(&self, index: usize, was_closed: bool) -> bool {
        self.stage == Stage::Open && !was_closed && self.paths[index].closed
    }
}

//! What is changed endpoint by endpoint (`ip mptcp`): the parameters `endpoints`, `subflows` and `add_addr_accepted`.

use super::MptcpBlock;
use crate::endpoint::{ENDPOINTS_MAX, Endpoint};
use crate::kind::KIND;
use weft_core::{Context, ControlError, ErrorKind, InterfaceIndex, Refused, Value};

/// A flag of the arguments; false where it is not said.
fn flag(arguments: &Value, name: &str) -> bool {
    arguments.get(name).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn number<N: TryFrom<u64>>(arguments: &Value, name: &str) -> Result<Option<N>, Refused> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let found = value.as_u64().and_then(|number| N::try_from(number).ok());
            found.map(Some).ok_or_else(|| Refused::new(ErrorKind::Invalid, format!("'{name}' is no such number: {value}")))
        }
    }
}

impl MptcpBlock {
    pub(super) fn run(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let done = match procedure {
            "endpoint_add" => self.add_endpoint(arguments),
            "endpoint_delete" => self.delete_endpoint(arguments),
            "endpoint_change" => self.change_endpoint(arguments),
            "endpoints_flush" => {
                (self.settings.endpoints, self.next_id) = (Vec::new(), 1);
                Ok(Value::Null)
            }
            "limits_set" => self.set_limits(arguments),
            _ => match self.run_managed(procedure, arguments, cx) {
                Some(Ok(value)) => return Ok(value),
                Some(Err(why)) => Err(why),
                None => return Err(KIND.no_procedure(&self.name, procedure)),
            },
        };
        let failed = |why| ControlError::ExecFailed { block: self.name.clone(), procedure: procedure.to_owned(), why };
        let value = done.map_err(failed)?;
        self.look_at_addresses(cx);
        Ok(value)
    }

    /// mptcp_pm_nl_append_new_local_addr.
    fn add_endpoint(&mut self, arguments: &Value) -> Result<Value, Refused> {
        let invalid = |why: &str| Refused::new(ErrorKind::Invalid, why);
        let text = arguments.get("address").and_then(Value::as_str).unwrap_or_default();
        let address = text.parse().map_err(|_| invalid(&format!("'{text}' is no address")))?;
        let id: u8 = number(arguments, "id")?.unwrap_or(0);
        let endpoint = Endpoint {
            port: number(arguments, "port")?.filter(|port: &u16| *port > 0),
            dev: arguments.get("dev").and_then(Value::as_str).map(str::to_owned),
            signal: flag(arguments, "signal"),
            subflow: flag(arguments, "subflow"),
            backup: flag(arguments, "backup"),
            fullmesh: flag(arguments, "fullmesh"),
            ..Endpoint::any(id, address, InterfaceIndex::NONE)
        };
        endpoint.check().map_err(|why| invalid(&why))?;
        let known = &self.settings.endpoints;
        if known.len() >= ENDPOINTS_MAX {
            return Err(Refused::new(ErrorKind::NoSpace, format!("a node takes {ENDPOINTS_MAX} endpoints")));
        }
        if known.iter().any(|other| other.address == endpoint.address && other.port == endpoint.port) {
            return Err(Refused::new(ErrorKind::Exists, format!("{address} is there already")));
        }
        if id > 0 && known.iter().any(|other| other.id == id) {
            return Err(Refused::new(ErrorKind::Busy, format!("the id {id} is another's")));
        }
        let free = |id: &u8| known.iter().all(|other| other.id != *id);
        let next = (self.next_id.max(1)..=u8::MAX).chain(1..self.next_id).find(free);
        let id = if id > 0 { id } else { next.ok_or_else(|| invalid("there are no more ids"))? };
        // "if (entry->addr.id > pernet->next_id) pernet->next_id = entry->addr.id;"
        self.next_id = self.next_id.max(id);
        self.settings.endpoints.push(Endpoint { id, ..endpoint });
        Ok(serde_json::json!({ "id": id }))
    }

    /// The place of the endpoint of this identifier.
    fn endpoint(&self, arguments: &Value) -> Result<usize, Refused> {
        let id: Option<u8> = number(arguments, "id")?;
        let place = self.settings.endpoints.iter().position(|endpoint| Some(endpoint.id) == id);
        place.ok_or_else(|| Refused::not_found("there is no endpoint of that id"))
    }

    fn delete_endpoint(&mut self, arguments: &Value) -> Result<Value, Refused> {
        let at = self.endpoint(arguments)?;
        self.settings.endpoints.remove(at);
        Ok(Value::Null)
    }

    fn change_endpoint(&mut self, arguments: &Value) -> Result<Value, Refused> {
        let at = self.endpoint(arguments)?;
        let endpoint =
            Endpoint { backup: flag(arguments, "backup"), fullmesh: flag(arguments, "fullmesh"), ..self.settings.endpoints[at].clone() };
        endpoint.check().map_err(|why| Refused::new(ErrorKind::Invalid, why))?;
        self.settings.endpoints[at] = endpoint;
        Ok(Value::Null)
    }

    fn set_limits(&mut self, arguments: &Value) -> Result<Value, Refused> {
        let limit = |name: &'static str| -> Result<Option<usize>, Refused> {
            let given: Option<u64> = number(arguments, name)?;
            if given.is_some_and(|given| given > LIMIT_MAX) {
                return Err(Refused::new(ErrorKind::Invalid, format!("'{name}' is {LIMIT_MAX} at most")));
            }
            Ok(given.map(|given| given as usize))
        };
        let (subflows, accepted) = (limit("subflows")?, limit("add_addr_accepted")?);
        self.settings.subflows = subflows.unwrap_or(self.settings.subflows);
        self.settings.add_addr_accepted = accepted.unwrap_or(self.settings.add_addr_accepted);
        Ok(Value::Null)
    }
}

/// As the parameters are bounded (MPTCP_PM_ADDR_MAX).
const LIMIT_MAX: u64 = 8;

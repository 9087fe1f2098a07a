//! SILICA.MEMBERS: who agrees about the database.

use super::{Keyspace, SYNTAX};
use crate::agreement::Need;
use crate::burst::Args;
use silica::engine::Result;
use silica_proto::Reply;

/// `SILICA.MEMBERS [ADD|REMOVE ADDRESS]`.
pub(crate) fn members(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(agreement) = &keys.service.options.agreement else {
        reply.error("ERR this server is no member of a group; start it with --replicated-by");
        return Ok(());
    };
    if args.len() == 1 {
        let members = agreement.members();
        reply.array(members.len());
        for (address, client, role) in members {
            reply.array(3);
            [address, client, role].iter().for_each(|word| reply.bulk(word.as_bytes()));
        }
        return Ok(());
    }
    if let Some(text) = agreement.refuse(Need::Write, None) {
        reply.error(&text);
        return Ok(());
    }
    let address = (args.len() == 3).then(|| std::str::from_utf8(args.get(2)).ok()).flatten();
    let done = match address {
        Some(address) if args.is(1, "add") => agreement.add(address),
        Some(address) if args.is(1, "remove") => agreement.remove(address),
        _ => {
            reply.error(SYNTAX);
            return Ok(());
        }
    };
    match done {
        Ok(()) => reply.ok(),
        Err(text) => reply.error(&format!("ERR {text}")),
    }
    Ok(())
}

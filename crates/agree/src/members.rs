//! Members come and go.

use crate::core::Core;
use crate::peer::Link;
use crate::types::{Id, Member};
use crate::wire::{Answer, Ask, Who};
use openraft::ChangeMembers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the first start waits before it asks the others again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long a member without a vote does.
const ASK_SELDOM: Duration = Duration::from_secs(1);
/// How long a member may take to take another one in.
const JOIN_MAX: Duration = Duration::from_secs(60);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The members by number, and whether each has a vote.
pub(crate) fn list(core: &Core) -> Vec<(Id, Member, bool)> {
    let Some(raft) = core.raft() else { return Vec::new() };
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let voters: BTreeSet<Id> = metrics.membership_config.voter_ids().collect();
    let nodes = metrics.membership_config.nodes();
    nodes.map(|(id, member)| (*id, member.clone(), voters.contains(id))).collect()
}

/// Takes the member at `address` in.
pub(crate) async fn add(core: &Arc<Core>, address: &str) -> Result<(), String> {
    let raft = core.raft().ok_or("the member is about to start")?;
    if list(core).iter().any(|(_, member, votes)| member.address == address && *votes) {
        return Err(format!("{address} is a member already"));
    }
    let own = core.identity().group;
    let opened = Link::open(core, address, None).await;
    let (link, who) = opened.map_err(|e| format!("{address} does not answer: {e}"))?;
    drop(link);
    if who.group.is_some() && who.group != own {
        return Err(format!(
            "{address} is in another group: it has somebody else's data; start it with an empty \
             directory"
        ));
    }
    raft.add_learner(who.id, who.member.clone(), true).await.map_err(text)?;
    let voters = BTreeMap::from([(who.id, who.member)]);
    raft.change_membership(ChangeMembers::AddVoters(voters), true).await.map_err(text)?;
    Ok(())
}

/// Lets the member at `address` go.
pub(crate) async fn remove(core: &Arc<Core>, address: &str) -> Result<(), String> {
    let raft = core.raft().ok_or("the member is about to start")?;
    let members = list(core);
    let gone: BTreeSet<Id> =
        members.iter().filter(|(_, member, _)| member.address == address).map(|m| m.0).collect();
    if gone.is_empty() {
        return Err(format!("{address} is no member"));
    }
    let stays = members.iter().any(|(id, _, votes)| *votes && !gone.contains(id));
    if !stays {
        return Err("the last member cannot be removed".into());
    }
    let voters = gone.iter().copied().filter(|id| members.iter().any(|m| m.0 == *id && m.2));
    let voters: BTreeSet<Id> = voters.collect();
    if !voters.is_empty() {
        let change = ChangeMembers::RemoveVoters(voters);
        raft.change_membership(change, false).await.map_err(text)?;
    }
    let left: BTreeSet<Id> = list(core).into_iter().map(|m| m.0).collect();
    let learners: BTreeSet<Id> = gone.intersection(&left).copied().collect();
    if !learners.is_empty() {
        let change = ChangeMembers::RemoveNodes(learners);
        raft.change_membership(change, false).await.map_err(text)?;
    }
    Ok(())
}

/// Takes in a member without data, in the place of the one that had its address.
pub(crate) async fn replace(core: &Arc<Core>, who: Who) -> Result<(), String> {
    let raft = core.raft().ok_or("the member is about to start")?;
    if core.ready().is_none() {
        return Err("not the leader".into());
    }
    let members = list(core);
    let old: BTreeSet<Id> = members
        .iter()
        .filter(|(id, member, _)| member.address == who.member.address && *id != who.id)
        .map(|member| member.0)
        .collect();
    if members.iter().any(|(id, _, votes)| *id == who.id && *votes) && old.is_empty() {
        return Ok(());
    }
    if old.is_empty() {
        return Err(format!("{} is no member; SILICA.MEMBERS ADD takes it in", who.member.address));
    }
    log::info!("{} comes back without data, as member {:x}", who.member.address, who.id);
    raft.add_learner(who.id, who.member, true).await.map_err(text)?;
    let mut voters: BTreeSet<Id> = members.iter().filter(|m| m.2).map(|m| m.0).collect();
    voters.retain(|id| !old.contains(id));
    voters.insert(who.id);
    let change = ChangeMembers::ReplaceAllVoters(voters);
    raft.change_membership(change, false).await.map_err(text)?;
    Ok(())
}

/// The life of a member until it has a vote: the first of `all` makes a group when the others are
/// there and in none, too. If one of them is in a group, this member has lost its data, or is new:
/// it asks to be taken in.
pub(crate) async fn begin(core: Arc<Core>, all: Vec<String>) {
    let own = &core.member.address;
    let mut sorted = all.clone();
    sorted.sort();
    let is_first = sorted.first() == Some(own);
    while !votes(&core) {
        let mut found = vec![who(&core)];
        for address in all.iter().filter(|address| *address != own) {
            found.extend(ask(&core, address).await);
        }
        // Its own number of a group may be left of an attempt that did not come to its end.
        let are_new = found.iter().skip(1).all(|who| who.group.is_none());
        let is_new = are_new && list(&core).is_empty();
        if is_first && is_new && found.len() == all.len() {
            make(&core, &found).await;
        }
        let is_alone = core.identity().group.is_none();
        tokio::time::sleep(if is_alone { ASK_AGAIN } else { ASK_SELDOM }).await;
    }
}

/// True if this member has a vote, as far as it knows.
fn votes(core: &Core) -> bool {
    let id = core.identity().id;
    list(core).iter().any(|(member, _, votes)| *member == id && *votes)
}

/// Asks the member at `address` who it is, and to be taken in if it is in a group.
async fn ask(core: &Core, address: &str) -> Option<Who> {
    let (mut link, their) = Link::open(core, address, None).await.ok()?;
    if their.group.is_some() {
        let join = Ask::Join(who(core));
        let asked = tokio::time::timeout(JOIN_MAX, link.ask(&join, &[])).await;
        if let Ok(Ok(Answer::Refused(text))) = asked {
            log::debug!("{address} does not take this member in: {text}");
        }
    }
    Some(their)
}

fn who(core: &Core) -> Who {
    let identity = core.identity();
    Who { id: identity.id, group: identity.group, member: core.member.clone() }
}

/// Makes the group of `found`.
async fn make(core: &Arc<Core>, found: &[Who]) {
    let Some(raft) = core.raft() else { return };
    let members: BTreeMap<Id, Member> =
        found.iter().map(|who| (who.id, who.member.clone())).collect();
    let made = getrandom::u64().map_err(text).and_then(|group| core.enter(group).map_err(text));
    let made = match made {
        Ok(()) => raft.initialize(members).await.map_err(text),
        Err(text) => Err(text),
    };
    match made {
        Ok(()) => log::info!("a group of {} members begins", found.len()),
        Err(text) => log::error!("no group can be made: {text}"),
    }
}

//! Sorted sets and sets that a command reads together: the members of a set have the score 1.

use crate::resp::types::{Done, Failure, Objects, Opened};
use silica_base::Result;
use silica_types::{Direction, Kind, Pages, Zset};

/// The sorted sets and sets at some keys, each opened once.
pub(crate) struct Sources {
    opened: Vec<Opened>,
    /// Which of them is that of each key; none if the key holds nothing.
    places: Vec<Option<usize>>,
}

impl Sources {
    /// Fails if one of `keys` holds what is neither a set nor a sorted set.
    pub(crate) fn check(objects: &mut Objects<'_>, keys: &[&[u8]]) -> Done {
        for key in keys {
            if !matches!(objects.kind(key)?, None | Some(Some(Kind::Set | Kind::Zset))) {
                return Err(Failure::wrong_type());
            }
        }
        Ok(())
    }

    /// Opens what is at `keys`, which [`Sources::check`] has looked at.
    pub(crate) fn open(objects: &mut Objects<'_>, keys: &[&[u8]]) -> Done<Sources> {
        let mut sources = Sources { opened: Vec::new(), places: Vec::with_capacity(keys.len()) };
        for (nth, key) in keys.iter().enumerate() {
            if let Some(same) = keys[..nth].iter().position(|other| other == key) {
                sources.places.push(sources.places[same]);
                continue;
            }
            let opened = match objects.kind(key)? {
                Some(Some(kind)) => objects.open(key, kind)?,
                _ => None,
            };
            sources.places.push(opened.is_some().then_some(sources.opened.len()));
            sources.opened.extend(opened);
        }
        Ok(sources)
    }

    /// Gives all of it back, unchanged.
    pub(crate) fn close(self, objects: &mut Objects<'_>) {
        self.opened.into_iter().for_each(|opened| objects.close(opened));
    }

    /// Members of key `nth`.
    pub(crate) fn len(&self, nth: usize) -> u64 {
        self.places[nth].map_or(0, |place| self.opened[place].object.len(0))
    }

    /// Up to `len` members of key `nth` from `rank` on, with their scores.
    pub(crate) fn some(
        &mut self,
        pages: &mut dyn Pages,
        nth: usize,
        rank: u64,
        len: usize,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        let Some(place) = self.places[nth] else { return Ok(Vec::new()) };
        let object = &mut self.opened[place].object;
        if object.kind() == Kind::Zset {
            return Zset::of(object, pages).some(rank, len);
        }
        let mut all = Vec::new();
        object.tree(0, pages).scan(rank, Direction::Forward, &mut |member, _| {
            all.push((member.to_vec(), 1.0));
            all.len() < len
        })?;
        Ok(all)
    }

    /// The score of `member` at key `nth`.
    pub(crate) fn score(
        &mut self,
        pages: &mut dyn Pages,
        nth: usize,
        member: &[u8],
    ) -> Result<Option<f64>> {
        let Some(place) = self.places[nth] else { return Ok(None) };
        let object = &mut self.opened[place].object;
        match object.kind() {
            Kind::Zset => Zset::of(object, pages).score(member),
            _ => Ok(object.tree(0, pages).contains(member)?.then_some(1.0)),
        }
    }
}

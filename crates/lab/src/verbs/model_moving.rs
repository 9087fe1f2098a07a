//! What is written beside plain items: deletes, items of different size, popularity that moves.

use crate::verbs::model::{KeysArgs, wrong};
use clap::Args;
use silica::Result;
use silica_lab::model::{Deletes, Items, Writes};
use silica_lab::simulate::Requests;

/// How writes differ from plain ones.
#[derive(Args)]
pub(crate) struct MovingArgs {
    /// Share of the writes that delete, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide_default_value = true)]
    #[arg(allow_hyphen_values = true)]
    deletes: f64,
    /// Size of a tombstone, in items of mean size.
    #[arg(long, value_name = "SIZE", default_value_t = 1.0, requires = "deletes")]
    #[arg(allow_hyphen_values = true)]
    tombstone: f64,
    /// Bytes of the most and of the least popular key's item; between them a power of the rank.
    /// Sizes stay in items of mean size, so one number changes nothing.
    #[arg(long, value_name = "HOT:COLD", allow_hyphen_values = true)]
    item_bytes: Option<String>,
    /// Requests after which popularity is dealt anew to the keys.
    #[arg(long, value_name = "REQUESTS", allow_hyphen_values = true)]
    drift_every: Option<f64>,
}

impl MovingArgs {
    fn items(&self) -> Result<Items> {
        let items = Items::alike().with_deletes(Deletes::new(self.deletes, self.tombstone)?);
        let Some(text) = &self.item_bytes else { return Ok(items) };
        let (hot, cold) = text.split_once(':').unwrap_or((text, text));
        let bytes = |text: &str| {
            let parsed: std::result::Result<f64, _> = text.parse();
            parsed.map_err(|_| wrong(format!("--item-bytes is like 100:2000, not '{text}'")))
        };
        items.with_bytes(bytes(hot)?, bytes(cold)?)
    }

    fn is_plain(&self) -> Result<bool> {
        Ok(self.items()?.is_plain() && self.drift_every.is_none())
    }

    /// Refuses what nobody can draw or model beside keys of which the latest are popular.
    fn check_alone(&self) -> Result<()> {
        if !self.items()?.is_plain() || self.drift_every.is_some() {
            return Err(wrong(
                "--latest moves by itself: leave out --deletes, --item-bytes and --drift-every, or \
                 give --zipf"
                    .into(),
            ));
        }
        Ok(())
    }

    /// What is written, where these are not plain items by Zipf's law.
    pub(crate) fn writes(&self, keys: &KeysArgs) -> Result<Option<Writes>> {
        if let Some(latest) = keys.latest()? {
            self.check_alone()?;
            return Ok(Some(Writes::latest(latest)));
        }
        if self.is_plain()? {
            return Ok(None);
        }
        let (count, skew) = keys.checked()?;
        Writes::zipf(count, skew, &self.items()?, self.drift_every).map(Some)
    }

    /// The writes as drawn requests; at most `puts` after every key was put.
    pub(crate) fn requests(&self, keys: &KeysArgs, puts: u64, seed: u64) -> Result<Requests> {
        let (count, skew) = keys.checked()?;
        if let Some((skew, inserts)) = keys.recency() {
            self.check_alone()?;
            return Requests::latest(count, skew, inserts, puts, seed);
        }
        let mut requests = Requests::zipf(count, skew, seed)?;
        if let Some(epoch) = self.drift_every {
            requests = requests.with_drift(epoch)?;
        }
        match self.items()?.is_plain() {
            true => Ok(requests),
            false => requests.with_items(self.items()?),
        }
    }
}

//! Engine names and how to build them: the one place that knows which engines exist.

use silica_device::FileDevice;
use silica_engine::{
    COMMON_METRICS, Error, ErrorKind, Ingest, Metric, OptionValues, Result, unknown,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// An engine that keyspaces can be created with.
pub type EngineSpec = silica_engine::EngineSpec<FileDevice>;

/// Every metric that an engine of Silica may report: those that engines have in common, then each
/// engine's own.
pub fn metrics() -> &'static [Metric] {
    static ALL: LazyLock<Vec<Metric>> = LazyLock::new(|| {
        let own = Registry::builtin().0.into_iter().flat_map(|spec| spec.metrics);
        // Two caches behind each other are no engine of keyspaces.
        let tiers = crate::tiers::METRICS.iter().chain(silica_dida::METRICS);
        let mut names = BTreeSet::new();
        let all = COMMON_METRICS.iter().chain(own).chain(tiers);
        all.filter(|metric| names.insert(metric.name)).copied().collect()
    });
    &ALL
}

/// The engines that a store can use.
#[derive(Clone)]
pub struct Registry(Vec<EngineSpec>);

impl Default for Registry {
    fn default() -> Self {
        Registry::builtin()
    }
}

impl Registry {
    /// The engines that come with Silica.
    pub fn builtin() -> Self {
        // The default comes first. A store of `wip` that has no table yet could pass for one of
        // `silt`, so `wip` is asked first whose the files of a directory are.
        Registry(vec![
            silica_wip::ENGINE,
            silica_silt::ENGINE,
            silica_mica::ENGINE,
            silica_pmem::TURBO,
            silica_pmem::SPTREE,
        ])
    }

    /// No engines; for stores that bring their own.
    pub fn empty() -> Self {
        Registry(Vec::new())
    }

    /// Adds an engine; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, engine: EngineSpec) -> Self {
        self.0.retain(|other| other.name != engine.name);
        self.0.push(engine);
        self
    }

    /// The engine `name`; the error lists those there are.
    pub fn find(&self, name: &str) -> Result<&EngineSpec> {
        let found = self.0.iter().find(|r| r.name == name);
        found.ok_or_else(|| unknown("engine", name, self.0.iter().map(|r| r.name)))
    }

    /// True where a keyspace of this engine with these `(name, value)` pairs of options would
    /// forget its entries when the process ends: it is in memory and leaves no image.
    ///
    /// # Errors
    /// `Config` for an engine or an option that is not known.
    pub fn forgets<'a>(
        &self,
        engine: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<bool> {
        let spec = self.find(engine)?;
        let values = OptionValues::parse(spec.options, options)?;
        Ok((spec.forgets)(&values))
    }

    /// What makes files for bulk loads: of the first engine that takes such files in.
    ///
    /// # Errors
    /// `Unsupported` if no engine does.
    pub(crate) fn ingest(&self) -> Result<Ingest<FileDevice>> {
        self.0.iter().find_map(|spec| spec.ingest).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "no engine takes sorted files; use `silica load`")
        })
    }

    /// The engine that made the files of a directory, as far as they tell.
    pub(crate) fn maker_of(&self, directory: &FileDevice) -> Result<Option<&'static str>> {
        for engine in &self.0 {
            if let Some(made) = engine.made
                && made(directory)?
            {
                return Ok(Some(engine.name));
            }
        }
        Ok(None)
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &EngineSpec> {
        self.0.iter()
    }
}

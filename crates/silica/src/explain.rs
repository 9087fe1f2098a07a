//! What the models say of an open keyspace, beside what it measured.

use crate::auto::{measured_of, sketched};
use crate::{Keyspace, Silica};
use silica_engine::Result;
use silica_tune::recommend::{Needs, Question, Why, describe, why, workload_of};

impl Silica {
    /// Prediction beside measurement for the keyspace `name`, as far as it has been used since it
    /// was opened: each figure with its drift, the term that most of the bytes beyond the
    /// prediction belong to, what stalled writes waited for, and what each option's other values
    /// would do.
    ///
    /// What was asked of the keyspace is what its metrics and its sketch
    /// ([`Keyspace::workload`]) say; the machine is the one that a probe measured below the store,
    /// or a usual one.
    ///
    /// # Errors
    /// `NotFound` where there is no such keyspace, `Config` for an engine without a model.
    pub fn why(&self, name: &str) -> Result<Why> {
        let record = self.record(name)?;
        let keyspace = self.keyspace(name)?;
        let spec = self.spec(&record.engine)?;
        let options = self.options_of_existing(spec, &record)?;
        let machine = crate::kept_probe(self.path())?.unwrap_or_default();
        let (base, _) = describe("")?;
        let measured = measured_of(&keyspace);
        let workload = sketched(&keyspace, workload_of(&measured, &base));
        let needs = needs_of(&keyspace, &workload);
        let candidates = self.candidates();
        let question = Question::new(&workload, &machine, needs, &candidates);
        why(&question, &record.engine, &options, &measured)
    }
}

fn needs_of(keyspace: &Keyspace, workload: &silica_tune::Workload) -> Needs {
    let capabilities = keyspace.engine().descriptor().capabilities;
    Needs {
        durable: capabilities.durable,
        ordered: capabilities.ordered,
        may_evict: capabilities.may_evict,
        ..Needs::of(workload)
    }
}

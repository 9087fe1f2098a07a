//! Decorators: what stands before an engine and is about one thing.

use crate::{
    Admin, Atomic, Budget, Changes, Descriptor, Durability, Engine, GetSink, Intent, MetricVisitor,
    Ordered, Progress, Result, Scan, Sharded, Stages, WriteBatch,
};
use std::sync::Arc;

/// What stands before an engine: forwards every call, but for those that it overrides.
///
/// Each method is the one of [`Engine`] of the same name, and every layer is an engine. A view that
/// a layer does not override is the inner engine's own: whoever changes writes overrides the views
/// that write, too.
pub trait Layer: Send + Sync {
    /// What it stands before.
    type Inner: Engine + ?Sized;

    /// The engine that calls go to.
    fn inner(&self) -> &Arc<Self::Inner>;

    /// [`Engine::descriptor`].
    fn descriptor(&self) -> &Descriptor {
        self.inner().descriptor()
    }

    /// [`Engine::get_many`].
    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.inner().get_many(keys, sink)
    }

    /// [`Engine::get_many_with`]: whoever overrides `get_many` overrides it, too.
    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.inner().get_many_with(keys, intent, sink)
    }

    /// [`Engine::get_many_at_hand`]: whoever overrides `get_many` overrides it, too.
    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        self.inner().get_many_at_hand(keys, sink, left)
    }

    /// [`Engine::get_many_staged`]: whoever overrides `get_many` overrides it, too.
    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        self.inner().get_many_staged(keys, sink, stages)
    }

    /// [`Engine::reports_in_order`].
    fn reports_in_order(&self) -> bool {
        self.inner().reports_in_order()
    }

    /// [`Engine::write`].
    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.inner().write(batch, durability)
    }

    /// [`Engine::write_each`].
    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.inner().write_each(batch, durability)
    }

    /// [`Engine::sync`].
    fn sync(&self) -> Result<()> {
        self.inner().sync()
    }

    /// [`Engine::maintain`].
    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.inner().maintain(budget)
    }

    /// [`Engine::metrics`].
    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.inner().metrics(visitor);
    }

    /// [`Engine::verify`].
    fn verify(&self) -> Result<()> {
        self.inner().verify()
    }

    /// [`Engine::as_scan`].
    fn as_scan(&self) -> Option<&dyn Scan> {
        self.inner().as_scan()
    }

    /// [`Engine::as_ordered`].
    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Arc::clone(self.inner()).as_ordered()
    }

    /// [`Engine::as_changes`].
    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        Arc::clone(self.inner()).as_changes()
    }

    /// [`Engine::as_atomic`].
    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.inner().as_atomic()
    }

    /// [`Engine::as_sharded`].
    fn as_sharded(&self) -> Option<&dyn Sharded> {
        self.inner().as_sharded()
    }

    /// [`Engine::as_admin`].
    fn as_admin(&self) -> Option<&dyn Admin> {
        self.inner().as_admin()
    }
}

impl<L: Layer> Engine for L {
    #[inline]
    fn descriptor(&self) -> &Descriptor {
        Layer::descriptor(self)
    }

    #[inline]
    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        Layer::get_many(self, keys, sink)
    }

    #[inline]
    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        Layer::get_many_with(self, keys, intent, sink)
    }

    #[inline]
    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        Layer::get_many_at_hand(self, keys, sink, left)
    }

    #[inline]
    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        Layer::get_many_staged(self, keys, sink, stages)
    }

    #[inline]
    fn reports_in_order(&self) -> bool {
        Layer::reports_in_order(self)
    }

    #[inline]
    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        Layer::write(self, batch, durability)
    }

    #[inline]
    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        Layer::write_each(self, batch, durability)
    }

    #[inline]
    fn sync(&self) -> Result<()> {
        Layer::sync(self)
    }

    #[inline]
    fn maintain(&self, budget: Budget) -> Result<Progress> {
        Layer::maintain(self, budget)
    }

    #[inline]
    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        Layer::metrics(self, visitor);
    }

    #[inline]
    fn verify(&self) -> Result<()> {
        Layer::verify(self)
    }

    #[inline]
    fn as_scan(&self) -> Option<&dyn Scan> {
        Layer::as_scan(self)
    }

    #[inline]
    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Layer::as_ordered(self)
    }

    #[inline]
    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        Layer::as_changes(self)
    }

    #[inline]
    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Layer::as_atomic(self)
    }

    #[inline]
    fn as_sharded(&self) -> Option<&dyn Sharded> {
        Layer::as_sharded(self)
    }

    #[inline]
    fn as_admin(&self) -> Option<&dyn Admin> {
        Layer::as_admin(self)
    }
}

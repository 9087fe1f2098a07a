//! Opening on a device, which may have an image of the memory.

use crate::family::Family;
use crate::image;
use crate::index::OFFSET_BITS;
use crate::mica::{Home, Mica};
use crate::options::OPTIONS;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Environment, OptionValues};
use std::sync::Arc;

impl Mica {
    /// An engine on a device. With the option `warm_restart` it takes back what
    /// [`silica_engine::Admin::close`] has left there, and its own will leave what it holds.
    ///
    /// # Errors
    /// Those of [`Mica::open`]; `Io` where an image cannot be taken away from the device; `Full`
    /// where a store has too little memory for the image, which stays. An image that is damaged or
    /// of another version is no error: the keyspace is empty, and the log says why.
    pub fn open_on<D: Device>(
        device: D,
        options: &OptionValues,
        environment: &Environment,
    ) -> Result<Self> {
        Self::open_on_with(device, options, environment, OFFSET_BITS, None)
    }

    pub(crate) fn open_on_with<D: Device>(
        device: D,
        options: &OptionValues,
        environment: &Environment,
        offset_bits: u32,
        family: Option<Arc<Family>>,
    ) -> Result<Self> {
        let mut mica = Self::open_with(options, environment, offset_bits, family)?;
        let is_warm = options.value(OPTIONS, "warm_restart") != 0;
        image::take(&device, &mut mica, is_warm)?;
        mica.descriptor.capabilities.kept_at_close = is_warm;
        mica.home = is_warm.then(|| Arc::new(device) as Arc<dyn Home>);
        Ok(mica)
    }
}

//! What a parameter of a model may be.

use silica_base::{Error, ErrorKind, Result};

/// Larger parameters would overflow what models compute with.
const NUMBER_MAX: f64 = 1e18;

/// Refuses what is not a number over zero, or is so large that models would overflow.
///
/// # Errors
/// [`ErrorKind::Config`], with the name of the parameter.
pub fn positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value <= NUMBER_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!("{what} is a number over 0 and up to {NUMBER_MAX:e}, not {value}"),
    ))
}

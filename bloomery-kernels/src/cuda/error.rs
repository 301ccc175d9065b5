//! What can go wrong with a card.

use bloomery_gguf::Format;
use cudarc::driver::DriverError;

/// Why something on a card could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no card to use, or no driver for it.
    #[error("no CUDA device: {why}")]
    NoDevice {
        /// What was found in its place.
        why: String,
    },
    /// The driver refused a call, or work queued before it failed.
    #[error("{call}: {text} (CUDA error {code})")]
    Driver {
        /// What was asked for.
        call: &'static str,
        /// The driver's number of the error.
        code: u32,
        /// The driver's words for it.
        text: String,
    },
    /// There is not enough memory.
    #[error("{device} has {free} bytes of memory left of {total}; {need} are needed")]
    Memory {
        /// The card's name.
        device: String,
        /// Bytes asked for.
        need: u64,
        /// Bytes left.
        free: u64,
        /// Bytes of the card.
        total: u64,
    },
    /// The driver does not accept the code of a family of kernels.
    #[error("the {family} kernels do not load: {log}")]
    Module {
        /// The family.
        family: &'static str,
        /// The driver's words.
        log: String,
    },
    /// The kernels do not read weights of this format.
    #[error("{what} in {format} cannot be multiplied on a card")]
    NoProduct {
        /// Which weights.
        what: &'static str,
        /// Their format.
        format: Format,
    },
    /// A rule of a kernel was broken.
    #[error("{kernel}: {what} is {found}, must be {rule}")]
    Contract {
        /// The kernel.
        kernel: &'static str,
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it must be.
        rule: String,
    },
}

impl CudaError {
    /// For `map_err` on results of the driver.
    pub(super) fn driver(call: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |error| {
            let text = |string: Result<&std::ffi::CStr, DriverError>| {
                string.map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
            };
            Self::Driver { call, code: error.0 as u32, text: text(error.error_string()) }
        }
    }

    /// Checks that a quantity has its one right value.
    pub(super) fn equal(
        kernel: &'static str,
        what: &'static str,
        found: u64,
        expected: u64,
    ) -> Result<(), Self> {
        let rule = || format!("{expected}");
        Self::require(kernel, what, found, found == expected, rule)
    }

    /// An error unless `holds`.
    pub(super) fn require(
        kernel: &'static str,
        what: &'static str,
        found: u64,
        holds: bool,
        rule: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::Contract { kernel, what, found, rule: rule() }) }
    }
}

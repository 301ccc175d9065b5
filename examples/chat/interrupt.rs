//! Ctrl-C: it stops the answer, not the program.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use bloomery_core::Cancel;
use bloomery_examples::{Failure, Status};

/// What Ctrl-C does at the moment: it cancels the running answer, and ends the program when there is none or when
/// the answer was cancelled before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupts(Arc<Mutex<Option<Cancel>>>);

impl Interrupts {
    /// Takes over the signal.
    pub(crate) fn install() -> Result<Self, Failure> {
        let interrupts = Self::default();
        let handler = interrupts.clone();
        ctrlc::set_handler(move || {
            if !handler.interrupt() {
                process::exit(i32::from(Status::Interrupted as u8));
            }
        })
        .map_err(|error| Failure::new(Status::Software, format!("signal handler: {error}")))?;
        Ok(interrupts)
    }

    /// An answer begins, and ends when what is returned is dropped.
    pub(crate) fn begin(&self) -> Running {
        let cancel = Cancel::default();
        self.set(Some(cancel.clone()));
        Running { interrupts: self.clone(), cancel }
    }

    fn set(&self, cancel: Option<Cancel>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
    }

    /// Cancels the answer. False if there is none left to cancel.
    fn interrupt(&self) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(cancel) if !cancel.is_cancelled() => {
                cancel.cancel();
                true
            }
            _ => false,
        }
    }
}

/// An answer that Ctrl-C stops.
#[derive(Debug)]
pub(crate) struct Running {
    interrupts: Interrupts,
    cancel: Cancel,
}

impl Running {
    /// What stops it.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.interrupts.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_interrupt_stops_the_answer_and_the_second_the_program() {
        let interrupts = Interrupts::default();
        assert!(!interrupts.interrupt(), "nothing runs");
        let running = interrupts.begin();
        assert!(interrupts.interrupt() && running.cancel().is_cancelled());
        assert!(!interrupts.interrupt());
        drop(running);
        assert!(!interrupts.interrupt(), "it has ended");
        let next = interrupts.begin();
        assert!(!next.cancel().is_cancelled(), "a new answer starts fresh");
    }
}

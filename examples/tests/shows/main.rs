//! The examples that show how to use the library, from outside.

#[cfg(test)]
mod axum;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod decide;
#[cfg(test)]
mod desktop;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod structured;
#[expect(dead_code, reason = "every test binary uses a part of this")]
#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;

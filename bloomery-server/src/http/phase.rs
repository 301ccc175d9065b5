//! From serving to closed.

use std::pin::Pin;

use tokio::sync::watch;

/// What a server is doing, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It serves.
    Open,
    /// It takes no new requests.
    Draining,
    /// It ends what still runs with an error.
    Cut,
    /// Connections are closed as they stand.
    Closed,
}

/// Waits for a phase.
pub(super) type Wait = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Returns once the phase is `least` or later. A server that was dropped is closed.
pub(super) async fn reached(mut phase: watch::Receiver<Phase>, least: Phase) {
    let _ = phase.wait_for(|phase| *phase >= least).await;
}

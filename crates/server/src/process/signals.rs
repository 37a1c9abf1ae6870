//! The signals that ask a process to end: Ctrl-C, and what a service manager sends.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens to them. One that comes while nobody waits for it is not lost.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// From now on they no longer end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits until somebody wants it to end.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

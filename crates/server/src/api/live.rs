//! Clicks as they happen: whoever publishes never waits, and whoever listens slowly loses the oldest and learns how many.
//!
//! A workspace somebody listens to has one ring of [`MAX_BUFFERED_EVENTS`] events that all its listeners read; others have nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_core::Id;
use rlinks_ops::StreamQuota;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Subscriptions of everybody together, whatever the quota.
pub const MAX_SUBSCRIPTIONS: usize = 1024;
/// Events kept for a subscriber that has not read them yet.
pub const MAX_BUFFERED_EVENTS: usize = 256;

/// Where events come in and subscribers hang on.
pub struct LiveHub<T> {
    hub: Arc<Mutex<HubState<T>>>,
}

struct HubState<T> {
    channels: HashMap<Id, Channel<T>>,
    subscriptions: usize,
    is_closed: bool,
}

struct Channel<T> {
    sender: broadcast::Sender<Arc<T>>,
    /// How many each principal has: never 0.
    subscriptions: HashMap<Id, usize>,
}

impl<T> Channel<T> {
    fn new() -> Self {
        Self { sender: broadcast::Sender::new(MAX_BUFFERED_EVENTS), subscriptions: HashMap::new() }
    }
}

/// One listener's place. Dropping it frees the place.
pub struct Subscription<T> {
    workspace: Id,
    principal: Id,
    events: broadcast::Receiver<Arc<T>>,
    hub: Arc<Mutex<HubState<T>>>,
}

/// Why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    #[error(
        "You have {0} live streams open, the most one member may (`limits.live_streams`); close one and try again"
    )]
    Principal(u32),
    #[error(
        "This workspace has {0} live streams open, the most it may (`limits.live_streams`); try again later"
    )]
    Workspace(u32),
    #[error("This server has as many live streams open as it can; try again later")]
    Server,
}

/// What a listener hears.
#[derive(Debug, PartialEq, Eq)]
pub enum LiveEvent<T> {
    Published(Arc<T>),
    /// So many events were published and are gone: the listener was too slow.
    Lost(u64),
}

impl<T> Default for LiveHub<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> LiveHub<T> {
    pub fn new() -> Self {
        let hub = HubState { channels: HashMap::new(), subscriptions: 0, is_closed: false };
        Self { hub: Arc::new(Mutex::new(hub)) }
    }

    /// Listens to a workspace from now on, if the quota has room. Refused once the hub is closed.
    pub fn subscribe(
        &self,
        workspace: Id,
        principal: Id,
        quota: Option<StreamQuota>,
    ) -> Result<Subscription<T>, SubscribeError> {
        let mut guard = self.hub.lock();
        let hub = &mut *guard;
        if hub.is_closed || hub.subscriptions >= MAX_SUBSCRIPTIONS {
            return Err(SubscribeError::Server);
        }
        if let (Some(quota), Some(channel)) = (quota, hub.channels.get(&workspace)) {
            let own = channel.subscriptions.get(&principal).copied().unwrap_or_default();
            if own >= quota.per_principal as usize {
                return Err(SubscribeError::Principal(quota.per_principal));
            }
            if channel.subscriptions.values().sum::<usize>() >= quota.per_workspace as usize {
                return Err(SubscribeError::Workspace(quota.per_workspace));
            }
        }
        let channel = hub.channels.entry(workspace).or_insert_with(Channel::new);
        *channel.subscriptions.entry(principal).or_default() += 1;
        hub.subscriptions += 1;
        let events = channel.sender.subscribe();
        Ok(Subscription { workspace, principal, events, hub: Arc::clone(&self.hub) })
    }

    /// The workspaces somebody listens to: nobody else's events need to be made at all.
    pub fn subscribed_workspaces(&self) -> Vec<Id> {
        self.hub.lock().channels.keys().copied().collect()
    }

    /// Tells everybody who listens to this workspace. Waits for nobody; without listeners the event is gone.
    pub fn publish(&self, workspace: Id, event: Arc<T>) {
        if let Some(channel) = self.hub.lock().channels.get(&workspace) {
            // An error says that the last listener is just leaving.
            let _ = channel.sender.send(event);
        }
    }

    /// Ends every subscription after what it still has to hear, and takes no new ones: the server is shutting down.
    pub fn close(&self) {
        let mut hub = self.hub.lock();
        hub.is_closed = true;
        hub.channels.clear();
    }
}

impl<T> Subscription<T> {
    /// Waits for what comes next; nothing after the hub was closed. May be dropped while waiting without losing an event.
    pub async fn next(&mut self) -> Option<LiveEvent<T>> {
        match self.events.recv().await {
            Ok(event) => Some(LiveEvent::Published(event)),
            Err(RecvError::Lagged(events)) => Some(LiveEvent::Lost(events)),
            Err(RecvError::Closed) => None,
        }
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        let mut hub = self.hub.lock();
        hub.subscriptions -= 1;
        let Some(channel) = hub.channels.get_mut(&self.workspace) else { return };
        if let Some(own) = channel.subscriptions.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                channel.subscriptions.remove(&self.principal);
            }
        }
        if channel.subscriptions.is_empty() {
            hub.channels.remove(&self.workspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rlinks_core::Id;
    use rlinks_ops::StreamQuota;

    use super::{LiveEvent, LiveHub, MAX_BUFFERED_EVENTS, MAX_SUBSCRIPTIONS, SubscribeError, Subscription};

    const OURS: Id = Id::from_i64(1);
    const THEIRS: Id = Id::from_i64(2);

    fn subscribe<T>(live: &LiveHub<T>, workspace: Id) -> Subscription<T> {
        live.subscribe(workspace, Id::from_i64(7), None).unwrap()
    }

    fn event(number: u64) -> LiveEvent<u64> {
        LiveEvent::Published(Arc::new(number))
    }

    #[tokio::test]
    async fn subscribers_receive_later_events_of_their_workspace_only() {
        let live = LiveHub::new();
        live.publish(OURS, Arc::new(0));
        let mut first = subscribe(&live, OURS);
        let mut other = subscribe(&live, THEIRS);
        live.publish(OURS, Arc::new(1));
        let mut second = subscribe(&live, OURS);
        live.publish(THEIRS, Arc::new(2));
        live.publish(OURS, Arc::new(3));
        assert_eq!((first.next().await, first.next().await), (Some(event(1)), Some(event(3))));
        assert_eq!(second.next().await, Some(event(3)));
        assert_eq!(other.next().await, Some(event(2)));
    }

    #[tokio::test]
    async fn slow_subscriber_loses_the_oldest_events_and_learns_how_many() {
        let live = LiveHub::new();
        let mut slow = subscribe(&live, OURS);
        let mut quick = subscribe(&live, OURS);
        let behind = MAX_BUFFERED_EVENTS as u64;
        for number in 0..behind + 10 {
            live.publish(OURS, Arc::new(number));
            assert_eq!(quick.next().await, Some(event(number)));
        }
        assert_eq!(slow.next().await, Some(LiveEvent::Lost(10)));
        for number in 10..behind + 10 {
            assert_eq!(slow.next().await, Some(event(number)));
        }
        live.publish(OURS, Arc::new(7));
        assert_eq!(slow.next().await, Some(event(7)));
    }

    #[tokio::test]
    async fn event_wakes_a_waiting_subscriber() {
        let live = Arc::new(LiveHub::new());
        let mut waiting = subscribe(&live, OURS);
        let heard = tokio::spawn(async move { waiting.next().await });
        tokio::task::yield_now().await;
        live.publish(OURS, Arc::new(5));
        assert_eq!(heard.await.unwrap(), Some(event(5)));
    }

    #[test]
    fn subscriptions_are_limited_and_freed_on_drop() {
        const QUOTA: Option<StreamQuota> = Some(StreamQuota { per_principal: 2, per_workspace: 5 });
        let live = LiveHub::<()>::new();
        let person = |number: i64| Id::from_i64(100 + number);
        let mut places = vec![
            live.subscribe(OURS, person(0), QUOTA).unwrap(),
            live.subscribe(OURS, person(0), QUOTA).unwrap(),
        ];
        assert_eq!(live.subscribe(OURS, person(0), QUOTA).err(), Some(SubscribeError::Principal(2)));
        assert!(live.subscribe(THEIRS, person(0), QUOTA).is_ok(), "another workspace counts for itself");
        places.extend((1..4).map(|number| live.subscribe(OURS, person(number), QUOTA).unwrap()));
        assert_eq!(live.subscribe(OURS, person(9), QUOTA).err(), Some(SubscribeError::Workspace(5)));
        drop(places.remove(0));
        places.push(live.subscribe(OURS, person(0), QUOTA).unwrap());
        assert_eq!(live.subscribe(OURS, person(9), QUOTA).err(), Some(SubscribeError::Workspace(5)));

        places.extend((places.len()..MAX_SUBSCRIPTIONS).map(|_| subscribe(&live, OURS)));
        assert_eq!(live.subscribe(THEIRS, person(0), None).err(), Some(SubscribeError::Server));
        assert!(!live.subscribed_workspaces().contains(&THEIRS), "a refused listener leaves nothing behind");
        places.clear();
        assert!(live.subscribed_workspaces().is_empty());
        assert!(live.subscribe(THEIRS, person(0), QUOTA).is_ok());
    }

    #[test]
    fn workspaces_with_subscribers_are_listed() {
        let live = LiveHub::<()>::new();
        let (first, second) = (subscribe(&live, OURS), subscribe(&live, OURS));
        assert_eq!(live.subscribed_workspaces(), [OURS]);
        drop(first);
        assert_eq!(live.subscribed_workspaces(), [OURS]);
        drop(second);
        assert!(live.subscribed_workspaces().is_empty());
    }

    #[tokio::test]
    async fn closing_ends_all_subscriptions() {
        let live = LiveHub::new();
        let mut listener = subscribe(&live, OURS);
        live.publish(OURS, Arc::new(1));
        live.close();
        live.publish(OURS, Arc::new(2));
        assert_eq!((listener.next().await, listener.next().await), (Some(event(1)), None));
        assert!(live.subscribe(OURS, OURS, None).is_err());
        drop(listener);
        assert!(live.subscribed_workspaces().is_empty());
    }
}

//! Clicks as they happen: whoever publishes never waits, and whoever listens slowly loses the oldest and learns how many.
//!
//! A workspace somebody listens to has one ring of [`MAX_BUFFERED_EVENTS`] events that all its listeners read; others have nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_core::Id;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Subscriptions of one workspace.
pub const MAX_SUBSCRIPTIONS_PER_WORKSPACE: usize = 64;
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
    subscriptions: usize,
}

/// One listener's place. Dropping it frees the place.
pub struct Subscription<T> {
    workspace: Id,
    events: broadcast::Receiver<Arc<T>>,
    hub: Arc<Mutex<HubState<T>>>,
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

    /// Listens to a workspace from now on; nothing when all places are taken or the hub is closed.
    pub fn subscribe(&self, workspace: Id) -> Option<Subscription<T>> {
        let mut guard = self.hub.lock();
        let hub = &mut *guard;
        if hub.is_closed || hub.subscriptions >= MAX_SUBSCRIPTIONS {
            return None;
        }
        let channel = hub.channels.entry(workspace).or_insert_with(|| Channel {
            sender: broadcast::Sender::new(MAX_BUFFERED_EVENTS),
            subscriptions: 0,
        });
        if channel.subscriptions >= MAX_SUBSCRIPTIONS_PER_WORKSPACE {
            return None;
        }
        channel.subscriptions += 1;
        hub.subscriptions += 1;
        Some(Subscription { workspace, events: channel.sender.subscribe(), hub: Arc::clone(&self.hub) })
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
        if let Some(channel) = hub.channels.get_mut(&self.workspace) {
            channel.subscriptions -= 1;
            if channel.subscriptions == 0 {
                hub.channels.remove(&self.workspace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rlinks_core::Id;

    use super::{
        LiveEvent, LiveHub, MAX_BUFFERED_EVENTS, MAX_SUBSCRIPTIONS, MAX_SUBSCRIPTIONS_PER_WORKSPACE,
    };

    const OURS: Id = Id::from_i64(1);
    const THEIRS: Id = Id::from_i64(2);

    fn event(number: u64) -> LiveEvent<u64> {
        LiveEvent::Published(Arc::new(number))
    }

    #[tokio::test]
    async fn subscribers_receive_later_events_of_their_workspace_only() {
        let live = LiveHub::new();
        live.publish(OURS, Arc::new(0));
        let mut first = live.subscribe(OURS).unwrap();
        let mut other = live.subscribe(THEIRS).unwrap();
        live.publish(OURS, Arc::new(1));
        let mut second = live.subscribe(OURS).unwrap();
        live.publish(THEIRS, Arc::new(2));
        live.publish(OURS, Arc::new(3));
        assert_eq!((first.next().await, first.next().await), (Some(event(1)), Some(event(3))));
        assert_eq!(second.next().await, Some(event(3)));
        assert_eq!(other.next().await, Some(event(2)));
    }

    #[tokio::test]
    async fn slow_subscriber_loses_the_oldest_events_and_learns_how_many() {
        let live = LiveHub::new();
        let mut slow = live.subscribe(OURS).unwrap();
        let mut quick = live.subscribe(OURS).unwrap();
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
        let mut waiting = live.subscribe(OURS).unwrap();
        let heard = tokio::spawn(async move { waiting.next().await });
        tokio::task::yield_now().await;
        live.publish(OURS, Arc::new(5));
        assert_eq!(heard.await.unwrap(), Some(event(5)));
    }

    #[test]
    fn subscriptions_are_limited_and_freed_on_drop() {
        let live = LiveHub::<()>::new();
        let mut places: Vec<_> =
            (0..MAX_SUBSCRIPTIONS_PER_WORKSPACE).map(|_| live.subscribe(OURS).unwrap()).collect();
        assert!(live.subscribe(OURS).is_none());
        assert!(live.subscribe(THEIRS).is_some(), "others still have places");
        places.pop();
        places.push(live.subscribe(OURS).unwrap());
        assert!(live.subscribe(OURS).is_none());

        for number in places.len()..MAX_SUBSCRIPTIONS {
            places.push(live.subscribe(Id::from_i64(i64::try_from(number).unwrap())).unwrap());
        }
        assert!(live.subscribe(THEIRS).is_none(), "all places are taken");
        assert!(!live.subscribed_workspaces().contains(&THEIRS), "a refused listener leaves nothing behind");
        places.clear();
        assert!(live.subscribed_workspaces().is_empty());
        assert!(live.subscribe(THEIRS).is_some());
    }

    #[test]
    fn workspaces_with_subscribers_are_listed() {
        let live = LiveHub::<()>::new();
        let (first, second) = (live.subscribe(OURS).unwrap(), live.subscribe(OURS).unwrap());
        assert_eq!(live.subscribed_workspaces(), [OURS]);
        drop(first);
        assert_eq!(live.subscribed_workspaces(), [OURS]);
        drop(second);
        assert!(live.subscribed_workspaces().is_empty());
    }

    #[tokio::test]
    async fn closing_ends_all_subscriptions() {
        let live = LiveHub::new();
        let mut listener = live.subscribe(OURS).unwrap();
        live.publish(OURS, Arc::new(1));
        live.close();
        live.publish(OURS, Arc::new(2));
        assert_eq!((listener.next().await, listener.next().await), (Some(event(1)), None));
        assert!(live.subscribe(OURS).is_none());
        drop(listener);
        assert!(live.subscribed_workspaces().is_empty());
    }
}

//! A request's body with a deadline, a minimum rate and an account of what it holds. A slower sender loses the connection.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::body_budget::{BodyAccount, PRINCIPAL_BYTES};

/// How long a body may take however short it is.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
/// What is longer may take longer, as long as it comes at this rate.
const MIN_BYTES_PER_SECOND: u64 = 16 * 1024;
/// And no body takes longer than this.
const MAX_DURATION: Duration = Duration::from_mins(5);

pub struct TimedBody {
    body: Incoming,
    /// When reading began, and when the next bytes must be there. It runs only while there is something to wait for.
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
    received: u64,
    account: BodyAccount,
}

impl TimedBody {
    pub const fn new(body: Incoming, account: BodyAccount) -> Self {
        Self { body, timer: None, received: 0, account }
    }
}

/// When bytes must be there of a body that began at `start` and of which `received` have come.
fn deadline(start: Instant, received: u64) -> Instant {
    start + (GRACE_PERIOD + Duration::from_secs(received / MIN_BYTES_PER_SECOND)).min(MAX_DURATION)
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        // A length that was announced is held before anything is read, so that a body is refused at once and not halfway.
        let announced = this.body.size_hint().exact().unwrap_or_default().min(PRINCIPAL_BYTES);
        if this.received == 0
            && let Err(refused) = this.account.hold(announced)
        {
            return Poll::Ready(Some(Err(refused.into())));
        }
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                if let Err(refused) = this.account.hold(this.received) {
                    return Poll::Ready(Some(Err(refused.into())));
                }
                if let Some((start, timer)) = &mut this.timer {
                    timer.as_mut().reset(deadline(*start, this.received));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(other) => Poll::Ready(other.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => {
                let received = this.received;
                let (_, timer) = this.timer.get_or_insert_with(|| {
                    let start = Instant::now();
                    (start, Box::pin(tokio::time::sleep_until(deadline(start, received))))
                });
                timer.as_mut().poll(context).map(|()| Some(Err("the body did not arrive in time".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{GRACE_PERIOD, MAX_DURATION, MIN_BYTES_PER_SECOND, deadline};

    #[test]
    fn longer_bodies_have_more_time_up_to_a_limit() {
        let start = Instant::now();
        assert_eq!(deadline(start, 0), start + GRACE_PERIOD);
        assert_eq!(deadline(start, 60 * MIN_BYTES_PER_SECOND), start + GRACE_PERIOD + Duration::from_mins(1));
        assert_eq!(deadline(start, u64::MAX), start + MAX_DURATION);
    }
}

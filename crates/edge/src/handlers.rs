//! The Worker's two events: a request, and the clock.

use std::cell::OnceCell;
use std::rc::Rc;

use rlinks_core::error_code::ErrorCode;
use rlinks_core::host::MAX_HOST_BYTES;
use wasm_bindgen::JsValue;
use worker::worker_sys::web_sys;
use worker::{Context, Env, ScheduleContext, ScheduledEvent, event};

use crate::context::RequestContext;
use crate::profile::{d1, kv};
use crate::routing::{self, NextStep};
use crate::settings::{Profile, Settings};
use crate::{api, cron, platform};

thread_local! {
    /// Variables do not change while an isolate lives: a new value is a new deployment.
    static SETTINGS: OnceCell<Rc<Settings>> = const { OnceCell::new() };
}

fn settings(env: &JsValue) -> Option<Rc<Settings>> {
    SETTINGS.with(|cell| {
        if let Some(known) = cell.get() {
            return Some(Rc::clone(known));
        }
        match platform::settings(env) {
            Ok(read) => {
                if let Some(warning) = read.warning {
                    platform::log_error(warning);
                }
                Some(Rc::clone(cell.get_or_init(|| Rc::new(read))))
            }
            Err(error) => {
                platform::log_error(&format!("nothing can be served: {error}"));
                None
            }
        }
    })
}

#[event(fetch)]
async fn fetch(request: web_sys::Request, env: Env, execution: Context) -> worker::Result<web_sys::Response> {
    let (js_request, env): (JsValue, JsValue) = (request.into(), env.into());
    let (request, now) = (platform::edge_request(&js_request), platform::now());
    let Some(settings) = settings(&env) else {
        return Ok(platform::respond(&routing::error(&request, ErrorCode::Internal, now), request.is_head()));
    };
    let context =
        RequestContext { request: &request, settings: &settings, env: &env, execution: &execution, now };
    let mut buffer = [0; MAX_HOST_BYTES];
    let answer = match (routing::next_step(&request, &settings, &mut buffer, now), settings.profile) {
        (NextStep::Respond(answer), _) => answer,
        (NextStep::Load(asked), Profile::Fabric) => kv::handle(&context, &asked).await,
        (NextStep::Load(asked), Profile::Edge) => d1::handle(&context, &asked).await,
        (NextStep::CallApi, _) => api::handle(&context, &js_request).await,
    };
    Ok(platform::respond(&answer, request.is_head()))
}

#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, _context: ScheduleContext) {
    let env: JsValue = env.into();
    if let Some(settings) = settings(&env)
        && settings.profile == Profile::Edge
    {
        cron::run(&settings, &env, platform::now()).await;
    }
}

//! `rmax` on links and hits at Cloudflare: a stand-in of its API (`support/cloudflare.mjs`) over the real key-value storage.

mod faults;
mod hits;
mod links;
mod publish;
mod transfer;

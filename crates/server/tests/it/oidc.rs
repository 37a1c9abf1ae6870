//! OpenID: tokens made by hand against a stand-in for an issuer that can misbehave as no real one would, and in `outside_provider` a
//! real one.

mod accounts;
mod flow;
mod keys;
mod outside_provider;
mod outside_sign_in;
mod tokens;

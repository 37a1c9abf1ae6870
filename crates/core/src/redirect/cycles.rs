//! Cycles among our own links. A link may be allowed to lead to another of ours; visitors are never sent in circles.

use crate::field_error::{FieldCode, FieldError};
use crate::link::code::{Code, CodeRules};
use crate::link::target::Target;
use crate::redirect::path::{RequestPath, parse_path};

/// The most links of our own a visitor is led through.
pub const MAX_HOPS: usize = 3;
/// The most links on hosts that others merely claim that are looked at.
const MAX_CLAIMED_HOPS: usize = 10;

/// The way of a visitor from a link that is being written through other links of ours. The caller looks the links up:
///
/// ```text
/// while let Some(next) = walk.next_link(host_of) { walk.follow(&next, lookup(&next))?; }
/// ```
///
/// A host that another workspace merely claims is followed too, for two of them could send visitors round between them. But only a circle is
/// refused there: claiming a host must not make it unusable as a target. `W` tells workspaces apart.
#[derive(Debug)]
pub struct CycleWalk<'a, W> {
    origin: (W, &'a Code),
    rules: &'a CodeRules,
    /// Where the visitor is sent next; `None` once they are at no link of ours.
    target: Option<Target>,
    hops: usize,
    claimed_hops: usize,
}

/// A host that links of ours answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHost<W> {
    pub workspace: W,
    pub trust: HostTrust,
}

/// Whose word it is that a host is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTrust {
    /// The operator's, that of DNS, or that of the workspace whose link is being written.
    Ours,
    /// Only that of another workspace.
    Claimed,
}

/// The link a visitor is sent to next, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub struct NextLink<W> {
    pub workspace: W,
    trust: HostTrust,
    /// As the URL has it: not folded.
    pub code: String,
}

impl<'a, W: PartialEq> CycleWalk<'a, W> {
    /// Begins at the link `code` of a workspace whose codes follow `rules`, which is to lead to `target`.
    pub fn new(workspace: W, code: &'a Code, rules: &'a CodeRules, target: &Target) -> Self {
        Self { origin: (workspace, code), rules, target: Some(target.clone()), hops: 0, claimed_hops: 0 }
    }

    /// The next link to look up, or `None` if the visitor leaves our links. `host_of` finds whose host it is.
    pub fn next_link(&self, host_of: impl FnOnce(&str) -> Option<LinkHost<W>>) -> Option<NextLink<W>> {
        let target = self.target.as_ref()?;
        let LinkHost { workspace, trust } = host_of(target.host())?;
        Some(NextLink { workspace, trust, code: path_code(target)? })
    }

    /// Follows the link that was looked up, if there is one. Fails if it is the one that is being written, or one too many.
    pub fn follow(&mut self, asked: &NextLink<W>, found: Option<(&Code, &Target)>) -> Result<(), FieldError> {
        let (origin_workspace, origin) = &self.origin;
        let is_origin = match found {
            Some((code, _)) => code == *origin,
            // It leads to no link of ours yet; but if it leads to the very address being written, it will.
            None => {
                asked.code == origin.as_str()
                    || self.rules.folded(&asked.code).as_deref() == Some(origin.as_str())
            }
        };
        if is_origin && asked.workspace == *origin_workspace {
            let message = "leads, through links of our own, back to this link: visitors would go in circles";
            return Err(FieldError::new("target", FieldCode::Loop, message));
        }
        self.target = found.map(|(_, target)| target.clone());
        match asked.trust {
            HostTrust::Ours => self.hops += usize::from(found.is_some()),
            HostTrust::Claimed => self.claimed_hops += 1,
        }
        if self.claimed_hops > MAX_CLAIMED_HOPS {
            self.target = None;
        }
        if self.hops > MAX_HOPS {
            return Err(FieldError::new(
                "target",
                FieldCode::Loop,
                "leads through more than three links of our own",
            ));
        }
        Ok(())
    }
}

/// The code a URL asks for.
fn path_code(target: &Target) -> Option<String> {
    let after_host = &target.as_str()[target.host_range().1..];
    let path = &after_host[after_host.find('/')?..];
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    match parse_path(path) {
        RequestPath::Code(code) => Some(code.into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{CycleWalk, HostTrust, LinkHost, MAX_CLAIMED_HOPS, MAX_HOPS};
    use crate::{Code, Policy, Preset, Target};

    /// Writes `code -> target` over these links of `rmax.to`, and gives what is wrong with it.
    fn check(links: &[(&str, &str)], code: &str, target: &str) -> Option<String> {
        let target_of = |text: &str| Target::parse(text, 2048).unwrap();
        let links: HashMap<Code, Target> =
            links.iter().map(|(code, target)| (Code::from_path(code).unwrap(), target_of(target))).collect();
        let (code, policy) = (Code::from_path(code).unwrap(), Policy::preset(Preset::Fabric));
        let mut walk = CycleWalk::new((), &code, &policy.code, &target_of(target));
        let host_of = |host: &str| {
            let trust = match host {
                "rmax.to" => HostTrust::Ours,
                "claimed.example" => HostTrust::Claimed,
                _ => return None,
            };
            Some(LinkHost { workspace: (), trust })
        };
        while let Some(next) = walk.next_link(host_of) {
            let found =
                Code::from_path(&next.code.to_ascii_lowercase()).and_then(|code| links.get_key_value(&code));
            if let Err(error) = walk.follow(&next, found) {
                return Some(error.message);
            }
        }
        None
    }

    #[test]
    fn chain_that_leaves_our_links_is_no_cycle() {
        let links = [("b", "https://rmax.to/c"), ("c", "https://example.com/")];
        assert_eq!(check(&links, "a", "https://rmax.to/b"), None);
        assert_eq!(check(&links, "a", "https://rmax.to/nothing"), None);
        assert_eq!(check(&links, "a", "https://rmax.to/a/b"), None, "no link has this path");
        assert_eq!(check(&[], "a", "https://elsewhere.example/a"), None);
    }

    #[test]
    fn chain_back_to_the_link_itself_is_rejected() {
        let links = [("b", "https://rmax.to/A?x=1"), ("a", "https://example.com/")];
        for (links, target) in [
            (&links[..], "https://rmax.to/b"),
            (&links[..1], "https://rmax.to/b"),
            (&[], "https://rmax.to/%61"),
        ] {
            let error = check(links, "a", target).unwrap_or_default();
            assert!(error.contains("in circles"), "{target}: {error:?}");
        }
    }

    #[test]
    fn chain_of_too_many_links_is_rejected() {
        let links: Vec<(String, String)> = (0..=MAX_HOPS)
            .map(|number| (format!("n{number}"), format!("https://rmax.to/n{}", number + 1)))
            .collect();
        let links: Vec<(&str, &str)> =
            links.iter().map(|(code, target)| (code.as_str(), target.as_str())).collect();
        assert!(check(&links, "a", "https://rmax.to/n0").unwrap().contains("more than three"));
        assert_eq!(check(&links, "a", "https://rmax.to/n1"), None);
    }

    #[test]
    fn claimed_host_makes_a_circle_but_no_chain_too_long() {
        let links: Vec<(String, String)> = (0..=MAX_CLAIMED_HOPS + 2)
            .map(|number| (format!("n{number}"), format!("https://claimed.example/n{}", number + 1)))
            .collect();
        let links: Vec<(&str, &str)> =
            links.iter().map(|(code, target)| (code.as_str(), target.as_str())).collect();
        assert_eq!(check(&links, "a", "https://claimed.example/n0"), None);
        let back = [("b", "https://rmax.to/a")];
        assert!(check(&back, "a", "https://claimed.example/b").unwrap().contains("in circles"));
    }
}

//! A rush: redirects want more of the processors than there is. Who works in the background gives way then.

/// What the processors have done so far, in the system's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    ours: u64,
    idle: u64,
    all: u64,
}

impl CpuTimes {
    /// As the system counts them; nothing where it does not say.
    pub(crate) fn now() -> Option<Self> {
        let read = |path| std::fs::read_to_string(path).ok();
        Self::parse(&read("/proc/self/stat")?, &read("/proc/stat")?)
    }

    fn parse(process: &str, machine: &str) -> Option<Self> {
        // The name of a process may hold anything, blanks and brackets too.
        let (_, fields) = process.rsplit_once(')')?;
        let mut spent = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
        let ours = spent.next()?.ok()? + spent.next()?.ok()?;
        // user, nice, system, idle, waiting for a disk, interrupts twice, stolen; guests, after them, are counted among the first.
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let kinds: Vec<u64> =
            line.split_ascii_whitespace().take(8).map_while(|kind| kind.parse().ok()).collect();
        Some(Self { ours, idle: kinds.get(3)? + kinds.get(4)?, all: kinds.iter().sum() })
    }

    /// Whether there was a rush between an earlier look and this one, taken while nothing was done in the background: the
    /// processors were hardly ever idle, and much of what they did was ours.
    pub(crate) fn saturated_since(&self, before: &Self) -> bool {
        let [ours, idle, all] = [(self.ours, before.ours), (self.idle, before.idle), (self.all, before.all)]
            .map(|(after, before)| after.saturating_sub(before));
        idle * 8 < all && ours * 4 > all
    }
}

#[cfg(test)]
mod tests {
    use super::CpuTimes;

    fn ticks(ours: u64, idle: u64, all: u64) -> CpuTimes {
        CpuTimes { ours, idle, all }
    }

    #[test]
    fn cpu_is_saturated_only_by_our_own_work_without_idle_time() {
        let before = ticks(100, 5_000, 20_000);
        assert!(ticks(109, 5_001, 20_020).saturated_since(&before));
        assert!(!ticks(109, 5_005, 20_020).saturated_since(&before), "some of it was idle");
        assert!(!ticks(102, 5_000, 20_020).saturated_since(&before), "it was somebody else's");
        assert!(!before.saturated_since(&before), "no time has passed");
    }

    #[test]
    fn proc_stat_lines_are_parsed() {
        let process = "7 (a) b) S 1 7 7 0 -1 4194560 1200 0 3 0 250 75 0 0 20 0 9 0 310 400000 3000 1844";
        let machine = "cpu  700 30 200 9000 40 0 9 1 0 0\ncpu0 350 15 100 4500 20 0 5 1 0 0\n";
        assert_eq!(CpuTimes::parse(process, machine), Some(ticks(325, 9_040, 9_980)));
        assert_eq!(CpuTimes::parse(process, "cpu  700 30"), None);
        assert_eq!(CpuTimes::parse("7 (rmax) S 1", machine), None);
        assert_eq!(CpuTimes::parse("", ""), None);
    }
}

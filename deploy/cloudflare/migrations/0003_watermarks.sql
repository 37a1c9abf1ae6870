-- Up to which moment events are folded into `visit_count`. It moves in the transaction that adds them, so none is added twice.
CREATE TABLE IF NOT EXISTS watermarks (
  name TEXT PRIMARY KEY NOT NULL,
  at INTEGER NOT NULL
);

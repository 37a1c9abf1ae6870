-- A code once given out is never given to anybody else: a deletion or a purge leaves it here.
CREATE TABLE IF NOT EXISTS tombstones (
  slug TEXT PRIMARY KEY NOT NULL,
  deleted_at INTEGER NOT NULL
);

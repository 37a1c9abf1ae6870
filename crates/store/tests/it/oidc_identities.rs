//! Members as an OpenID provider knows them.

use rlinks_core::{Email, Preset, Role, Slug, User, UserStatus};
use rlinks_store::{NewInvite, NewUser, OidcIdentity, OidcProfile, StoreError, StoreWriter};

use crate::support::store::{MAIN, TestStore, assert_sound, at, contract, max, signer, trust};

contract!(
    identity_is_one_member_of_each_workspace,
    deleted_member_returns_as_a_new_account,
    concurrent_first_sign_ins_create_one_member,
    profile_sync_updates_a_member_and_takes_no_used_email,
    invitation_links_an_identity_once,
    backup_keeps_oidc_identities,
);

fn email(text: &str) -> Email {
    Email::parse(text).unwrap()
}

fn who(subject: &str) -> OidcIdentity {
    OidcIdentity { issuer: "https://login.example.com".to_owned(), subject: subject.to_owned() }
}

fn new(address: &str) -> NewUser {
    NewUser { workspace: MAIN, email: email(address), full_name: "Ann".to_owned(), role: Role::Member }
}

async fn join(store: &StoreWriter, subject: &str, address: &str, ms: i64) -> User {
    store.create_oidc_user(new(address), &who(subject), &max(), at(ms)).await.unwrap()
}

async fn ids_of(store: &StoreWriter, subject: &str) -> Vec<i64> {
    let accounts = store.accounts_of(&who(subject)).await.unwrap();
    accounts.into_iter().map(|(user, _)| user.id.as_i64()).collect()
}

async fn identity_is_one_member_of_each_workspace(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = join(&store, "ann", "ann@example.com", 1).await;
    assert_eq!((ann.status, ann.last_sync_at), (UserStatus::Active, Some(at(1))));
    // Whoever is there stays as they are, whatever is said of them now.
    assert_eq!(join(&store, "ann", "other@example.com", 2).await, ann);
    let taken = store.create_oidc_user(new("ANN@example.com"), &who("mallory"), &max(), at(3)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken(_))));
    assert_eq!(ids_of(&store, "mallory").await, [0; 0]);
    let policy = rlinks_core::Policy::preset(Preset::Team);
    let second = Slug::parse("second").unwrap();
    let second = store.create_workspace(second, "Second".to_owned(), policy, &max(), at(4)).await.unwrap();
    let there = NewUser { workspace: second.id, ..new("ann@example.com") };
    let there = store.create_oidc_user(there, &who("ann"), &max(), at(5)).await.unwrap();
    let accounts = store.accounts_of(&who("ann")).await.unwrap();
    let found: Vec<_> = accounts.iter().map(|(user, home)| (user.id, home.slug.as_str())).collect();
    assert_eq!(found, [(ann.id, "main"), (there.id, "second")]);
    let other = OidcIdentity { issuer: "https://elsewhere.example".to_owned(), ..who("ann") };
    assert!(store.accounts_of(&other).await.unwrap().is_empty());
    assert_sound(&store).await;
}

async fn deleted_member_returns_as_a_new_account(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = join(&store, "ann", "ann@example.com", 1).await;
    store.delete_user(&ann, "deleted-x", &max(), at(2)).await.unwrap();
    assert_eq!(ids_of(&store, "ann").await, [0; 0]);
    let gone = store.sync_oidc_profile(MAIN, &who("ann"), &OidcProfile::default(), at(3)).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))));
    let again = join(&store, "ann", "ann@example.com", 4).await;
    assert_ne!(again.id, ann.id);
    assert_eq!(ids_of(&store, "ann").await, [again.id.as_i64()]);
    assert_sound(&store).await;
}

async fn concurrent_first_sign_ins_create_one_member(test_store: TestStore) {
    let (one, two) = (test_store.open().await, test_store.open().await);
    let (first, second) =
        tokio::join!(join(&one, "ann", "ann@example.com", 1), join(&two, "ann", "ann@example.com", 1));
    assert_eq!(first.id, second.id);
    assert_eq!(ids_of(&one, "ann").await.len(), 1);
    assert_sound(&one).await;
}

async fn profile_sync_updates_a_member_and_takes_no_used_email(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = join(&store, "ann", "ann@example.com", 1).await;
    store.create_user(new("boss@example.com"), &max(), at(2)).await.unwrap();
    let head = store.heads().await.unwrap();
    // Nothing new: only when it was said.
    let same = OidcProfile { email: Some(ann.email.clone()), full_name: Some("Ann".to_owned()) };
    let synced = store.sync_oidc_profile(MAIN, &who("ann"), &same, at(3)).await.unwrap();
    assert_eq!(synced, User { last_sync_at: Some(at(3)), ..ann.clone() });
    assert_eq!(store.heads().await.unwrap(), head);
    let taken = OidcProfile { email: Some(email("boss@example.com")), full_name: None };
    let synced = store.sync_oidc_profile(MAIN, &who("ann"), &taken, at(4)).await.unwrap();
    assert_eq!((synced.email.as_str(), synced.full_name.as_str()), ("ann@example.com", "Ann"));
    let fresh = OidcProfile { email: Some(email("ann@new.example")), full_name: Some("Ann New".to_owned()) };
    let synced = store.sync_oidc_profile(MAIN, &who("ann"), &fresh, at(5)).await.unwrap();
    assert_eq!(store.user(MAIN, ann.id).await.unwrap(), Some(synced.clone()));
    assert_eq!((synced.email.as_str(), synced.updated_at), ("ann@new.example", at(5)));
    let last = store.audit_before(MAIN, i64::MAX, 1).await.unwrap().remove(0);
    assert_eq!(last.action, "user.update");
    assert!(!format!("{last:?}").contains("new.example"), "{last:?}");
    assert_sound(&store).await;
}

async fn invitation_links_an_identity_once(test_store: TestStore) {
    let store = test_store.open().await;
    let invited = store.create_user(new("carol@example.com"), &max(), at(1)).await.unwrap();
    let invite = NewInvite { hash: "hash", expires_at: at(1000), counted_for: None, quota: None };
    store.renew_invite(&invited, &invite, &max(), at(2)).await.unwrap();
    let other = join(&store, "ann", "ann@example.com", 3).await;
    for (hash, subject, ms) in [("another", "carol", 4), ("hash", "carol", 1001)] {
        let refused = store.link_oidc_identity(MAIN, hash, &who(subject), at(ms)).await;
        assert!(matches!(refused, Err(StoreError::NotFound(_))), "{hash} {ms}");
    }
    let refused = store.link_oidc_identity(MAIN, "hash", &who("ann"), at(5)).await;
    assert!(matches!(refused, Err(StoreError::Conflict)));
    let linked = store.link_oidc_identity(MAIN, "hash", &who("carol"), at(1000)).await.unwrap();
    assert_eq!(linked.id, invited.id);
    assert_eq!(ids_of(&store, "carol").await, [invited.id.as_i64()]);
    assert_eq!(ids_of(&store, "ann").await, [other.id.as_i64()]);
    assert!(store.link_oidc_identity(MAIN, "hash", &who("dora"), at(1000)).await.is_err());
    assert_sound(&store).await;
}

async fn backup_keeps_oidc_identities(test_store: TestStore) {
    let store = test_store.open().await;
    let ann = join(&store, "ann", "ann@example.com", 1).await;
    let file = test_store.folder().join("backup");
    store.backup(std::fs::File::create(&file).unwrap(), &signer(), at(2)).await.unwrap();
    store.delete_user(&ann, "deleted-x", &max(), at(3)).await.unwrap();
    store.restore(&file, &trust()).await.unwrap();
    assert_eq!(ids_of(&store, "ann").await, [ann.id.as_i64()]);
    assert_sound(&store).await;
}

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// bcrypt of "right", with the fewest rounds there are.
fn line(user: &str) -> String {
    format!("{user}:{}\n", bcrypt::hash("right", 4).unwrap())
}

fn gate(folder: &Path, failures: u32) -> Gate {
    let files = AccessFiles {
        users: Some(folder.join("users")),
        ..AccessFiles::default()
    };
    Gate::open(files, false, failures).unwrap()
}

/// A token of somebody who shows the right password.
async fn token_of(gate: &Gate, user: &str) -> Credentials {
    let shown = Credentials::password(user, "right");
    Credentials::Token(gate.token(&shown, None).await.unwrap())
}

/// What was changed and cannot be used.
fn unread(gate: &Gate) -> Vec<&'static str> {
    let unread = gate.unread().into_iter().filter(|(_, unread)| *unread);
    unread.map(|(what, _)| what).collect()
}

async fn try_login(gate: &Gate, user: &str, password: &str, from: u8) -> Result<Who, NotThem> {
    let credentials = Credentials::password(user, password);
    let address = IpAddr::from([127, 0, 0, from]);
    gate.who(&credentials, Some(address)).await
}

#[tokio::test]
async fn a_password_makes_somebody_a_user() {
    let folder = tempfile::tempdir().unwrap();
    let empty = gate(folder.path(), 20);
    assert!(!empty.has_logins() && !empty.lets_write());
    fs::write(folder.path().join("users"), line("alice")).unwrap();
    empty.reload().unwrap();
    let gate = empty;
    assert!(gate.has_logins() && gate.lets_write());
    let alice = Who::User("alice".into());
    assert_eq!(
        try_login(&gate, "alice", "right", 1).await,
        Ok(alice.clone())
    );
    for (user, password) in [("alice", "wrong"), ("eve", "right"), ("alice", "")] {
        let got = try_login(&gate, user, password, 1).await;
        assert_eq!(got, Err(NotThem::Wrong), "{user} {password}");
    }
    let anyone = gate.who(&Credentials::None, None).await;
    assert_eq!(anyone, Ok(Who::Nobody));
    assert!(
        gate.allows(&alice, Action::Push, "a") && !gate.allows(&Who::Nobody, Action::Push, "a")
    );
    assert!(gate.allows(&Who::Nobody, Action::Pull, "a"));
}

#[tokio::test]
async fn a_token_counts_until_its_user_changes() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, line("alice") + &line("bob")).unwrap();
    let gate = gate(folder.path(), 20);
    let alice = Who::User("alice".into());
    let of = |token: String| Credentials::Token(token);
    let token = token_of(&gate, "alice").await;
    let nobody = of(gate.token(&Credentials::None, None).await.unwrap());
    assert_eq!(gate.who(&token, None).await, Ok(alice));
    assert_eq!(gate.who(&nobody, None).await, Ok(Who::Nobody));
    fs::write(&users, line("alice") + &line("bob")).unwrap();
    gate.reload().unwrap();
    let got = gate.who(&token, None).await;
    assert_eq!(got, Err(NotThem::Token), "the password is another");
    assert_eq!(gate.who(&nobody, None).await, Ok(Who::Nobody));
    let got = gate.who(&of("x.y".to_owned()), None).await;
    assert_eq!(got, Err(NotThem::Token));
}

#[tokio::test]
async fn a_token_is_none_of_a_password_that_came_while_the_old_one_was_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, line("alice")).unwrap();
    let gate = gate(folder.path(), 20);
    let all = u32::try_from(gate.turns.available_permits()).unwrap();
    let busy = gate.turns.acquire_many(all).await.unwrap();
    let shown = Credentials::password("alice", "right");
    // it waits for its turn; then the password changes
    let change = async {
        let new = bcrypt::hash("another", 4).unwrap();
        fs::write(&users, format!("alice:{new}\n")).unwrap();
        gate.reload().unwrap();
        drop(busy);
    };
    let (token, ()) = tokio::join!(gate.token(&shown, None), change);
    let token = Credentials::Token(token.unwrap());
    assert_eq!(gate.who(&token, None).await, Err(NotThem::Token));
}

#[tokio::test]
async fn wrong_logins_make_their_name_wait_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), line("alice") + &line("bob")).unwrap();
    let gate = gate(folder.path(), 3);
    let later = |got: Result<Who, NotThem>| matches!(got, Err(NotThem::Later(_)));
    // as long for a name nobody has
    for name in ["alice", "eve"] {
        for _ in 0..3 {
            assert_eq!(try_login(&gate, name, "x", 1).await, Err(NotThem::Wrong));
        }
        assert!(later(try_login(&gate, name, "right", 1).await));
    }
    // others have the same address, behind NAT or a proxy
    assert!(try_login(&gate, "bob", "right", 1).await.is_ok());
    assert!(try_login(&gate, "alice", "right", 2).await.is_ok());
    assert!(
        try_login(&gate, "alice", "right", 1).await.is_ok(),
        "it is known"
    );
}

#[tokio::test]
async fn a_token_counts_at_every_mirror_with_the_same_key_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (users, key) = (folder.path().join("users"), folder.path().join("token-key"));
    fs::write(&users, line("alice")).unwrap();
    let open = |token_key: TokenKey| {
        let files = AccessFiles {
            passwords: Some(users.clone()),
            token_key,
            ..AccessFiles::default()
        };
        Gate::open(files, false, 20).unwrap()
    };
    let (one, two) = (
        open(TokenKey::Made(key.clone())),
        open(TokenKey::Made(key.clone())),
    );
    let alice = Who::User("alice".into());
    let token = token_of(&one, "alice").await;
    for gate in [&one, &two, &open(TokenKey::Given(key.clone()))] {
        assert_eq!(gate.who(&token, None).await, Ok(alice.clone()));
    }
    drop(one);
    let again = open(TokenKey::Made(key.clone()));
    assert_eq!(again.who(&token, None).await, Ok(alice.clone()));
    let other = open(TokenKey::Memory);
    assert_eq!(other.who(&token, None).await, Err(NotThem::Token));

    // who takes the file away changes the key, for all of them
    fs::remove_file(&key).unwrap();
    again.reload().unwrap();
    two.reload().unwrap();
    for gate in [&again, &two] {
        assert_eq!(gate.who(&token, None).await, Err(NotThem::Token));
    }
    let token = token_of(&two, "alice").await;
    assert_eq!(again.who(&token, None).await, Ok(alice.clone()));
    // one that cannot be used leaves the one before
    fs::write(&key, "short").unwrap();
    assert_eq!(again.reload().unwrap_err().len(), 1);
    assert_eq!(unread(&again), ["token key"]);
    assert_eq!(again.who(&token, None).await, Ok(alice));
}

#[tokio::test]
async fn settings_that_cannot_be_used_leave_the_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (users, rules) = (folder.path().join("users"), folder.path().join("access"));
    fs::write(&users, line("alice")).unwrap();
    let head = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";
    fs::write(&rules, format!("{head}anonymous: none\n")).unwrap();
    let files = AccessFiles {
        passwords: Some(users.clone()),
        rules: Some(rules.clone()),
        ..AccessFiles::default()
    };
    let gate = Gate::open(files.clone(), false, 20).unwrap();
    assert!(!gate.is_open_for_reading());
    assert!(!gate.allows(&Who::Nobody, Action::Pull, "a"));

    fs::write(&rules, format!("{head}anonymous: all\n")).unwrap();
    let errors = gate.reload().unwrap_err();
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    let place = kubepkg_core::error::Classify::place(error).unwrap();
    assert!(place.contains("access: line 3"), "{place}");
    assert_eq!(unread(&gate), ["rules"]);
    assert!(!gate.allows(&Who::Nobody, Action::Pull, "a"));

    // passwords count whatever became of the rules
    fs::write(&users, line("bob")).unwrap();
    assert!(gate.reload().is_err());
    assert_eq!(gate.users(), ["bob"]);
    let got = try_login(&gate, "alice", "right", 1).await;
    assert_eq!(got, Err(NotThem::Wrong));
    assert!(!gate.allows(&Who::Nobody, Action::Pull, "a"));

    // and rules whatever became of the passwords
    let bobs = format!("{head}rules:\n- {{path: a, push: [bob]}}\n");
    fs::write(&rules, bobs).unwrap();
    fs::write(&users, "alice:plain\n").unwrap();
    assert_eq!(gate.reload().unwrap_err().len(), 1);
    assert_eq!(gate.users(), ["bob"]);
    assert_eq!(unread(&gate), ["users"]);
    assert!(gate.allows(&Who::User("bob".into()), Action::Push, "a"));
    assert!(gate.allows(&Who::Nobody, Action::Pull, "a"));
    // a file that was named has to be there
    fs::remove_file(&users).unwrap();
    assert!(gate.reload().is_err());
    assert!(Gate::open(files, false, 20).is_err());
}

#[tokio::test]
async fn a_user_whom_rules_name_goes_as_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let (users, rules) = (folder.path().join("users"), folder.path().join("access"));
    fs::write(&users, line("alice") + &line("bob")).unwrap();
    let head = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";
    let text = "groups: {team: [bob]}\nrules:\n- {path: a, push: [bob, team]}\n";
    fs::write(&rules, format!("{head}{text}")).unwrap();
    let files = AccessFiles {
        passwords: Some(users.clone()),
        rules: Some(rules),
        ..AccessFiles::default()
    };
    let gate = Gate::open(files.clone(), false, 20).unwrap();
    assert!(gate.doubts().is_empty());
    let bob = Who::User("bob".into());
    assert_eq!(try_login(&gate, "bob", "right", 1).await, Ok(bob.clone()));
    let token = token_of(&gate, "bob").await;

    Users::at(users.clone()).remove("bob").unwrap();
    gate.reload().unwrap();
    let got = try_login(&gate, "bob", "right", 1).await;
    assert_eq!(got, Err(NotThem::Wrong));
    assert_eq!(gate.who(&token, None).await, Err(NotThem::Token));
    // the next start is not kept up by it either
    for gate in [gate, Gate::open(files, false, 20).unwrap()] {
        let doubts = gate.doubts();
        let said: Vec<String> = doubts.iter().map(|d| told(d).to_string()).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("\"bob\"") && said[0].contains("access: groups.team"));
        assert!(!gate.allows(&Who::User("alice".into()), Action::Push, "a"));
    }
}

/// A client that shows a password and does not wait for the answer.
async fn hang_up(gate: &Gate, password: &str, from: u8) {
    let all = u32::try_from(gate.turns.available_permits()).unwrap();
    let trying = try_login(gate, "alice", password, from);
    tokio::select! {
        biased;
        _ = trying => {}
        () = std::future::ready(()) => {}
    }
    // whoever is at work gives its turn back when it has ended
    let turns = gate.turns.acquire_many(all).await;
    drop(turns.unwrap());
}

#[tokio::test]
async fn hanging_up_is_no_way_around_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), line("alice")).unwrap();
    let gate = gate(folder.path(), 1);
    hang_up(&gate, "guess", 1).await;
    let got = try_login(&gate, "alice", "right", 1).await;
    assert!(matches!(got, Err(NotThem::Later(_))), "{got:?}");
    // and a right one is remembered
    hang_up(&gate, "right", 2).await;
    assert!(try_login(&gate, "alice", "right", 1).await.is_ok());
}

#[tokio::test]
async fn who_has_to_wait_does_not_queue() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), line("alice")).unwrap();
    let gate = gate(folder.path(), 1);
    let got = try_login(&gate, "alice", "guess", 1).await;
    assert_eq!(got, Err(NotThem::Wrong));
    let all = u32::try_from(gate.turns.available_permits()).unwrap();
    let _busy = gate.turns.acquire_many(all).await.unwrap();
    let got = try_login(&gate, "alice", "guess", 1).await;
    assert!(matches!(got, Err(NotThem::Later(_))), "{got:?}");
}

proptest! {
    #[test]
    fn what_is_no_login_is_none(text in "\\PC{0,200}", lines in ".{0,300}") {
        let tokens = Tokens::under(token::random_key().unwrap());
        prop_assert_eq!(tokens.check(&text, Time::from_unix(1_790_000_000)), None);
        if let Ok(passwords) = Passwords::parse(&lines) {
            prop_assert!(passwords.users().all(|user| !user.contains(':')));
        }
        let _ = Rules::parse(&lines);
    }
}

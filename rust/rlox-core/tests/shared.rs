//! An object that a call left half changed refuses further calls.
#![allow(clippy::panic, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rlox_core::{Error, Shared};

fn refuses(object: &Shared<Vec<u8>>) -> bool {
    let refused = |result: Result<usize, Error>| matches!(result, Err(Error::Internal { .. }));
    object.try_read().is_none()
        && object.try_write().is_none()
        && refused(object.read(Vec::len))
        && refused(object.write(|rows| rows.len()))
}

#[test]
fn an_object_whose_change_panicked_is_neither_read_nor_changed_again() {
    let object = Shared::new(vec![1, 2]);
    let half = || {
        object.write(|rows| {
            rows.clear();
            panic!("as expected")
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(half)).is_err());
    assert!(refuses(&object));
}

#[test]
fn a_change_by_a_lock_of_the_callers_own_breaks_the_object_too() {
    let object = Shared::new(vec![1, 2]);
    let held = object.try_write();
    assert!(held.is_some());
    let half = || {
        let _broken = object.breaks_if_panicking();
        panic!("as expected")
    };
    assert!(catch_unwind(AssertUnwindSafe(half)).is_err());
    drop(held);
    assert!(refuses(&object));
}

#[test]
fn a_look_that_panicked_leaves_the_object_whole() {
    let object = Shared::new(vec![1, 2]);
    let look = || object.read(|_| panic!("as expected"));
    assert!(catch_unwind(AssertUnwindSafe(look)).is_err());
    assert_eq!(object.read(Vec::len), Ok(2));
}

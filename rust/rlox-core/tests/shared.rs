//! An object that a call left half changed refuses further calls.
#![allow(clippy::panic, missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rlox_core::{Error, Shared};

fn is_broken(object: &Shared<Vec<u8>>) -> bool {
    let is_internal_error = |result: Result<usize, Error>| matches!(result, Err(Error::Internal { .. }));
    object.try_read().is_none()
        && object.try_write().is_none()
        && is_internal_error(object.read(Vec::len))
        && is_internal_error(object.write(|rows| rows.len()))
}

#[test]
fn an_object_whose_change_panicked_is_neither_read_nor_changed_again() {
    let object = Shared::new(vec![1, 2]);
    let change_and_panic = || {
        object.write(|rows| {
            rows.clear();
            panic!("as expected")
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(change_and_panic)).is_err());
    assert!(is_broken(&object));
}

#[test]
fn a_panic_under_the_callers_own_guard_breaks_the_object_too() {
    let object = Shared::new(vec![1, 2]);
    let guard = object.try_write();
    assert!(guard.is_some());
    let break_and_panic = || {
        let _poison_guard = object.poison_on_panic();
        panic!("as expected")
    };
    assert!(catch_unwind(AssertUnwindSafe(break_and_panic)).is_err());
    drop(guard);
    assert!(is_broken(&object));
}

#[test]
fn a_read_that_panicked_leaves_the_object_usable() {
    let object = Shared::new(vec![1, 2]);
    let read_and_panic = || object.read(|_| panic!("as expected"));
    assert!(catch_unwind(AssertUnwindSafe(read_and_panic)).is_err());
    assert_eq!(object.read(Vec::len), Ok(2));
}

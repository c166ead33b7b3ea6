//! Rayon's par_sort_unstable and par_sort, with the interface of ../sorts.h.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

fn pool() -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPoolBuilder::new().num_threads(2).build().unwrap())
}

/// Sorts n items at this address.
unsafe fn sort_by<T: Send>(
    items: *mut c_void,
    n: usize,
    stable: bool,
    compare: impl Fn(&T, &T) -> Ordering + Send + Sync,
) -> c_int {
    let items = std::slice::from_raw_parts_mut(items.cast::<T>(), n);
    pool().install(|| {
        if stable {
            items.par_sort_by(compare);
        } else {
            items.par_sort_unstable_by(compare);
        }
    });
    0
}

unsafe fn sort<T: Ord + Send>(items: *mut c_void, n: usize, stable: bool) -> c_int {
    sort_by::<T>(items, n, stable, T::cmp)
}

/// The dtype is a C string, the items are aligned and nobody else's.
#[no_mangle]
pub unsafe extern "C" fn sort_items(
    dtype: *const c_char,
    items: *mut c_void,
    n: usize,
    stable: c_int,
) -> c_int {
    let stable = stable != 0;
    match CStr::from_ptr(dtype).to_bytes() {
        b"bool" | b"uint8" => sort::<u8>(items, n, stable),
        b"int8" => sort::<i8>(items, n, stable),
        b"int16" => sort::<i16>(items, n, stable),
        b"int32" => sort::<i32>(items, n, stable),
        b"int64" => sort::<i64>(items, n, stable),
        b"float32" => sort_by(items, n, stable, f32::total_cmp),
        b"float64" => sort_by(items, n, stable, f64::total_cmp),
        b"complex128" => sort_by(items, n, stable, |a: &[f64; 2], b: &[f64; 2]| {
            a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]))
        }),
        b"S16" => sort::<[u8; 16]>(items, n, stable),
        b"U8" => sort::<[u32; 8]>(items, n, stable),
        _ => 1,
    }
}

#[no_mangle]
pub extern "C" fn sort_version() -> *const c_char {
    concat!(env!("PEER_RAYON"), "\0").as_ptr().cast()
}

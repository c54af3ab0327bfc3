//! As if `cargo vendor` had brought it.
pub fn from(whom: &str) -> String {
    format!("{} from {whom}\n", env!("GREETING"))
}

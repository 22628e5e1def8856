//! Nothing: the programs are in tests/ui.

"""A discrete-event simulator of the scheduler's policies; README.md says what it models."""

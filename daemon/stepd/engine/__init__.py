"""The pure state machine: takes what the store has of one execution and one command, and returns what to write."""

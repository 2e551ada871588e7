"""What the daemon can be asked: one module a capability, each function one call to the store or one wait."""

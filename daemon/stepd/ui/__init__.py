"""The page: what it shows, rendered by the daemon."""

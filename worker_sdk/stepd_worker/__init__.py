"""Python worker and client for stepd."""

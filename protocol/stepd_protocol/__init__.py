"""Wire types of the stepd worker protocol and executions API."""

"""The stepd daemon: durable workflow executions and the leases workers hold on their steps."""

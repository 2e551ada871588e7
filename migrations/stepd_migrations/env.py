"""What alembic runs for each command: the versions, on the connection that ``run`` hands over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()

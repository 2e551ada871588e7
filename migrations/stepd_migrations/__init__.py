"""Schema versions of stepd's stores and the way to bring a database up to the newest.

``HEAD`` is compared with the database's own version by the stores; only where they differ is ``stepd_migrations.run``
imported, and alembic with it, because that takes a third of a second.
"""

from typing import Final

HEAD: Final = "0003"
"""The newest version."""

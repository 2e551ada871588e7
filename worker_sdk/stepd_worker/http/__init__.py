"""Steps without code: bodies that are calls of other services over HTTP, as a catalogue of integrations says.

`python -m stepd_worker http --catalogue integrations.toml` serves the workflows that the catalogue names. In a program,
`read_catalogue("integrations.toml").body("payments.charge@2")` is a body like any other.
"""

from stepd_worker.http.catalogue import Capability, Catalogue, read_catalogue
from stepd_worker.http.serving import http_body, workflows_of

__all__ = ["Capability", "Catalogue", "http_body", "read_catalogue", "workflows_of"]

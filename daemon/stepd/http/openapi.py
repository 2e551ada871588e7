"""Owns the OpenAPI document."""


class Document:
    def as_yaml(self) -> bytes:
        return b"{}"

    def as_json(self) -> bytes:
        return b"{}"

"""Owns the part of the table of routes that says how the daemon is: alive, ready, its figures, its document."""

from typing import Final

from stepd.http import status
from stepd.http.table import Route, Success

STATUS_ROUTES: Final = (
    Route(
        method="GET",
        path="/healthz",
        name="alive",
        summary="Whether the process answers",
        handler=status.alive,
        part=None,
        scopes=None,
        successes=(Success(status=200, type=status.Alive, about="it does"),),
    ),
    Route(
        method="GET",
        path="/readyz",
        name="ready",
        summary="Whether the store is there and new work is taken",
        handler=status.ready,
        part=None,
        scopes=None,
        successes=(Success(status=200, type=status.Ready, about="ready"),),
        problems=("unavailable",),
    ),
    Route(
        method="GET",
        path="/metrics",
        name="metrics",
        summary="Figures for Prometheus; none of them names a tenant, worker, key or execution",
        handler=status.metrics,
        part=None,
        scopes=None,
        successes=(Success(status=200, type=str, about="the figures", media_type=status.METRICS_TYPE),),
    ),
    Route(
        method="GET",
        path="/openapi.yaml",
        name="openapi_yaml",
        summary="This document",
        handler=status.document_yaml,
        part=None,
        scopes=None,
        successes=(Success(status=200, type=dict, about="the document", media_type=status.YAML_TYPE),),
    ),
    Route(
        method="GET",
        path="/openapi.json",
        name="openapi_json",
        summary="This document as JSON",
        handler=status.document_json,
        part=None,
        scopes=None,
        successes=(Success(status=200, type=dict, about="the document"),),
    ),
)

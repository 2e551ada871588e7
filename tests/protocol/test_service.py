"""What a daemon tells of itself: health, readiness, metrics, its description, its service."""

from tests.protocol.conftest import MakeFlow, Target
from tests.support.client import Http
from tests.support.definitions import read


def test_it_is_alive_and_ready(target: Target) -> None:
    nobody = Http(target.url)
    assert nobody.get("/healthz").status == 200
    assert nobody.get("/readyz").status == 200


def test_its_metrics_are_prometheus_s(http: Http) -> None:
    answer = http.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(("text/plain", "application/openmetrics-text"))
    assert "# HELP" in answer.text


def test_the_service_is_the_one_that_claims_and_registrations_name(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    service = http.get("/v1/service").expect(200)
    assert service.keys() >= {"id", "name", "version"}
    named = work.registered["service"]
    assert named in (service["id"], service["name"])
    assert work.attempt_claim().expect(200)["service"] == named


def test_its_description_names_every_route(http: Http) -> None:
    described = http.get("/openapi.json").expect(200)
    assert described["openapi"].startswith("3.1")
    paths = {path.replace("{execution_id}", "{id}").replace("{lease_id}", "{id}") for path in described["paths"]}
    for path in (
        "/v1/workflows",
        "/v1/workflows/{name}",
        "/v1/workflows/{name}/current",
        "/v1/leases/claim",
        "/v1/leases/{id}/heartbeat",
        "/v1/leases/{id}/complete",
        "/v1/leases/{id}/fail",
        "/v1/executions",
        "/v1/executions/{id}",
        "/v1/executions/{id}/events",
        "/v1/executions/{id}/spans",
        "/v1/executions/{id}/cancel",
        "/v1/executions/{id}/pause",
        "/v1/executions/{id}/resume",
        "/v1/workers",
        "/v1/service",
    ):
        assert path in paths


def test_its_description_is_there_as_yaml(http: Http) -> None:
    answer = http.get("/openapi.yaml")
    assert answer.status == 200
    assert "openapi: " in answer.text

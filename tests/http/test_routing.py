"""Which paths open what: only the ones in the table, as they are written there."""

import pytest

from tests.http.edge import Edge
from tests.support.client import Http
from tests.support.wait import eventually


def test_a_variable_part_is_decoded(http: Http) -> None:
    assert http.get("/things/a%3Ab%20c").text == "(('a:b c',), [])"


def test_the_query_is_decoded_in_order(http: Http) -> None:
    assert http.get("/things/x?b=1&a=%C3%A4&b=&c").text == "(('x',), [('b', '1'), ('a', 'ä'), ('b', ''), ('c', '')])"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/nowhere",
        "/any/",
        "//any",
        "/%61ny",
        "/any%2f",
        "/things",
        "/things/",
        "/things//",
        "/things/a/b",
        "/things/a%2Fb",
        "/things/%00",
        "/things/%0a",
        "/things/%ff",
        "/things/..%2f",
        "*",
        "http://127.0.0.1/any",
    ],
)
def test_nothing_else_opens_a_path(http: Http, path: str) -> None:
    http.get(path).expect_problem(404, "not_found")


def test_a_path_knows_its_methods(http: Http) -> None:
    answer = http.send("DELETE", "/any")
    answer.expect_problem(405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    answer = http.send("GET", "/echo")
    answer.expect_problem(405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PATCH", "BREW"])
def test_other_methods_are_405(http: Http, method: str) -> None:
    http.send(method, "/any").expect_problem(405, "method_not_allowed")


def test_head_is_get_without_its_body(http: Http) -> None:
    answer = http.send("HEAD", "/any")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len(http.get("/any").body))


@pytest.mark.parametrize("query", ["a=%ff", "a=%C3%28", "&".join(["a=1"] * 400)])
def test_a_query_that_cannot_be_read_is_422(http: Http, query: str) -> None:
    http.get(f"/things/x?{query}").expect_problem(422, "invalid_request")


def test_a_path_without_parameters_refuses_some(http: Http) -> None:
    http.get("/any?a=1").expect_problem(422, "invalid_request")
    assert http.get("/public?a=1").status == 200, "probes may say what they like"


def test_a_failure_inside_shows_nothing_of_itself(edge: Edge, http: Http) -> None:
    with pytest.raises(AssertionError, match="-> 500") as failure:
        http.get("/broken")
    assert "internal_error" in str(failure.value)
    assert "secret" not in str(failure.value)
    eventually(lambda: edge.statuses("broken") == [500])
    assert http.get("/any").status == 200


def test_the_store_away_is_503_with_a_hint(edge: Edge, http: Http) -> None:
    edge.away = True
    answer = http.post("/echo", {})
    answer.expect_problem(503, "unavailable")
    assert answer.headers["retry-after"] == "7"
    assert "disk" not in answer.text
    edge.away = False
    assert http.post("/echo", {}).status == 200


def test_a_websocket_is_turned_away(http: Http) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert http.get("/any", headers=headers).status == 403

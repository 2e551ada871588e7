"""Owns the calls of operators and administrators: what became of executions in doubt, keys, prices and usage."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from stepd_worker.both_worlds import call
from stepd_worker.client_calls import Calls, Json, Strings, only_given


class OperatorCalls(Calls):
    """What a client offers to operators and administrators."""

    @call
    async def resolve(
        self,
        execution_id: str,
        *,
        reference: str,
        reason: str,
        results: Sequence[Mapping[str, Any]] = (),
        close: str | None = None,
        expected_revision: int | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Says what became of an execution that needs reconciliation; returns what that led to.

        It goes on with `results`, each `{"step", "outcome": "succeeded" | "as_reported" | "absent"}` and where they
        apply `index`, `output`, `state`; or ends with `close`, which is `absent_verified`, `compensated_verified` or
        `accepted`. `reference` and `reason` are the operator's word, kept for ever: no secrets. Raises ApiError:
        `not_resolvable`, `invalid_request`, `invalid_output`, `idempotency_conflict`, others.
        """
        how: Json = {"action": "close", "verification": close}
        if close is None:
            how = {"action": "resume", "results": [dict(one) for one in results]}
        evidence = {"reference": reference, "reason": reason}
        body = {**how, **only_given({"expected_revision": expected_revision}), "evidence": evidence}
        path = f"/v1/admin/executions/{quote(execution_id, safe='')}/resolve"
        return await self._tell(path, body, idempotency_key)

    @call
    async def new_key(self, name: str, scopes: Strings, *, tenants: Strings = ()) -> Json:
        """Makes a key of the principal `name`; left out, `tenants` are all. The answer's `secret` is told this once.

        Sent once: a key whose answer was lost is listed by `keys`, is of no use to anybody, and can be revoked.
        """
        body = {"name": name, "scopes": [*scopes], **({"tenants": [*tenants]} if tenants else {})}
        return await self._ask("POST", "/v1/admin/keys", body, once=True)

    @call
    async def keys(self, *, limit: int | None = None, cursor: str | None = None) -> Json:
        """One page of the keys that there are and were, `{"items", "next"}`, newest first, without secrets."""
        return await self._ask("GET", "/v1/admin/keys", query={"limit": limit, "cursor": cursor})

    @call
    async def metrics(self) -> str:
        """The daemon's figures in Prometheus' text format. Raises ApiError where something in between refuses them."""
        return (await self._ask_for_bytes("GET", "/metrics")).decode()

    @call
    async def audit(
        self,
        *,
        principal: str | None = None,
        key_id: str | None = None,
        action: str | None = None,
        target: str | None = None,
        tenant: str | None = None,
        outcome: str | None = None,
        at_after: str | None = None,
        at_before: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Json:
        """One page of the audit log, `{"items", "next"}`, newest first. `outcome` is `done` or `refused`."""
        query = {
            "principal": principal,
            "key_id": key_id,
            "action": action,
            "target": target,
            "tenant": tenant,
            "outcome": outcome,
            "at_after": at_after,
            "at_before": at_before,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._ask("GET", "/v1/admin/audit", query=query)

    @call
    async def revoke_key(self, key_id: str) -> None:
        """Revokes a key at once. Raises ApiError `not_found`."""
        await self._ask("DELETE", f"/v1/admin/keys/{quote(key_id, safe='')}")

    @call
    async def prices(self, version: int | None = None) -> Json:
        """The table of prices, `{"version", "currency", "prices", …}`; an older one where its version is given.

        Raises ApiError `not_found`.
        """
        return await self._ask("GET", "/v1/admin/prices", query={"version": version})

    @call
    async def put_prices(self, table: Any) -> Json:
        """Replaces the table by `{"currency", "prices": [{"model", "input", …}]}`; returns the new version.

        An amount is a number, or decimal text. Raises ApiError `invalid_request`.
        """
        return await self._ask("PUT", "/v1/admin/prices", table)

    @call
    async def usage(
        self,
        group_by: Strings = (),
        *,
        workflow: str | None = None,
        tenant: str | None = None,
        model: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Json:
        """One page of sums of tokens and money, `{"items", "next"}`, a group each.

        `group_by`: of `day`, `workflow`, `version`, `step`, `model`, `tenant`, `label:<key>`; none for one sum.
        """
        query = {"group_by": ",".join(group_by) or None, "workflow": workflow, "tenant": tenant, "model": model}
        query |= {"after": after, "before": before, "limit": None if limit is None else str(limit), "cursor": cursor}
        pairs = [f"{key}:{value}" for key, value in (labels or {}).items()]
        return await self._ask("GET", "/v1/usage", query=query | {"label": pairs})

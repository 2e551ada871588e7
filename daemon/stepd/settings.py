"""Owns the daemon's settings: their names, defaults, bounds and help, and how flags and environment become them.

`SETTINGS` is the one table from which the flags of `stepd serve`, the environment variables and the documentation are
made. Keys are not in it: they come from the environment only, since a command line can be read by every user.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from stepd.keys import KeysRefused, SettingsKey, keys_from_environment
from stepd_protocol.limits import SECONDS_MAX, SECONDS_MIN, Limits

PREFIX: Final = "STEPD_"
PARTS: Final = ("worker_api", "request_api", "admin_api", "ui", "loops")

Seconds: TypeAlias = Annotated[float, Meta(ge=SECONDS_MIN, le=SECONDS_MAX, extra={"unit": "seconds"})]
SecondsOrZero: TypeAlias = Annotated[float, Meta(ge=0, le=SECONDS_MAX, extra={"unit": "seconds"})]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class SettingsRefused(Exception):
    """The settings can't be used; `str()` of it has every fault on a line of its own, each with the way out."""


class Settings(Struct, frozen=True, kw_only=True):
    """What one daemon is told at its start. Durations are in seconds."""

    bind: Annotated[Text, Meta(description="address and port to listen on; port 0 takes any free one")] = (
        "127.0.0.1:7117"
    )
    database: Annotated[
        Text,
        Meta(
            description="where executions live: sqlite:///relative/file.db, sqlite:////absolute/file.db or "
            "postgresql://user@host/database"
        ),
    ] = "sqlite:///stepd.db"
    allow_owner_role: Annotated[
        bool, Meta(description="on PostgreSQL, take a role that could change the schema, the journal and the audit log")
    ] = False
    name: Annotated[Text, Meta(description="name of the service, given to a new store")] = "stepd"
    lease_seconds: Annotated[Seconds, Meta(description="how long a lease lasts without a heartbeat")] = 30
    reclaim_seconds: Annotated[
        SecondsOrZero, Meta(description="how long a lapsed lease waits for its outcome before it is taken back")
    ] = 15
    heartbeat_seconds: Annotated[
        Seconds, Meta(description="how often workers send heartbeats; at most a third of a lease")
    ] = 10
    drain_seconds: Annotated[
        SecondsOrZero, Meta(description="how long outcomes are still taken after a stop was asked for")
    ] = 20
    retention_seconds: Annotated[
        Seconds, Meta(description="how long ended executions are kept, where their definition says nothing")
    ] = 604_800
    usage_retention_seconds: Annotated[
        Seconds, Meta(description="how long the log of usage is kept, from which sums of tokens and money are made")
    ] = 31_536_000
    span_seconds: Annotated[
        Seconds,
        Meta(description="how long one span of an execution or attempt may be; what lasts longer is told in pieces"),
    ] = 900
    tls_certificate: (
        Annotated[Text, Meta(description="PEM file with the certificate chain; needs the key too")] | None
    ) = None
    tls_key: Annotated[Text, Meta(description="PEM file with the certificate's private key")] | None = None
    worker_api: Annotated[bool, Meta(description="serve the five calls of workers")] = True
    request_api: Annotated[bool, Meta(description="serve executions, workflows and workers")] = True
    admin_api: Annotated[bool, Meta(description="serve /v1/admin")] = True
    ui: Annotated[bool, Meta(description="serve the page at /ui")] = True
    loops: Annotated[bool, Meta(description="run the loops: time-outs, retries, lapsed leases, retention")] = True
    log_format: Annotated[Literal["text", "json"], Meta(description="form of the log on stderr")] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="the least severe lines that are logged")
    ] = "info"
    limits: Limits = Limits()
    keys: tuple[SettingsKey, ...] = ()

    def shared(self) -> bytes:
        """The settings that all daemons on one store should share, as JSON."""
        names = ("name", "lease_seconds", "reclaim_seconds", "heartbeat_seconds", "retention_seconds")
        return msgspec.json.encode({name: getattr(self, name) for name in names} | {"limits": self.limits})

    def parts(self) -> dict[str, bool]:
        """Which parts are on."""
        return {name: getattr(self, name) for name in PARTS}


class Setting(NamedTuple):
    """One line of the table: a setting that has a flag and an environment variable."""

    name: str
    """As in `Settings`, or `max_` and the name in `Limits`."""
    type: Any
    default: Any
    help: str
    unit: str | None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)


_LIMITS_HELP: Final = {
    "request_bytes": "the body of a request",
    "input_bytes": "the input of an execution",
    "output_bytes": "the output of a step",
    "payload_bytes": "the payload of a signal or event",
    "state_bytes": "the whole state of an execution",
    "foreach_outputs_bytes": "the outputs of a foreach together",
    "definition_bytes": "a definition",
    "definition_steps": "the steps of a definition",
    "claim_answer_bytes": "the leases of one answer together",
    "message_bytes": "the message of a failure; longer ones are cut",
    "details_bytes": "the details of a failure; larger ones are dropped",
    "progress_bytes": "the progress of a heartbeat; larger ones are dropped",
    "labels": "the labels of an execution",
    "spans_per_call": "the spans in one call",
    "usage_per_call": "the usage entries in one call",
}


def _table() -> tuple[Setting, ...]:
    hints = get_type_hints(Settings, include_extras=True)
    settings = [_setting(field.name, hints[field.name], field.default) for field in msgspec.structs.fields(Settings)]
    limits = [
        Setting(
            f"max_{field.name}",
            Annotated[int, Meta(ge=1)],
            field.default,
            "bound of " + _LIMITS_HELP.get(field.name, field.name.replace("_", " ")),
            "bytes" if field.name.endswith("_bytes") else None,
        )
        for field in msgspec.structs.fields(Limits)
    ]
    return (*(setting for setting in settings if setting.help), *limits)


def _setting(name: str, hint: Any, default: Any) -> Setting:
    metas = [meta for meta in _metas(hint) if isinstance(meta, Meta)]
    help_text = next((meta.description for meta in metas if meta.description), "")
    unit = next((meta.extra["unit"] for meta in metas if meta.extra and "unit" in meta.extra), None)
    return Setting(name, hint, default, help_text, unit)


def _metas(hint: Any) -> list[Any]:
    """The metadata of an annotated type, also of the members of a union."""
    found = list(getattr(hint, "__metadata__", ()))
    for member in getattr(hint, "__args__", ()):
        found += _metas(member)
    return found


SETTINGS: Final = _table()


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings of given flags (by name; None where not given), then of the environment, then the defaults.

    Raises SettingsRefused with all faults.
    """
    values: dict[str, Any] = {}
    faults: list[str] = []
    for setting in SETTINGS:
        given, said = _given(setting, flags, environment)
        if given is None:
            continue
        try:
            values[setting.name] = _convert(setting, given)
        except ValueError as fault:
            faults.append(f"{said}: {fault} ({setting.help}).")
    try:
        keys = keys_from_environment(environment)
    except KeysRefused as refusal:
        keys = ()
        faults += refusal.faults
    settings = _assemble(values, keys)
    faults += _faults_between(settings)
    if faults:
        raise SettingsRefused("\n".join(faults))
    return settings


def _given(setting: Setting, flags: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Any, str]:
    if (value := flags.get(setting.name)) is not None:
        return value, f"{setting.flag} {value}"
    text = environment.get(setting.variable)
    return (text or None), f"{setting.variable}={text}"


def _convert(setting: Setting, given: Any) -> Any:
    """Raises ValueError."""
    try:
        value = msgspec.convert(given, setting.type, strict=False)
    except msgspec.ValidationError:
        raise ValueError(_expectation(setting)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(_expectation(setting))
    return value


def _expectation(setting: Setting) -> str:
    """What a value of this setting must be, for a person."""
    if setting.is_switch:
        return "must be true or false"
    kind, *_ = get_args(setting.type)
    if choices := get_args(kind):
        return f"must be one of {', '.join(choices)}"
    if kind is str:
        return "must not be empty"
    bounds = next(meta for meta in _metas(setting.type) if isinstance(meta, Meta) and meta.ge is not None)
    what = "a whole number" if kind is int else "a number"
    unit = f" of {setting.unit}" if setting.unit else ""
    return f"must be {what}{unit} from {bounds.ge:g}" + ("" if bounds.le is None else f" to {bounds.le:,}")


def _assemble(values: Mapping[str, Any], keys: tuple[SettingsKey, ...]) -> Settings:
    limits = {name.removeprefix("max_"): value for name, value in values.items() if name.startswith("max_")}
    own = {name: value for name, value in values.items() if not name.startswith("max_")}
    return Settings(**own, limits=Limits(**limits), keys=keys)


def _faults_between(settings: Settings) -> list[str]:
    faults = []
    if round(settings.heartbeat_seconds * 3000) > round(settings.lease_seconds * 1000):
        faults.append(
            f"--heartbeat-seconds {settings.heartbeat_seconds:g} is over a third of --lease-seconds "
            f"{settings.lease_seconds:g}: give at most {settings.lease_seconds / 3:g}, or a longer lease, "
            "so that two lost heartbeats don't cost a lease."
        )
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        faults.append("--tls-certificate and --tls-key go together: give both, or neither for plain HTTP.")
    return faults

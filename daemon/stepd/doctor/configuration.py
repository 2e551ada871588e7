"""Examines what a daemon would be told at its start: settings, keys, the address, the TLS files."""

from collections.abc import Mapping
from socket import gaierror, getaddrinfo
from typing import Any, Final

from stepd.doctor.findings import Finding, counted, ok, warning, wrong
from stepd.doctor.tls import examine_certificate
from stepd.http.loopback import is_loopback_address
from stepd.http.sockets import BindRefused, host_and_port
from stepd.keys import VARIABLES, KeysRefused, SettingsKey, keys_from_environment
from stepd.settings import SETTINGS, Settings, SettingsRefused, load_settings
from stepd.starting import StartRefused, check_certificate

SEE_SETTINGS: Final = "Give it as docs/configuration.md says; serve refuses to start with it."
SEE_KEYS: Final = "Write entries name=secret, comma separated; make a secret with: openssl rand -hex 32."
NEEDS_ADMIN: Final = "Add one, for example STEPD_ADMIN_KEYS=ops=$(openssl rand -hex 32)."
USABLE_ALONE: Final = ("bind", "database", "tls_certificate", "tls_key")
NEEDS_KEYS: Final = (
    "Give it a key, for example STEPD_ADMIN_KEYS=ops=$(openssl rand -hex 32), or --bind 127.0.0.1:7117: "
    "without keys it would serve everybody, so serve refuses to start."
)


def examine_settings(flags: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """What the settings come to, and what is wrong with them; what can't be used is as if it were not given."""
    without_keys = {name: text for name, text in environment.items() if name not in VARIABLES}
    try:
        settings = load_settings(flags, without_keys)
    except SettingsRefused as refusal:
        findings = [wrong("settings", line.rstrip("."), SEE_SETTINGS) for line in str(refusal).splitlines()]
        return _usable(flags, environment), findings
    return settings, [
        ok(
            "settings",
            f"a lease lasts {settings.lease_seconds:g} s, heartbeats come every {settings.heartbeat_seconds:g} s",
        )
    ]


def examine_keys(environment: Mapping[str, str]) -> tuple[tuple[SettingsKey, ...], list[Finding]]:
    """The keys of the environment, and what is wrong with the variables they come from. Shows no secret."""
    try:
        keys = keys_from_environment(environment)
    except KeysRefused as refusal:
        return (), [wrong("keys", fault, SEE_KEYS) for fault in refusal.faults]
    count = counted(len(keys), "key", "keys")
    return keys, [ok("keys", f"{count} in the environment" if keys else "none in the environment")]


def examine_access(settings: Settings, keys: tuple[SettingsKey, ...], stored: tuple[int, int]) -> list[Finding]:
    """Who would be let in. `stored`: how many keys the store has ever held, and how many live ones may administer."""
    ever, admins = stored
    if keys and not ever and not any("admin" in key.scopes for key in keys):
        return [wrong("access", "the first keys have none with the scope admin among them", NEEDS_ADMIN)]
    if ever and not admins and not any("admin" in key.scopes for key in keys):
        return [warning("access", "no key is left that can administer the daemon", NEEDS_ADMIN)]
    if not (keys or ever) and not _is_loopback(settings.bind):
        return [wrong("access", f"--bind {settings.bind} is no loopback address, and there are no keys", NEEDS_KEYS)]
    return [ok("access", "with keys" if keys or ever else "open mode: without keys, for this machine only")]


def examine_address(settings: Settings) -> list[Finding]:
    """Whether the address can be one, and goes over the network as it should."""
    try:
        host, _ = host_and_port(settings.bind)
    except BindRefused as refusal:
        return [wrong("address", str(refusal), "Serve refuses to start with it.")]
    if _is_loopback(settings.bind) or settings.tls_certificate:
        return [ok("address", settings.bind)]
    return [
        warning(
            "address",
            f"{host} is reached over the network, and keys would go over it in the clear",
            "Give --tls-certificate and --tls-key, or have a proxy in front that does TLS.",
        )
    ]


def examine_tls(settings: Settings) -> list[Finding]:
    """Whether the TLS files can be used, and for how long."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return [ok("tls", "plain HTTP")]
    try:
        check_certificate(settings)
    except StartRefused as refusal:
        told, _, way_out = str(refusal).partition("; ")
        return [wrong("tls", told, f"{way_out[:1].upper()}{way_out[1:]}")]
    return [examine_certificate(settings.tls_certificate, settings.tls_key)]


def _usable(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings that can be used by themselves, so that the rest can be examined all the same."""
    kept = {
        setting.name: flags.get(setting.name) or environment.get(setting.variable) or None
        for setting in SETTINGS
        if setting.name in USABLE_ALONE
    }
    if not (kept["tls_certificate"] and kept["tls_key"]):
        kept["tls_certificate"] = kept["tls_key"] = None
    return load_settings(kept, {})


def _is_loopback(bind: str) -> bool:
    try:
        host, port = host_and_port(bind)
        return is_loopback_address(str(getaddrinfo(host, port)[0][4][0]))
    except (BindRefused, gaierror, UnicodeError):
        return False

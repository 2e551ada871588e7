"""Settings from flags and environment: what wins, what is refused, and that every fault is told at once."""

import pytest

from stepd.keys import hash_secret
from stepd.settings import SETTINGS, Settings, SettingsRefused, load_settings
from stepd_protocol.limits import Limits


def load(environment: dict[str, str] | None = None, **flags: object) -> Settings:
    return load_settings(flags, environment or {})


def refusal(environment: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(SettingsRefused) as refused:
        load(environment, **flags)
    return str(refused.value)


def test_nothing_given_is_the_defaults() -> None:
    settings = load()
    assert settings == Settings()
    assert (settings.bind, settings.database) == ("127.0.0.1:7117", "sqlite:///stepd.db")
    assert (settings.lease_seconds, settings.reclaim_seconds, settings.heartbeat_seconds) == (30, 15, 10)
    assert (settings.drain_seconds, settings.retention_seconds) == (20, 604_800)
    assert all(settings.parts().values())


def test_a_flag_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"STEPD_LEASE_SECONDS": "60", "STEPD_UI": "false", "STEPD_MAX_LABELS": "3"}
    settings = load(environment, lease_seconds="90")
    assert settings.lease_seconds == 90
    assert not settings.ui
    assert settings.limits == Limits(labels=3)


def test_an_empty_variable_says_nothing() -> None:
    assert load({"STEPD_BIND": ""}).bind == "127.0.0.1:7117"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "0"),
        ("lease_seconds", "nan"),
        ("retention_seconds", "inf"),
        ("reclaim_seconds", "-1"),
        ("drain_seconds", "soon"),
        ("log_format", "xml"),
        ("max_request_bytes", "0"),
        ("max_labels", "1.5"),
    ],
)
def test_a_bad_value_is_refused_by_its_flag(name: str, value: str) -> None:
    told = refusal(None, **{name: value})
    assert f"--{name.replace('_', '-')} {value}: must be" in told


def test_all_faults_are_told_at_once() -> None:
    told = refusal({"STEPD_UI": "maybe", "STEPD_ADMIN_KEYS": "a b=c"}, lease_seconds="x", tls_key="key.pem")
    assert [line.split(":")[0].split(",")[0] for line in told.splitlines()] == [
        "--lease-seconds x",
        "STEPD_UI=maybe",
        "STEPD_ADMIN_KEYS",
        "--tls-certificate and --tls-key go together",
    ]


@pytest.mark.parametrize(("lease", "heartbeat"), [("30", "10.1"), ("29", "10"), ("5", None)])
def test_heartbeats_over_a_third_of_a_lease_are_refused(lease: str, heartbeat: str | None) -> None:
    told = refusal(lease_seconds=lease, heartbeat_seconds=heartbeat)
    assert "over a third of --lease-seconds" in told
    assert f"at most {float(lease) / 3:g}" in told


@pytest.mark.parametrize(("lease", "heartbeat"), [("30", "10"), ("0.3", "0.1"), ("0.9", "0.3"), ("3", "1")])
def test_a_third_is_allowed(lease: str, heartbeat: str) -> None:
    assert load(lease_seconds=lease, heartbeat_seconds=heartbeat).lease_seconds == float(lease)


def test_keys_have_names_scopes_and_hashes() -> None:
    settings = load(
        {
            "STEPD_ADMIN_KEYS": "ops=one, two",
            "STEPD_WORKER_KEYS": "ops=one,billing=three=3",
            "STEPD_READ_KEYS": "",
        }
    )
    assert [(key.name, key.scopes) for key in settings.keys] == [
        ("ops", ("admin", "worker")),
        ("admin", ("admin",)),
        ("billing", ("worker",)),
    ]
    assert [key.secret_hash for key in settings.keys] == [hash_secret(text) for text in ("one", "two", "three=3")]


@pytest.mark.parametrize("entry", ["=hush", "name=", "a/b=hush", "name==", "name=hush hush", "hüsh", "name=hush\thush"])
def test_a_key_that_cannot_be_read_is_refused_without_showing_it(entry: str) -> None:
    told = refusal({"STEPD_EXECUTE_KEYS": f"good=one,{entry}"})
    assert told.startswith("STEPD_EXECUTE_KEYS, entry 2: ")
    assert "hush" not in told
    assert "hüsh" not in told


def test_one_secret_under_two_names_is_refused() -> None:
    told = refusal({"STEPD_ADMIN_KEYS": "a=hush", "STEPD_READ_KEYS": "b=hush"})
    assert "'b' is also that of 'a'" in told
    assert "hush" not in told


def test_settings_do_not_show_secrets() -> None:
    assert "hush" not in repr(load({"STEPD_ADMIN_KEYS": "a=hush"}))


def test_the_table_says_everything_about_each_setting() -> None:
    named = {setting.name for setting in SETTINGS}
    assert named >= {"bind", "database", "lease_seconds", "worker_api", "tls_key", "max_request_bytes"}
    assert len(named) == len(SETTINGS)
    for setting in SETTINGS:
        assert setting.help, setting.name
        assert setting.flag == f"--{setting.name.replace('_', '-')}"
        assert setting.unit == (
            "seconds"
            if setting.name.endswith("_seconds")
            else "bytes"
            if setting.name.startswith("max_") and setting.name.endswith("_bytes")
            else None
        )

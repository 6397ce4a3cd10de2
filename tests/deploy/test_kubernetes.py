"""`deploy/kubernetes/`: options, pages, ports, files and folders are the program's, and fit one another."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.uri import is_uri
from binlog_merge.observe.status.server import _PAGES
from tests.command_line import parsed

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"


def documents() -> dict[tuple[str, str], Any]:
    """Return what kustomization.yaml names, by kind and name."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    found = [each for file in kustomization["resources"] for each in yaml.safe_load_all((FOLDER / file).read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@pytest.fixture(scope="module")
def pod() -> Any:
    return documents()["Deployment", "binlog-merge"]["spec"]["template"]


def test_the_pods_run_a_command_that_exists_with_files_that_are_mounted(pod: Any) -> None:
    (container,) = pod["spec"]["containers"]
    values = parsed(container["args"])
    mounts = {Path(mount["mountPath"]): mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert set(mounts.values()) == set(volumes)
    secrets = {item["path"] for item in volumes["passwords"]["secret"]["items"]}
    for option in ("password_file", "serve_password_file"):
        assert mounts[Path(values[option]).parent] == "passwords"
        assert Path(values[option]).name in secrets
    assert mounts[Path(values["config"]).parent] == "config"
    assert (FOLDER / Path(values["config"]).name).exists()
    assert pod["spec"]["terminationGracePeriodSeconds"] > values["grace"]
    config = MergeConfig.load(FOLDER / "cluster.yaml")
    assert Path(config.capture.dir) in {folder / "captured" for folder in mounts}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    for env in container["env"]:
        if "value" in env:
            assert Path(env["value"]) in mounts


def test_one_of_the_pods_leads(pod: Any) -> None:
    config = MergeConfig.load(FOLDER / "cluster.yaml")
    assert config.output.dir is not None
    assert is_uri(config.output.dir)
    assert config.ha.lease_seconds(in_store=True) == 10
    assert documents()["Deployment", "binlog-merge"]["spec"]["replicas"] == 2
    assert "--standby" not in pod["spec"]["containers"][0]["args"]  # either may be the first


def test_probes_ask_for_pages_that_there_are_at_ports_that_are_open(pod: Any) -> None:
    (container,) = pod["spec"]["containers"]
    values = parsed(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["mysql"] == values["port"]
    assert f":{ports['status']}" in str(values["listen"])
    for name, path in (("startupProbe", "/live"), ("livenessProbe", "/live"), ("readinessProbe", "/health")):
        asked = container[name]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, "status")
        assert path in _PAGES
    for (kind, _), document in documents().items():
        if kind == "Service":
            assert all(port["targetPort"] in ports for port in document["spec"]["ports"])
            assert document["spec"]["selector"] == pod["metadata"]["labels"]
        if kind in ("PodDisruptionBudget", "NetworkPolicy"):
            selector = document["spec"].get("selector") or document["spec"]["podSelector"]
            assert selector["matchLabels"] == pod["metadata"]["labels"]


def test_every_secret_that_is_used_is_made(pod: Any) -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (secrets,) = kustomization["secretGenerator"]
    (env,) = secrets["envs"]
    made = {line.partition("=")[0] for line in (FOLDER / env).read_text().splitlines()}
    (container,) = pod["spec"]["containers"]
    used = {e["valueFrom"]["secretKeyRef"]["key"] for e in container["env"] if "valueFrom" in e}
    used |= {item["key"] for v in pod["spec"]["volumes"] if "secret" in v for item in v["secret"]["items"]}
    assert used == made
    assert secrets["name"] == "secrets"


VERSIONS = [version.rpartition(".")[0] for version in dict.fromkeys(all_versions())]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_know_every_field(version: str) -> None:
    for (kind, _), document in documents().items():
        assert kubernetes_validate.validate(document, version, strict=True) == version, kind


def test_the_docs_say_which_schemas_these_are() -> None:
    page = (FOLDER.parents[1] / "docs" / "how-to" / "containers.md").read_text()
    assert f"the schemas of Kubernetes {VERSIONS[0]} to {VERSIONS[-1]} " in page


def test_a_field_that_there_is_not_is_seen() -> None:
    deployment = documents()["Deployment", "binlog-merge"]
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


MAKERS = [each for each in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(each[0])]


@pytest.mark.skipif(not MAKERS, reason="neither kubectl nor kustomize")
@pytest.mark.parametrize("maker", MAKERS or [[]], ids=" ".join)
def test_what_is_made_of_the_folder_is_valid(maker: list[str]) -> None:
    made = subprocess.run([*maker, str(FOLDER)], capture_output=True, text=True, check=True).stdout
    found = list(yaml.safe_load_all(made))
    assert {each["kind"] for each in found} == {kind for kind, _ in documents()} | {"ConfigMap", "Secret"}
    for each in found:
        kubernetes_validate.validate(each, VERSIONS[-1], strict=True)

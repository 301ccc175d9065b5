"""Kubernetes and compose files: `manifests.py BLOOMERY_SERVE`.

Every Kubernetes object against the schema of its kind, and what schemas cannot know: that names which have to be the
same are, and that variables are ones that the server reads.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

PACKAGING = Path(__file__).parent.parent
KUBERNETES = "1.31"


def variables() -> set[str]:
    """The environment variables in the help of the server."""
    shown = subprocess.run([sys.argv[1], "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\bLLAMA_[A-Z0-9_]+\b", shown))


def names_of_variables() -> None:
    """Every variable in packaging, commented out or not, is one of the server."""
    known = variables()
    assert len(known) > 50, "the help was not understood"
    files = [path for path in PACKAGING.rglob("*") if path.is_file() and path.parent.name != "tests"]
    for path in files:
        for name in re.findall(r"\bLLAMA_[A-Z0-9_]+\b", path.read_text()):
            assert name in known, f"{path}: the server does not read {name}"


def kubernetes() -> None:
    """The objects, each alone and with one another."""
    objects = list(yaml.safe_load_all((PACKAGING / "kubernetes/bloomery.yaml").read_text()))
    for thing in objects:
        kubernetes_validate.validate(thing, KUBERNETES, strict=True)
    kinds: dict[str, list[Any]] = {}
    for thing in objects:
        kinds.setdefault(thing["kind"], []).append(thing)
    (workload,) = kinds["StatefulSet"]
    spec = workload["spec"]
    labels = spec["template"]["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"].items() <= labels
    (container,) = spec["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    services = {service["metadata"]["name"]: service["spec"] for service in kinds["Service"]}
    assert services[spec["serviceName"]]["clusterIP"] == "None", "the replicas' service has no address"
    for name, service in services.items():
        assert service["selector"].items() <= labels, f"{name} selects no pod"
        assert all(port["targetPort"] in ports for port in service["ports"]), f"{name} leads to no port"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = container[probe]["httpGet"]
        assert get["path"] == "/health" and get["port"] in ports, probe
    annotations = spec["template"]["metadata"]["annotations"]
    assert int(annotations["prometheus.io/port"]) in ports.values()
    configs = {config["metadata"]["name"]: config["data"] for config in kinds["ConfigMap"]}
    assert configs[container["envFrom"][0]["configMapRef"]["name"]]["LLAMA_ARG_ENDPOINT_METRICS"] == "on"
    volumes = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == volumes and "/models" in mounts.values()
    user = re.search(r"^USER (\d+):(\d+)$", (PACKAGING / "Dockerfile").read_text(), re.MULTILINE)
    context = spec["template"]["spec"]["securityContext"]
    assert user and [context["runAsUser"], context["runAsGroup"]] == [int(id) for id in user.groups()]


def compose() -> None:
    """The services, and who names them."""
    folder = PACKAGING / "compose"
    files = {name: yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("compose", "litellm")}
    services = files["compose"]["services"] | files["litellm"]["services"]
    volumes = files["compose"]["volumes"]
    for name, service in services.items():
        assert service["image"], name
        assert all(other in services for other in service.get("depends_on", {})), name
        for volume in service.get("volumes", []):
            source = re.sub(r"^\$\{\w+:-(\w+)\}", r"\1", volume).split(":")[0]
            assert source in volumes or (folder / source).is_file(), f"{name}: {source}"
    replicas = {f"{name}:8080" for name in services if name.startswith("bloomery-")}
    upstream = re.findall(r"^\s+server (\S+:\d+)", (folder / "nginx.conf").read_text(), re.MULTILINE)
    assert set(upstream) == replicas, upstream
    models = yaml.safe_load((folder / "litellm-config.yaml").read_text())["model_list"]
    bases = {model["litellm_params"]["api_base"] for model in models}
    assert bases == {f"http://{replica}/v1" for replica in replicas}, bases
    alias = services["bloomery-0"]["environment"]["LLAMA_ARG_ALIAS"]
    assert {model["litellm_params"]["model"] for model in models} == {f"openai/{alias}"}


names_of_variables()
kubernetes()
compose()

"""The Docker API, through the SDK of the extra `docker`, and what its refusals mean.

The SDK and not a client of our own: it knows every form of DOCKER_HOST (socket, TLS, ssh), the
registries' credentials that `docker login` stored, the versions of the API and the framing of logs.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.domain.container_image import image_knowledge
from tuner.errors import ContainerUnavailableError

CLIENT_VARIABLES = (
    *("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG"),
    *("HOME", "PATH", "SSH_AUTH_SOCK"),
)
"""What of the worker's environment decides which Docker API is spoken to, and as whom."""

TIMEOUT_S = 60
_PULL_HINT = "docker pull {image}, or docker login first"


class ApiRefusalError(Exception):
    """The API answered with an error: `status` as in HTTP, None when nothing answered."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ContainerApi:
    """What ServeTune asks of a Docker API. Safe to use from several threads."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """What is known of a local image; None when it is not there."""
        try:
            found: Mapping[str, Any] = self._call("inspect_image", reference)
        except ApiRefusalError as error:
            if error.status == 404:
                return None
            raise
        return found

    def pull(self, reference: str) -> None:
        """Fetch an image; may take many minutes. Without a tag or digest it is the newest."""
        named = "@" in reference or ":" in reference.rpartition("/")[2]
        tag = None if named else image_knowledge().latest_tag
        progress = self._call("pull", reference, tag=tag, stream=True, decode=True)
        errors = [str(line["error"]) for line in progress if "error" in line]
        if errors:
            raise ApiRefusalError(errors[-1], None)

    def create(self, **options: object) -> str:
        """A container's id; the options are those of the SDK, as JSON.

        `port_bindings` names for each port the pairs of address and port it is published on.
        """
        settings = _mapping(options.pop("host_config"))
        if "port_bindings" in settings:
            published = _mapping(settings["port_bindings"])
            settings["port_bindings"] = {
                port: [tuple(pair) for pair in pairs]  # type: ignore[attr-defined]
                for port, pairs in published.items()
            }
        host = self._call("create_host_config", **settings)
        created = self._call("create_container", **options, host_config=host)
        return str(created["Id"])

    def put_file(self, container: str, path: str, content: bytes) -> None:
        """A file that nobody in the container may change, whichever user the image runs as."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o444
            archive.addfile(entry, io.BytesIO(content))
        if not self._call("put_archive", container, "/", packed.getvalue()):
            raise ApiRefusalError(f"{path} could not be put into the container", None)

    def output(self, container: str) -> Iterator[bytes]:
        """Standard output and error as they come; attached before the start nothing is missed."""
        chunks: Iterator[bytes] = self._call(
            "attach", container, stdout=True, stderr=True, stream=True, logs=False
        )
        return chunks

    def start(self, container: str) -> None:
        self._call("start", container)

    def signal(self, container: str, name: str) -> None:
        """A container that does not run any more cannot be sent one, which is no error."""
        try:
            self._call("kill", container, signal=name)
        except ApiRefusalError as error:
            if error.status not in (404, 409, 500) or self._runs(container):
                raise

    def wait(self, container: str) -> None:
        """Until it has ended, however long that takes."""
        self._call("wait", container, timeout=None)

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        """None when there is no such container."""
        try:
            found: Mapping[str, Any] = self._call("inspect_container", container)
        except ApiRefusalError as error:
            if error.status == 404:
                return None
            raise
        return found

    def with_labels(self, labels: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Every container, running or not, that carries all of these `name=value` labels."""
        found: Sequence[Mapping[str, Any]] = self._call(
            "containers", all=True, filters={"label": list(labels)}
        )
        return found

    def remove(self, container: str) -> None:
        """With its anonymous volumes, killing what still runs; one that is gone is no error."""
        try:
            self._call("remove_container", container, force=True, v=True)
        except ApiRefusalError as error:
            if error.status not in (404, 409):
                raise

    def close(self) -> None:
        self._client.close()

    def _runs(self, container: str) -> bool:
        found = self.inspect(container)
        return found is not None and bool(found["State"]["Running"])

    def _call(self, name: str, *arguments: object, **options: object) -> Any:
        import docker.errors
        import requests

        try:
            return getattr(self._client, name)(*arguments, **options)
        except docker.errors.APIError as error:
            response = error.response
            status = response.status_code if response is not None else None
            if response is not None:
                response.close()
            raise ApiRefusalError(str(error.explanation or error), status) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise ApiRefusalError(str(error), None) from error


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("host_config must be a mapping")
    return {str(name): item for name, item in value.items()}


def connect() -> ContainerApi:
    """The Docker API that the environment names; raises ContainerUnavailableError."""
    try:
        import docker
        import docker.errors
    except ImportError as error:
        raise ContainerUnavailableError(
            "the launcher `docker` needs the Docker SDK", hint="pip install 'servetune[docker]'"
        ) from error
    try:
        api = docker.from_env(version="auto", timeout=TIMEOUT_S).api
    except docker.errors.DockerException as error:
        raise ContainerUnavailableError(
            f"no Docker API answers: {error}",
            hint="start Docker or Podman's service; DOCKER_HOST names another socket",
        ) from error
    return ContainerApi(api)


def ensure_image(api: ContainerApi, reference: str) -> Mapping[str, Any]:
    """The image, pulled when it is missing; raises ContainerUnavailableError."""
    try:
        found = api.image(reference)
        if found is None:
            api.pull(reference)
            found = api.image(reference)
    except ApiRefusalError as error:
        raise ContainerUnavailableError(
            f"the image {reference} cannot be had: {error.message}",
            hint=_PULL_HINT.format(image=reference),
        ) from error
    if found is None:
        raise ContainerUnavailableError(f"the image {reference} is not there after its pull")
    return found
